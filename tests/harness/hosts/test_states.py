"""Every request in every state of a host's agent, and in random orders: what is refused changes nothing.

The agent's work is the real one, with its keys, uploads, policy and ledger. In the place of a party's process
is one that only notes what it was told, and whose waiting moves a clock of its own.
"""

import io
import os
import secrets
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from harness.engines.base import Prepared
from harness.engines.mpyc.engine import EmbeddedEngine
from harness.engines.parties.handle import PartySetup, PartyState
from harness.hosts import local_host, party_run, wire
from harness.hosts.agent import Agent, Work
from harness.hosts.messages import (
    CERTIFICATE_S,
    TO_AGENT,
    Bye,
    CheckUploads,
    Collect,
    GetCertificate,
    Propose,
    ReadList,
    limit_s,
)
from harness.hosts.policy import LEDGER
from harness.hosts.signed_results import sign
from harness.hosts.states import State
from harness.hosts.trials import Noise, Trial
from harness.pipeline.manifests import environment, machine
from harness.privacy.ledger.entries import Ledger
from harness.system.files import PREFIX
from tests.support.coordinators import (
    ANY_PORT,
    DOMAIN,
    LOOPBACK,
    MODEL,
    Coordinator,
    as_sent,
    asked,
    make_hosts,
    now,
    run_certificate,
    run_of,
)

RUN_NAME = "0" * 32
POLICY = (
    f"{ANY_PORT}benchmark = true\nattempts = 1000000\n"
    '[[population]]\nname = "loans"\nepsilon = 1000000\ndelta = 0.5\nepsilon_per_run = 2\n'
)
OF_NOISE = Trial(MODEL.name, noise=Noise(("1", f"1/{2**40}"), 3))
NEXT = {
    State.NO_RUN: ["propose", "propose", "preprocess", "benchmark"],
    State.PROPOSED: ["check_uploads"],
    State.LISTED: ["take_list", "aggregate"],
    State.FED: ["prepare"],
    State.PREPARED: ["start"],
    State.STARTED: ["certificate"],
    State.READY: ["agree"],
    State.AGREED: ["go"],
}
REQUESTS = frozenset(TO_AGENT) - {Bye.name()}  # which ends the loop itself
ALLOWED = {state: {name for name in REQUESTS if state in TO_AGENT[name].STATES} for state in State}
PARTY_ENDS = "(its party ends)"  # no request, but what may happen between two


@cache
def certificate_of(party: int) -> str:
    """Return one certificate of a party's key, as if for every run."""
    return run_certificate(party)


class FakeProcess:
    """Takes a party's place. `waited` is the time by its clock, over all processes."""

    waited = 0.0

    def __init__(self, setup: PartySetup, _directory: Path) -> None:
        self.number = setup.config.party
        self.name, self.gone, self.started = "Party", False, False
        self.code: int | None = None

    def start(self) -> None:
        self.started = True

    def certificate(self, seconds: float) -> str | None:
        FakeProcess.waited += seconds
        return certificate_of(self.number) if self.started and not self.gone else None

    def go(self, _certificates: object) -> None:
        self.gone = True

    def met(self) -> dict[int, str]:
        return {}

    def exit_code(self) -> int | None:
        return self.code

    def state(self) -> PartyState:
        return PartyState()

    def kill(self) -> None:
        self.code = -9 if self.code is None else self.code

    def close(self) -> None: ...

    def keep(self) -> None: ...


class Site:
    """Three hosts, with what the other two say to a run of the first."""

    def __init__(self, directory: Path) -> None:
        self.hosts = make_hosts(directory, POLICY)
        self.lists: list[dict[str, Any]] = []
        self.nonces = {}
        for party in (1, 2):
            with ExitStack() as stack:
                work = Coordinator(self.hosts[party], stack).work
                work.propose(Propose(asked=asked()))
                signed = as_sent(run_of(work).uploads.check_uploads(CheckUploads(party=party)))
                piece = run_of(work).uploads.read_list(ReadList(at=0))
                self.lists.append({"lister": party, "signed": signed, "at": 0, "piece": piece})
                self.nonces[party] = run_of(work).nonce
        self.charges: tuple[object, ...] = ()

    def spent(self) -> tuple[object, ...]:
        """Return the charges in the first host's ledger, whatever their outcome."""
        populations = Ledger(self.hosts[0] / LEDGER).populations()
        return tuple((one.id, one.exact) for population in populations for one in population.charges)


