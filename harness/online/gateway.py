"""A party's gateway: it takes the clients' connections, and is the only client of its virtual machine.

MP-SPDZ's own server takes anybody, one client after the other, without a time limit, and ends when the first
client misbehaves. The gateway takes all clients at once, each by its certificate. The parties' gateways
compare digests of their clients' messages, so that all gateways leave out the same clients.
"""

import asyncio
import hashlib
import os
import resource
import secrets
import signal
import socket
import ssl
import struct
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import accumulate
from math import gcd
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fairshares.harness.online import masks, messages as wire
from fairshares.harness.online.gateway_config import GatewayConfig
from fairshares.harness.online.messages import Channel
from fairshares.harness.party_reports import ClientsFailed, ClientsServed, Failure, line_of
from fairshares.protocols.arrays import Words
from fairshares.protocols.circuits.clients import DIGEST_WORDS, checks

FAILED = "Clients failed: "  # every message about clients begins so
# Connections at a time that have not knocked as a client. Whoever reaches the port can open them. They take a
# quarter of the files that the process may open at most.
_MOST_UNKNOWN = 256
_MOST_OF_A_CLIENT = 2  # one is served, and another is told so
# Connections at a time that have knocked as one client, before TLS has told whether it is that client.
_MOST_OF_A_KNOCK = 4
_KNOCK_S = 10.0
_HANDSHAKE_S = 10.0
_GOODBYE_S = 10.0
_BACKLOG = 4096  # connections that the system holds until the gateway takes them
_PAUSE_S = 0.05  # after a connection that could not be taken
_DENIED = bytes([21, 3, 3, 0, 2, 2, 49])  # an alert of TLS: fatal, access denied
# MP-SPDZ's message on its domain: a letter for its kind ("R" is a ring), an element's bits, and a number.
_MACHINE_DOMAIN = struct.Struct("<III")
_LOST = (OSError, EOFError, asyncio.IncompleteReadError)


# Connections, the oldest first, each with its address and the task that waits for it.
_Waiting = dict[socket.socket, tuple[str, asyncio.Task[None]]]


class ClientFailure(Exception):
    """No client can come to this party."""


class TooManyFailuresError(ClientFailure):
    """Clients ended the run, as all parties agree."""


class LeftOutCounts(NamedTuple):
    """The numbers of clients that were left out.

    Attributes:
        absent: Clients that did not come, or sent no seed.
        failed: Clients that sent a seed, and then did not send all parties the same values.
        complained: Clients that said that their masks do not fit.
    """

    absent: int
    failed: int
    complained: int


@dataclass(frozen=True, kw_only=True)
class GatewayPlace:
    """The party that a gateway belongs to.

    Attributes:
        party: The party's number.
        parties: The number of parties.
        number: The number by which its virtual machine knows the gateway.
        data: The directory of the party's and the gateway's keys.
        started: The time at which the party's process started, by the monotonic clock, which all processes
            share.
    """

    party: int
    parties: int
    number: int
    data: Path
    started: float


