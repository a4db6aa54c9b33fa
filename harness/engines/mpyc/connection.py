"""Connections between parties of the embedded engine, in place of MPyC's `MessageExchanger`.

The bytes on a connection are MPyC's: at first the connecting party's number and its keys for pseudorandom
shares, then messages of a step (8 bytes), a length (4 bytes) and that many bytes. Less is
accepted. A message that the program expects has one exact length. Messages that it does not expect yet are
kept, up to a limit for each connection. All else ends the run, with a sentence that names the party.
"""

import asyncio
import os
import struct
from collections.abc import Mapping

from fairshares.harness.engines.mpyc.interfaces import Runtime
from fairshares.harness.errors import LostPeerError, PeerMessageError

_HEADER = struct.Struct("<qI")  # a step and a length
_NUMBER_BYTES = 2  # bytes of a party's number
_UPKEEP = 512  # bytes that this process needs for each kept message besides its content, at most
_MOST_UNASKED = 1 << 30
_SHARE_OF_MEMORY = 16
_WAY_OUT = "it runs other software or deviates, so ask its owner. The run was stopped."


def most_unasked() -> int:
    """Return how many bytes a connection keeps for steps that the program has not come to.

    That is 1 GiB, or a sixteenth of the machine's memory if that is less. A program whose honest parties come
    that far ahead of each other needs more memory than there is: an element of 16 bytes in a message takes
    more than 50 bytes in a vector, and a step has several vectors.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(_MOST_UNASKED, memory // _SHARE_OF_MEMORY)


class Peers:
    """The peers of all connections of one party, and the reason why the run failed.

    Args:
        certificates: The certificate of each party by its number, in DER.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, certificates: Mapping[int, bytes]) -> None:
        self._loop = loop
        self._certificates = certificates
        self.failure: BaseException | None = None
        self.ending = False  # whether this party has computed all that it had to

    def party_of(self, transport: asyncio.BaseTransport) -> int | None:
        """Return the party whose certificate was shown on a connection; None if it is nobody's."""
        shown = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        for party, certificate in self._certificates.items():
            if certificate == shown:
                return party
        return None

    def fail(self, error: BaseException) -> None:
        """End what the program waits for with this error, unless another one came first."""
        if self.failure is None:
            self.failure = error
        self._loop.stop()


