"""Every request in every state of a host's agent, and in random orders: what is refused changes nothing.

The agent's work is the real one, with its keys, uploads, policy and ledger file. In the place of a party's
process is one that only notes what it was told, and whose waiting moves a clock of its own. `ONWARD` says by
itself which request leads to which state, and files are compared before and after each request.
"""

import io
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from msgspec import structs

from fairshares.harness.engines.compiled import CompiledJob
from fairshares.harness.engines.execution import Job, PreparedJob
from fairshares.harness.engines.mpspdz.engine import MpSpdzEngine
from fairshares.harness.engines.mpyc.engine import EmbeddedEngine
from fairshares.harness.engines.parties.certificates import check
from fairshares.harness.engines.parties.handle import PartySetup, PartyState
from fairshares.harness.hosts import (
    host_keys,
    host_log,
    local_host,
    party_run,
    policy,
    runs,
    signed_results,
    wire,
)
from fairshares.harness.hosts.agent import Agent, Work
from fairshares.harness.hosts.decision import Ports
from fairshares.harness.hosts.frames import AnswerFrame, ErrorFrame
from fairshares.harness.hosts.host_log import Event, read_log
from fairshares.harness.hosts.listed_uploads import AGGREGATES, SHARES
from fairshares.harness.hosts.messages import (
    CERTIFICATE_S,
    TO_AGENT,
    Bye,
    CheckUploads,
    Collect,
    GetCertificate,
    Propose,
    ReadList,
    ReceivedRequest,
    limit_s,
)
from fairshares.harness.hosts.party_run import Agreed
from fairshares.harness.hosts.policy import LEDGER, STOCK
from fairshares.harness.hosts.runs import Made, Promised
from fairshares.harness.hosts.signed_results import Statement, sign
from fairshares.harness.hosts.states import HostState, RunKind, State
from fairshares.harness.hosts.trials import NoiseTrial
from fairshares.harness.pipeline.manifest_of_run import environment, hardware
from fairshares.harness.pipeline.sources import request_of_run, terms_of
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.system.documents import as_json
from fairshares.harness.system.files import PREFIX
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.spec import CLIENTS, SPLIT
from tests.support.coordinators import (
    ANY_PORT,
    DOMAIN,
    LOOPBACK,
    MODEL,
    Coordinator,
    answered,
    as_sent,
    asked,
    make_hosts,
    nonces_of,
    now,
    run_certificate,
    run_of,
)
from tests.support.envelopes import counts
from tests.support.planted import check_logs_below
from tests.support.sent_programs import VERSION, sent_program
from tests.support.sharing import trial

RUN_NAME = "0" * 32
CLIENT_PORTS = (12100, 12101)
POLICY = (
    f"{ANY_PORT}client_port = {CLIENT_PORTS[0]}\nbenchmark = true\nattempts = 1000000\n"
    f"benchmark_programs = {[sent_program(integers=2).digest]}\n"
    '[[population]]\nname = "loans"\nepsilon = 1000000\ndelta = 0.5\nepsilon_per_run = 2\n'
)
ASKED = asked()
OF_OTHERS = asked(population="others")
AHEAD = asked(offline="True")
TOO_MUCH = asked(offline="True", epsilon="3")
OF_NOISE = NoiseTrial(security=MODEL.name, guarantee=Guarantee(Fraction(1), Fraction(1, 2**40)), samples=3)
OF_A_PROGRAM = sent_program(integers=2)
OF_CLIENTS = asked(security="ring", input_form="product", input_path=CLIENTS.name)
TERMS = terms_of(request_of_run(OF_CLIENTS), DOMAIN)
PROGRAM = "(benchmark of a program)"  # the request `benchmark`, of another trial
INVITED = "(release of clients that send)"  # the request `propose`, of another release
AS_SENT = {PROGRAM: "benchmark", INVITED: "propose"}
PARTY_FAILS = "(its party fails)"  # no requests, but what may happen between two
PARTY_ENDS = "(its party ends well)"
EVENTS = (PARTY_FAILS, PARTY_ENDS)
REQUESTS = frozenset(TO_AGENT) - {Bye.name()}  # which ends the loop itself

