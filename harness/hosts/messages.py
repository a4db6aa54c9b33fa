"""The messages between the coordinator and hosts: every request, with the type of its answer.

Both ends import this module. A request is a `Message` of its answer's type. Its class states how long an
answer may take, the states of a connection in which a host gives one, and the most bytes of its line.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, ClassVar, Generic, Self, TypeVar, get_args

from msgspec import Meta, Struct, to_builtins

from fairshares.harness.bounds import Address, HostName, NumberOfParties, Port, Positive, Seconds, Size
from fairshares.harness.engines.parties.handle import PartyState
from fairshares.harness.engines.parties.sandbox import Protection
from fairshares.harness.errors import HostUnfitError, SurfaceName
from fairshares.harness.hosts.states import (
    ALL,
    ALL_KINDS,
    NOT_RUNNING,
    WITH_PARTY,
    Answer_co,
    HostState,
    RunKind,
    State,
    Step,
    Stepping,
)
from fairshares.harness.hosts.trials import Trial
from fairshares.harness.pipeline.manifest_of_run import Hardware
from fairshares.harness.privacy.manifest import Environment
from fairshares.harness.request.wire_form import RequestTexts
from fairshares.harness.system.documents import Refusal, as_type, number_as_text
from fairshares.harness.system.files import larger_than
from fairshares.harness.system.spelling import similar
from fairshares.harness.uploads.signatures import Signed
from fairshares.protocols.json_values import JsonFields, JsonObject

Asked = TypeVar("Asked", bound="Message[object]")

SHORT = 1 << 16  # bytes of a line before a run is accepted
LONGEST = 1 << 27  # bytes of the longest line, in which the identities of a million uploads fit
PIECE = 1 << 24  # bytes of a list of uploads in one message
CERTIFICATE_S = 600.0  # the most time for a party to make its certificate
_RUNNING_S = 120.0  # the most time for any request while a party runs
_WORK_S = 3600.0  # the time for work that grows with the uploads
_QUICK_S = 5.0  # the time for requests that a host answers at once
_MORE_S = 60.0  # beyond the time for a certificate, for its answer to arrive
_COMPILING_S = 2000.0
_SHOWN = 40  # characters of an unknown name

Party = Annotated[int, Meta(ge=0, lt=1000)]

_TOKEN = r"^[0-9a-f]{32}\Z"
Token = Annotated[str, Meta(pattern=_TOKEN)]
"""A name that nobody can guess: of a run, a host's nonce, or an agent's greeting at its port."""

Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
"""A SHA-256 in hexadecimal digits: a head of a ledger, or the name of a piece of noise made ahead."""

Text = Annotated[str, Meta(max_length=1 << 16)]
"""A sentence, a name, or a certificate (PEM)."""

Texts = Annotated[list[Text], Meta(max_length=1 << 20)]

SignedByParty = Annotated[dict[str, Signed], Meta(max_length=64)]
"""What parties' hosts signed, by the parties' numbers, which `host_keys.by_party` reads."""

Certificates = Annotated[dict[str, dict[str, Text]], Meta(max_length=64)]
"""Certificates (PEM), by engine and party."""

Successors = Annotated[dict[str, list[Signed]], Meta(max_length=64)]
"""What a host's old keys signed of their successors, by engine."""


_TAG = "do"
_SURFACE_FIELD = "surface"


