"""Whoever reaches a gateway, invited or not, keeps nobody else from being counted."""

import asyncio
import json
import resource
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pytest

from fairshares.harness.charged import Permission
from fairshares.harness.engines.execution import PrivateJob
from fairshares.harness.engines.parties.certificates import make_key
from fairshares.harness.engines.parties.supervisor import free_ports
from fairshares.harness.online import gateway as gateways, messages as wire
from fairshares.harness.online.client import LocalClients
from fairshares.harness.online.gateway import Front, GatewayPlace
from fairshares.harness.online.gateway_config import GatewayConfig
from fairshares.harness.online.session import Server
from tests.commands.test_clients import SENT, are_counts, job, needs_proc, nothing_is_left, run
from tests.support.clocks import YEAR, SetClock
from tests.support.fronts import RunningMachine

FILES = 256  # that a gateway may have open, less than what attackers hold at a time


@pytest.fixture
def few_files() -> Iterator[None]:
    """Have all programs of a run open few files only, but not the attackers."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def among(one: PrivateJob, attacks: Sequence[str], work: Path) -> PrivateJob:
    """Return the job with attackers, who begin before the clients, and have the last ones' certificates."""
    assert one.sending is not None
    clients = one.sending.clients
    assert isinstance(clients, LocalClients)
    senders, hostile = clients.senders[: len(SENT)], clients.senders[len(SENT) :]
    certificates = [str(sender.certificate.resolve()) for sender in hostile or len(attacks) * [*senders]]

    attacked = Attacked(replace(clients, senders=senders), attacks, certificates[: len(attacks)], work)
    return replace(one, values=replace(one.sending, clients=attacked))


@dataclass(frozen=True)
class Attacked:
    """Clients, and attackers that begin before them."""

    clients: LocalClients
    attacks: Sequence[str]
    certificates: Sequence[str]
    work: Path

    @contextmanager
    def begin(self, servers: Sequence[Server], permission: Permission) -> Iterator[None]:
        told = {
            "servers": [asdict(server) for server in servers],
            "attacks": self.attacks,
            "certificates": self.certificates,
        }
        place = self.work / "attacks.json"
        place.write_text(json.dumps(told))
        command = [sys.executable, "-m", "tests.support.hostile_clients", str(place)]
        limit = ["prlimit", "--nofile=4096:"]
        with subprocess.Popen([*limit, *command], stdout=subprocess.PIPE) as attacker:
            try:
                assert attacker.stdout and attacker.stdout.readline() == b"ready\n"
                with self.clients.begin(servers, permission):
                    yield
            finally:
                attacker.kill()


STRANGERS = ("idle", "many_addresses", "slow", "garbage", "stranger", "knocking")
INVITED = ("many", "huge", "drip", "disorder", "early")


def gateway(directory: Path) -> tuple[Front, Server, Path]:
    """Return a gateway without a machine, where it can be reached, and its one client's certificate."""
    (directory / "data").mkdir()
    own, client = (
        make_key(place, name, name) for place, name in ((directory / "data", "P0"), (directory, "C0"))
    )
    with free_ports(1) as (port,):
        pass
    config = GatewayConfig(
        host="127.0.0.1",
        port=port,
        machine_port=0,
        uploads=(3,),
        certificates=(client.read_text(),),
        terms={},
        seconds=600.0,
        seconds_to_send=75.0,
        most_failures=1,
    )
    place = GatewayPlace(party=0, parties=1, number=1, data=directory / "data", started=time.monotonic())
    return Front(config, place, RunningMachine(0)), Server("", port, own.read_text()), client


