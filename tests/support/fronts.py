"""Fronts of three parties whose virtual machines are played here: they share masks and open sums."""

import asyncio
import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fairshares.harness.engines.parties.certificates import make_key
from fairshares.harness.engines.parties.supervisor import free_ports
from fairshares.harness.online import masks, messages as wire
from fairshares.harness.online.client import Sender, ready_to_send
from fairshares.harness.online.gateway import Front, GatewayPlace, Machine
from fairshares.harness.online.gateway_config import GatewayConfig
from fairshares.harness.online.messages import Channel
from fairshares.harness.online.session import Server
from fairshares.harness.party_reports import line_of
from fairshares.protocols.arrays import Words
from fairshares.protocols.circuits.clients import checks
from fairshares.protocols.json_values import JsonObject
from tests.support.running import ChargedToNobody

TERMS = {"form": "product", "groups": ["a", "b"]}
SECONDS = 20.0
VALUES = [np.array([1, 0, 2**31]), np.array([0, 7, 0, 1, -1, 3])]  # two clients, and one

Tamper = Callable[[int, str, Words], Words]  # (party, what it sends, words) -> words


class RunningMachine(Machine):
    """A virtual machine that never ends."""

    def runs(self) -> bool:
        return True


def honest(_party: int, _what: str, words: Words) -> Words:
    return words


async def _telling(front: Front) -> None:
    """Serve, and print what a gateway does when its machine has ended."""
    print(line_of(await front.run()))


