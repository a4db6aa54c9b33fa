"""Messages between a coordinator and hosts: each field has its bounds, each answer its type."""

import io
import subprocess
import sys
import weakref
from contextlib import ExitStack
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import pytest

from fairshares.harness.engines.execution import PROJECT
from fairshares.harness.errors import SHELL, HostUnfitError, SurfaceName, naming, surface_name_now
from fairshares.harness.hosts.agent import Agent
from fairshares.harness.hosts.connection import checked
from fairshares.harness.hosts.fleet import answers_of_each
from fairshares.harness.hosts.frames import AnswerFrame, ErrorFrame
from fairshares.harness.hosts.inventory import Host
from fairshares.harness.hosts.messages import (
    CERTIFICATE_S,
    LONGEST,
    PIECE,
    SHORT,
    TO_AGENT,
    TO_SETUP,
    AgentGreets,
    Aggregate,
    Agree,
    Bye,
    Check,
    CheckUploads,
    Clean,
    Collect,
    Forget,
    GetCertificate,
    GetReport,
    GetSuccessors,
    Go,
    Keep,
    Kill,
    LeaveTurn,
    Listen,
    Listener,
    Message,
    Pin,
    Prepare,
    PrepareInvited,
    Preprocess,
    Propose,
    Reach,
    ReadList,
    ReceivedRequest,
    RunTrial,
    Sending,
    SetUp,
    Start,
    StopListening,
    TakeList,
    TakeProgram,
    TimeLinks,
    answer_type,
    check_size,
    read_message,
)
from fairshares.harness.hosts.setup import Setup
from fairshares.harness.hosts.states import ALL_KINDS, RunKind, State
from fairshares.harness.hosts.trials import CloneTrial, NoiseTrial, ProgramArgument, ReleaseTrial
from fairshares.harness.inputs.federation_size import MOST_MADE_UP, FederationSize
from fairshares.harness.uploads.signatures import Signed
from fairshares.protocols.guarantee import Guarantee
from tests.support.coordinators import MODEL, Coordinator, as_sent, asked
from tests.support.hostile import check_refuses, spoilt
from tests.support.sent_programs import sent_program
from tests.support.type_checks import check_lines