# What leads on from each state; a benchmark run and noise made ahead begin with their inputs.
ONWARD: dict[State, dict[str, set[State]]] = {
    State.NO_RUN: {
        "propose": {State.PROPOSED},
        INVITED: {State.INVITED},
        "preprocess": {State.FED},
        "benchmark": {State.FED},
        PROGRAM: {State.PROMISED},
    },
    State.PROPOSED: {"check_uploads": {State.LISTED, State.GIVEN}},
    State.GIVEN: {"aggregate": {State.FED}},
    State.LISTED: {"take_list": {State.LISTED}, "read_list": {State.LISTED}, "aggregate": {State.FED}},
    State.PROMISED: {"take_program": {State.PROMISED, State.FED}},
    State.FED: {"prepare": {State.PREPARED}},
    State.INVITED: {"prepare_invited": {State.PREPARED}},
    State.PREPARED: {"start": {State.STARTED}, "kill": {State.OVER}},
    State.STARTED: {"certificate": {State.READY}, "state": {State.STARTED}, "kill": {State.OVER}},
    State.READY: {
        "agree": {State.AGREED},
        "certificate": {State.READY},
        "state": {State.READY},
        "kill": {State.OVER},
    },
    State.AGREED: {
        "go": {State.RUNNING},
        "certificate": {State.AGREED},
        "state": {State.AGREED},
        "kill": {State.OVER},
    },
    State.RUNNING: {
        "state": {State.RUNNING},
        "kill": {State.OVER},
        PARTY_FAILS: {State.OVER},
        PARTY_ENDS: {State.OVER, State.MADE},
    },
    State.MADE: {"keep": {State.OVER}, "state": {State.MADE}, "kill": {State.MADE}},
    State.OVER: {"state": {State.OVER}, "kill": {State.OVER}},
}
ALWAYS = {"forget", "collect", "clean", "stop_listening"}  # which lead nowhere
AT_REST = {"check", "listen", "reach", "time_links"}  # likewise, while no party runs
AGAIN = {RunKind.NOISE: "preprocess", RunKind.TRIAL: "benchmark"}  # which begin a run in place of the last
NEXT = {
    State.NO_RUN: ["propose", "propose", "propose", "preprocess", "benchmark", PROGRAM, INVITED],
    State.PROPOSED: ["check_uploads"],
    State.GIVEN: ["aggregate"],
    State.LISTED: ["take_list", "aggregate"],
    State.PROMISED: ["take_program"],
    State.FED: ["prepare"],
    State.INVITED: ["prepare_invited"],
    State.PREPARED: ["start"],
    State.STARTED: ["certificate"],
    State.READY: ["agree"],
    State.AGREED: ["go"],
    State.RUNNING: [PARTY_ENDS],
    State.MADE: ["keep"],
}


def leads_to(state: HostState, request: str) -> set[State]:
    """Return the names of the states to which a request may lead; none if it has to be refused."""
    onward = ONWARD[state.NAME]
    if request in onward:
        return onward[request]
    if request in ALWAYS or (request in AT_REST and state.NAME is not State.RUNNING):
        return {state.NAME}
    if state.NAME is not State.RUNNING:
        if AGAIN.get(state.kind) == request:
            return {State.FED}
        if request == PROGRAM and AGAIN.get(state.kind) == "benchmark":
            return {State.PROMISED}
    return set()


@cache
def certificate_of(party: int) -> str:
    """Return one certificate of a party's key, as if for every run."""
    return run_certificate(party)


class FakeParty:
    """Takes a party's place that is laid out."""

    def __init__(self, setup: PartySetup, directory: Path) -> None:
        self._number = setup.config.party
        self._directory = directory
        if setup.values is not None:
            setup.values.unlink()  # it moves to the party's directory

    def start(self) -> "FakeProcess":
        return FakeProcess(self._number, self._directory)