class Walker:
    """A connection to the first host's agent, by its messages."""

    def __init__(self, site: Site, stack: ExitStack) -> None:
        self.site = site
        self.work = Work(site.hosts[0], stack)
        self.agent = Agent(io.BytesIO(), io.BytesIO(), self.work, "agent")
        self.told = False

    @property
    def state(self) -> State:
        return self.work.state

    @property
    def node(self) -> tuple[State, str, bool]:
        """What tells two places of a walk apart."""
        return self.state, type(run_of(self.work)).__name__, self.told

    def arguments(self, request: str) -> list[dict[str, Any]]:
        """Return what an honest coordinator sends with a request, for one or two messages."""
        run = run_of(self.work)
        nonces = [getattr(run, "nonce", ""), self.site.nonces[1], self.site.nonces[2]]
        of_request: dict[str, list[dict[str, Any]]] = {
            "propose": [{"asked": asked()}],
            "preprocess": [{"asked": asked(offline="True"), "domain": DOMAIN.to_json()}],
            "benchmark": [{"party": 0, "trial": asdict(OF_NOISE)}],
            "check": [{"party": 0, "security": MODEL.name, "port": 0, "client_ports": []}],
            "listen": [{"port": 0}],
            "reach": [{"others": []}],
            "time_links": [{"others": []}],
            "forget": [{"run": RUN_NAME}],
            "check_uploads": [{"party": 0}],
            "read_list": [{"at": 0}],
            "take_list": self.site.lists,
            "aggregate": [{"party": 0}],
            "prepare": [{"run": RUN_NAME, "party": 0, "addresses": [(LOOPBACK, 0)] * MODEL.parties}],
            "agree": [{"nonces": nonces, "started": now().isoformat(), "attempts": 1000}],
            "certificate": [{"seconds": CERTIFICATE_S}],
            "go": [{"agreed": self.agreed()}],
            "keep": [{"made": {}}],
        }
        return of_request.get(request, [{}])

    def agreed(self) -> dict[str, Any]:
        """Return what all hosts sign before a run, the others as this one does."""
        intent = getattr(run_of(self.work), "intent", None)
        if intent is None:
            return {}
        signed = {}
        for party, host in enumerate(self.site.hosts):
            own = intent.run_certificate if party == 0 else certificate_of(party)
            said = replace(intent, party=party, run_certificate=own)
            signed[str(party)] = as_sent(sign(said, host / "keys" / "embedded" / f"P{party}.pem"))
        return signed

    def ask(self, request: str, **changes: Any) -> dict[str, Any]:
        """Send a request and return the last answer; check what each may have changed, and its time."""
        if request == PARTY_ENDS:
            return self.end_party()
        answer: dict[str, Any] = {}
        for details in self.arguments(request):
            before, limit = self.seen(), limit_s(self.state, TO_AGENT[request])
            FakeProcess.waited = 0.0
            message = wire.decode(wire.encode({"do": request, **details, **changes}))
            assert message is not None
            answer = self.agent._answer(message)
            assert FakeProcess.waited <= limit, (request, before)
            self.check_charges(request, before, "ok" in answer)
        self.told = self.told or (request == "take_list" and "ok" in answer)
        return answer

    def end_party(self) -> dict[str, Any]:
        """Have the party fail, as the agent's loop notices between two requests."""
        if self.work.is_running:
            run_of(self.work).laid_out().code = 1
            assert run_of(self.work).ended().code == 1
        return {"ok": None}

    def seen(self) -> tuple[State, tuple[object, ...]]:
        return self.state, self.site.spent()

    def check_charges(self, request: str, before: tuple[State, tuple[object, ...]], accepted: bool) -> None:
        """A release's accepted `go` charges once; nothing else charges, and nothing takes a charge back."""
        state, charges = before
        new = self.site.spent()
        assert new[: len(charges)] == charges, (request, before)
        charging = accepted and request == "go" and type(run_of(self.work)).__name__ == "ReleaseRun"
        assert len(new) - len(charges) == charging, (request, before)
        if request not in ALLOWED[state]:
            assert not accepted and self.state is state, (request, before)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield hosts whose parties are fake, and whose facts about the machine are known already."""
    made = Site(tmp_path_factory.mktemp("site"))
    prepared: dict[object, Prepared] = {}
    known_environment, known_machine = environment(), machine()
    prepare = EmbeddedEngine.prepared

    def prepared_once(self: EmbeddedEngine, job: Any, model: Any) -> Prepared:
        key = (job.spec.name, tuple(job.arguments))
        if key not in prepared:
            prepared[key] = prepare(self, job, model)
        return replace(prepared[key], job=job)

    with (
        patch.object(party_run, "LocalProcess", FakeProcess),
        patch.object(EmbeddedEngine, "prepared", prepared_once),
        patch.object(local_host, "environment", lambda: known_environment),
        patch.object(local_host, "machine", lambda: known_machine),
        patch.object(local_host, "git", lambda *_: ""),
        patch.object(local_host, "sources_hash", lambda *_: ""),
    ):
        yield made


@contextmanager
def walker(site: Site, path: tuple[str, ...] = ()) -> Iterator[Walker]:
    """Yield a new connection that has taken a path of requests, each of them accepted unless it spoils."""
    with ExitStack() as stack:
        made = Walker(site, stack)
        for request in path:
            made.ask(request)
        yield made
    assert not list(site.hosts[0].glob(f"{PREFIX}*")), path


def test_every_request_in_every_state(site: Site) -> None:
    """Breadth first, to all states of the table; what a state does not allow is refused by the table."""
    seen: dict[tuple[State, str, bool], tuple[str, ...]] = {}
    handled: set[str] = set()
    waiting: list[tuple[str, ...]] = [()]
    answered = refused = 0
    while waiting:
        path = waiting.pop(0)
        with walker(site, path) as made:
            if made.node in seen:
                continue
            state = made.state
            seen[made.node] = path
            handled |= made.work.handlers.keys()
            for request in sorted(REQUESTS - ALLOWED[state]):
                answer = made.ask(request)
                assert answer["error"][0] == "HostUnfitError" and f"as {state}; nothing" in answer["error"][1]
                refused += 1
        for request in (*sorted(ALLOWED[state]), PARTY_ENDS):
            with walker(site, path) as made:
                answer = made.ask(request)
                answered += 1
                if "It failed at" in str(answer):
                    raise AssertionError((path, request, answer))
                if made.node not in seen:
                    waiting.append((*path, request))
    assert {state for state, *_ in seen} == {*State}
    assert handled == REQUESTS
    assert answered > 100 and refused > 100


def check_random_orders(site: Site, orders: int) -> None:
    seed = secrets.randbits(64)
    draw, reached = Random(seed), set()
    names = [*sorted(REQUESTS), PARTY_ENDS]
    for number in range(orders):
        path: list[str] = []
        with walker(site) as made:
            for _ in range(20):
                # Often what is allowed, or what an honest coordinator does next, so that orders get far.
                here = names if draw.random() < 0.5 else [*sorted(ALLOWED[made.state]), PARTY_ENDS]
                request = draw.choice(here)
                if made.state in NEXT and draw.random() < 0.5:
                    request = draw.choice(NEXT[made.state])
                path.append(request)
                try:
                    made.ask(request)
                except AssertionError as error:
                    raise AssertionError(f"seed {seed}, order {number}: {path}: {error}") from error
                reached.add(made.state)
    assert {State.PREPARED, State.RUNNING} <= reached, f"seed {seed}: {reached}"


def test_requests_in_random_orders(site: Site) -> None:
    check_random_orders(site, 60)


@pytest.mark.parametrize("part", range(20))
def test_requests_in_two_thousand_random_orders(part: int, site: Site) -> None:
    check_random_orders(site, 100)


def test_a_certificate_is_not_asked_for_again_once_the_party_may_go(site: Site) -> None:
    """It would block the agent for as long as the coordinator says, and no limit of the run would be kept."""
    path = (
        "propose",
        "check_uploads",
        "take_list",
        "aggregate",
        "prepare",
        "start",
        "certificate",
        "agree",
        "go",
    )
    with walker(site, path) as made:
        assert made.state is State.RUNNING and run_of(made.work).laid_out().gone
        FakeProcess.waited = 0.0
        assert "its party runs" in made.ask("certificate")["error"][1] and FakeProcess.waited == 0
    with walker(site, path[:-3]) as made:
        assert made.state is State.STARTED
        made.ask("certificate")
        assert 0 < FakeProcess.waited <= CERTIFICATE_S


def test_every_request_ends_within_its_limit_or_the_connection_does(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the coordinator reads no answer: the time to send it counts. No clock is waited for."""
    timers: list[Any] = []

    class FakeTimer:
        def __init__(self, seconds: float, act: Any, arguments: list[str]) -> None:
            self.seconds, self.act, self.arguments, self.runs = seconds, act, arguments, False
            timers.append(self)

        def start(self) -> None:
            self.runs = True

        def cancel(self) -> None:
            self.runs = False

    class Sends(io.BytesIO):
        def write(self, line: Any) -> int:
            if b'"ok"' in line or b'"error"' in line:
                limits.append([timer.seconds for timer in timers if timer.runs])
            return super().write(line)

    limits: list[list[float]] = []
    monkeypatch.setattr(threading, "Timer", FakeTimer)
    lines = [wire.encode({"do": name}) for name in ("collect", "state", "nonsense", "bye")]
    with ExitStack() as stack, patch.object(Agent, "lose"), patch.object(Agent, "_beat"):
        Agent(io.BytesIO(b"".join(lines)), Sends(), Work(site.hosts[0], stack), "agent").serve()
    assert limits == [[limit_s(State.NO_RUN, Collect)]] * 3
    assert not any(timer.runs for timer in timers)
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *what: killed.append(what))
    timers[0].act(*timers[0].arguments)
    assert killed == [(os.getpid(), signal.SIGTERM)]
    assert "'collect' took longer than its limit" in timers[0].arguments[0]


def test_a_running_party_waits_for_no_slow_request() -> None:
    """The table itself: what may take long is not answered then, and each limit is one of minutes."""
    assert not {"certificate", "check", "reach", "time_links", "aggregate"} & ALLOWED[State.RUNNING]
    kinds = TO_AGENT.values()
    assert all(limit_s(State.RUNNING, kind) <= 120 for kind in kinds)
    assert all(limit_s(state, kind) <= 3600 for state in State for kind in kinds)
    assert all(limit_s(state, GetCertificate) > CERTIFICATE_S for state in (State.STARTED, State.READY))