T = TypeVar("T")
HOST = Host(0, "one.example", "/srv/fairshares", "/srv/FairShares", 9000)
NAME, DIGEST = "0a" * 16, "0a" * 32
SIGNED = Signed(said="{}", signature="00", certificate="none")
OTHERS = [Listener(address="one.example", port=9000, greeting=NAME)]
NOISE_FIELDS = {"security": MODEL.name, "guarantee": {"epsilon": "1", "delta": "1/1024"}, "samples": 3}
OF_NOISE = NoiseTrial(security=MODEL.name, guarantee=Guarantee(Fraction(1), Fraction(1, 1024)), samples=3)
OF_RELEASE = ReleaseTrial(security=MODEL.name, asked=asked(), federation=FederationSize(7, 23, 2, 2))
OF_A_CLONE = CloneTrial(
    security="ring",
    program="pi_rw_literal",
    arguments=(ProgramArgument(name="form", text="one-by-one"), ProgramArgument(name="epsilon", text="1/2")),
    fair_bits=((16, 8),),
    compares_all=True,
)
OF_A_PROGRAM = sent_program(integers=3).trial
CLONE_FIELDS = {"kind": "clone", "security": "ring", "program": "pi_rw_literal", "arguments": []}
TOLD: tuple[Message[Any], ...] = (
    Bye(),
    Clean(),
    Collect(),
    LeaveTurn(),
    Forget(run=NAME),
    Check(party=0, security=MODEL.name, port=9000, client_ports=[9001, 9002]),
    Listen(port=9000),
    StopListening(),
    Reach(others=OTHERS),
    TimeLinks(others=OTHERS),
    Propose(asked=asked()),
    Preprocess(asked=asked(), domain={}),
    RunTrial(party=0, trial=OF_NOISE),
    TakeProgram(file=0, at=0, piece=b"bytes"),
    CheckUploads(party=0),
    ReadList(at=0),
    TakeList(lister=1, signed=SIGNED, at=0, piece="a list"),
    Aggregate(party=0),
    Prepare(
        run=NAME,
        party=0,
        addresses=[("127.0.0.1", 9000), ("one.example", 9001)],
        piece=DIGEST,
    ),
    PrepareInvited(
        run=NAME,
        party=0,
        addresses=[("127.0.0.1", 9000), ("one.example", 9001)],
        clients=Sending(terms={}, certificates=["one"], ports=(9002, 9003), seconds=1.5),
    ),
    Start(),
    GetCertificate(seconds=1.5),
    Agree(nonces=[NAME], started=datetime(2027, 1, 1, tzinfo=UTC), attempts=1, heads=[DIGEST]),
    Go(agreed={"0": SIGNED}),
    GetReport(),
    Kill(),
    Keep(made={"0": SIGNED}),
    SetUp(party=0, renew=True, policy_text="port = 1", models=["ring"], port=9000, client_port=9001),
    GetSuccessors(party=0),
    Pin(party=0, certificates={"embedded": {"1": "a"}}, successors={"embedded": {"1": [SIGNED]}}),
)
BY_NAME = {message.name(): message for message in TOLD}
OPTIONAL = (
    *("parties", "piece", "attempts", "heads", "client_port", "detail", "thresholds", "cap"),
    *("records", "samples", "batch", "statistical_security", "integers", "fair_bits", "compares_all"),
)
# Fields of several types, or with any names: `BEYOND` has what is wrong of them.
EITHER = (
    *("domain", "terms", "policy_text", "parties", "asked", "started"),
    *("batch", "statistical_security", "piece", "port", "client_port"),
    *("agreed", "made", "certificates", "successors", "embedded"),
)
LONG = "x" * ((1 << 20) + 1)
BEYOND: list[tuple[str, dict[str, Any]]] = [
    ("check", {"parties": 1}),
    ("check", {"parties": 65}),
    ("forget", {"run": NAME.upper()}),
    ("forget", {"run": f"{NAME}\n"}),
    ("forget", {"run": f"../{NAME}"}),
    ("check", {"party": -1}),
    ("check", {"party": 1000}),
    ("check", {"port": -1}),
    ("check", {"port": 1 << 16}),
    ("check", {"client_ports": [1, 2, 3]}),
    ("check", {"security": LONG}),
    ("reach", {"others": [as_sent(OTHERS[0])] * 65}),
    ("reach", {"others": [{**as_sent(OTHERS[0]), "address": "a b"}]}),
    ("reach", {"others": [{**as_sent(OTHERS[0]), "greeting": "SSH-2.0-OpenSSH"}]}),
    ("time_links", {"others": [{**as_sent(OTHERS[0]), "port": 1 << 16}]}),
    ("propose", {"asked": {"task": 1}}),
    ("propose", {"asked": None}),
    ("propose", {"asked": {f"{number}": "" for number in range(257)}}),
    ("preprocess", {"domain": []}),
    ("benchmark", {"trial": {"kind": "release", "security": MODEL.name, "asked": {}}}),
    ("benchmark", {"trial": {"kind": "noise", **NOISE_FIELDS, "asked": asked()}}),
    ("benchmark", {"trial": {"kind": "another", **NOISE_FIELDS}}),
    ("benchmark", {"trial": NOISE_FIELDS}),
    ("benchmark", {"trial": {"kind": "noise", **NOISE_FIELDS, "samples": -1}}),
    ("benchmark", {"trial": {"kind": "noise", **NOISE_FIELDS, "guarantee": {"epsilon": 1, "delta": 1}}}),
    ("benchmark", {"trial": {"kind": "noise", **NOISE_FIELDS, "guarantee": {"epsilon": "-1", "delta": "1"}}}),
    ("benchmark", {"trial": {"kind": "noise", **NOISE_FIELDS, "guarantee": {"epsilon": "1", "delta": "x"}}}),
    *(
        ("benchmark", {"trial": {**CLONE_FIELDS, **changes}})
        for changes in (
            {"program": "../../../tmp/pi_rw"},
            {"program": "pi_rw\n"},
            {"program": ""},
            {"arguments": [{"name": "form", "text": "-I"}]},
            {"arguments": [{"name": "form", "text": "one by one"}]},
            {"arguments": [{"name": "form", "text": "x" * 33}]},
            {"arguments": [{"name": "Form", "text": "x"}]},
            {"arguments": [{"name": "form", "text": "x"}] * 33},
            {"fair_bits": [[65, 1]]},
            {"fair_bits": [[16, 10 * MOST_MADE_UP + 1]]},
            {"fair_bits": [[16, 1]] * 9},
            {"compares_all": 1},
            {"source": "pi_rw.mpc"},
        )
    ),
    ("take_program", {"piece": ""}),
    ("take_program", {"piece": "not base 64"}),
    ("take_program", {"piece": [1]}),
    ("take_program", {"piece": "A" * (PIECE // 3 * 4 + 8)}),
    ("take_program", {"at": -1}),
    ("take_program", {"file": -1}),
    ("propose", {"asked": {"Task": "weights"}}),
    ("propose", {"asked": {"task": "w" * 65537}}),
    ("read_list", {"at": -1}),
    ("read_list", {"at": 1 << 63}),
    ("take_list", {"piece": "x" * (PIECE + 1)}),
    ("prepare", {"addresses": [["127.0.0.1", 1]] * 65}),
    ("prepare", {"addresses": [["127.0.0.1:1\n127.0.0.1", 1]]}),
    ("prepare", {"piece": "../piece"}),
    ("prepare", {"piece": ""}),
    ("prepare", {"piece": 1}),
    ("prepare", {"clients": {"terms": {}, "certificates": [], "ports": [1, 2], "seconds": 1}}),
    ("prepare_invited", {"addresses": [["127.0.0.1", 1]] * 65}),
    ("prepare_invited", {"piece": DIGEST}),
    ("prepare_invited", {"clients": {"terms": [], "certificates": [], "ports": [1, 2], "seconds": 1}}),
    ("prepare_invited", {"clients": {"terms": {}, "certificates": [], "ports": [1, 2, 3], "seconds": 1}}),
    ("prepare_invited", {"clients": {"terms": {}, "certificates": [], "ports": [1, 2], "seconds": -1}}),
    ("certificate", {"seconds": -1}),
    ("certificate", {"seconds": CERTIFICATE_S + 1}),
    ("certificate", {"seconds": 10**400}),
    ("agree", {"nonces": ["0"]}),
    ("agree", {"nonces": [NAME] * 65}),
    ("agree", {"started": "2027-01-01T00:00:00"}),
    ("agree", {"started": 1}),
    ("agree", {"attempts": -1}),
    ("agree", {"heads": [""]}),
    ("go", {"agreed": {str(party): as_sent(SIGNED) for party in range(65)}}),
    ("go", {"agreed": {"0": {**as_sent(SIGNED), "more": ""}}}),
    ("keep", {"made": {"0": "signed"}}),
    ("setup", {"policy_text": LONG}),
    ("setup", {"port": "9000"}),
    ("setup", {"client_port": 1 << 16}),
    ("listen", {"port": None}),
    ("take_list", {"piece": None}),
    ("take_program", {"piece": None}),
    ("setup", {"policy_text": 1}),
    ("setup", {"models": ["ring"] * 65}),
    ("pin", {"certificates": {"embedded": ["a"]}}),
    ("pin", {"successors": {"embedded": {"1": as_sent(SIGNED)}}}),
]


def fields_of(message: Message[Any]) -> dict[str, Any]:
    """Return a message's fields as they are sent."""
    fields: dict[str, Any] = as_sent(message)
    assert fields.pop("do") == message.name()
    return fields


def test_each_kind_of_messages_is_here_once() -> None:
    assert len(BY_NAME) == len(TOLD) == 30
    assert {name: type(message) for name, message in BY_NAME.items()} == {**TO_AGENT, **TO_SETUP}
    assert set(TO_AGENT) & set(TO_SETUP) == {Bye.name()}
    assert all(kind.STATES for kind in TO_AGENT.values())
    assert not any(kind.STATES for name, kind in TO_SETUP.items() if name != Bye.name())
    assert set(Setup(Path()).handlers) == {*TO_SETUP} - {Bye.name()}


@pytest.mark.parametrize(
    "message",
    [*TOLD, *(RunTrial(party=0, trial=trial) for trial in (OF_RELEASE, OF_A_CLONE, OF_A_PROGRAM))],
    ids=[*BY_NAME, "benchmark of a release", "benchmark of a program of the clone", "benchmark of a program"],
)
def test_a_message_arrives_as_it_was_sent_and_nothing_else_does(message: Message[Any]) -> None:
    """A field less, a field more, or one of another type is refused in a sentence that names the request."""
    fields, kind = fields_of(message), type(message)
    assert read_message(kind, fields) == message
    cases = [case for case in spoilt(fields, optional=OPTIONAL, either=EITHER) if isinstance(case[1], dict)]
    check_refuses(lambda case: read_message(kind, case), HostUnfitError, iter(cases))
    with pytest.raises(HostUnfitError) as refused:
        read_message(kind, {**fields, "x" * 10**6: 1})
    assert str(refused.value).startswith(f"The request {message.name()!r} is not one of this version: it has")
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("number", range(len(BEYOND)))
def test_a_field_is_within_its_bounds(number: int) -> None:
    name, changes = BEYOND[number]
    kind, fields = type(BY_NAME[name]), fields_of(BY_NAME[name])
    check_refuses(
        lambda case: read_message(kind, case), HostUnfitError, iter([(name, {**fields, **changes})])
    )


def test_a_line_is_as_long_as_its_kind_of_message_needs(hosts: list[Path], stack: ExitStack) -> None:
    """Once a run is accepted, lists of uploads may be long, and requests without them stay short."""
    work = Coordinator(hosts[0], stack).work
    agent = Agent(io.BytesIO(), io.BytesIO(), work)

    def answer(message: Message[Any], size: int) -> AnswerFrame | ErrorFrame:
        return agent._answer(ReceivedRequest.of_line(as_sent(message), size))

    assert answer(Propose(asked=asked()), SHORT) == AnswerFrame(answer=None)
    assert work.longest == LONGEST and answer(Collect(), SHORT) == AnswerFrame(answer=[])
    longer = answer(Collect(), SHORT + 1)
    assert isinstance(longer, ErrorFrame) and longer.error == "HostUnfitError"
    assert longer.text.startswith("The request 'collect' is not one of this version: it is larger than")
    assert isinstance(answer(CheckUploads(party=0), SHORT), AnswerFrame)
    longer = answer(TakeList(lister=2, signed=SIGNED, at=0, piece=""), LONGEST + 1)
    assert isinstance(longer, ErrorFrame) and "larger than" in longer.text
    assert answer(TakeList(lister=2, signed=SIGNED, at=0, piece=""), LONGEST) == AnswerFrame(answer=None)
    lasting = {name for name, kind in TO_AGENT.items() if kind.LONGEST > SHORT}
    assert lasting == {"take_list", "take_program", "prepare", "prepare_invited", "go", "keep"}
    check_size(Go, LONGEST)


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (Propose(asked=asked(population="loan")), "population"),
        (Propose(asked=asked(chain="monthly")), "chain"),
        (Preprocess(asked=asked(population="loan"), domain={}), "population"),
    ],
    ids=lambda case: case if isinstance(case, str) else case.name(),
)
def test_a_refusal_names_what_whoever_asks_writes(
    message: Message[Any], field: str, hosts: list[Path], stack: ExitStack
) -> None:
    """An agent's process writes for a shell, and what a Python call asks for is refused by keywords."""
    agent = Agent(io.BytesIO(), io.BytesIO(), Coordinator(hosts[0], stack).work)
    for surface, wanted, other in (
        (SurfaceName.PYTHON, f"{field}=", f"--{field}"),
        (SurfaceName.SHELL, f"--{field}", f"{field}="),
    ):
        with naming(surface.used):
            line = message.line(surface_name_now())
        with naming(SHELL):  # as `agent.connected` has it
            frame = agent._answer(ReceivedRequest.of_line(line, SHORT))
            assert surface_name_now() is SurfaceName.SHELL
        assert isinstance(frame, ErrorFrame), frame
        assert wanted in frame.text and other not in frame.text


def test_a_surface_of_another_version_is_refused(hosts: list[Path], stack: ExitStack) -> None:
    """No kind of messages has a field of that name, so none can be taken for one."""
    agent = Agent(io.BytesIO(), io.BytesIO(), Coordinator(hosts[0], stack).work)
    for surface in ("java", 1, None, ["python"]):
        frame = agent._answer(ReceivedRequest.of_line({"do": "collect", "surface": surface}, SHORT))
        assert isinstance(frame, ErrorFrame) and "unknown key 'surface'" in frame.text
    for kind in (*TO_AGENT.values(), *TO_SETUP.values()):
        assert "surface" not in kind.__struct_fields__


def test_time_is_for_an_answer_and_for_its_way() -> None:
    """The coordinator waits longer for a certificate than its host does, but not without end."""
    assert GetCertificate(seconds=5.0).patience_s == 65.0
    for message in TOLD:
        assert 5.0 <= message.patience_s <= 3600.0 and 60.0 < message.LIMIT_S <= 3600.0


BEFORE = """
from fairshares.harness.hosts.connection import HostConnection
from fairshares.harness.hosts.messages import Collect, GetCertificate, Go, Listen, RunFacts, Prepare, ReadList
from fairshares.harness.uploads.signatures import Signed


def right(message: ReadList) -> str:
    return ""


def of_another_kind(message: Listen) -> str:
    return ""


def with_another_answer(message: ReadList) -> int:
    return 0


def use(connection: HostConnection, prepare: Prepare) -> None:
    {line}
"""
RIGHT = [
    "ReadList.answered_by(right)",
    "piece: str = connection.ask(ReadList(at=0))",
    "kept: list[Signed] = connection.ask(Collect())",
    "text: str | None = connection.ask(GetCertificate(seconds=1.0))",
    "facts: RunFacts = connection.ask(prepare)",
    "connection.ask(Go(agreed={}))",
]
WRONG = [
    "ReadList.answered_by(of_another_kind)",
    "ReadList.answered_by(with_another_answer)",
    "Listen.answered_by(right)",
    "number: int = connection.ask(ReadList(at=0))",
    "text: str = connection.ask(GetCertificate(seconds=1.0))",
    "ReadList(0)",
    "ReadList(at='0')",
    "ReadList()",
    "ReadList(at=0, more=1)",
    "ReadList(at=0).at = 1",
    "connection.ask('read_list')",
    "connection.ask(ReadList(at=0), at=0)",
]


def test_an_answer_of_another_type_is_a_type_error(tmp_path: Path) -> None:
    check_lines(BEFORE, RIGHT, WRONG, tmp_path)


def test_every_answer_has_a_type_that_is_checked() -> None:
    """None of them is converted, or taken as it comes."""
    for message in TOLD:
        with pytest.raises(HostUnfitError, match="its answer to"):
            checked(answer_type(type(message)), {"x": [1.5]}, HOST, message.name())


@pytest.mark.parametrize("module", ["fairshares", "tasks", "fairshares.harness.cli.commands.releases"])
def test_who_uses_no_host_imports_no_messages(module: str) -> None:
    code = f"import sys, {module}; sys.exit('fairshares.harness.hosts.messages' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=PROJECT, check=True)


def test_messages_leave_nothing_behind() -> None:
    """Else whoever sends messages for long enough fills a host's memory."""

    class Answering:
        """An object whose method answers."""

        def forget(self, message: Forget) -> None:
            """Do nothing."""

    one = Answering()
    kept = weakref.ref(one)
    before = len(Message.__subclasses__())
    for _ in range(100):
        Forget.answered_by(one.forget).answer({"run": NAME})
    del one
    assert len(Message.__subclasses__()) == before and kept() is None


def test_the_table_says_when_each_request_is_answered() -> None:
    """As it was before there were classes: by the states, written as the other way round."""
    at_rest = {"bye", "forget", "collect", "clean", "stop_listening"}
    between = at_rest | {"check", "listen", "reach", "time_links", "leave_turn", "preprocess", "benchmark"}
    with_party = between | {"kill"}
    allowed = {
        State.NO_RUN: between | {"propose"},
        State.PROPOSED: between | {"check_uploads"},
        State.GIVEN: between | {"aggregate"},
        State.LISTED: between | {"read_list", "take_list", "aggregate"},
        State.PROMISED: between | {"take_program"},
        State.FED: between | {"prepare"},
        State.INVITED: between | {"prepare_invited"},
        State.PREPARED: with_party | {"start"},
        State.STARTED: with_party | {"certificate", "state"},
        State.READY: with_party | {"certificate", "state", "agree"},
        State.AGREED: with_party | {"certificate", "state", "go"},
        State.RUNNING: at_rest | {"kill", "state"},
        State.MADE: with_party | {"state", "keep"},
        State.OVER: with_party | {"state"},
    }
    for state in State:
        assert {name for name, kind in TO_AGENT.items() if state in kind.STATES} == allowed[state], state
    of_kinds = {name: kind.RUNS for name, kind in TO_AGENT.items() if kind.RUNS != ALL_KINDS}
    assert of_kinds == {
        "preprocess": {RunKind.NONE, RunKind.NOISE},
        "benchmark": {RunKind.NONE, RunKind.TRIAL},
    }


@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_host_answers_about_each_other_host(number: int) -> None:
    class Answering:
        host = HOST

        def ask(self, message: Message[T]) -> T:
            about_one = as_sent(AgentGreets()) if isinstance(message, Reach) else None
            return checked(answer_type(type(message)), [about_one] * number, HOST, message.name())

    others: Any = [*OTHERS, *OTHERS]
    connection: Any = Answering()
    told: list[Message[list[Any]]] = [Reach(others=others), TimeLinks(others=others)]
    for message in told:
        with pytest.raises(HostUnfitError, match=r"^Host one\.example .* of length 2, got"):
            answers_of_each(connection, message, others)