@dataclass
class Run:
    """Uploads of some sizes to three parties.

    Attributes: values: the clients', one array each; width: bytes of an element in the machines; tamper:
    what a party does to what it sends; pause: seconds before a machine takes the clients' values; arrived:
    per party, what its machine took them for; ready: until then the machines keep clients waiting; lies:
    what a party's front is to have been sent, in place of the truth; to_send: seconds for the values.
    """

    directory: Path
    values: list[np.typing.NDArray[np.int64]]
    part: int
    width: int = 8
    tamper: Tamper = honest
    pause: float = 0.0
    terms: list[dict[str, Any]] = field(default_factory=lambda: [TERMS] * 3)
    seconds: float = SECONDS
    arrived: dict[int, list[int]] = field(default_factory=dict)
    servers: list[Server] = field(default_factory=list)
    senders: list[Sender] = field(default_factory=list)
    served: list[Front] = field(default_factory=list)
    fronts: list[asyncio.Task[None]] = field(default_factory=list)
    channels: list[Channel] = field(default_factory=list)  # to be closed at the end
    lies: Tamper = honest
    to_send: float = SECONDS
    most_failures: int = 1
    shown: dict[tuple[int, int], Words] = field(default_factory=dict)
    over: bool = False

    @property
    def sums(self) -> int:
        """How many sums there are of each part."""
        return checks(sum(map(len, self.values)) // self.part)

    async def start(self) -> None:
        """Start machines and fronts; `servers` and `senders` are known then."""
        self.ready = threading.Event()
        self._machines: list[tuple[socket.socket, threading.Thread]] = []
        size = sum(map(len, self.values))
        self._parts = size // self.part
        rng = np.random.default_rng(7)
        self._shares = rng.integers(0, 2**64, (3, size), dtype=np.uint64)
        self._offsets = rng.integers(0, 2**64, (3, self.sums * self._parts), dtype=np.uint64)
        for k, values in enumerate(self.values):
            certificate = make_key(self.directory, f"C{k}", f"C{k}")
            self.senders.append(Sender(k, certificate, values))
        self._held = contextlib.ExitStack()
        for i, port in enumerate(self._held.enter_context(free_ports(3))):
            data = self.directory / f"party-{i}"
            data.mkdir()
            certificate = make_key(data, f"P{i}", f"P{i}")
            make_key(data, "C99", "C99")
            self.servers.append(Server("127.0.0.1", port, certificate.read_text()))
            listening = socket.create_server(("127.0.0.1", 0))
            machine = threading.Thread(target=self._machine, args=(i, data, listening))
            machine.start()
            self._machines.append((listening, machine))
            config = GatewayConfig(
                host="127.0.0.1",
                port=port,
                machine_port=listening.getsockname()[1],
                uploads=tuple(len(values) for values in self.values),
                certificates=tuple(sender.certificate.read_text() for sender in self.senders),
                terms=self.terms[i],
                seconds=self.seconds,
                seconds_to_send=self.to_send,
                most_failures=self.most_failures,
            )
            place = GatewayPlace(party=i, parties=3, number=99, data=data, started=time.monotonic())
            self.served.append(Front(config, place, RunningMachine(0)))
            self.fronts.append(asyncio.create_task(_telling(self.served[-1])))

    def present(self) -> list[set[int]]:
        """Return the clients that are at each front."""
        return [front._present for front in self.served]

    def _machine(self, party: int, data: Path, listening: socket.socket) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(data / f"P{party}.pem", data / f"P{party}.key")
        with contextlib.suppress(OSError), listening:  # the front left
            plain, _ = listening.accept()
            assert plain.recv(6, socket.MSG_WAITALL) == struct.pack("<I", 2) + b"99"
            with context.wrap_socket(plain, server_side=True) as secured:
                self._compute(party, secured)

    def _compute(self, party: int, front: ssl.SSLSocket) -> None:
        def send(payload: bytes) -> None:
            front.sendall(struct.pack("<I", len(payload)) + payload)

        def receive(count: int) -> Words:
            size = count * self.width
            packed = b""
            while len(packed) < 4 + size:
                if not (some := front.recv(4 + size - len(packed))):
                    raise ConnectionResetError
                packed += some
            assert packed[:4] == struct.pack("<I", size)
            return masks.low_words(packed[4:], self.width)

        def compare(step: int) -> None:
            """Show each front what all have; a party's own may lie to its machine."""
            self.shown[step, party] = self.lies(party, ("seeds", "values")[step], receive(4 * self._parts))
            while not all((step, i) in self.shown for i in range(3)):
                if self.over:
                    raise ConnectionResetError
                time.sleep(0.005)
            send(b"".join(masks.to_bytes(self.shown[step, i]) for i in range(3)))

        size = self._shares.shape[1]
        send(struct.pack("<III", ord("R"), 8 * self.width, 64))
        self.ready.wait()
        send(masks.widen(self.tamper(party, "masks", self._shares[party]), self.width))
        send(masks.widen(self._offsets[party], self.width))
        true = self._shares.sum(axis=0, dtype=np.uint64)
        compare(0)
        sums = masks.subset_sums(true, receive(size), self._parts, self.sums).reshape(-1)
        sums += self._offsets.sum(axis=0, dtype=np.uint64)
        send(masks.to_bytes(self.tamper(party, "sums", sums)))
        compare(1)
        time.sleep(self.pause)
        masked, present = receive(size), receive(size)
        self.arrived[party] = ((masked - true) * present).view(np.int64).tolist()

    async def stop(self) -> None:
        for channel in self.channels:
            channel.close()
        for front in self.fronts:
            front.cancel()
        await asyncio.gather(*self.fronts, return_exceptions=True)
        self.ready.set()
        self.over = True
        for listening, machine in self._machines:
            with contextlib.suppress(OSError):  # it has accepted, or is waiting to
                listening.shutdown(socket.SHUT_RDWR)
            await asyncio.to_thread(machine.join)
        self._held.close()


def play(run: Run, script: Callable[[Run], Awaitable[Any]]) -> Any:
    """Run a script while the fronts and machines are there; return what it returns."""

    async def scene() -> Any:
        await run.start()
        try:
            return await asyncio.wait_for(script(run), 2 * SECONDS)
        finally:
            await run.stop()

    return asyncio.run(scene())


async def send_values(sender: Sender, servers: Sequence[Server], terms: JsonObject, seconds: float) -> int:
    """Have a client send its values, charged to nobody; return the bytes that it sent to each party."""
    async with ready_to_send(sender, servers, terms, seconds) as ready:
        return await ready.send(ChargedToNobody())


async def send(run: Run, *clients: int) -> list[Any]:
    """Have clients send; return what each sent, or its error."""
    run.ready.set()
    return await asyncio.gather(
        *(send_values(run.senders[k], run.servers, TERMS, SECONDS) for k in clients), return_exceptions=True
    )


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition; `play` ends a wait that is too long."""
    while not condition():
        await asyncio.sleep(0.01)


async def connect(run: Run, party: int, client: int | None) -> Channel:
    """Connect as a client that then does as it likes, or as somebody without a certificate.

    The latter reads along, and so knows how a client knocks.
    """
    server = run.servers[party]
    context = ssl.create_default_context(cadata=server.certificate)
    context.check_hostname = False
    knocks = wire.knock(server.certificate, run.senders[client or 0].certificate.read_text())
    if client is not None:
        own = run.senders[client].certificate
        context.load_cert_chain(own, own.with_suffix(".key"))
    run.channels.append(
        await wire.connected(server.host, server.port, lambda: True, tls=context, knocks=knocks)
    )
    return run.channels[-1]