class Message(
    Struct, Generic[Answer_co], frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field=_TAG
):
    """A request to which the other end gives an answer of its type.

    Attributes:
        STATES: The states of a connection in which a host's agent answers it. An owner's set-up has no
            states, and answers messages that have none.
        RUNS: The kinds of runs for which the connection may be then.
        LIMIT_S: The most seconds that a host may take for the answer. Then it ends the connection.
        PATIENCE_S: The seconds for which the coordinator waits for the answer. A silent host is lost before.
        LONGEST: The most bytes of its line.
    """

    STATES: ClassVar[frozenset[State]] = frozenset()
    RUNS: ClassVar[frozenset[RunKind]] = ALL_KINDS
    LIMIT_S: ClassVar[float] = 660.0
    PATIENCE_S: ClassVar[float] = 600.0
    LONGEST: ClassVar[int] = SHORT

    @classmethod
    def name(cls) -> str:
        """Return the name of this kind of messages, as it is sent and as refusals have it."""
        return str(cls.__struct_config__.tag)

    @classmethod
    def answered_by(cls, function: Callable[[Self], Answer_co]) -> "Handler[Self, Answer_co]":
        """Return the handler that has a function answer this kind of messages."""
        return Handler(cls, function)

    @classmethod
    def leads_by(cls, function: Callable[[Self], Step[Answer_co]]) -> "StepHandler[Self, Answer_co]":
        """Return the handler by which a function of a state answers this kind of messages."""
        return StepHandler(cls, function)

    def line(self, surface: SurfaceName) -> JsonObject:
        """Return the object of this message's line, which names the surface that the answer is written for.

        Guarantees: a host names options to whoever types commands, and keywords to whoever calls functions.
        [test: tests/harness/hosts/test_messages.py]
        """
        fields: JsonObject = to_builtins(self, enc_hook=number_as_text)
        return {**fields, _SURFACE_FIELD: surface.value}

    @property
    def patience_s(self) -> float:
        """The seconds for which the coordinator waits for the answer to this message."""
        return self.PATIENCE_S


Kind = type[Message[object]]


@dataclass(frozen=True)
class ReceivedRequest:
    """A line that asks for something, as it came.

    Attributes:
        name: The name of what is asked for, "" without a name. There may be no such kind of messages.
        fields: The other fields, without the name of the surface.
        size: The bytes of the line.
        surface: The surface that the answer is written for: commands, unless the line names another.
    """

    name: str
    fields: JsonObject
    size: int
    surface: SurfaceName = SurfaceName.SHELL

    @classmethod
    def of_line(cls, line: JsonObject, size: int) -> Self:
        """Return the request that a line's object is, and that took so many bytes.

        A surface that this version does not know stays among the fields, where every kind of messages refuses
        it.
        """
        fields = {field: value for field, value in line.items() if field != _TAG}
        surface = SurfaceName.SHELL
        for known in SurfaceName:
            if fields.get(_SURFACE_FIELD) == known.value:
                surface = known
                del fields[_SURFACE_FIELD]
                break
        return cls(str(line.get(_TAG, "")), fields, size, surface)


class Answering(ABC):
    """A function that answers messages of one kind, whichever it is."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the kind."""

    @abstractmethod
    def answer(self, fields: JsonObject) -> object:
        """Return the answer to a message with these fields.

        Raises HostUnfitError for fields of another version, or what the function raises that answers.
        """


@dataclass(frozen=True)
class Handler(Answering, Generic[Asked, Answer_co]):
    """A decorator that has a function answer messages of one kind."""

    kind: type[Asked]
    function: Callable[[Asked], Answer_co]

    @property
    def name(self) -> str:
        return self.kind.name()

    def answer(self, fields: JsonObject) -> Answer_co:
        return self.function(read_message(self.kind, fields))


@dataclass(frozen=True)
class StepHandler(Stepping, Generic[Asked, Answer_co]):
    """A decorator that has a function of a state answer messages of one kind."""

    kind: type[Asked]
    function: Callable[[Asked], Step[Answer_co]]

    @property
    def name(self) -> str:
        return self.kind.name()

    def step(self, fields: JsonObject) -> Step[Answer_co]:
        return self.function(read_message(self.kind, fields))


def is_token(text: str) -> bool:
    """Return whether a text is a name that nobody can guess, such as a run's."""
    return re.fullmatch(_TOKEN, text) is not None


def read_message(kind: type[Asked], fields: JsonObject) -> Asked:
    """Return a message of a kind from its fields.

    Guarantees: nothing is converted, every field is within its bounds, and there are no other fields.
    [test: tests/harness/hosts/test_messages.py]

    Raises HostUnfitError for fields of another version.
    """
    refusal = _refusal(kind)
    for name in fields:
        if name not in kind.__struct_fields__:
            known = similar(name[:_SHOWN], kind.__struct_fields__)
            refusal.say(f"it has an unknown key {name[:_SHOWN]!r}{known}")
    return as_type(kind, fields, refusal)


def check_size(kind: Kind, size: int) -> None:
    """Raise HostUnfitError if a message of this kind took more bytes than it may."""
    if size > kind.LONGEST:
        _refusal(kind).say(larger_than(kind.LONGEST))


