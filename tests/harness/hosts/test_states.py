"""Every request in every state of a host's agent, and in random orders: what is refused changes nothing.

The agent's work is the real one, with its keys, uploads, policy and ledger file. In the place of a party's
process is one that only notes what it was told, and whose waiting moves a clock of its own. `ONWARD` says by
itself which request leads to which state, and files are compared before and after each request.
"""

import inspect
import io
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, get_args
from unittest.mock import patch

import pytest
from msgspec import structs

from fairshares.harness.engines.compiled import CompiledJob
from fairshares.harness.engines.engine import Engine
from fairshares.harness.engines.execution import Job, PreparedJob
from fairshares.harness.engines.mpspdz.engine import MpSpdzEngine
from fairshares.harness.engines.mpyc.engine import EmbeddedEngine
from fairshares.harness.engines.parties.certificates import check, make_key
from fairshares.harness.engines.parties.config import PartyConfig
from fairshares.harness.engines.parties.handle import PartySetup, PartyState
from fairshares.harness.engines.registry import engine_of
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
from fairshares.harness.hosts.listed_uploads import AGGREGATES, SHARES, Given, Listed, Proposed
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
from fairshares.harness.hosts.party_run import (
    Agreed,
    Beginning,
    Begun,
    ClientsInvited,
    Fed,
    InvitedClients,
    Over,
    PlannedRun,
    Prepared,
    Ready,
    RunInputs,
    Running,
    Started,
)
from fairshares.harness.hosts.policy import LEDGER, STOCK
from fairshares.harness.hosts.runs import (
    BegunNoise,
    BegunRelease,
    BegunTrial,
    ClientsOfRelease,
    ClientsOfTrial,
    Made,
    NoiseInputs,
    PlannedNoise,
    PlannedTrial,
    ProgramInputs,
    Promised,
    ReleaseOfInvited,
    ReleaseOfUploads,
    ReleaseWithPiece,
    TrialInputs,
    UploadedInputs,
)
from fairshares.harness.hosts.signed_results import Statement, sign
from fairshares.harness.hosts.states import HostState, NoRun, RunKind, State
from fairshares.harness.hosts.trials import (
    CloneTrial,
    NoiseTrial,
    ProgramArgument,
    ProgramTrial,
    ReleaseTrial,
    Trial,
)
from fairshares.harness.inputs.federation_size import FederationSize
from fairshares.harness.party_reports import ClientsServed, line_of
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
    run_of,
)
from tests.support.envelopes import counts
from tests.support.marked import MARK, keep_marked
from tests.support.planted import check_logs_below
from tests.support.sent_programs import VERSION, sent_program
from tests.support.sharing import trial

RUN_NAME = "0" * 32
ORDER_PARTS = int(os.environ.get("ORDER_PARTS", "2"))  # 25 are a hundred thousand orders
CLIENT_PORTS = (12100, 12101)
POLICY = (
    f"{ANY_PORT}client_port = {CLIENT_PORTS[0]}\nbenchmark = true\nattempts = 1000000\n"
    f"benchmark_programs = {[sent_program(integers=2).digest]}\n"
    '[[population]]\nname = "loans"\nepsilon = 1000000\ndelta = 0.5\nepsilon_per_run = 2\n'
)
ASKED = asked()
OF_OTHERS = asked(population="others")
AHEAD = asked(offline="True")
PIECE = 7  # the mark of a piece of noise in a stock
TOO_MUCH = asked(offline="True", epsilon="3")
OF_NOISE = NoiseTrial(security=MODEL.name, guarantee=Guarantee(Fraction(1), Fraction(1, 2**40)), samples=3)
OF_A_PROGRAM = sent_program(integers=2)
OF_CLIENTS = asked(security="ring", input_form="product", input_path=CLIENTS.name)
SERVED = ClientsServed(sent_bytes=1, received_bytes=1, absent=1, failed=0, complained=0)
TERMS = terms_of(request_of_run(OF_CLIENTS), DOMAIN)
OF_A_RELEASE = ReleaseTrial(
    security=MODEL.name, asked=asked(population=None), federation=FederationSize(7, 23, 2, 2)
)
OF_SENT_RECORDS = ReleaseTrial(
    security="ring",
    asked=asked(security="ring", input_form="product", input_path=CLIENTS.name, population=None),
    federation=FederationSize(2, 2, 2, 2),
)
OF_A_CLONE = CloneTrial(
    security="ring",
    program="pi_lap_literal",
    arguments=(ProgramArgument(name="records", text="4"), ProgramArgument(name="scale", text="2/3")),
)
# What a request is called in `ONWARD`, whose run is of another type than that of the request of this name.
PROGRAM = "(benchmark of a coordinator's program)"
CLONE = "(benchmark of a program of the clone)"
RELEASE_TRIAL = "(benchmark of a release)"
SENT_TRIAL = "(benchmark of clients that send)"
INVITED = "(release of clients that send)"
WITH_PIECE = "(release that takes noise made ahead)"
AS_SENT = {
    PROGRAM: "benchmark",
    CLONE: "benchmark",
    RELEASE_TRIAL: "benchmark",
    SENT_TRIAL: "benchmark",
    INVITED: "propose",
    WITH_PIECE: "propose",
}
PARTY_FAILS = "(its party fails)"  # no requests, but what may happen between two
PARTY_ENDS = "(its party ends well)"
EVENTS = (PARTY_FAILS, PARTY_ENDS)
TO_GO = ("prepare", "start", "certificate", "agree", "go")  # from a run's inputs until its party runs
REQUESTS = frozenset(TO_AGENT) - {Bye.name()}  # which ends the loop itself

