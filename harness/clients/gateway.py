"""A party's gateway: takes the clients' connections, and is the one client of its virtual machine.

MP-SPDZ's own server takes connections one at a time, inside the computation, without a time limit, from
whoever comes, and ends on the first that misbehaves. The gateway runs beside the virtual machine, on the
party's own host, and knows no more than that machine. It takes all clients at once, each by its
certificate, and says by number which one is missing or breaks the rules.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import ssl
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import accumulate
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np

from harness.clients import input_masks as masks
from harness.clients import messages as wire
from harness.clients.messages import Channel
from protocols.circuits.clients import CHECKS

FAILED = "Client "  # every message about a client begins so
SILENT, UNSENT = "had not answered", "had not sent its values"
LEFT = "left before it had sent its values; one does so, too, when a party ends or cheats"
IN_DOUBT = (SILENT, UNSENT, LEFT)  # clients do so, too, when another party lets them wait or ends
_HANDSHAKE_S = 10.0
_RETRY_S = 0.01
_BACKLOG = 4096
_LOST = (OSError, EOFError, asyncio.IncompleteReadError)


class ClientFailure(Exception):
    """One client ended the run, or none can come; says which, and how."""


class Front:
    """One run's front.

    Args: config: as `ClientInputs.front` returns it, and `started` (when its party was; seconds since
    1970); party: its number; number: what to be called by the virtual machine; data: the directory of the
    party's key and certificates; machine_runs: whether the virtual machine has not ended.
    """

    def __init__(
        self, config: dict[str, Any], party: int, number: int, data: Path, machine_runs: Callable[[], bool]
    ) -> None:
        self._config, self._party, self._number, self._data = config, party, number, data
        self._machine_runs = machine_runs
        self._ends = [0, *accumulate(config["uploads"])]
        self._part = gcd(*config["uploads"])
        self._known = {_fingerprint(pem): k for k, pem in enumerate(config["certificates"])}
        self._present: set[int] = set()
        self._channels: list[Channel] = []
        loop = asyncio.get_running_loop()
        self._masks: asyncio.Future[tuple[masks.Words, masks.Words]] = loop.create_future()
        self._sums: asyncio.Future[masks.Words] = loop.create_future()
        self._seeds: list[asyncio.Future[bytes]] = [loop.create_future() for _ in config["uploads"]]
        self._values: list[asyncio.Future[bytes]] = [loop.create_future() for _ in config["uploads"]]

    async def run(self) -> None:
        """Serve all clients; print a line about the traffic with them.

        Raises: ClientFailure: one misbehaved, or had not sent its values in time; OSError,
        asyncio.IncompleteReadError: the virtual machine ended.
        """
        try:
            seconds = self._config["started"] + self._config["seconds"] - time.time()
            async with asyncio.timeout(seconds) as deadline:
                await self._serve_all(deadline)
        except TimeoutError:
            raise ClientFailure(self._late()) from None

    def _late(self) -> str:
        """Say whom the run still waited for: clients that are ready wait for those that are not."""
        seconds = f"after {self._config['seconds']:g} s"
        clients = range(len(self._seeds))
        seeded, sent = ([_is_there(each[k]) for k in clients] for each in (self._seeds, self._values))
        for missing, what in (
            ([k for k in clients if k not in self._present], "had not come"),
            ([k for k in clients if _is_there(self._masks) and not seeded[k]], SILENT),
            ([k for k in clients if _is_there(self._sums) and not sent[k]], UNSENT),
        ):
            if missing:
                more = len(missing) - 1
                others = f", nor had {more} other{'s' * (more > 1)}" if more else ""
                return f"{FAILED}{missing[0]} {what} {seconds}{others}."
        return f"The virtual machine was not ready for the clients {seconds}."

    async def _serve_all(self, deadline: asyncio.Timeout) -> None:
        server = await self._listen()
        try:
            reader, writer = await self._connect_to_machine()
            try:
                machine, width = await self._machine(reader, writer)
                await self._exchange(machine, width)
                deadline.reschedule(None)  # the clients are done
                with suppress(*_LOST):  # what was sent is on its way until the machine ends the connection
                    await reader.read(1)
            finally:
                writer.transport.abort()
        finally:
            server.close()
            for channel in self._channels:
                channel.writer.close()

    async def _listen(self) -> asyncio.Server:
        port, context = self._config["port"], self._server_context()
        try:
            return await asyncio.start_server(
                self._serve,
                self._config["host"],
                port,
                ssl=context,
                ssl_handshake_timeout=_HANDSHAKE_S,
                backlog=_BACKLOG,
            )
        except OSError as error:
            why = os.strerror(error.errno or 0)  # asyncio's own text is a whole sentence
            raise ClientFailure(f"It cannot listen for clients on port {port}: {why}.") from None

    async def _exchange(self, machine: Channel, width: int) -> None:
        values, parts = self._ends[-1], self._ends[-1] // self._part
        own = masks.low_words(await machine.receive(values * width), width)
        offsets = masks.low_words(await machine.receive(CHECKS * parts * width), width)
        self._masks.set_result((own, offsets.reshape(CHECKS, parts)))
        seeds = zip(await asyncio.gather(*self._seeds), self._config["uploads"], strict=True)
        chosen = np.concatenate([masks.subsets(seed, count) for seed, count in seeds])
        await machine.send(masks.widen(chosen, width))
        opened = await machine.receive(CHECKS * parts * masks.WORD_BYTES)
        self._sums.set_result(masks.from_bytes(opened).reshape(CHECKS, parts))
        masked = b"".join(await asyncio.gather(*self._values))
        received = sum(channel.received for channel in self._channels)
        sent = sum(channel.sent for channel in self._channels)
        print(f"Clients sent = {received} bytes, received = {sent} bytes", flush=True)
        await machine.send(masks.widen(masks.from_bytes(masked), width))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = Channel(reader, writer)
        client = self._known.get(hashlib.sha256(channel.peer_certificate or b"").hexdigest())
        try:
            # A second connection of a client that is there, or is done, is not another one's business.
            if client is not None and client not in self._present:
                self._channels.append(channel)
                self._present.add(client)
                await self._talk(client, channel)
        except (*_LOST, asyncio.CancelledError):  # the client left, or all is over
            pass
        finally:
            writer.close()

    async def _talk(self, client: int, channel: Channel) -> None:
        begin, end = self._ends[client], self._ends[client + 1]
        first, last = begin // self._part, end // self._part
        started = False
        try:
            await channel.send(self._terms(client))
            if not await self._stays(channel):
                return
            started = True  # from here on it cannot come again: its masks are for one use
            own, offsets = await self._masks
            await channel.send(masks.to_bytes(own[begin:end]))
            await channel.send(masks.to_bytes(offsets[:, first:last].reshape(-1)))
            _settle(self._seeds[client], await channel.receive(masks.SEED_BYTES))
            await channel.send(masks.to_bytes((await self._sums)[:, first:last].reshape(-1)))
            masked = await channel.receive((end - begin) * masks.WORD_BYTES)
            await channel.send(wire.ACCEPTED)
            _settle(self._values[client], masked)
        except wire.WrongLengthError as error:
            self._fail(client, str(error))
        except _LOST:
            if started:
                self._fail(client, LEFT)
        finally:
            if not started:
                self._present.discard(client)

    async def _stays(self, channel: Channel) -> bool:
        """Wait for the masks; return whether the client is still there then, and silent."""
        early = asyncio.ensure_future(channel.reader.read(1))
        both: set[asyncio.Future[Any]] = {early, self._masks}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if early.done():
            return False
        early.cancel()
        await asyncio.wait({early})
        return True

    def _fail(self, client: int, how: str) -> None:
        for pending in (self._seeds[client], self._values[client]):
            if not pending.done():
                pending.set_exception(ClientFailure(f"{FAILED}{client} {how}."))
                pending.exception()  # if the run has ended by now, nobody else will look
                return

    def _terms(self, client: int) -> bytes:
        count = self._config["uploads"][client]
        own = {"protocol": wire.PROTOCOL, "client": client, "values": count, "parts": count // self._part}
        return json.dumps({**self._config["terms"], **own}, sort_keys=True).encode()

    def _server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata="".join(self._config["certificates"]))
        own = self._data / f"P{self._party}"
        context.load_cert_chain(own.with_suffix(".pem"), own.with_suffix(".key"))
        return context

    async def _connect_to_machine(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while True:
            try:
                return await asyncio.open_connection("127.0.0.1", self._config["machine_port"])
            except ConnectionRefusedError:  # it has not begun to listen, if it has not ended
                if not self._machine_runs():
                    raise
                await asyncio.sleep(_RETRY_S)

    async def _machine(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[Channel, int]:
        """Greet the virtual machine; return the channel and how many bytes its elements have."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False  # the one certificate that is trusted is the party's own
        context.load_verify_locations(self._data / f"P{self._party}.pem")
        own = self._data / f"C{self._number}"
        context.load_cert_chain(own.with_suffix(".pem"), own.with_suffix(".key"))
        channel = Channel(reader, writer)
        await channel.send(str(self._number).encode())  # MP-SPDZ wants it before TLS
        await writer.start_tls(context)
        kind, bits, _ = struct.unpack("<III", await channel.receive(12))
        if kind != ord("R"):
            raise ClientFailure("The virtual machine does not compute modulo a power of two.")
        return channel, (bits + 7) // 8


def _is_there(pending: asyncio.Future[Any]) -> bool:
    return pending.done() and not pending.cancelled() and pending.exception() is None


def _settle(pending: asyncio.Future[bytes], value: bytes) -> None:
    if not pending.done():  # else the run has ended
        pending.set_result(value)


def _fingerprint(certificate: str) -> str:
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).hexdigest()


def main(config: dict[str, Any], party: int, number: int, data: Path, machine: int) -> int:
    """Run the gateway to the end of its virtual machine, and end as that does, or with 1 because of a client.

    Args: machine: the virtual machine's process, a child of this one.
    """

    def machine_runs() -> bool:
        return os.waitid(os.P_PID, machine, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    async def run() -> None:
        await Front(config, party, number, data, machine_runs).run()

    try:
        asyncio.run(run())
    except ClientFailure as error:
        if machine_runs():  # else it ended first, and clients left because of that
            print(f"fairshares: {error}", flush=True)
            os.kill(machine, signal.SIGKILL)
            os.waitpid(machine, 0)
            return 1
    except (*_LOST, wire.WrongLengthError):  # the virtual machine ended, and says why itself
        pass
    _, status = os.waitpid(machine, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        os.kill(os.getpid(), -code)
    return code