class FakeProcess:
    """Takes a party's place that has started. `waited` is the time by its clock, over all processes."""

    waited = 0.0

    def __init__(self, number: int, directory: Path) -> None:
        self.number = number
        self.name, self.gone, self.kept = "Party", False, False
        self.code: int | None = None
        self._directory = directory

    def certificate(self, seconds: float) -> str | None:
        FakeProcess.waited += seconds
        return certificate_of(self.number) if not self.gone else None

    def go(self, _certificates: object) -> None:
        self.gone = True

    def met(self) -> dict[int, str]:
        return {}

    def exit_code(self) -> int | None:
        return self.code

    def state(self) -> PartyState:
        return PartyState(("OUT counts [90210, 31337, 47110, 65537]",))

    def kill(self) -> None:
        self.code = -9 if self.code is None else self.code

    def close(self) -> None: ...

    def keep(self) -> None:
        self.kept = True
        (self._directory.parent / "piece" / f"party-{self.number}").mkdir(parents=True)

    def seen(self) -> tuple[object, ...]:
        """Return all that it was told."""
        return self.gone, self.kept, self.code


def program_prepared(_self: MpSpdzEngine, job: Job, model: SecurityModel) -> PreparedJob:
    """Return a program as if its machine and compiler were here."""
    digest = job.digest if isinstance(job, CompiledJob) else "0" * 64
    return PreparedJob(job, model, VERSION, digest, command=("machine", job.source.stem))


def ask_for_ports(directory: Path, coordinator: str, name: str, ports: Sequence[int]) -> None:
    """Ask the owner for ports, which any other process may use meanwhile."""
    policy.ask_owner(directory, coordinator, Ports(name, tuple(ports)))


class NoTimer:
    """Takes the place of what ends a connection after some time, which no test waits for."""

    daemon = False

    def __init__(self, _seconds: float, _act: object, _arguments: object) -> None: ...

    def start(self) -> None: ...

    def cancel(self) -> None: ...


class Site:
    """Three hosts, with what the other two say to a run of the first.

    Attributes: given: a copy of the first host's directory with an aggregate in place of its uploads.
    """

    def __init__(self, directory: Path) -> None:
        self.hosts = make_hosts(directory, POLICY)
        self.lists: list[dict[str, Any]] = []
        for party in (1, 2):
            with ExitStack() as stack:
                work = Coordinator(self.hosts[party], stack).work
                work.propose(Propose(asked=asked()))
                signed = as_sent(answered(work, CheckUploads(party=party)))
                piece = answered(work, ReadList(at=0))
                self.lists.append({"lister": party, "signed": signed, "at": 0, "piece": piece})
        self.given = directory / "given"
        shutil.copytree(self.hosts[0], self.given, symlinks=True)
        (self.given / SHARES).rename(directory / "elsewhere")
        (self.given / AGGREGATES).mkdir()
        shares = directory / "shares"
        aggregate = counts(trial(DOMAIN, SPLIT, MODEL, shares), shares, shares=shares)[0]
        aggregate.write(self.given / AGGREGATES / "party-0.aggregate", {})


def files_in(directory: Path) -> dict[str, bytes | None]:
    """Return the contents of a host's files, None for a directory.

    The log is left out, as each refusal is in it, and so are files within what the owner alone writes.
    """
    found: dict[str, bytes | None] = {}
    waiting = [os.fspath(directory)]
    while waiting:
        for entry in os.scandir(waiting.pop()):
            if entry.is_dir(follow_symlinks=False):
                found[entry.path] = None
                if entry.name not in ("keys", "sealing", SHARES, AGGREGATES):
                    waiting.append(entry.path)
            elif not entry.name.startswith(host_log.LOG_FILE):
                with open(entry.path, "rb") as file:  # noqa: PTH123  # two million times
                    found[entry.path] = file.read()
    return found


