"""A party's gateway: takes the clients' connections, and is the one client of its virtual machine.

MP-SPDZ's own server takes anybody, one at a time, without a time limit, and ends on the first that
misbehaves. The gateway takes all clients at once, each by its certificate. Gateways compare digests
of their clients' messages, so all leave out the same clients.
"""

import asyncio
import hashlib
import json
import os
import resource
import secrets
import signal
import socket
import ssl
import struct
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import gcd
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fairshares.harness.online import masks, messages as wire
from fairshares.harness.online.gateway_config import GatewayConfig
from fairshares.harness.online.messages import Channel
from fairshares.harness.party_reports import ClientsFailed, ClientsServed, Failure, line_of
from fairshares.protocols.circuits.clients import DIGEST_WORDS, checks

FAILED = "Clients failed: "  # every message about clients begins so
# Connections at a time that have not knocked as a client. Whoever reaches the port can open them. They take a
# quarter of the files that the process may open at most.
_MOST_UNKNOWN = 256
_MOST_OF_A_CLIENT = 2  # one is served, and another is told so
# Connections at a time that have knocked as one client, before TLS has told whether it is that client.
_MOST_OF_A_KNOCK = 4
_KNOCK_S, _HANDSHAKE_S, _GOODBYE_S = 10.0, 10.0, 10.0
_DENIED = bytes([21, 3, 3, 0, 2, 2, 49])  # an alert of TLS: fatal, access denied
_LOST = (OSError, EOFError, asyncio.IncompleteReadError)


# Connections, the oldest first, each with its address and the task that waits for it.
_Waiting = dict[socket.socket, tuple[str, asyncio.Task[None]]]


class ClientFailure(Exception):
    """No client can come to this party."""


class TooManyFailuresError(ClientFailure):
    """Clients ended the run, as all parties agree."""


class LeftOut(NamedTuple):
    """How many clients were left out; see `ClientsServed`."""

    absent: int
    failed: int
    complained: int


@dataclass(frozen=True, kw_only=True)
class GatewayPlace:
    """The party that a gateway belongs to.

    Attributes:
        party: Its number.
        parties: Number of parties.
        number: By which its virtual machine knows the gateway.
        data: The directory of the party's and the gateway's keys.
        started: When the party's process started, in seconds since 1970.
    """

    party: int
    parties: int
    number: int
    data: Path
    started: float


