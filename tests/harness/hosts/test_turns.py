"""Hosts' turns between runs of one coordinator: connections that stay, and what ends with a run."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fairshares.harness.engines.execution import Progress
from fairshares.harness.errors import HostUnfitError, HostUnreachableError
from fairshares.harness.hosts import local_host
from fairshares.harness.hosts.agent import Work
from fairshares.harness.hosts.inventory import Host
from fairshares.harness.hosts.local_host import TurnAwaited
from fairshares.harness.hosts.messages import Check, LeaveTurn, Message, Propose
from fairshares.harness.hosts.remote_parties import ConnectedHosts
from fairshares.harness.hosts.runner import HostLinks, HostsBackend
from fairshares.harness.hosts.states import NoRun
from fairshares.harness.system.files import PREFIX
from fairshares.harness.system.progress import nothing_said
from tests.support.coordinators import MODEL, Coordinator, answered, asked, nonce_of

PROPOSED = Propose(asked=asked())
CHECK = Check(party=0, security=MODEL.name, port=0, client_ports=[])


def test_others_have_a_turn_that_was_left_and_it_is_taken_again(hosts: list[Path], stack: ExitStack) -> None:
    """Nothing of the first run is left then: neither its directory nor its nonce."""
    first = Work(hosts[0], stack)
    first.propose(PROPOSED)
    nonce = nonce_of(first)
    with ExitStack() as of_second:
        second = Work(hosts[0], of_second)
        with pytest.raises(HostUnfitError, match="Another run is under way"):
            second.propose(PROPOSED)
        answered(first, LeaveTurn())
        assert first.state == NoRun() and not list(hosts[0].glob(f"{PREFIX}*"))
        assert isinstance(first.host.turn, TurnAwaited)  # which ends a connection that only stays
        second.propose(PROPOSED)
        with pytest.raises(HostUnfitError, match="Another run is under way"):
            first.propose(PROPOSED)
    first.propose(PROPOSED)
    assert nonce_of(first) != nonce


def test_a_party_ends_as_its_connection_leaves_the_turn(hosts: list[Path], stack: ExitStack) -> None:
    coordinator = Coordinator(hosts[0], stack)
    work = coordinator.prepared(asked())
    assert list(hosts[0].glob(f"{PREFIX}*"))
    answered(work, LeaveTurn())
    assert work.state == NoRun() and not list(hosts[0].glob(f"{PREFIX}*"))
    coordinator.prepared(asked())  # as on a new connection


def test_a_project_that_was_changed_meanwhile_takes_a_new_connection(
    hosts: list[Path], stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent's process has the code of before, and its party's would have that of now."""
    work = Work(hosts[0], stack)
    answered(work, CHECK)
    answered(work, LeaveTurn())
    monkeypatch.setattr(local_host, "sources_hash", lambda *_: "changed")
    with pytest.raises(HostUnfitError, match=r"was changed since this connection began; connect"):
        answered(work, CHECK)
    with ExitStack() as later:
        answered(Work(hosts[0], later), CHECK)


@dataclass
class FakeConnection:
    """A connection on which nothing is said. Attributes: asked: names of messages; lost: it broke."""

    asked: list[str] = field(default_factory=list)
    lost: bool = False

    def ask(self, message: Message[Any]) -> None:
        if self.lost:
            raise HostUnreachableError("It went away.")
        self.asked.append(message.name())


@dataclass(frozen=True)
class FakeHosts(HostsBackend):
    """Hosts that are fit. Attributes: opened, closed: their connections; unfit: faults that they have."""

    opened: list[FakeConnection] = field(default_factory=list)
    closed: list[FakeConnection] = field(default_factory=list)
    unfit: list[str] = field(default_factory=list)

    @contextmanager
    def connected(self, progress: Progress) -> Iterator[ConnectedHosts]:
        connection: Any = FakeConnection()
        self.opened.append(connection)
        try:
            self.check_fit([connection], progress)
            yield ConnectedHosts(self.model, [connection])
        finally:
            self.closed.append(connection)

    def check_fit(self, connections: Sequence[Any], progress: Progress) -> None:
        if self.unfit or any(connection.lost for connection in connections):
            raise HostUnfitError("It is unfit.")


@pytest.fixture
def fake() -> FakeHosts:
    return FakeHosts([Host(0, "one.example", "/srv/fairshares", "/srv/FairShares", 9000)], MODEL)


def run(links: HostLinks) -> None:
    with links.connected(nothing_said):
        pass


def test_connections_stay_between_the_runs_of_a_block_without_turns(fake: FakeHosts) -> None:
    links = HostLinks(fake)
    with links:
        with links:
            run(links)
        run(links)
        assert len(fake.opened) == 1 and not fake.closed
        assert fake.opened[0].asked == ["leave_turn"] * 2
    assert fake.closed == fake.opened
    for _ in range(2):
        run(links)
    assert len(fake.opened) == len(fake.closed) == 3


def test_a_run_that_fails_leaves_no_connection(fake: FakeHosts) -> None:
    links = HostLinks(fake)
    with links:
        with pytest.raises(HostUnfitError, match="said so"), links.connected(nothing_said):
            raise HostUnfitError("A host said so.")
        assert fake.closed == fake.opened
        run(links)
        assert len(fake.opened) == 2 and len(fake.closed) == 1
        fake.unfit.append("no room")
        with pytest.raises(HostUnfitError, match="unfit"):
            run(links)  # by the connection that is there, as it is not lost
        assert len(fake.opened) == len(fake.closed) == 2


def test_a_host_that_went_away_meanwhile_is_connected_to_again(fake: FakeHosts) -> None:
    links = HostLinks(fake)
    with links:
        run(links)
        fake.opened[0].lost = True
        run(links)
        assert len(fake.opened) == 2 and fake.closed == fake.opened[:1]
        with links.connected(nothing_said):
            fake.opened[1].lost = True  # after its run, so that it does not leave its turn
        run(links)
        assert len(fake.opened) == 3