class Front:
    """One run's gateway at a party."""

    def __init__(self, config: GatewayConfig, place: GatewayPlace, machine: "Machine") -> None:
        self._config = config
        self._place = place
        self._machine = machine
        # Client k's values are those from ends[k] to ends[k + 1] of all values.
        self._ends = [0, *accumulate(config.uploads)]
        self._part = gcd(*config.uploads)  # values of a part
        self._parts = self._ends[-1] // self._part
        self._checks = checks(self._parts)
        own = (place.data / f"P{place.party}.pem").read_text()
        self._known: dict[bytes, int] = {}  # each client by its certificate (DER)
        self._knocks: dict[bytes, int] = {}  # each client by its knock
        for client, certificate in enumerate(config.certificates):
            self._known[ssl.PEM_cert_to_DER_cert(certificate)] = client
            self._knocks[wire.knock(own, certificate)] = client
        self._present: set[int] = set()
        self._unknown: _Waiting = {}  # connections that have not knocked
        # Connections that have knocked as a client, before TLS has told who it is, likewise by client.
        self._knocked: dict[int, _Waiting] = {}
        self._connections: Counter[int] = Counter()  # after TLS, by client
        self._channels: list[Channel] = []
        self._masks: asyncio.Future[tuple[Words, Words]] = asyncio.Future()
        self._sums: asyncio.Future[tuple[Words, list[bytes]]] = asyncio.Future()
        self._taken: asyncio.Future[list[bool]] = asyncio.Future()
        self._seeds: list[asyncio.Future[bytes]] = [asyncio.Future() for _ in config.uploads]
        self._values: list[asyncio.Future[bytes]] = [asyncio.Future() for _ in config.uploads]

    async def run(self) -> ClientsServed:
        """Serve all clients; return what was exchanged with them, and how many were left out.

        Raises:
            ClientFailure: No client sent values, too many clients broke off, or the virtual machine was late.
            OSError, asyncio.IncompleteReadError: The virtual machine ended.
        """
        listening = self._listen()
        accepting = asyncio.create_task(self._accept(listening))
        try:
            async with asyncio.timeout(self._seconds_to_come()) as deadline:
                left_out = await self._serve_machine(deadline)
        except TimeoutError:
            raise ClientFailure(
                f"The virtual machine was not ready for the clients after {self._config.seconds:g} s."
            ) from None
        finally:
            accepting.cancel()
            listening.close()
            for channel in self._channels:
                channel.writer.close()
        return ClientsServed(
            sent_bytes=sum(channel.received for channel in self._channels),
            received_bytes=sum(channel.sent for channel in self._channels),
            absent=left_out.absent,
            failed=left_out.failed,
            complained=left_out.complained,
        )

    async def _serve_machine(self, deadline: asyncio.Timeout) -> LeftOutCounts:
        """Bring masks from the virtual machine to the clients, and their values to the machine.

        Args:
            deadline: Ends the wait for the machine, and is lifted once the masks are here.
        """
        machine = await wire.connected("127.0.0.1", self._config.machine_port, self._machine.runs)
        try:
            width = await self._greet(machine)
            own = masks.low_words(await machine.receive(self._ends[-1] * width), width)
            offsets = masks.low_words(await machine.receive(self._checks * self._parts * width), width)
            self._masks.set_result((own, offsets.reshape(self._checks, self._parts)))
            deadline.reschedule(None)
            left_out = await self._exchange(machine, width)
            with suppress(*_LOST):  # the machine ends the connection once it has all that was sent
                await machine.reader.read(1)
        finally:
            machine.close()
        return left_out

    def _seconds_to_come(self) -> float:
        """Return the seconds that are left for clients to come."""
        return float(self._place.started + self._config.seconds - time.monotonic())

    def _listen(self) -> socket.socket:
        """Return a socket that listens for clients, or raise ClientFailure."""
        port = self._config.port
        try:
            listening = socket.create_server((self._config.host, port), backlog=_BACKLOG)
        except OSError as error:
            raise ClientFailure(
                f"It cannot listen for clients on port {port}: {os.strerror(error.errno or 0)}."
            ) from None
        listening.setblocking(False)
        return listening

    async def _accept(self, listening: socket.socket) -> None:
        """Take connections for ever; end one whenever too many have not knocked as a client.

        The connection that ends is of the address that has most of them, so that an address can end its own
        connections only. Where several addresses have as many, chance decides, so that strangers cannot know
        how to end a client's connection. A client knocks as it connects, and from then on strangers end no
        connection of that client.

        Guarantees: however many connections come, from however many addresses, files are left for the virtual
        machine and for clients.
        [test: tests/commands/test_hostile_clients.py, tests/harness/online/test_strangers.py]
        """
        loop = asyncio.get_running_loop()
        own = self._place.data / f"P{self._place.party}.pem"
        tls = wire.context(ssl.PROTOCOL_TLS_SERVER, own, "".join(self._config.certificates))
        most_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = min(_MOST_UNKNOWN, max(1, most_files // 4))
        while True:
            try:
                connection, (host, *_) = await loop.sock_accept(listening)
            except OSError:  # the connection broke, or no file is left for it
                await asyncio.sleep(_PAUSE_S)
                continue
            address = str(host)
            task = asyncio.create_task(self._welcome(connection, address, tls))
            self._unknown[connection] = (address, task)
            await asyncio.sleep(0)  # so that the task takes a knock that has come already
            if len(self._unknown) > most:
                _end_one(self._unknown)

    async def _welcome(self, connection: socket.socket, address: str, tls: ssl.SSLContext) -> None:
        """Serve a connection if it knocks as a client and then proves to be that client's."""
        client = None
        try:
            async with asyncio.timeout(_KNOCK_S):
                received = await self._knock_of(connection)
            client = self._knocks.get(received)
            if client is None and len(received) == wire.KNOCK_BYTES:  # tells a client of another run
                connection.send(_DENIED)
        except (OSError, TimeoutError):  # it left, or keeps silent
            pass
        finally:
            self._unknown.pop(connection, None)
            if client is None:
                connection.close()
        if client is None:
            return
        # Whoever reads along can knock as the client does, but not end what the client began.
        knocked = self._knocked.setdefault(client, {})
        task = asyncio.current_task()
        assert task is not None, "it runs in one of `_accept`"
        knocked[connection] = (address, task)
        if len(knocked) > _MOST_OF_A_KNOCK:
            _end_one(knocked)
        await self._secure(connection, tls, knocked)

    async def _knock_of(self, connection: socket.socket) -> bytes:
        """Return a connection's first bytes, as many as a knock has, or fewer if it ends before."""
        loop = asyncio.get_running_loop()
        received = b""
        while len(received) < wire.KNOCK_BYTES:
            more = await loop.sock_recv(connection, wire.KNOCK_BYTES - len(received))
            if not more:
                break
            received += more
        return received

    async def _secure(self, connection: socket.socket, tls: ssl.SSLContext, knocked: _Waiting) -> None:
        """Begin TLS on a connection, and serve it if it is a client's.

        Args:
            connection: The connection.
            tls: The gateway's side of TLS.
            knocked: The connections that knocked as the same client, of which it is one until TLS has begun.
        """
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol,
                connection,
                ssl=tls,
                ssl_handshake_timeout=_HANDSHAKE_S,
                ssl_shutdown_timeout=_GOODBYE_S,
            )
        except OSError:  # it is no client, or left
            return
        finally:
            knocked.pop(connection, None)
        await self._serve(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    async def _exchange(self, machine: Channel, width: int) -> LeftOutCounts:
        """Bring clients' subsets and values to the machine, and zeros in place of those left out.

        Args:
            machine: The connection to the virtual machine.
            width: The bytes of its elements.
        """
        counts = self._config.uploads
        seeds = await self._agreed(machine, width, self._seeds, self._seconds_to_come())
        chosen: list[Words] = []
        for seed, count in zip(seeds, counts, strict=True):
            if seed:
                chosen.append(masks.subsets(seed, count, self._checks))
            else:
                chosen.append(np.zeros(count, np.uint64))
        await machine.send(masks.widen(np.concatenate(chosen), width))
        opened = await machine.receive(self._checks * self._parts * masks.WORD_BYTES)
        self._sums.set_result((masks.from_bytes(opened).reshape(self._checks, self._parts), seeds))
        for seed, values in zip(seeds, self._values, strict=True):
            if not seed:
                _settle(values, b"")
        masked = await self._agreed(machine, width, self._values, self._config.seconds_to_send)
        accepted = [upload not in (b"", wire.COMPLAINT) for upload in masked]
        left_out = self._left_out(seeds, masked)
        self._taken.set_result(accepted)
        words: list[bytes] = []
        for upload, is_accepted, count in zip(masked, accepted, counts, strict=True):
            words.append(upload if is_accepted else bytes(count * masks.WORD_BYTES))
        await machine.send(masks.widen(masks.from_bytes(b"".join(words)), width))
        await machine.send(masks.widen(np.repeat(np.array(accepted, np.uint64), counts), width))
        return left_out

    async def _agreed(
        self, machine: Channel, width: int, pending: Sequence[asyncio.Future[bytes]], seconds: float
    ) -> list[bytes]:
        """Return each client's upload, or no bytes for a client unless all parties got the same in time.

        The virtual machines show each other a digest of each upload, once for each part of it.

        Args:
            machine: The connection to the virtual machine.
            width: The bytes of its elements.
            pending: Each client's upload, which may come.
            seconds: The time for which this waits for uploads.
        """
        await asyncio.wait(pending, timeout=max(0.0, seconds))
        for upload_to_come in pending:
            _settle(upload_to_come, b"")
        received = [upload_to_come.result() for upload_to_come in pending]
        no_upload = bytes(DIGEST_WORDS * masks.WORD_BYTES)
        digests: list[bytes] = []
        for upload, count in zip(received, self._config.uploads, strict=True):
            digest = hashlib.sha256(upload).digest() if upload else no_upload
            parts = count // self._part
            digests.append(digest * parts)
        own = b"".join(digests)
        await machine.send(masks.widen(masks.from_bytes(own), width))
        shown = await machine.receive(len(own) * self._place.parties)
        shown_by_party = [shown[start : start + len(own)] for start in range(0, len(shown), len(own))]
        agreed: list[bytes] = []
        begin = 0
        for upload, digest in zip(received, digests, strict=True):
            end = begin + len(digest)
            is_same = all(from_party[begin:end] == digest for from_party in shown_by_party)
            agreed.append(upload if is_same else b"")
            begin = end
        return agreed

    def _left_out(self, seeds: Sequence[bytes], masked: Sequence[bytes]) -> LeftOutCounts:
        """Return how many clients are left out, by what they sent of seeds and values.

        Raises:
            TooManyFailuresError: More clients broke off than may, or no client is left.
        """
        absent = seeds.count(b"")
        complaints = masked.count(wire.COMPLAINT)
        failed = masked.count(b"") - absent
        most = self._config.most_failures
        if failed + complaints > most:
            raise TooManyFailuresError(
                f"{FAILED}after they were sent what they check their masks by, {failed + complaints} of "
                f"{len(seeds)} did not send all parties the same values, more than {most}; {complaints} of "
                "them said that the masks do not fit, so that a party may cheat."
            )
        if absent + failed + complaints == len(seeds):
            raise TooManyFailuresError(f"{FAILED}none of {len(seeds)} sent the parties values in time.")
        return LeftOutCounts(absent, failed, complaints)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Talk with a connection's client if its certificate is a client's, until the connection ends."""
        channel = Channel(reader, writer)
        client = self._known.get(channel.peer_certificate or b"")
        if client is None or self._connections[client] >= _MOST_OF_A_CLIENT:
            channel.close()
            return
        self._connections[client] += 1
        try:
            # The client may leave, or the run may be over.
            with closing(writer), suppress(*_LOST, wire.WrongLengthError, asyncio.CancelledError):
                await self._talk(client, channel)
            with suppress(*_LOST, asyncio.CancelledError):
                await writer.wait_closed()
        finally:
            self._connections[client] -= 1

    async def _talk(self, client: int, channel: Channel) -> None:
        """Tell a client the terms and its masks, and take its seed and its values.

        A client has one such conversation, except that it may come again if it left before its masks were
        told.
        """
        begin = self._ends[client]
        end = self._ends[client + 1]
        first_part = begin // self._part
        end_of_parts = end // self._part
        announced = wire.Announced(
            protocol=wire.PROTOCOL,
            client=client,
            values=end - begin,
            parts=end_of_parts - first_part,
            sums=self._checks,
        )
        await channel.send(wire.FirstMessage(announced, self._config.terms).to_bytes())
        if client in self._present:  # its other connection goes on
            await channel.send(wire.LEFT_OUT)
            return
        self._present.add(client)
        self._channels.append(channel)
        started = False
        try:
            if not await self._stays(channel):
                return
            if self._seeds[client].done():  # it is late
                await channel.send(wire.LEFT_OUT)
                return
            started = True  # from here on it cannot come again: its masks are for one use
            own, offsets = await self._masks
            await channel.send(masks.to_bytes(own[begin:end]))
            await channel.send(masks.to_bytes(offsets[:, first_part:end_of_parts].reshape(-1)))
            _settle(self._seeds[client], await channel.receive(masks.SEED_BYTES))
            sums, seeds = await self._sums
            if not seeds[client]:
                await channel.send(wire.LEFT_OUT)
                return
            await channel.send(masks.to_bytes(sums[:, first_part:end_of_parts].reshape(-1)))
            values = await channel.receive((end - begin) * masks.WORD_BYTES, wire.COMPLAINT)
            _settle(self._values[client], values)
            accepted = await self._taken
            await channel.send(wire.ACCEPTED if accepted[client] else wire.LEFT_OUT)
        finally:
            if started:  # nobody waits for what it has not sent
                _settle(self._seeds[client], b"")
                _settle(self._values[client], b"")
            else:
                self._present.discard(client)

    async def _stays(self, channel: Channel) -> bool:
        """Wait for the masks; return whether the client is still there by then, and has sent nothing."""
        early = asyncio.ensure_future(channel.reader.read(1))
        await asyncio.wait((early, self._masks), return_when=asyncio.FIRST_COMPLETED)
        if early.done():
            return False
        early.cancel()
        await asyncio.wait({early})
        return True

    async def _greet(self, machine: Channel) -> int:
        """Greet the virtual machine; return the number of bytes of its elements.

        Raises:
            ClientFailure: The machine does not compute modulo a power of two.
        """
        trusted = (self._place.data / f"P{self._place.party}.pem").read_text()  # no other party's
        own = self._place.data / f"C{self._place.number}.pem"
        await machine.send(str(self._place.number).encode())  # MP-SPDZ wants it before TLS
        await machine.writer.start_tls(
            wire.context(ssl.PROTOCOL_TLS_CLIENT, own, trusted, ssl.TLSVersion.TLSv1_2)
        )
        kind, bits, _ = _MACHINE_DOMAIN.unpack(await machine.receive(_MACHINE_DOMAIN.size))
        if kind != ord("R"):
            raise ClientFailure("The virtual machine does not compute modulo a power of two.")
        return (int(bits) + 7) // 8


def _end_one(waiting: _Waiting) -> None:
    """End the oldest connection of the address that has most; chance chooses if several have as many."""
    numbers = Counter(address for address, _ in waiting.values())
    highest = max(numbers.values())
    busiest = secrets.choice([address for address, number in numbers.items() if number == highest])
    of_busiest = [connection for connection, (address, _) in waiting.items() if address == busiest]
    _, task = waiting.pop(of_busiest[0])
    task.cancel()


def _settle(pending: asyncio.Future[bytes], value: bytes) -> None:
    """Give a future its value, unless it has one."""
    if not pending.done():  # else it was late, or the run has ended
        pending.set_result(value)


@dataclass(frozen=True)
class Machine:
    """A party's virtual machine, which is a child of this process with this number."""

    process: int

    def runs(self) -> bool:
        """Return whether it runs, without taking its exit code."""
        return os.waitid(os.P_PID, self.process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


async def _serve(config: GatewayConfig, place: GatewayPlace, machine: Machine) -> ClientsServed:
    """Serve all clients of a run, as `Front.run`."""
    return await Front(config, place, machine).run()


def run_gateway(config: GatewayConfig, place: GatewayPlace, machine: int) -> int:
    """Run a gateway until its virtual machine ends.

    Args:
        config: The addresses and limits with which the gateway serves the clients.
        place: The party to which it belongs.
        machine: The process number of its virtual machine.

    Returns:
        The exit code of the virtual machine, or 1 if the gateway failed. If a signal ended the machine, the
        same signal ends this process.
    """
    served: ClientsServed | None = None
    try:
        served = asyncio.run(_serve(config, place, Machine(machine)))
    except ClientFailure as error:
        if Machine(machine).runs():  # otherwise the machine ended first, and clients left for that reason
            os.kill(machine, signal.SIGKILL)
            os.waitpid(machine, 0)
            report: ClientsFailed | Failure = Failure(str(error))
            if isinstance(error, TooManyFailuresError):
                report = ClientsFailed(str(error))
            print(
                f"\n{line_of(report)}", flush=True
            )  # on a new line, as the machine may have ended within one
            return 1
    except (*_LOST, wire.WrongLengthError):  # the virtual machine ended, and says why itself
        pass
    _, status = os.waitpid(machine, 0)
    code = os.waitstatus_to_exitcode(status)
    if served is not None:
        print(line_of(served), flush=True)
    if code < 0:
        os.kill(os.getpid(), -code)
    return code