def check_order(state: HostState, kind: Kind) -> None:
    """Raise HostUnfitError if a message of this kind comes in a state, or a run, that does not allow it."""
    if state.NAME not in kind.STATES:
        why: str = state.NAME
    elif state.kind not in kind.RUNS:
        why = state.kind
    else:
        return
    raise HostUnfitError(
        f"It does not answer {kind.name()!r} now, as {why}; nothing was changed: a connection is for one "
        "run at a time, whose requests have an order."
    )


def limit_s(state: State, kind: Kind | None) -> float:
    """Return the most seconds that a host may take for a message; the kind is None if nobody knows it.

    While a party runs, an agent is soon back at the limits of the run itself.
    """
    if state is State.RUNNING:
        return _RUNNING_S
    return Message.LIMIT_S if kind is None else kind.LIMIT_S


def answer_type(kind: type[Message[Answer_co]]) -> type[Answer_co]:
    """Return the type of the answers to a kind of messages, which the kind's own base class names."""
    (base,) = vars(kind)["__orig_bases__"]
    (stated,) = get_args(base)
    answer: type[Answer_co] = stated
    return answer


def _refusal(kind: Kind) -> Refusal:
    return Refusal(
        HostUnfitError,
        where=f"The request {kind.name()!r}",
        what="one of this version",
        way_out="both machines need the same commit",
    )


# Messages of no run in particular.


class Bye(Message[None], tag="bye", frozen=True, kw_only=True):
    """Ends the connection. It has no answer."""

    STATES = ALL


class Removed(Struct, frozen=True, kw_only=True):
    """The numbers of things that a host removed."""

    processes: Size
    directories: Size
    records: Size


class Clean(Message[Removed], tag="clean", frozen=True, kw_only=True):
    """Has a host end other connections' processes, and remove their remains."""

    STATES = ALL


class Collect(
    Message[Annotated[list[Signed], Meta(max_length=1 << 16)]], tag="collect", frozen=True, kw_only=True
):
    """Asks for the signed statements of runs whose results nobody read."""

    STATES = ALL


class LeaveTurn(Message[None], tag="leave_turn", frozen=True, kw_only=True):
    """Has a host end this connection's run, and let others have its turn. The connection stays."""

    STATES = NOT_RUNNING


class Forget(Message[None], tag="forget", frozen=True, kw_only=True):
    """Has a host remove the opened values of a run."""

    STATES = ALL

    run: Token


# Looking at a host before a run.


class HostFacts(Struct, frozen=True, kw_only=True):
    """The facts about a host on which a run depends; a fault is a sentence, or None.

    Attributes:
        time: The seconds since 1970 by the host's clock.
        programs: The SHA-256 of the programs and circuits, or what another version has in that place.
        code: The SHA-256 of the code.
        commit: The commit of the host's clone, or "unknown".
        environment: The versions of what the code runs on.
        machine: The host's processor and memory.
        engine_version: The version of the model's engine, None without an engine.
        unavailable: The fault of the engine.
        unprotected: The actions that a party's process could take there and should not be able to take.
        directory: The fault of the host's directory.
        free_bytes: The bytes that are free on the directory's disk.
        cache_free_bytes: The free bytes of the disk that takes compiled programs.
        port: The fault of the port where its party would listen, or why the connection has not got the turn.
        clients: The fault of the ports for clients.
        keys: The fault of the keys and certificates.
        fingerprints: The fingerprints of all parties' certificates that the host holds, by party.
        policy: The fault of the owner's policy, or why it refuses the model.
        notices: Sentences about the policy, and about what expires soon, that are no faults.
        expires: The time at which each certificate expires, in UTC and ISO 8601, by the certificate's kind.
        ledger_bytes: The bytes of the host's ledger.
    """

    time: Annotated[float, Meta(ge=0, lt=1e12)]
    programs: Text
    code: Text
    commit: Text
    environment: Environment
    machine: Hardware
    engine_version: Text | None
    unavailable: Text | None
    unprotected: Annotated[list[Protection], Meta(max_length=64)]
    directory: Text | None
    free_bytes: Size
    cache_free_bytes: Size
    port: Text | None
    clients: Text | None
    keys: Text | None
    fingerprints: Annotated[dict[str, Text], Meta(max_length=64)]
    policy: Text | None
    notices: Texts
    expires: Annotated[dict[str, Text], Meta(max_length=256)]
    ledger_bytes: Size


