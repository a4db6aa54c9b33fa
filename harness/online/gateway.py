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
import signal
import socket
import ssl
import struct
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from itertools import accumulate, pairwise
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np

from harness.online import masks, messages as wire
from harness.online.messages import Channel
from protocols.circuits.clients import DIGEST_WORDS, checks

FAILED = "Clients failed: "  # every message about clients begins so
# Connections at a time. Whoever reaches the port can open them before TLS has told who it is. These take a
# quarter of the files that the process may open at most.
_MOST_UNKNOWN = 256
_MOST_OF_A_CLIENT = 2  # one is served, and another is told so
_HANDSHAKE_S, _GOODBYE_S = 10.0, 10.0
_LOST = (OSError, EOFError, asyncio.IncompleteReadError)


class ClientFailure(Exception):
    """Clients ended the run, or none can come."""


class Front:
    """One run's gateway at a party, which is client `number` of its virtual machine.

    `config` is that of `ClientInputs.front`, with `started` (seconds since 1970) and `parties`.
    """

    def __init__(
        self, config: dict[str, Any], party: int, number: int, data: Path, machine_runs: Callable[[], bool]
    ) -> None:
        self._config, self._party, self._number, self._data = config, party, number, data
        self._machine_runs = machine_runs
        self._ends = [0, *accumulate(config["uploads"])]
        self._part = gcd(*config["uploads"])
        self._parts = self._ends[-1] // self._part
        self._checks = checks(self._parts)
        self._known = {ssl.PEM_cert_to_DER_cert(pem): k for k, pem in enumerate(config["certificates"])}
        self._present: set[int] = set()
        # Connections before TLS, the oldest first: address, and what begins TLS.
        self._unknown: dict[socket.socket, tuple[str, asyncio.Task[None]]] = {}
        self._connections: Counter[int] = Counter()  # after it, by client
        self._channels: list[Channel] = []
        self._masks: asyncio.Future[tuple[masks.Words, masks.Words]] = asyncio.Future()
        self._sums: asyncio.Future[tuple[masks.Words, list[bytes]]] = asyncio.Future()
        self._taken: asyncio.Future[list[bool]] = asyncio.Future()
        self._seeds: list[asyncio.Future[bytes]] = [asyncio.Future() for _ in config["uploads"]]
        self._values: list[asyncio.Future[bytes]] = [asyncio.Future() for _ in config["uploads"]]

    async def run(self) -> str:
        """Serve all clients; return a line about the traffic with them, and one about those left out.

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
                f"The virtual machine was not ready for the clients after {self._config['seconds']:g} s."
            ) from None
        finally:
            accepting.cancel()
            listening.close()
            for channel in self._channels:
                channel.writer.close()
        return (
            f"Clients sent = {sum(channel.received for channel in self._channels)} bytes, "
            f"received = {sum(channel.sent for channel in self._channels)} bytes\n{left_out}"
        )

    async def _serve_machine(self, deadline: asyncio.Timeout) -> str:
        machine = await wire.connected("127.0.0.1", self._config["machine_port"], self._machine_runs)
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
        return float(self._config["started"] + self._config["seconds"] - time.time())

    def _listen(self) -> socket.socket:
        port = self._config["port"]
        try:
            listening = socket.create_server((self._config["host"], port), backlog=4096)
        except OSError as error:
            raise ClientFailure(
                f"It cannot listen for clients on port {port}: {os.strerror(error.errno or 0)}."
            ) from None
        listening.setblocking(False)
        return listening

    async def _accept(self, listening: socket.socket) -> None:
        """Take connections; end one for each beyond so many that have not shown who they are.

        It is the oldest from the address that has most of them, so an address can end its own only. However
        many strangers come, files are left for the machine and for clients.
        [test: tests/commands/test_hostile_clients.py]
        """
        loop, own = asyncio.get_running_loop(), self._data / f"P{self._party}.pem"
        tls = wire.context(ssl.PROTOCOL_TLS_SERVER, own, "".join(self._config["certificates"]))
        most = min(_MOST_UNKNOWN, max(1, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4))
        while True:
            try:
                connection, address = await loop.sock_accept(listening)
            except OSError:  # of one connection, or no file is left for it
                await asyncio.sleep(0.05)
                continue
            task = asyncio.create_task(self._secure(connection, tls))
            self._unknown[connection] = str(address[0]), task
            if len(self._unknown) > most:
                self._end_one()
            await asyncio.sleep(0)  # `sock_accept` does not wait while connections are there

    def _end_one(self) -> None:
        ((busiest, _),) = Counter(address for address, _ in self._unknown.values()).most_common(1)
        oldest = next(one for one, (address, _) in self._unknown.items() if address == busiest)
        _, task = self._unknown.pop(oldest)
        task.cancel()

    async def _secure(self, connection: socket.socket, tls: ssl.SSLContext) -> None:
        """Begin TLS on a connection, and serve it if it is a client's."""
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
            self._unknown.pop(connection, None)
        await self._serve(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    async def _exchange(self, machine: Channel, width: int) -> str:
        """Bring clients' subsets and values to the machine, zeros for those left out."""
        counts = self._config["uploads"]
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
        masked = await self._agreed(machine, width, self._values, self._config["seconds_to_send"])
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
            for upload, count in zip(received, self._config["uploads"], strict=True)
        ]
        own = b"".join(digests)
        await machine.send(masks.widen(masks.from_bytes(own), width))
        shown = await machine.receive(len(own) * self._config["parties"])
        ends = [0, *accumulate(map(len, digests))]
        everywhere = [shown[at : at + len(own)] for at in range(0, len(shown), len(own))]
        return [
            upload if all(one[begin:end] == digest for one in everywhere) else b""
            for upload, digest, (begin, end) in zip(received, digests, pairwise(ends), strict=True)
        ]

    def _left_out(self, seeds: Sequence[bytes], masked: Sequence[bytes]) -> str:
        absent, complaints = seeds.count(b""), masked.count(wire.COMPLAINT)
        failed, most = masked.count(b"") - absent, self._config["most_failures"]
        if failed + complaints > most:
            raise ClientFailure(
                f"{FAILED}after they were sent what they check their masks by, {failed + complaints} of "
                f"{len(seeds)} did not send all parties the same values, more than {most}; {complaints} of "
                "them said that the masks do not fit, so that a party may cheat."
            )
        if absent + failed + complaints == len(seeds):
            raise ClientFailure(f"{FAILED}none of {len(seeds)} sent the parties values in time.")
        return f"Clients left out = {absent} absent, {failed} failed, {complaints} complained"

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
            **self._config["terms"],
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
        both: set[asyncio.Future[Any]] = {early, self._masks}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if early.done():
            return False
        early.cancel()
        await asyncio.wait({early})
        return True

    async def _greet(self, machine: Channel) -> int:
        """Greet the virtual machine; return the bytes of its elements."""
        trusted = (self._data / f"P{self._party}.pem").read_text()  # the party's own, and no other
        own = self._data / f"C{self._number}.pem"
        await machine.send(str(self._number).encode())  # MP-SPDZ wants it before TLS
        await machine.writer.start_tls(
            wire.context(ssl.PROTOCOL_TLS_CLIENT, own, trusted, ssl.TLSVersion.TLSv1_2)
        )
        kind, bits, _ = struct.unpack("<III", await machine.receive(12))
        if kind != ord("R"):
            raise ClientFailure("The virtual machine does not compute modulo a power of two.")
        return (int(bits) + 7) // 8


def _settle(pending: asyncio.Future[bytes], value: bytes) -> None:
    if not pending.done():  # else it was late, or the run has ended
        pending.set_result(value)


def main(config: dict[str, Any], party: int, number: int, data: Path, machine: int) -> int:
    """Run the gateway to the end of its virtual machine, process `machine`; exit like it, or with 1."""

    def machine_runs() -> bool:
        return os.waitid(os.P_PID, machine, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    async def run() -> str:
        return await Front(config, party, number, data, machine_runs).run()

    summary = ""
    try:
        summary = asyncio.run(run())
    except ClientFailure as error:
        if machine_runs():  # else it ended first, and clients left for that reason
            os.kill(machine, signal.SIGKILL)
            os.waitpid(machine, 0)
            print(f"\nfairshares: {error}", flush=True)
            return 1
    except (*_LOST, wire.WrongLengthError):  # the virtual machine ended, and says why itself
        pass
    _, status = os.waitpid(machine, 0)
    code = os.waitstatus_to_exitcode(status)
    print(summary, flush=True)
    if code < 0:
        os.kill(os.getpid(), -code)
    return code
