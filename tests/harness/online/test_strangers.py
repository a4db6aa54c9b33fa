"""Strangers at however many addresses keep no client from its gateway, and cost it a bounded amount.

A gateway listens on IPv4. Each address of 127.0.0.0/8 is this machine's, so a test can have many.
"""

import asyncio
import os
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from fairshares.harness.engines.parties.certificates import make_key
from fairshares.harness.errors import ClientError
from fairshares.harness.online import gateway as gateways, messages as wire
from fairshares.harness.online.client import Sender
from fairshares.harness.online.gateway import Front
from fairshares.harness.online.session import Server
from tests.commands.test_hostile_clients import gateway, greeted
from tests.support.fronts import send_values

MOST = 8  # connections that have not knocked, in these tests
SOME = 200  # strangers
_addresses = (f"127.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}" for n in count(2))


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateways, "_MOST_UNKNOWN", MOST)


@pytest.fixture
def strangers() -> Iterator[ExitStack]:
    """Close the strangers' connections at the end."""
    with ExitStack() as stack:
        yield stack


Script = Callable[[Front, Server, Path], Awaitable[None]]


def attack(directory: Path, script: Script) -> None:
    """Run a script while a gateway takes connections."""

    async def scene() -> None:
        front, server, client = gateway(directory)
        listening = front._listen()
        accepting = asyncio.create_task(front._accept(listening))
        try:
            await asyncio.wait_for(script(front, server, client), 120)
        finally:
            accepting.cancel()
            listening.close()

    asyncio.run(scene())


def stranger(server: Server, address: str = "") -> socket.socket:
    """Return a connection from an address, by default one of its own, without TLS."""
    return socket.create_connection(("127.0.0.1", server.port), 10, (address or next(_addresses), 0))


def knocks(server: Server, client: Path) -> bytes:
    return wire.knock(server.certificate, client.read_text())


async def is_over(one: socket.socket) -> bytes:
    """Wait until the gateway has ended a connection; return what it sent before."""
    one.settimeout(30)

    def read_all() -> bytes:
        got = b""
        with suppress(ConnectionResetError):
            while more := one.recv(100):
                got += more
        return got

    return await asyncio.to_thread(read_all)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition; `attack` ends a wait that is too long."""
    while not condition():
        await asyncio.sleep(0.01)


def test_many_addresses_end_no_connection_that_has_knocked(tmp_path: Path, strangers: ExitStack) -> None:
    """Each is at the gateway once, so no address is the busiest, and the client came before them all."""

    async def script(front: Front, server: Server, client: Path) -> None:
        early = strangers.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        early.sendall(knocks(server, client))
        await until(lambda: bool(front._knocked))
        for _ in range(SOME):
            strangers.enter_context(stranger(server))
            await asyncio.sleep(0)
            assert len(front._unknown) <= MOST + 1
        await until(lambda: len(front._unknown) == MOST)
        tls = wire.context(ssl.PROTOCOL_TLS_CLIENT, client, server.certificate)
        channel = wire.Channel(*await asyncio.open_connection(sock=early, ssl=tls, server_hostname=""))
        await channel.receive_first()
        channel.close()

    attack(tmp_path, script)


def test_a_client_is_served_while_strangers_keep_coming(tmp_path: Path, strangers: ExitStack) -> None:
    """They hold all places that there are for strangers, and take each that becomes free."""

    async def script(front: Front, server: Server, client: Path) -> None:
        async def come() -> None:
            for number in count():
                one = stranger(server)
                if number % 3 == 0:
                    one.sendall(os.urandom(number % 100))
                strangers.callback(one.close)
                await asyncio.sleep(0)

        coming = asyncio.create_task(come())
        await until(lambda: len(front._unknown) >= MOST)
        for _ in range(5):
            (await greeted(server, client)).close()
            await until(lambda: not front._connections[0])
        coming.cancel()

    attack(tmp_path, script)


def test_strangers_take_a_bounded_number_of_descriptors_and_tasks(
    tmp_path: Path, strangers: ExitStack
) -> None:
    async def script(front: Front, server: Server, client: Path) -> None:
        before = len(asyncio.all_tasks())
        held = [strangers.enter_context(stranger(server)) for _ in range(SOME)]
        ended = asyncio.gather(*map(is_over, held), return_exceptions=True)
        await until(lambda: len(front._unknown) == MOST)
        open_here = len([*Path("/proc/self/fd").iterdir()]) - SOME
        kept = {one.fileno() for one in front._unknown}
        assert len(kept) == MOST and len(asyncio.all_tasks()) <= before + SOME + 1 + MOST
        assert open_here < 64 + MOST  # pytest's own, the gateway's, and the strangers that are kept
        accepted = [*front._unknown]
        for one in held:
            one.shutdown(socket.SHUT_RDWR)
        await ended
        await until(lambda: not front._unknown)
        assert all(one.fileno() == -1 for one in accepted)

    attack(tmp_path, script)


def test_silence_and_half_a_knock_end_after_a_while(
    tmp_path: Path, strangers: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateways, "_KNOCK_S", 0.2)

    async def script(front: Front, server: Server, client: Path) -> None:
        silent, half = (strangers.enter_context(stranger(server)) for _ in range(2))
        half.sendall(knocks(server, client)[:-1])
        assert await is_over(silent) == await is_over(half) == b""
        assert not front._unknown and not front._knocked

    attack(tmp_path, script)


def test_garbage_ends_at_once_without_tls(tmp_path: Path, strangers: ExitStack) -> None:
    """TLS is begun for nobody who has not knocked, and whoever was invited to another run is told."""

    async def script(front: Front, server: Server, client: Path) -> None:
        garbage = strangers.enter_context(stranger(server))
        garbage.sendall(b"GET / HTTP/1.1\r\n" * 4)
        assert await is_over(garbage) == bytes([21, 3, 3, 0, 2, 2, 49])
        own = wire.context(ssl.PROTOCOL_TLS_CLIENT, client, server.certificate)
        with pytest.raises(ssl.SSLError, match="ACCESS_DENIED"):
            await wire.connected(
                "127.0.0.1", server.port, lambda: True, tls=own, knocks=bytes(wire.KNOCK_BYTES)
            )
        assert not front._knocked and not front._connections

    attack(tmp_path, script)


def test_chance_says_which_of_many_addresses_loses_its_connection(
    tmp_path: Path, strangers: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else whoever counts could end a client's before it has knocked. One in 9^29 times all are alike."""

    lost: list[int] = []
    real = gateways._end_one

    def end_one(waiting: gateways._Waiting) -> None:
        before = [*waiting]
        real(waiting)
        lost.extend(place for place, one in enumerate(before) if one not in waiting)

    monkeypatch.setattr(gateways, "_end_one", end_one)

    async def script(front: Front, server: Server, client: Path) -> None:
        for _ in range(MOST + 30):
            strangers.enter_context(stranger(server))
        await until(lambda: len(lost) == 30)

    attack(tmp_path, script)
    assert len({*lost}) > 1 and max(lost) <= MOST