class Check(Message[HostFacts], tag="check", frozen=True, kw_only=True):
    """Has a host take the turn, so that a run's parties meet this host's, and tell the facts about itself.

    `parties` is None for the usual number of the security model.
    """

    STATES = NOT_RUNNING

    party: Party
    security: Text
    parties: NumberOfParties | None = None
    port: Port
    client_ports: Annotated[list[Port], Meta(max_length=2)]


class Listen(Message[Token], tag="listen", frozen=True, kw_only=True):
    """Has a host listen at a port of its owner's policy, and tell the greeting that callers get there."""

    STATES = NOT_RUNNING

    port: Port


class StopListening(Message[None], tag="stop_listening", frozen=True, kw_only=True):
    """Has a host leave its ports to its party."""

    STATES = ALL


class Listener(Struct, frozen=True, kw_only=True):
    """The address and port at which another host's agent listens, and the greeting that callers get."""

    address: HostName
    port: Port
    greeting: Token


Listeners = Annotated[list[Listener], Meta(max_length=64)]


class AgentGreets(Struct, frozen=True, kw_only=True, tag_field="call", tag="greeting"):
    """The end of a call that an agent answered by its greeting."""


class NobodyAccepts(Struct, frozen=True, kw_only=True, tag_field="call", tag="not accepted"):
    """The end of a call that nothing accepted.

    Attributes:
        fault: Why it failed.
    """

    fault: Text


class AnotherAccepts(Struct, frozen=True, kw_only=True, tag_field="call", tag="accepted"):
    """The end of a call that was accepted by something else than the agent, or by something in front of it.

    Attributes:
        fault: The other machine's behavior in place of the greeting.
    """

    fault: Text


CallEnd = AgentGreets | NobodyAccepts | AnotherAccepts
"""How a call of an agent's port ends."""


class Reach(Message[list[CallEnd]], tag="reach", frozen=True, kw_only=True):
    """Has a host call others; the answer has the end of each call, in their order."""

    STATES = NOT_RUNNING

    others: Listeners


class LinkTimes(Struct, frozen=True, kw_only=True):
    """A link's round-trip time in seconds, and the bits per second of its slower direction."""

    rtt_s: Seconds
    bits_per_s: Positive


class TimeLinks(Message[list[LinkTimes | None]], tag="time_links", frozen=True, kw_only=True):
    """Has a host time its links to others; the answer has each one's times, or None, in their order."""

    STATES = NOT_RUNNING

    others: Listeners


# The run that a host takes part in.


class Propose(Message[None], tag="propose", frozen=True, kw_only=True):
    """Proposes a release on the host's uploads, or on clients that send."""

    STATES = frozenset({State.NO_RUN})

    asked: RequestTexts


class Preprocess(Message[None], tag="preprocess", frozen=True, kw_only=True):
    """Proposes a run that makes noise for a later release on records of a domain, in place of the last."""

    STATES = NOT_RUNNING
    RUNS = frozenset({RunKind.NONE, RunKind.NOISE})

    asked: RequestTexts
    domain: JsonFields


class RunTrial(Message[None], tag="benchmark", frozen=True, kw_only=True):
    """Proposes a run on made-up records, of samples of noise, or of a program, in place of the last such run.

    Each kind of trial checks its numbers. The files of a program follow by `TakeProgram`.
    """

    STATES = NOT_RUNNING
    RUNS = frozenset({RunKind.NONE, RunKind.TRIAL})

    party: Party
    trial: Trial


class TakeProgram(Message[None], tag="take_program", frozen=True, kw_only=True):
    """Hands a host the next piece of a program that its owner allows.

    Attributes:
        file: The number of the file: 0 for the schedule, then the tapes in their order.
        at: The byte of the file at which the piece begins.
        piece: The bytes.
    """

    STATES = frozenset({State.PROMISED})
    LONGEST = LONGEST

    file: Size
    at: Size
    piece: Annotated[bytes, Meta(min_length=1, max_length=PIECE)]


# Messages about the inputs of a run.


class CheckUploads(Message[Signed | None], tag="check_uploads", frozen=True, kw_only=True):
    """Has a host list its sound uploads; the answer is signed, or None if it has an aggregate."""

    STATES = frozenset({State.PROPOSED})
    PATIENCE_S = _WORK_S
    LIMIT_S = _WORK_S

    party: Party