class Walker:
    """A connection to the first host's agent, by its messages."""

    def __init__(self, site: Site, stack: ExitStack, *, given: bool = False) -> None:
        self.site = site
        self.directory = site.given if given else site.hosts[0]
        self.work = Work(self.directory, stack)
        self.agent = Agent(io.BytesIO(), io.BytesIO(), self.work)
        self.before = self.seen()
        self.refused = 0

    @property
    def state(self) -> HostState:
        return self.work.state

    @property
    def node(self) -> tuple[State, RunKind, bool]:
        """What tells two places of a walk apart."""
        return self.state.NAME, self.state.kind, bool(getattr(self.state, "told", ()))

    def variants(self, request: str) -> list[list[dict[str, Any]]]:
        """Return what an honest coordinator sends with a request, in some messages, then what others send."""
        if request == "agree":
            agree = self.agree()
            return [
                [agree],
                [{**agree, "nonces": [RUN_NAME] * MODEL.parties}],
                [{**agree, "started": "2001-01-01T00:00:00Z"}],
            ]
        if request in ("go", "keep"):
            return self.agreements("agreed" if request == "go" else "made")
        aside = [(LOOPBACK, 0)] * MODEL.parties
        prepare = {"run": RUN_NAME, "party": 0, "addresses": aside}
        clients = {
            "terms": TERMS,
            "certificates": ["one", "two"],
            "ports": CLIENT_PORTS,
            "seconds": 1.0,
        }
        of_request: dict[str, list[list[dict[str, Any]]]] = {
            "propose": [[{"asked": ASKED}], [{"asked": OF_OTHERS}], [{"asked": {"task": "pi_cf"}}]],
            "preprocess": [
                [{"asked": AHEAD, "domain": DOMAIN.to_json()}],
                [{"asked": TOO_MUCH, "domain": DOMAIN.to_json()}],
            ],
            "benchmark": [
                [{"party": 0, "trial": as_json(OF_NOISE)}],
                [{"party": 0, "trial": {"kind": "release", "security": MODEL.name, "asked": ASKED}}],
            ],
            INVITED: [[{"asked": OF_CLIENTS}], [{"asked": {**OF_CLIENTS, "population": "others"}}]],
            PROGRAM: [
                [{"party": 0, "trial": as_json(OF_A_PROGRAM.trial)}],
                [{"party": 0, "trial": as_json(structs.replace(OF_A_PROGRAM.trial, security="semi2k"))}],
                [{"party": 3, "trial": as_json(OF_A_PROGRAM.trial)}],
            ],
            "take_program": self.pieces(),
            "check": [[{"party": 0, "security": MODEL.name, "port": 0, "client_ports": []}]],
            "listen": [[{"port": 0}], [{"port": 1}]],
            "reach": [[{"others": []}]],
            "time_links": [[{"others": []}]],
            "forget": [[{"run": RUN_NAME}], [{"run": "../../policy.toml"}]],
            "check_uploads": [[{"party": 0}], [{"party": 1}]],
            "read_list": [[{"at": 0}], [{"at": -1}]],
            "take_list": [
                [dict(told) for told in self.site.lists if told["lister"] not in self.told()],
                [{**self.site.lists[0], "at": 7}],
                [{**self.site.lists[0], "lister": 0}],
            ],
            "aggregate": [[{"party": 0}], [{"party": 1}]],
            "prepare": [[prepare], [{**prepare, "addresses": aside[:2]}], [{**prepare, "party": 1}]],
            "prepare_invited": [
                [{**prepare, "clients": clients}],
                [{**prepare, "clients": {**clients, "ports": (1, 2)}}],
                [{**prepare, "clients": {**clients, "terms": {}}}],
            ],
            "certificate": [[{"seconds": CERTIFICATE_S}], [{"seconds": -1}]],
        }
        return of_request.get(request, [[{}]])

    def pieces(self) -> list[list[dict[str, Any]]]:
        """Return all pieces of a program that are to come, or the next one alone; then what is none."""
        sent = [as_sent(message) for message in OF_A_PROGRAM.messages(30)]
        for message in sent:
            del message["do"]
        if isinstance(self.state, Promised):
            sent = [
                message
                for message in sent
                if (message["file"], message["at"]) >= (self.state.file, self.state.at)
            ]
        following = sent[0]
        return [
            sent,
            [following],
            [{**following, "at": following["at"] + 1}],
            [{**following, "piece": "A" * 400}],
            [{**following, "file": 9}],
        ]

    def told(self) -> set[int]:
        """Return the parties of whose uploads it was told."""
        return {*getattr(self.state, "told", ())}

    def agree(self) -> dict[str, Any]:
        """Return what an honest coordinator has the host agree to."""
        nonces = nonces_of(self.work) if hasattr(self.state, "prepared") else [RUN_NAME]
        return {"nonces": nonces, "started": now().isoformat(), "attempts": 1000}

    def agreements(self, field: str) -> list[list[dict[str, Any]]]:
        """Return what all hosts sign before a run, or of noise that they made; then less, and something else.

        The others sign as this one does.
        """
        if isinstance(self.state, Agreed):
            intent: Any = self.state.intent
        elif isinstance(self.state, Made):
            intent = self.state.own
        else:
            return [[{field: {}}]]
        signed: dict[str, Any] = {}
        for party in (1, 2):
            said = replace(intent, party=party, run_certificate=certificate_of(party))
            ran = said if field == "agreed" else Statement(said, {}, ("0", "0"), {}, {}, "")
            signed[str(party)] = as_sent(sign(ran, self.key_of(party)))
        other = replace(intent, party=1, run_certificate=certificate_of(1), program_hash="another")
        ran = other if field == "agreed" else Statement(other, {}, ("0", "0"), {}, {}, "")
        lie = signed | {"1": as_sent(sign(ran, self.key_of(1)))}
        return [[{field: signed}], [{field: {}}], [{field: lie}]]

    def key_of(self, party: int) -> Path:
        """Return a host's certificate, beside its owner's key."""
        return self.site.hosts[party] / "keys" / "embedded" / f"P{party}.pem"

    def happens(self, request: str, variant: int = 0) -> list[AnswerFrame | ErrorFrame]:
        """Send a request's messages, or have an event happen; check each, and return the answers."""
        if request in EVENTS:
            if self.state.NAME is State.RUNNING:
                before = self.state
                run_of(self.work).process.code = 1 if request == PARTY_FAILS else 0
                ended = self.work.ended()
                assert ended is not None and self.state.NAME in leads_to(before, request)
                self.check(request, before, AnswerFrame(answer=None))
            return []
        variants = self.variants(request)
        name = AS_SENT.get(request, request)
        return [self.ask(name, fields, request) for fields in variants[variant % len(variants)]]

    def ask(self, request: str, fields: dict[str, Any], called: str) -> AnswerFrame | ErrorFrame:
        """Send a message; check what it may have changed, and its time; return the answer.

        Args:
            request: Its name as it is sent.
            fields: Its fields.
            called: Its name in `ONWARD`.
        """
        before, limit = self.state, limit_s(self.state.NAME, TO_AGENT[request])
        FakeProcess.waited = 0.0
        line = wire.decode(wire.encode({"do": request, **fields}))
        assert line is not None
        answer = self.agent._answer(ReceivedRequest.of_line(line.fields, line.size))
        assert FakeProcess.waited <= limit, (request, before.NAME)
        assert "It failed at" not in str(answer), (request, before.NAME, answer)
        self.check(called, before, answer)
        return answer

    def seen(self) -> tuple[dict[str, bytes | None], tuple[object, ...]]:
        """Return everything that a refused message may not change: files, and what the party was told."""
        process = getattr(self.work.state, "process", None)
        told = process.seen() if process is not None else ()
        host = self.work.host
        return files_in(self.directory), (*told, host.turn, len(host._listening))

    def check(self, request: str, before: HostState, answer: AnswerFrame | ErrorFrame) -> None:
        """A refused message changes nothing. `go` of a release charges once; nothing takes a charge back."""
        was, now_seen = self.before, self.seen()
        self.before = now_seen
        where = (request, before.NAME, before.kind, answer)
        if isinstance(answer, ErrorFrame):
            assert self.state is before, where
            assert now_seen == was, where
            self.refused += 1
            return
        assert self.state.NAME in leads_to(before, request), where
        ledger = os.fspath(self.directory / LEDGER)
        if was[0].get(ledger) == now_seen[0].get(ledger):
            charges = 0
        else:
            charges = len(self.spent(now_seen)) - len(self.spent(was))
            assert self.spent(now_seen)[: len(self.spent(was))] == self.spent(was), where
        assert charges == (request == "go" and before.kind is RunKind.RELEASE), where

    def spent(self, seen: tuple[dict[str, bytes | None], tuple[object, ...]]) -> list[object]:
        """Return the charges of the ledger at some time, whatever their outcome."""
        content = seen[0].get(os.fspath(self.directory / LEDGER))
        if content is None:
            return []
        copy = self.directory.parent / "ledger-then.sqlite"
        copy.write_bytes(content)
        return [(one.id, one.exact) for people in Ledger(copy).populations() for one in people.charges]