class Front:
    """One run's gateway at a party."""

    def __init__(self, config: GatewayConfig, place: GatewayPlace, machine_runs: Callable[[], bool]) -> None:
        self._config = config
        self._place = place
        self._machine_runs = machine_runs
        self._ends = [0, *accumulate(config.uploads)]
        self._part = gcd(*config.uploads)
        self._parts = self._ends[-1] // self._part
        self._checks = checks(self._parts)
        self._known = {ssl.PEM_cert_to_DER_cert(pem): k for k, pem in enumerate(config.certificates)}
        own = (place.data / f"P{place.party}.pem").read_text()
        self._knocks = {wire.knock(own, pem): k for k, pem in enumerate(config.certificates)}
        self._present: set[int] = set()
        self._unknown: _Waiting = {}  # connections that have not knocked
        # Connections that have knocked as a client, before TLS has told who it is, likewise by client.
        self._knocked: dict[int, _Waiting] = {}
        self._connections: Counter[int] = Counter()  # after TLS, by client
        self._channels: list[Channel] = []
        self._masks: asyncio.Future[tuple[masks.Words, masks.Words]] = asyncio.Future()
        self._sums: asyncio.Future[tuple[masks.Words, list[bytes]]] = asyncio.Future()
        self._taken: asyncio.Future[list[bool]] = asyncio.Future()
        self._seeds: list[asyncio.Future[bytes]] = [asyncio.Future() for _ in config.uploads]
        self._values: list[asyncio.Future[bytes]] = [asyncio.Future() for _ in config.uploads]

    async def run(self) -> ClientsServed:
        """Serve all clients; return what was exchanged with them, and how many were left out.

        Raises ClientFailure if no client sent values, too many broke off, or the machine was late; OSError or
        asyncio.IncompleteReadError if it ended.
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

    async def _serve_machine(self, deadline: asyncio.Timeout) -> LeftOut:
        machine = await wire.connected("127.0.0.1", self._config.machine_port, self._machine_runs)
        try:
            width = await self._greet(machine)
            own = masks.low_words(await machine.receive(self._ends[-1] * width), width)
            offsets = masks.low_words(await machine.receive(self._checks * self._parts * width), width)
            self._masks.set_result((own, offsets.reshape(self._checks, self._parts)))
            deadline.reschedule(None)
            left_out = await self._exchange(machine, width)
            with suppress(*_LOST):  # until the machine ends the connection, sent data are on their way
                await machine.reader.read(1)
        finally:
            machine.close()
        return left_out

    def _seconds_to_come(self) -> float:
        return float(self._place.started + self._config.seconds - time.time())

    def _listen(self) -> socket.socket:
        port = self._config.port
        try:
            listening = socket.create_server((self._config.host, port), backlog=4096)
        except OSError as error:
            raise ClientFailure(
                f"It cannot listen for clients on port {port}: {os.strerror(error.errno or 0)}."
            ) from None
        listening.setblocking(False)
        return listening

    async def _accept(self, listening: socket.socket) -> None:
        """Take connections; end one for each beyond so many that have not knocked as a client.

        It is of an address that has most of them, so an address can end its own only. Where many addresses
        have as many, chance decides, so strangers cannot know how to end a client's. A client knocks as it
        connects, and from then on strangers end nothing of its. However many come, from however many
        addresses, files are left for the machine and for clients.
        [test: tests/commands/test_hostile_clients.py, tests/harness/online/test_strangers.py]
        """
        loop, own = asyncio.get_running_loop(), self._place.data / f"P{self._place.party}.pem"
        tls = wire.context(ssl.PROTOCOL_TLS_SERVER, own, "".join(self._config.certificates))
        most = min(_MOST_UNKNOWN, max(1, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4))
        while True:
            try:
                connection, address = await loop.sock_accept(listening)
            except OSError:  # of one connection, or no file is left for it
                await asyncio.sleep(0.05)
                continue
            task = asyncio.create_task(self._welcome(connection, str(address[0]), tls))
            self._unknown[connection] = str(address[0]), task
            await asyncio.sleep(0)  # so that the task takes a knock that is there
            if len(self._unknown) > most:
                _end_one(self._unknown)

    async def _welcome(self, connection: socket.socket, address: str, tls: ssl.SSLContext) -> None:
        """Serve a connection if it knocks as a client, and is that client's."""
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
        knocked[connection] = address, task
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

    async def _exchange(self, machine: Channel, width: int) -> LeftOut:
        """Bring clients' subsets and values to the machine, zeros for those left out."""
        counts = self._config.uploads
        seeds = await self._agreed(machine, width, self._seeds, self._seconds_to_come())
        chosen = [
            masks.subsets(seed, count, self._checks) if seed else np.zeros(count, np.uint64)
            for seed, count in zip(seeds, counts, strict=True)
        ]
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
        words = [
            upload if is_taken else bytes(count * masks.WORD_BYTES)
            for upload, is_taken, count in zip(masked, accepted, counts, strict=True)
        ]
        await machine.send(masks.widen(masks.from_bytes(b"".join(words)), width))
        await machine.send(masks.widen(np.repeat(np.array(accepted, np.uint64), counts), width))
        return left_out

    async def _agreed(
        self, machine: Channel, width: int, pending: Sequence[asyncio.Future[bytes]], seconds: float
    ) -> list[bytes]:
        """Return each client's upload, or nothing unless all parties got the same in time."""
        await asyncio.wait(pending, timeout=max(0.0, seconds))
        for one in pending:
            _settle(one, b"")
        received = [one.result() for one in pending]
        nothing = bytes(DIGEST_WORDS * masks.WORD_BYTES)
        digests = [
            (hashlib.sha256(upload).digest() if upload else nothing) * (count // self._part)
            for upload, count in zip(received, self._config.uploads, strict=True)
        ]
        own = b"".join(digests)
        await machine.send(masks.widen(masks.from_bytes(own), width))
        shown = await machine.receive(len(own) * self._place.parties)
        ends = [0, *accumulate(map(len, digests))]
        everywhere = [shown[at : at + len(own)] for at in range(0, len(shown), len(own))]
        return [
            upload if all(one[begin:end] == digest for one in everywhere) else b""
            for upload, digest, (begin, end) in zip(received, digests, pairwise(ends), strict=True)
        ]

    def _left_out(self, seeds: Sequence[bytes], masked: Sequence[bytes]) -> LeftOut:
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
        return LeftOut(absent, failed, complaints)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = Channel(reader, writer)
        client = self._known.get(channel.peer_certificate or b"")
        if client is None or self._connections[client] >= _MOST_OF_A_CLIENT:
            channel.close()
            return
        self._connections[client] += 1
        try:
            # The client may leave, or all may be over.
            with closing(writer), suppress(*_LOST, wire.WrongLengthError, asyncio.CancelledError):
                await self._talk(client, channel)
            with suppress(*_LOST, asyncio.CancelledError):
                await writer.wait_closed()
        finally:
            self._connections[client] -= 1

    async def _talk(self, client: int, channel: Channel) -> None:
        begin, end = self._ends[client], self._ends[client + 1]
        first, last = begin // self._part, end // self._part
        terms = {
            **json.loads(self._config.terms),
            "protocol": wire.PROTOCOL,
            "client": client,
            "values": end - begin,
            "parts": last - first,
            "sums": self._checks,
        }
        await channel.send(json.dumps(terms, sort_keys=True).encode())
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
            await channel.send(masks.to_bytes(offsets[:, first:last].reshape(-1)))
            _settle(self._seeds[client], await channel.receive(masks.SEED_BYTES))
            sums, seeds = await self._sums
            if not seeds[client]:
                await channel.send(wire.LEFT_OUT)
                return
            await channel.send(masks.to_bytes(sums[:, first:last].reshape(-1)))
            values = await channel.receive((end - begin) * masks.WORD_BYTES, wire.COMPLAINT)
            _settle(self._values[client], values)
            await channel.send(wire.ACCEPTED if (await self._taken)[client] else wire.LEFT_OUT)
        finally:
            if started:  # nobody waits for what it has not sent
                _settle(self._seeds[client], b"")
                _settle(self._values[client], b"")
            else:
                self._present.discard(client)

    async def _stays(self, channel: Channel) -> bool:
        """Wait for the masks; return whether the client is then there and silent."""
        early = asyncio.ensure_future(channel.reader.read(1))
        await asyncio.wait((early, self._masks), return_when=asyncio.FIRST_COMPLETED)
        if early.done():
            return False
        early.cancel()
        await asyncio.wait({early})
        return True

    async def _greet(self, machine: Channel) -> int:
        """Greet the virtual machine; return the bytes of its elements."""
        trusted = (self._place.data / f"P{self._place.party}.pem").read_text()  # its party's alone
        own = self._place.data / f"C{self._place.number}.pem"
        await machine.send(str(self._place.number).encode())  # MP-SPDZ wants it before TLS
        await machine.writer.start_tls(
            wire.context(ssl.PROTOCOL_TLS_CLIENT, own, trusted, ssl.TLSVersion.TLSv1_2)
        )
        kind, bits, _ = struct.unpack("<III", await machine.receive(12))
        if kind != ord("R"):
            raise ClientFailure("The virtual machine does not compute modulo a power of two.")
        return (int(bits) + 7) // 8


def _end_one(waiting: _Waiting) -> None:
    """End the oldest connection of an address that has most of them; chance chooses among such addresses."""
    numbers = Counter(address for address, _ in waiting.values())
    highest = max(numbers.values())
    busiest = secrets.choice([address for address, number in numbers.items() if number == highest])
    oldest = next(one for one, (address, _) in waiting.items() if address == busiest)
    _, task = waiting.pop(oldest)
    task.cancel()


def _settle(pending: asyncio.Future[bytes], value: bytes) -> None:
    if not pending.done():  # else it was late, or the run has ended
        pending.set_result(value)


def run_gateway(config: GatewayConfig, place: GatewayPlace, machine: int) -> int:
    """Run the gateway to the end of its virtual machine, process `machine`; exit like it, or with 1."""

    def machine_runs() -> bool:
        return os.waitid(os.P_PID, machine, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    async def run() -> ClientsServed:
        return await Front(config, place, machine_runs).run()

    served: ClientsServed | None = None
    try:
        served = asyncio.run(run())
    except ClientFailure as error:
        if machine_runs():  # else it ended first, and clients left for that reason
            os.kill(machine, signal.SIGKILL)
            os.waitpid(machine, 0)
            of_clients = isinstance(error, TooManyFailuresError)
            report = ClientsFailed(str(error)) if of_clients else Failure(str(error))
            print(f"\n{line_of(report)}", flush=True)  # the machine may have ended within a line
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