class ReadList(Message[Annotated[str, Meta(max_length=PIECE)]], tag="read_list", frozen=True, kw_only=True):
    """Asks for a piece of the host's list of uploads from a byte on; the answer is "" at its end."""

    STATES = frozenset({State.LISTED})
    PATIENCE_S = _WORK_S

    at: Size


class TakeList(Message[None], tag="take_list", frozen=True, kw_only=True):
    """Hands a host the next piece, from a byte on, of the list that a party's host signed."""

    STATES = frozenset({State.LISTED})
    PATIENCE_S = _WORK_S
    LONGEST = LONGEST

    lister: Party
    signed: Signed
    at: Size
    piece: Annotated[str, Meta(max_length=PIECE)]


class Aggregated(Struct, frozen=True, kw_only=True):
    """The public facts about a host's aggregate.

    Attributes:
        head: The first line of its file, the header. At party 0 the second line, too: the identities of the
            uploads. The other headers have a fingerprint of the same identities.
        bytes: The number of bytes of the uploads.
        left_out: The number of uploads that were left out, by reason.
        pieces: The names of noise made ahead for this run.
    """

    head: Annotated[str, Meta(max_length=LONGEST)]
    bytes: Size
    left_out: dict[str, Size]
    pieces: Texts


class Aggregate(Message[Aggregated], tag="aggregate", frozen=True, kw_only=True):
    """Has a host add up the shares that all hosts list, or take its aggregate."""

    STATES = frozenset({State.GIVEN, State.LISTED})
    PATIENCE_S = _WORK_S
    LIMIT_S = _WORK_S

    party: Party


# Messages about the party of a run.


class Sending(Struct, frozen=True, kw_only=True):
    """Clients that send, and where.

    Attributes:
        terms: The terms of the release that clients are told.
        certificates: The clients' certificates (PEM).
        ports: The port of the party's gateway, and the port of its virtual machine.
        seconds: The time for which the gateway waits for clients.
    """

    terms: JsonFields
    certificates: Texts
    ports: tuple[Port, Port]
    seconds: Seconds


class RunFacts(Struct, frozen=True, kw_only=True):
    """The facts about a prepared run that hosts and coordinator compare.

    Attributes:
        job_hash: The SHA-256 of the program's text and arguments (`program_hash` without an engine's part).
        nonce: The host's for this connection.
        attempts: The number of times that making the run's noise was begun.
        seen: The heads of other parties' ledgers that the host has seen, by party.
    """

    engine_version: Text
    job_hash: Text
    program_hash: Text
    compile_options: Annotated[tuple[Text, ...], Meta(max_length=64)]
    compile_s: Seconds
    nonce: Token
    attempts: Size
    seen: Annotated[dict[str, Text], Meta(max_length=64)]


class Prepare(Message[RunFacts], tag="prepare", frozen=True, kw_only=True):
    """Has a host compile the run's program, and lay out its party, for a run that has its inputs.

    Attributes:
        run: The run's name.
        party: The host's party.
        addresses: The addresses at which this party finds all parties. It listens at its own port.
        piece: The name of the piece of noise made ahead that the run takes, None for none.
    """

    STATES = frozenset({State.FED})
    PATIENCE_S = _COMPILING_S
    LIMIT_S = _WORK_S
    LONGEST = LONGEST

    run: Token
    party: Party
    addresses: Annotated[list[Address], Meta(max_length=64)]
    piece: Digest | None = None


class PrepareInvited(Message[RunFacts], tag="prepare_invited", frozen=True, kw_only=True):
    """Has a host compile the run's program, and lay out its party, for a run to which clients send.

    Attributes:
        run: The run's name.
        party: The host's party.
        addresses: The addresses at which this party finds all parties. It listens at its own port.
        clients: The clients that send.
    """

    STATES = frozenset({State.INVITED})
    PATIENCE_S = _COMPILING_S
    LIMIT_S = _WORK_S
    LONGEST = LONGEST

    run: Token
    party: Party
    addresses: Annotated[list[Address], Meta(max_length=64)]
    clients: Sending


class Start(Message[None], tag="start", frozen=True, kw_only=True):
    """Has a host start its party's process."""

    STATES = frozenset({State.PREPARED})


_STARTED = frozenset({State.STARTED, State.READY, State.AGREED})