@contextmanager
def with_mpspdz() -> Iterator[None]:
    """Have hosts be as if MP-SPDZ were there, and all that shuts a party off."""
    with (
        patch.object(MpSpdzEngine, "prepared", program_prepared),
        patch.object(MpSpdzEngine, "version", lambda _self: VERSION),
        patch.object(MpSpdzEngine, "availability", lambda *_: None),
        patch.object(runs, "missing", lambda: ()),
    ):
        yield


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield hosts whose parties are fake, and whose facts about the machine are known already.

    Their directories are in memory where there is such a place, as each order of requests writes some files.
    """
    prepared: dict[object, PreparedJob] = {}
    known_environment, known_machine = environment(), hardware()
    known_version = EmbeddedEngine().version()
    prepare = EmbeddedEngine.prepared

    def prepared_once(self: EmbeddedEngine, job: Any, model: Any) -> PreparedJob:
        key = (job.spec.name, tuple(job.arguments))
        if key not in prepared:
            prepared[key] = prepare(self, job, model)
        return replace(prepared[key], job=job)

    hashes: dict[object, str] = {}
    program_hash = EmbeddedEngine.program_hash

    def program_hash_once(self: EmbeddedEngine, job: Any, model: Any) -> str:
        key = (job.spec.name, tuple(job.arguments))
        if key not in hashes:
            hashes[key] = program_hash(self, job, model)
        return hashes[key]

    check_once = cache(check)
    read_policy_once = cache(policy.read_policy)
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK) else tmp_path_factory.mktemp("site")
    with (
        tempfile.TemporaryDirectory(dir=place) as directory,
        patch.object(party_run, "LocalParty", FakeParty),
        patch.object(EmbeddedEngine, "prepared", prepared_once),
        with_mpspdz(),
        patch.object(party_run, "check_ports", ask_for_ports),
        patch.object(EmbeddedEngine, "version", lambda _self: known_version),
        patch.object(EmbeddedEngine, "program_hash", program_hash_once),
        patch.object(policy, "read_policy", read_policy_once),
        patch.object(local_host, "read_policy", read_policy_once),
        patch.object(party_run, "read_policy", read_policy_once),
        patch.object(local_host, "environment", lambda: known_environment),
        patch.object(local_host, "hardware", lambda: known_machine),
        patch.object(host_keys, "check", check_once),
        patch.object(signed_results, "check", check_once),
        patch.object(party_run, "check", check_once),
        patch.object(local_host, "ContextTimer", NoTimer),
        patch.object(wire, "ContextTimer", NoTimer),
        patch.object(local_host, "git", lambda *_: ""),
        patch.object(local_host, "sources_hash", lambda *_: ""),
    ):
        yield Site(Path(directory))


@contextmanager
def walker(site: Site, path: tuple[str, ...] = (), *, given: bool = False) -> Iterator[Walker]:
    """Yield a new connection that has taken a path of requests. Afterwards the host is as it was before."""
    directory = site.given if given else site.hosts[0]
    with ExitStack() as stack:
        made = Walker(site, stack, given=given)
        for request in path:
            made.happens(request)
        yield made
    assert not list(directory.glob(f"{PREFIX}*")), path
    (directory / LEDGER).unlink(missing_ok=True)
    for name in (STOCK, "results"):
        shutil.rmtree(directory / name, ignore_errors=True)


def all_refused(made: Walker, request: str) -> int:
    """Send all that anybody sends with a request, each of which the table refuses; return how many it was."""
    state, kind = made.state, TO_AGENT[request]
    why = state.NAME if state.NAME not in kind.STATES else state.kind
    answers = [
        answer for variant in range(len(made.variants(request))) for answer in made.happens(request, variant)
    ]
    for answer in answers:
        assert isinstance(answer, ErrorFrame), (request, state.NAME, answer)
        assert answer.error == "HostUnfitError", (request, state.NAME, answer)
        assert f"as {why}; nothing was changed" in answer.text, (request, state.NAME, answer)
    return len(answers)


@pytest.mark.parametrize("given", [False, True], ids=["uploads", "an aggregate"])
def test_every_request_in_every_state(given: bool, site: Site) -> None:
    """Breadth first, to all states, with what an honest coordinator sends, and with what others do."""
    seen: dict[tuple[State, RunKind, bool], tuple[str, ...]] = {}
    handled: set[str] = set()
    waiting: list[tuple[str, ...]] = [()]
    answered_to = refused = 0
    while waiting:
        path = waiting.pop(0)
        with walker(site, path, given=given) as made:
            if made.node in seen:
                continue
            state = made.state
            seen[made.node] = path
            handled |= made.work.handlers.keys()
            refused += sum(all_refused(made, request) for request in REQUESTS if not leads_to(state, request))
        for request in sorted(name for name in (*REQUESTS, *AS_SENT, *EVENTS) if leads_to(state, name)):
            with walker(site, path, given=given) as made:
                for variant in range(1, 1 if request in EVENTS else len(made.variants(request))):
                    refused += sum(
                        isinstance(answer, ErrorFrame) for answer in made.happens(request, variant)
                    )
                    assert made.node == (state.NAME, state.kind, made.node[2]), (request, variant)
            with walker(site, path, given=given) as made:
                untold = request == "aggregate" and state.NAME is State.LISTED and not made.told()
                for answer in made.happens(request):
                    assert isinstance(answer, AnswerFrame) == (not untold), (path, request, answer)
                    answered_to += 1
                # What follows is the same for clients, and the certificates here are of another engine.
                if made.node not in seen and request != "prepare_invited":
                    waiting.append((*path, request))
    without = State.LISTED if given else State.GIVEN
    assert {state for state, *_ in seen} == {*State} - {without}
    assert handled == REQUESTS - ({"read_list", "take_list"} if given else set())
    assert answered_to > 100 and refused > 100
    written = read_log(site.given if given else site.hosts[0]).lines
    assert {line.event for line in written} == {*Event} - {Event.CHANGED}  # what owners do
    noted = {line.request for line in written if line.event is Event.ANSWERED}
    assert noted == {"propose", "preprocess", "benchmark", "keep", "forget", "collect", "clean"}
    assert check_logs_below(site.hosts[0].parent) >= 1


def check_random_orders(site: Site, orders: int, length: int = 20) -> None:
    """Have requests come in random orders, every second one to a host with an aggregate; check each."""
    seed = secrets.randbits(64)
    draw, reached, refused, number = Random(seed), set(), 0, 0
    names = [*sorted(REQUESTS), *AS_SENT, *EVENTS]
    for number in range(orders):
        path: list[tuple[str, int]] = []
        with walker(site, given=draw.random() < 0.2) as made:
            for _ in range(length):
                # Often what an honest coordinator does next, so that orders get far.
                request = draw.choice(names)
                if made.state.NAME in NEXT and draw.random() < 0.5:
                    request = draw.choice(NEXT[made.state.NAME])
                variant = 0 if draw.random() < 0.8 else draw.randrange(3)
                path.append((request, variant))
                try:
                    made.happens(request, variant)
                except AssertionError as error:
                    raise AssertionError(f"seed {seed}, order {number}: {path}: {error}") from error
                reached.add(made.state.NAME)
            refused += made.refused
    assert {State.PREPARED, State.RUNNING} <= reached, f"seed {seed}: {reached}"
    assert refused > orders


def test_requests_in_random_orders(site: Site) -> None:
    check_random_orders(site, 60)


@pytest.mark.parametrize("part", range(2))
def test_requests_in_ten_thousand_random_orders(part: int, site: Site) -> None:
    """A hundred thousand, twenty parts, take fifty minutes of a processor."""
    check_random_orders(site, 5000)


def test_a_party_ends_when_its_time_is_over(site: Site) -> None:
    """As of a coordinator's program; its last line says why. What every host has, has no such time."""
    path = ("benchmark", "prepare", "start", "certificate", "agree", "go")
    with walker(site, path) as made:
        running = run_of(made.work)
        assert running.limit == party_run.Unlimited() and made.work.ended() is None
        limit = party_run.TimeLimit.from_now(3600)
        for ends, is_over in ((limit.ends, False), (-1.0, True)):
            made.work.state = replace(running, limit=replace(limit, ends=ends))
            ended = made.work.ended()
            assert (ended is not None) == (made.state.NAME is State.OVER) == is_over
        assert ended is not None and ended.code < 0
        assert (
            "ends a coordinator's program after 3,600 s (benchmark_program_seconds" in ended.state.lines[-1]
        )


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
        assert made.state.NAME is State.RUNNING and run_of(made.work).process.gone
        FakeProcess.waited = 0.0
        (answer,) = made.happens("certificate")
        assert isinstance(answer, ErrorFrame)
        assert "its party runs" in answer.text and FakeProcess.waited == 0
    with walker(site, path[:-3]) as made:
        assert made.state.NAME is State.STARTED
        made.happens("certificate")
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
            if b'"said"' in line:
                limits.append([timer.seconds for timer in timers if timer.runs])
            return super().write(line)

    limits: list[list[float]] = []
    monkeypatch.setattr(wire, "ContextTimer", FakeTimer)
    lines = [wire.encode({"do": name}) for name in ("collect", "state", "nonsense", "bye")]
    with ExitStack() as stack, patch.object(Agent, "lose"), patch.object(Agent, "_beat"):
        Agent(io.BytesIO(b"".join(lines)), Sends(), Work(site.hosts[0], stack)).serve()
    assert limits == [[limit_s(State.NO_RUN, Collect)]] * 3
    assert not any(timer.runs for timer in timers)
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *what: killed.append(what))
    timers[0].act(*timers[0].arguments)
    assert killed == [(os.getpid(), signal.SIGTERM)]
    assert "'collect' took longer than its limit" in timers[0].arguments[0]


def test_a_running_party_waits_for_no_slow_request() -> None:
    """The table itself: what may take long is not answered then, and each limit is one of minutes."""
    kinds = TO_AGENT.values()
    while_running = {kind.name() for kind in kinds if State.RUNNING in kind.STATES}
    assert not {"certificate", "check", "reach", "time_links", "aggregate"} & while_running
    assert all(limit_s(State.RUNNING, kind) <= 120 for kind in kinds)
    assert all(limit_s(state, kind) <= 3600 for state in State for kind in kinds)
    assert all(limit_s(state, GetCertificate) > CERTIFICATE_S for state in (State.STARTED, State.READY))