@pytest.mark.parametrize("address", ["127.0.0.2", ""], ids=["one address", "many addresses"])
def test_whoever_reads_along_holds_few_connections(
    address: str, tmp_path: Path, strangers: ExitStack
) -> None:
    """He knocks as the client does, and cannot begin TLS as it."""

    async def script(front: Front, server: Server, client: Path) -> None:
        for _ in range(50):
            one = strangers.enter_context(stranger(server, address))
            one.sendall(knocks(server, client))
            await asyncio.sleep(0.001)
        await until(lambda: not front._unknown)
        assert len(front._knocked[0]) == gateways._MOST_OF_A_KNOCK
        (await greeted(server, client)).close()

    attack(tmp_path, script)


def test_whoever_reads_along_ends_connections_of_his_own_address_only(
    tmp_path: Path, strangers: ExitStack
) -> None:
    async def script(front: Front, server: Server, client: Path) -> None:
        early = strangers.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        early.sendall(knocks(server, client))
        await until(lambda: bool(front._knocked.get(0)))
        for _ in range(50):
            one = strangers.enter_context(stranger(server, "127.0.0.2"))
            one.sendall(knocks(server, client))
        await until(lambda: not front._unknown and len(front._knocked[0]) == gateways._MOST_OF_A_KNOCK)
        tls = wire.context(ssl.PROTOCOL_TLS_CLIENT, client, server.certificate)
        channel = wire.Channel(*await asyncio.open_connection(sock=early, ssl=tls, server_hostname=""))
        await channel.receive_first()
        channel.close()

    attack(tmp_path, script)


def test_a_client_whose_connection_ends_before_the_terms_connects_again(tmp_path: Path) -> None:
    """As where a gateway has ended it among strangers'."""
    own, client = (make_key(tmp_path, name, name) for name in ("P0", "C0"))
    came: list[bytes] = []
    tls = wire.context(ssl.PROTOCOL_TLS_SERVER, own, client.read_text())

    def serve(listening: socket.socket) -> None:
        for number in range(3):
            plain, _ = listening.accept()
            with plain:
                came.append(plain.recv(wire.KNOCK_BYTES, socket.MSG_WAITALL))
                if number == 0:
                    continue
                with tls.wrap_socket(plain, server_side=True) as secured:
                    if number == 2:
                        secured.sendall(struct.pack("<I", 2) + b"{}")
                        secured.recv(1)

    async def scene(server: Server) -> None:
        with pytest.raises(ClientError, match="the parties run with another protocol than this client"):
            await send_values(Sender(0, client, np.array([1])), [server], {}, 60.0)

    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as pool:
        served = pool.submit(serve, listening)
        server = Server("127.0.0.1", listening.getsockname()[1], own.read_text())
        asyncio.run(scene(server))
        with suppress(OSError):  # the client ends as it likes
            served.result(60)
    assert came == [knocks(server, client)] * 3


def test_a_knock_is_of_one_client_at_one_gateway(tmp_path: Path) -> None:
    """So it does not tell which connections to several gateways are of one client."""
    gateways_own = [make_key(tmp_path, f"P{i}", "P").read_text() for i in range(2)]
    clients = [make_key(tmp_path, f"C{k}", "C").read_text() for k in range(2)]
    pairs = [(own, client) for own in gateways_own for client in clients]
    made = [wire.knock(*pair) for pair in pairs]
    assert len({*made}) == 4 and all(len(text) == wire.KNOCK_BYTES for text in made)
    assert made == [wire.knock(*pair) for pair in pairs]