class PeerConnection(asyncio.Protocol):
    """This party's connection with one peer.

    Guarantees: it keeps no more of what the peer sends than the message that the program waits for,
    `most_unasked()`, and one read of the socket.
    [test: tests/harness/engines/test_mpyc_connection.py]

    Args:
        runtime: MPyC's, of this party.
        peers: The peers of the same party.
        peer_pid: The peer's number if this party connected; None if the peer did, which then says its number.
    """

    def __init__(self, runtime: Runtime, peers: Peers, peer_pid: int | None = None) -> None:
        self.runtime = runtime
        self.peer_pid = peer_pid
        self.nbytes_sent = 0
        self._peers = peers
        self._received = bytearray()
        self._asked: dict[int, tuple[asyncio.Future[bytes], int]] = {}  # and the length that is expected
        self._unasked: dict[int, bytes] = {}
        self._unasked_bytes = 0
        self._most_unasked = most_unasked()
        self._closed = False
        self.transport: asyncio.Transport  # since `connection_made`, which asyncio calls first

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say who this party is, if it connected."""
        assert isinstance(transport, asyncio.Transport), "a stream's connection"
        self.transport = transport
        if self.peer_pid is not None:
            shown = self._peers.party_of(transport)
            if shown != self.peer_pid:  # before it gets the keys that another party is to have
                who = "A stranger" if shown is None else f"Party {shown}"
                self._peers.fail(PeerMessageError(f"{who} answers as party {self.peer_pid}: {_WAY_OUT}"))
                self.transport.abort()
                return
            keys = self.runtime._prss_keys_to_peer(self.peer_pid)
            self.transport.writelines([self.runtime.pid.to_bytes(_NUMBER_BYTES, "little"), *keys])
            self.runtime.set_protocol(self.peer_pid, self)

    def send(self, step: int, message: bytes) -> None:
        """Send the peer the message of a step."""
        self.transport.write(_HEADER.pack(step, len(message)) + message)
        self.nbytes_sent += _HEADER.size + len(message)

    def receive(self, step: int, length: int) -> "asyncio.Future[bytes] | bytes":
        """Return the peer's message of a step, or a future of it.

        Raises PeerMessageError if the message has another length, LostPeerError if none can come.
        """
        message = self._unasked.pop(step, None)
        if message is not None:
            self._unasked_bytes -= len(message) + _UPKEEP
            self._check_length(len(message), length)
            return message
        if self._closed:
            raise self._lost()
        future: asyncio.Future[bytes] = self.runtime._loop.create_future()
        self._asked[step] = (future, length)
        return future

    def data_received(self, data: bytes) -> None:
        """Take bytes of the peer; end the run if no honest party sends them."""
        if self._peers.failure is not None:
            return
        self._received += data
        try:
            if self.peer_pid is not None or self._meet():
                self._take_messages()
        except PeerMessageError as error:
            self._received.clear()
            self._peers.fail(error)
            self.transport.abort()

    def _meet(self) -> bool:
        """Take the peer's number and keys; return whether they are complete."""
        if len(self._received) < _NUMBER_BYTES:
            return False
        runtime = self.runtime
        said = int.from_bytes(self._received[:_NUMBER_BYTES], "little")
        shown = self._peers.party_of(self.transport)
        if shown != said:
            who = "A stranger" if shown is None else f"Party {shown}"
            raise PeerMessageError(f"{who} connected as party {said}: {_WAY_OUT}")
        if said >= runtime.pid:
            raise PeerMessageError(f"Party {said} connected to party {runtime.pid}: {_WAY_OUT}")
        if runtime.parties[said].protocol is not None:
            raise PeerMessageError(f"Party {said} connected twice: {_WAY_OUT}")
        end = _NUMBER_BYTES + runtime._prss_keys_from_peer(said)
        if len(self._received) < end:
            return False
        runtime._prss_keys_from_peer(said, bytes(self._received[_NUMBER_BYTES:end]))
        del self._received[:end]
        self.peer_pid = said
        runtime.set_protocol(said, self)
        return True

    def _take_messages(self) -> None:
        while len(self._received) >= _HEADER.size:
            step, length = _HEADER.unpack_from(self._received)
            self._check_announced(step, length)
            end = _HEADER.size + length
            if len(self._received) < end:
                return
            message = bytes(self._received[_HEADER.size : end])
            del self._received[:end]
            asked = self._asked.pop(step, None)
            if asked is not None:
                asked[0].set_result(message)
            else:
                self._unasked[step] = message
                self._unasked_bytes += length + _UPKEEP

    def _check_announced(self, step: int, length: int) -> None:
        """Raise PeerMessageError if a message must not come, before its bytes are kept."""
        if step in self._asked:
            self._check_length(length, self._asked[step][1])
        elif step in self._unasked:
            raise PeerMessageError(f"Party {self.peer_pid} sent two messages for one step: {_WAY_OUT}")
        elif self._unasked_bytes + length + _UPKEEP > self._most_unasked:
            raise PeerMessageError(
                f"Party {self.peer_pid} sent more than {self._most_unasked >> 20} MB that the program had "
                f"not asked for: {_WAY_OUT}"
            )

    def _check_length(self, length: int, expected: int) -> None:
        if length != expected:
            raise PeerMessageError(
                f"Party {self.peer_pid} sent a message of {length} bytes where {expected} are expected: "
                f"{_WAY_OUT}"
            )

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Note that nothing more comes; end the run if something had to."""
        self._closed = True
        if self.peer_pid is None:  # it never said who it was, and the run waits for a party that does
            return
        if self._asked or not self._peers.ending:
            self._peers.fail(self._lost())
        elif self._peers.failure is None:
            self.runtime.unset_protocol(self.peer_pid)

    def _lost(self) -> LostPeerError:
        return LostPeerError(f"Connection closed by party {self.peer_pid} before the computation ended.")

    def close_connection(self) -> None:
        """Close the connection; what was sent before still arrives."""
        self.transport.close()


def not_elements(party: int, reason: ValueError) -> PeerMessageError:
    """Return the error for a message that is no field elements."""
    return PeerMessageError(f"Party {party} sent {reason}: {_WAY_OUT}")