def test_time_for_clients_is_not_moved_by_a_clock_that_jumps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A year ahead it would be over at once, and a year back it would not end for a year."""

    async def seconds_to_come() -> list[float]:
        front, _, _ = gateway(tmp_path)
        clock = SetClock(monkeypatch)
        found = []
        for clock.ahead in (-YEAR, YEAR):
            found.append(front._seconds_to_come())
        return found

    assert all(0 < seconds <= 600 for seconds in asyncio.run(seconds_to_come()))


async def greeted(server: Server, client: Path) -> wire.Channel:
    """Return a client's connection once the gateway has told its terms."""
    tls = wire.context(ssl.PROTOCOL_TLS_CLIENT, client, server.certificate)
    knocks = wire.knock(server.certificate, client.read_text())
    channel = await wire.connected("127.0.0.1", server.port, lambda: True, tls=tls, knocks=knocks)
    try:
        await channel.receive_first()
    except BaseException:
        channel.close()
        raise
    return channel


def test_strangers_end_connections_of_their_own_address_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many come, no more than so many are held, and who came before them gets through."""
    monkeypatch.setattr(gateways, "_MOST_UNKNOWN", 8)

    async def attack() -> None:
        front, server, client = gateway(tmp_path)
        listening = front._listen()
        accepting = asyncio.create_task(front._accept(listening))
        early = socket.create_connection(("127.0.0.1", server.port))  # has not knocked
        strangers = []
        for _ in range(40):
            strangers.append(socket.create_connection(("127.0.0.1", server.port), 10, ("127.0.0.2", 0)))
            await asyncio.sleep(0.01)
            assert len(front._unknown) <= 8
        tls = wire.context(ssl.PROTOCOL_TLS_CLIENT, client, server.certificate)
        early.sendall(wire.knock(server.certificate, client.read_text()))
        channel = wire.Channel(*await asyncio.open_connection(sock=early, ssl=tls, server_hostname=""))
        await channel.receive_first()
        channel.close()
        (await greeted(server, client)).close()
        accepting.cancel()
        listening.close()
        for one in strangers:
            one.close()

    asyncio.run(attack())


def test_a_client_has_few_connections_at_a_time(tmp_path: Path) -> None:
    """Even if it does not leave when it is told to."""

    def told_to_leave(server: Server, client: Path) -> ssl.SSLSocket:
        tls = wire.context(ssl.PROTOCOL_TLS_CLIENT, client, server.certificate)
        plain = socket.create_connection(("127.0.0.1", server.port))
        plain.sendall(wire.knock(server.certificate, client.read_text()))
        one = tls.wrap_socket(plain)
        got = b""
        while not got.endswith(wire.LEFT_OUT):
            got += one.recv(1)
        return one

    async def attack() -> None:
        front, server, client = gateway(tmp_path)
        listening = front._listen()
        accepting = asyncio.create_task(front._accept(listening))
        first = await greeted(server, client)
        second = await asyncio.to_thread(told_to_leave, server, client)
        for _ in range(3):
            with pytest.raises((OSError, asyncio.IncompleteReadError)):
                await greeted(server, client)
        assert front._connections[0] == 2
        second.close()
        while front._connections[0] > 1:
            await asyncio.sleep(0.01)
        (await asyncio.to_thread(told_to_leave, server, client)).close()
        first.close()
        accepting.cancel()
        listening.close()

    asyncio.run(attack())


@needs_proc
@pytest.mark.mpspdz("ring")
def test_strangers_keep_no_client_from_being_counted(tmp_path: Path, few_files: None) -> None:
    one = among(job(tmp_path / "clients"), STRANGERS, tmp_path)
    result = run(one, tmp_path / "parties")
    assert are_counts(result.outputs["counts"]) and result.left_out == {}
    assert nothing_is_left(tmp_path)


@needs_proc
@pytest.mark.mpspdz("ring")
def test_invited_attackers_keep_nobody_but_themselves_from_being_counted(
    tmp_path: Path, few_files: None
) -> None:
    one = among(job(tmp_path / "clients", more=len(INVITED)), INVITED, tmp_path)
    result = run(one, tmp_path / "parties", timeout_s=120.0)
    assert are_counts(result.outputs["counts"]) and sum(result.left_out.values()) == len(INVITED)
    assert nothing_is_left(tmp_path)