# What leads on from each state; a benchmark run and noise made ahead begin with their inputs.
ONWARD: dict[State, dict[str, set[State]]] = {
    State.NO_RUN: {
        "propose": {State.PROPOSED},
        WITH_PIECE: {State.PROPOSED},
        INVITED: {State.INVITED},
        "preprocess": {State.FED},
        "benchmark": {State.FED},
        RELEASE_TRIAL: {State.FED},
        CLONE: {State.FED},
        SENT_TRIAL: {State.INVITED},
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
    State.NO_RUN: ["propose", "propose", "propose", "preprocess", "benchmark", *AS_SENT],
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
    if request == "leave_turn" and state.NAME is not State.RUNNING:
        return {State.NO_RUN}
    if request in ALWAYS or (request in AT_REST and state.NAME is not State.RUNNING):
        return {state.NAME}
    if state.NAME is not State.RUNNING and AGAIN.get(state.kind) == AS_SENT.get(request, request):
        return ONWARD[State.NO_RUN][request]
    return set()


@cache
def certificate_of(party: int, common_name: str) -> str:
    """Return one certificate of a party's key with this name, as if for every run."""
    with tempfile.TemporaryDirectory() as place:
        return make_key(Path(place), f"P{party}", common_name).read_text()


def run_type(state: HostState) -> tuple[type, ...]:
    """Return the types of what a state has of its run: its inputs, its plan, or what its beginning wrote.

    Of a benchmark run, the trial's type is among them. Once a run is over nothing of it is left.
    """
    held = [getattr(state, name) for name in ("inputs", "planned", "begun") if hasattr(state, name)]
    trials = [what.trial for what in (state, *held) if hasattr(what, "trial")]
    return tuple(type(what) for what in (*held, *trials))


class FakeParty:
    """Takes a party's place that is laid out."""

    def __init__(self, setup: PartySetup, directory: Path) -> None:
        self._config = setup.config
        self._directory = directory
        self._opens = "counts"
        if setup.values is not None:
            setup.values.unlink()  # it moves to the party's directory

    def take_noise(self, piece: Path) -> None:
        self._opens = "sums"  # as the program does that takes noise made ahead
        assert [file.name for file in piece.iterdir()] == [MARK]  # which has left the stock

    def start(self) -> "FakeProcess":
        return FakeProcess(self._config, self._directory, self._opens)


class FakeProcess:
    """Takes a party's place that has started. `waited` is the time by its clock, over all processes."""

    waited = 0.0

    def __init__(self, config: PartyConfig, directory: Path, opens: str) -> None:
        self.number = config.party
        self.own_certificate = certificate_of(config.party, config.common_names[config.party])
        self.lines = [f"OUT {opens} [90210, 31337, 47110, 65537]"]
        if config.gateway is not None:
            self.lines.append(line_of(SERVED))
        self.name, self.gone, self.kept = "Party", False, False
        self.code: int | None = None
        self._directory = directory

    def certificate(self, seconds: float) -> str | None:
        FakeProcess.waited += seconds
        return self.own_certificate if not self.gone else None

    def go(self, _certificates: object) -> None:
        self.gone = True

    def met(self) -> dict[int, str]:
        return {}

    def exit_code(self) -> int | None:
        return self.code

    def state(self) -> PartyState:
        return PartyState(tuple(self.lines))

    def kill(self) -> None:
        self.code = -9 if self.code is None else self.code

    def close(self) -> None: ...

    def keep(self) -> None:
        self.kept = True
        made = self._directory.parent / "piece" / f"party-{self.number}"
        made.mkdir(parents=True)
        (made / MARK).touch()  # in place of shares, for a later run that takes this noise

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
    def node(self) -> "Node":
        """What tells two places of a walk apart."""
        return Node(type(self.state), run_type(self.state), bool(self.told()))

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
        pieces = self.pieces_made_ahead()
        prepare: dict[str, Any] = {"run": RUN_NAME, "party": 0, "addresses": aside}
        if pieces:
            (prepare["piece"],) = pieces
        invited = {"run": RUN_NAME, "party": 0, "addresses": aside}
        clients = {
            "terms": TERMS,
            "certificates": ["one", "two"],
            "ports": CLIENT_PORTS,
            "seconds": 1.0,
        }
        # A benchmark's clients have terms of their own, and are as many as its records.
        others: dict[str, Any] = (
            {"terms": {}} if self.state.kind is RunKind.RELEASE else {"certificates": ["one"]}
        )
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
            WITH_PIECE: [[{"asked": AHEAD}], [{"asked": {**AHEAD, "population": "others"}}]],
            RELEASE_TRIAL: [
                [{"party": 0, "trial": as_json(OF_A_RELEASE)}],
                [{"party": 0, "trial": as_json(structs.replace(OF_A_RELEASE, security="ring"))}],
            ],
            CLONE: [
                [{"party": 0, "trial": as_json(OF_A_CLONE)}],
                [{"party": 0, "trial": as_json(structs.replace(OF_A_CLONE, program="pi_rw"))}],
            ],
            SENT_TRIAL: [
                [{"party": 0, "trial": as_json(OF_SENT_RECORDS)}],
                [{"party": 0, "trial": as_json(structs.replace(OF_SENT_RECORDS, security="mpyc"))}],
            ],
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
            "prepare": [
                [prepare],
                [{**prepare, "addresses": aside[:2]}],
                [{**prepare, "party": 1}],
                *[[{**prepare, "piece": "f" * 64}] for _ in pieces],
            ],
            "prepare_invited": [
                [{**invited, "clients": clients}],
                [{**invited, "clients": {**clients, "ports": (1, 2)}}],
                [{**invited, "clients": {**clients, **others}}],
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

    def pieces_made_ahead(self) -> list[str]:
        """Return the names of the noise in the stock that the run may take: one, or none."""
        inputs = getattr(self.state, "inputs", None)
        if not isinstance(inputs, UploadedInputs) or not inputs.noise_terms:
            return []
        return inputs.guard.stock.pieces(inputs.noise_terms)

    def fill_stock(self) -> None:
        """Have a piece of the noise in the stock that the run will take, if it takes any."""
        inputs = getattr(self.state, "inputs", None)
        if isinstance(inputs, UploadedInputs) and inputs.noise_terms and not self.pieces_made_ahead():
            keep_marked(inputs.guard.stock, inputs.noise_terms, 1, PIECE)
            self.before = self.seen()

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
        engine = engine_of(run_of(self.work).place.model)
        certificates = {party: certificate_of(party, engine.common_name(party)) for party in (1, 2)}
        keys = {party: self.key_of(party, engine) for party in (1, 2)}
        signed: dict[str, Any] = {}
        for party in (1, 2):
            said = replace(intent, party=party, run_certificate=certificates[party])
            ran = said if field == "agreed" else Statement(said, {}, ("0", "0"), {}, {}, "")
            signed[str(party)] = as_sent(sign(ran, keys[party]))
        other = replace(intent, party=1, run_certificate=certificates[1], program_hash="another")
        ran = other if field == "agreed" else Statement(other, {}, ("0", "0"), {}, {}, "")
        lie = signed | {"1": as_sent(sign(ran, keys[1]))}
        return [[{field: signed}], [{field: {}}], [{field: lie}]]

    def key_of(self, party: int, engine: Engine) -> Path:
        """Return a host's certificate for an engine, beside its owner's key."""
        return self.site.hosts[party] / "keys" / engine.name / f"P{party}.pem"

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
        answers = [self.ask(name, fields, request) for fields in variants[variant % len(variants)]]
        if name == "aggregate":
            self.fill_stock()
        return answers

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


@dataclass(frozen=True)
class Walk:
    """The places to which one request leads that begins a run, and from there every other one.

    Attributes:
        opening: The request, by its name in `ONWARD`.
        kind: The kind of its run.
        before: The states before the run has its inputs, or knows who sends them.
        types: The types of what its states have of the run: inputs, plan, and what its beginning wrote.
        given: Whether the host has an aggregate in place of uploads.
    """

    opening: str
    kind: RunKind
    before: Sequence[type[HostState]]
    types: Sequence[type]
    given: bool = False

    @property
    def states(self) -> set[type[HostState]]:
        """The types of all its states."""
        prepares = ClientsInvited if ONWARD[State.NO_RUN][self.opening] == {State.INVITED} else Fed
        made: set[type[HostState]] = {Made} if self.kind is RunKind.NOISE else set()
        with_party: set[type[HostState]] = {Prepared, Started, Ready, Agreed, Running, Over}
        return {NoRun, *self.before, prepares} | with_party | made

    @property
    def events(self) -> set[Event]:
        """What the host's log has of it; its owner changes nothing meanwhile."""
        never = {Event.CHANGED} if self.kind is RunKind.RELEASE else {Event.CHANGED, Event.CHARGED}
        return {*Event} - never


UPLOADED = (Proposed, Listed)
WALKS = {
    "uploads": Walk("propose", RunKind.RELEASE, UPLOADED, (UploadedInputs, ReleaseOfUploads, BegunRelease)),
    "an aggregate": Walk(
        "propose",
        RunKind.RELEASE,
        (Proposed, Given),
        (UploadedInputs, ReleaseOfUploads, BegunRelease),
        given=True,
    ),
    "noise made ahead": Walk(
        WITH_PIECE, RunKind.RELEASE, UPLOADED, (UploadedInputs, ReleaseWithPiece, BegunRelease)
    ),
    "clients that send": Walk(
        INVITED, RunKind.RELEASE, (), (ClientsOfRelease, ReleaseOfInvited, BegunRelease)
    ),
    "making noise": Walk("preprocess", RunKind.NOISE, (), (NoiseInputs, PlannedNoise, BegunNoise)),
    "trial of noise": Walk(
        "benchmark", RunKind.TRIAL, (), (TrialInputs, PlannedTrial, BegunTrial, NoiseTrial)
    ),
    "trial of a release": Walk(
        RELEASE_TRIAL, RunKind.TRIAL, (), (TrialInputs, PlannedTrial, BegunTrial, ReleaseTrial)
    ),
    "trial of clients that send": Walk(
        SENT_TRIAL, RunKind.TRIAL, (), (ClientsOfTrial, PlannedTrial, BegunTrial, ReleaseTrial)
    ),
    "trial of the clone": Walk(CLONE, RunKind.TRIAL, (), (TrialInputs, PlannedTrial, BegunTrial, CloneTrial)),
    "trial of a program": Walk(
        PROGRAM, RunKind.TRIAL, (Promised,), (ProgramInputs, PlannedTrial, BegunTrial, ProgramTrial)
    ),
}


def kinds_of(base: type) -> set[type]:
    """Return all classes of a base that can be made, of the package."""
    found = set[type]()
    children: list[type] = base.__subclasses__()
    for child in children:
        found |= kinds_of(child)
        if child.__module__.startswith("fairshares.") and not inspect.isabstract(child):
            found.add(child)
    return found


def test_every_kind_of_run_is_walked_through_every_state() -> None:
    """A new kind of inputs, plans, beginnings, trials or states fails here until it is walked."""
    runs = {kind for base in (RunInputs, InvitedClients, PlannedRun, Begun) for kind in kinds_of(base)}
    assert {kind for walk in WALKS.values() for kind in walk.types} == runs | {*get_args(Trial)}
    assert {walk.opening for walk in WALKS.values()} == ONWARD[State.NO_RUN].keys()
    walked = {state for walk in WALKS.values() for state in walk.states}
    # Nothing is answered in `Beginning`, which goes on to `Running` by itself.
    assert walked == kinds_of(HostState) - {Beginning}
    assert {state.NAME for state in walked} == {*State}


@dataclass(frozen=True)
class Node:
    """A place of a walk.

    Attributes:
        state: The state's type.
        run: As `run_type`.
        told: Whether the host was told of others' lists.
    """

    state: type[HostState]
    run: tuple[type, ...]
    told: bool


@pytest.mark.parametrize("name", WALKS)
def test_every_request_in_every_state(name: str, site: Site) -> None:
    """Breadth first, to all states, with what an honest coordinator sends, and with what others do."""
    walk = WALKS[name]
    log = site.given if walk.given else site.hosts[0]
    written_before = len(read_log(log).lines)
    seen: set[Node] = set()
    waiting: list[tuple[str, ...]] = [()]
    answered_to = refused = 0
    while waiting:
        path = waiting.pop(0)
        with walker(site, path, given=walk.given) as made:
            if made.node in seen:
                continue
            state = made.state
            seen.add(made.node)
            leading = {request for request in REQUESTS if leads_to(state, request)}
            assert leading <= made.work.handlers.keys()
            refused += sum(all_refused(made, request) for request in REQUESTS - leading)
        leading |= {event for event in EVENTS if leads_to(state, event)}
        if state.NAME is State.NO_RUN:
            leading -= ONWARD[State.NO_RUN].keys()
            leading.add(walk.opening)
        for request in sorted(leading):
            with walker(site, path, given=walk.given) as made:
                # First what others send, which takes nothing away from the honest coordinator.
                node = made.node
                for variant in range(1, 1 if request in EVENTS else len(made.variants(request))):
                    refused += sum(
                        isinstance(answer, ErrorFrame) for answer in made.happens(request, variant)
                    )
                    at = replace(made.node, told=node.told)
                    assert at == node, (request, variant)
                untold = request == "aggregate" and state.NAME is State.LISTED and not made.told()
                for answer in made.happens(request):
                    assert isinstance(answer, AnswerFrame) == (not untold), (path, request, answer)
                    answered_to += 1
                # Another run, begun in place of this one, has a walk of its own.
                if made.node not in seen and (request not in ONWARD[State.NO_RUN] or not path):
                    waiting.append((*path, request))
    assert {node.state for node in seen} == walk.states
    assert {kind for node in seen for kind in node.run} == {*walk.types}
    assert answered_to > 20 and refused > 100
    written = read_log(log).lines[written_before:]
    assert {line.event for line in written} == walk.events
    noted = {line.request for line in written if line.event is Event.ANSWERED}
    assert noted >= {AS_SENT.get(walk.opening, walk.opening), "forget", "collect", "clean"}
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


@pytest.mark.parametrize("part", range(ORDER_PARTS))
def test_requests_in_thousands_of_random_orders(part: int, site: Site) -> None:
    check_random_orders(site, 4000)


def test_a_connection_makes_noise_and_takes_it_in_a_later_run(site: Site) -> None:
    """It leaves its turn in between, as connections that stay between reveals do."""
    made_ahead = ("preprocess", *TO_GO, PARTY_ENDS, "keep", "leave_turn")
    takes = (WITH_PIECE, "check_uploads", "take_list", "aggregate", *TO_GO)
    with walker(site, made_ahead + takes) as made:
        assert made.state.NAME is State.RUNNING and made.refused == 0


def test_a_party_ends_when_its_time_is_over(site: Site) -> None:
    """As of a coordinator's program; its last line says why. What every host has, has no such time."""
    path = ("benchmark", *TO_GO)
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


def test_a_party_that_does_not_say_how_many_clients_it_left_out_signs_nothing(site: Site) -> None:
    """Its run is over all the same, and its charge settled."""
    path = (INVITED, "prepare_invited", "start", "certificate", "agree", "go")
    with walker(site, path) as made:
        del run_of(made.work).process.lines[1:]
        run_of(made.work).process.code = 0
        ended = made.work.ended()
        assert ended is not None and ended.signed is None and made.state.NAME is State.OVER
        last = read_log(site.hosts[0]).lines[-1]
        assert last.event is Event.FAILED and "did not report its clients' traffic" in last.said


def test_a_certificate_is_not_asked_for_again_once_the_party_may_go(site: Site) -> None:
    """It would block the agent for as long as the coordinator says, and no limit of the run would be kept."""
    path = ("propose", "check_uploads", "take_list", "aggregate", *TO_GO)
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