class GetCertificate(Message[Text | None], tag="certificate", frozen=True, kw_only=True):
    """Asks for the certificate of the party's key for this run; the answer is None without one in time."""

    STATES = _STARTED

    seconds: Annotated[float, Meta(ge=0, le=CERTIFICATE_S)]

    @property
    def patience_s(self) -> float:
        return self.seconds + _MORE_S


class Agree(Message[Signed], tag="agree", frozen=True, kw_only=True):
    """Has a host hold its party's port, and sign the run ahead.

    Attributes:
        nonces: The nonces of all hosts, by party.
        started: The time at which the run starts, by the coordinator's clock.
        attempts: How often making the run's noise was begun, by the host that knows of most attempts.
        heads: The heads of this host's ledger that other hosts have seen.
    """

    STATES = frozenset({State.READY})

    nonces: Annotated[list[Token], Meta(max_length=64)]
    started: Annotated[datetime, Meta(tz=True)]
    attempts: Size = 0
    heads: Annotated[list[Digest], Meta(max_length=64)] = []


class Go(Message[None], tag="go", frozen=True, kw_only=True):
    """Has a host let its party begin, by what all hosts signed of the run ahead."""

    STATES = frozenset({State.AGREED})
    LONGEST = LONGEST

    agreed: SignedByParty


class PartyEnd(Struct, frozen=True, kw_only=True):
    """The end of a party, which a host tells unasked.

    Attributes:
        state: The party's last state.
        code: The party's exit code, or minus the signal that killed it.
        signed: The statement that the host signs of a run that ended well, else None.
    """

    state: PartyState
    code: Annotated[int, Meta(ge=-255, le=255)]
    signed: Signed | None = None


class GetReport(Message[PartyState], tag="state", frozen=True, kw_only=True):
    """Asks for the party's state."""

    STATES = WITH_PARTY - {State.PREPARED}
    PATIENCE_S = _QUICK_S


class Kill(Message[None], tag="kill", frozen=True, kw_only=True):
    """Has a host end its party, and with it a run that has begun."""

    STATES = WITH_PARTY
    PATIENCE_S = _QUICK_S


class Keep(Message[None], tag="keep", frozen=True, kw_only=True):
    """Has a host take its party's noise into the stock, as all hosts signed that their parties made it."""

    STATES = frozenset({State.MADE})
    LONGEST = LONGEST

    made: SignedByParty


# Messages to the set-up of a host, which its owner starts.


class SetUp(Message[dict[str, Text]], tag="setup", frozen=True, kw_only=True):
    """Has a host make its directory, keys and policy, if need be, and tell its certificates by engine.

    Attributes:
        party: The host's party.
        renew: Whether the host makes new keys in any case.
        policy_text: A new policy. Without such a text, a policy that exists stays.
        models: The names of the models that a new policy accepts, if there is no such text.
        port: The party's port for a new policy; None for the default one.
        client_port: The gateway's port for a new policy; None for no gateway.
    """

    LONGEST = LONGEST

    party: Party
    renew: bool
    policy_text: Annotated[str, Meta(max_length=1 << 20)] | None
    models: Annotated[list[Text], Meta(max_length=64)]
    port: Port | None
    client_port: Port | None = None


class GetSuccessors(Message[Successors], tag="successors", frozen=True, kw_only=True):
    """Asks for what the host's old keys signed of their successors."""

    party: Party


class Pin(Message[None], tag="pin", frozen=True, kw_only=True):
    """Has a host hold on to other parties' certificates."""

    LONGEST = LONGEST

    party: Party
    certificates: Certificates
    successors: Annotated[dict[str, dict[str, list[Signed]]], Meta(max_length=64)]


def _by_name(kinds: Sequence[Kind]) -> dict[str, Kind]:
    return {kind.name(): kind for kind in kinds}


TO_AGENT = _by_name(
    (
        Bye,
        Clean,
        Collect,
        LeaveTurn,
        Forget,
        Check,
        Listen,
        StopListening,
        Reach,
        TimeLinks,
        Propose,
        Preprocess,
        RunTrial,
        TakeProgram,
        CheckUploads,
        ReadList,
        TakeList,
        Aggregate,
        Prepare,
        PrepareInvited,
        Start,
        GetCertificate,
        Agree,
        Go,
        GetReport,
        Kill,
        Keep,
    )
)
TO_SETUP = _by_name((Bye, SetUp, GetSuccessors, Pin))
