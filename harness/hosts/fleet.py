"""Actions of the coordinator on all hosts at once, and its checks of each host."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Self, TypeVar

from msgspec import Struct, to_builtins

from fairshares.harness.engines.engine import Engine
from fairshares.harness.engines.execution import Progress
from fairshares.harness.engines.parties.certificates import check as check_certificate
from fairshares.harness.engines.program_hash import sources_hash
from fairshares.harness.engines.registry import engine_of, engines
from fairshares.harness.errors import (
    CertificateError,
    FairSharesError,
    HostUnfitError,
    OptionError,
    PolicyError,
    named_call,
    named_command,
)
from fairshares.harness.hosts.connection import HostConnection, refusal_of
from fairshares.harness.hosts.frames import Role
from fairshares.harness.hosts.health import LEAST_FREE_BYTES
from fairshares.harness.hosts.inventory import Host
from fairshares.harness.hosts.local_host import (
    CODE,
    COMPARED_FOLDERS,
    NONCE_BYTES,
    PROGRAM_TEXTS,
    reach,
)
from fairshares.harness.hosts.messages import (
    AgentGreets,
    Check,
    Clean,
    Collect,
    GetSuccessors,
    HostFacts,
    Listen,
    Listener,
    Message,
    NobodyAccepts,
    Pin,
    Reach,
    SetUp,
    StopListening,
    is_token,
)
from fairshares.harness.hosts.party_run import MAX_SKEW_S
from fairshares.harness.hosts.signed_results import Statement, read_signed, shared
from fairshares.harness.pipeline.sources import request_of_run
from fairshares.harness.request.request import Request
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.system.documents import Refusal, as_json
from fairshares.harness.system.signals import uninterrupted
from fairshares.harness.system.threads import ContextPool
from fairshares.harness.uploads.signatures import Signed
from fairshares.protocols.json_values import JsonObject, JsonValue

T = TypeVar("T")
U = TypeVar("U")


def at_once(function: Callable[[T], U], each: Sequence[T]) -> list[U]:
    """Call a function for each of some values, all at the same time, and return the results in order.

    Raises:
        Exception: The first error, in the order of the values, once all calls have ended.
    """
    with ContextPool(max(1, len(each))) as pool:
        return list(pool.map(function, each))


def ask_all(connections: Sequence[HostConnection], message: Message[T]) -> list[T]:
    """Send several hosts the same message, at once, and return their answers, in order."""
    return at_once(lambda connection: connection.ask(message), connections)


def listener(host: Host, greeting: str) -> Listener:
    """Return the address at which a host's agent listens for other hosts, and its greeting."""
    address, port = host.reached
    return Listener(address=address, port=port, greeting=greeting)


def answers_of_each(
    connection: HostConnection, message: Message[list[T]], others: Sequence[Listener]
) -> list[T]:
    """Return a host's answers about other hosts, in the order of these hosts.

    Args:
        connection: The connection to the host that answers.
        message: The request, which names the other hosts.
        others: The addresses at which the other hosts listen.

    Raises:
        HostUnfitError: The host gives more or fewer answers than there are other hosts.
    """
    answers = connection.ask(message)
    if len(answers) != len(others):
        fault = f"expected `array` of length {len(others)}, got {len(answers)}"
        refusal_of(connection.host, message.name()).say(fault)
    return answers


@contextmanager
def connected(
    hosts: Sequence[Host], progress: Progress, role: Role = Role.AGENT, step: str = "connect"
) -> Iterator[list[HostConnection]]:
    """Yield connections to all hosts, in the parties' order, and close them after the block.

    Args:
        hosts: The hosts.
        progress: A function that is told the name of this step.
        role: The role of the process that each host starts.
        step: The name of this step.

    Raises:
        HostUnreachableError: A host is not reached.
        HostUnfitError: A host runs something else, or another version.
    """
    progress(step)
    connections: list[HostConnection] = []
    try:
        at_once(lambda host: connections.append(HostConnection(host, role)), hosts)
        yield sorted(connections, key=lambda connection: connection.host.party)
    finally:
        with uninterrupted():
            at_once(HostConnection.close, connections)


def set_up(
    hosts: Sequence[Host],
    renew: bool,
    policy_text: str | None,
    progress: Progress,
    models: Sequence[str],
) -> dict[str, dict[int, str]]:
    """Have each host make its keys and its policy, if need be, and hold on to the others' certificates.

    Args:
        hosts: The hosts of all parties.
        renew: Whether a host that has keys makes new ones.
        policy_text: The policy that each host writes. Without such a text, policies that exist stay.
        progress: A function that is told each step.
        models: The names of the security models that a new policy accepts, if there is no `policy_text`.

    Returns:
        All certificates (PEM), by engine and party.

    Raises:
        HostUnreachableError: A host is not reached.
        HostUnfitError: The ssh key of a host is for the agent alone, and starts no set-up.
        CertificateError: Others cannot trust a certificate, or it replaces another one.
    """
    with connected(hosts, progress, Role.SETUP, "environments") as connections:
        progress("keys")

        def make(connection: HostConnection) -> dict[str, str]:
            message = SetUp(
                party=connection.host.party,
                renew=renew,
                policy_text=policy_text,
                models=list(models),
                port=connection.host.port,
                client_port=connection.host.client_port,
            )
            return connection.ask(message)

        certificates_of_hosts = at_once(make, connections)
        certificates: dict[str, dict[int, str]] = {}
        for name in engines():
            certificates[name] = {
                party: by_engine.get(name, "") for party, by_engine in enumerate(certificates_of_hosts)
            }
        _check_certificates(hosts, certificates)
        progress("certificates")
        successors_of_hosts = at_once(
            lambda connection: connection.ask(GetSuccessors(party=connection.host.party)), connections
        )
        # `Pin` has both: by engine, and by the party's number as a text.
        stated: dict[str, dict[str, str]] = {}
        successors: dict[str, dict[str, list[Signed]]] = {}
        for name in engines():
            stated[name] = {str(party): text for party, text in certificates[name].items()}
            successors[name] = {
                str(party): by_engine.get(name, []) for party, by_engine in enumerate(successors_of_hosts)
            }

        def pin(connection: HostConnection) -> None:
            message = Pin(party=connection.host.party, certificates=stated, successors=successors)
            connection.ask(message)

        at_once(pin, connections)
    return certificates


def _check_certificates(hosts: Sequence[Host], certificates: Mapping[str, Mapping[int, str]]) -> None:
    """Raise CertificateError unless each host's certificates, by engine and party, may be trusted."""
    for name, engine in engines().items():
        for host in hosts:
            text = certificates[name][host.party]
            try:
                check_certificate(text.encode(), engine.common_name(host.party), "its certificate")
            except CertificateError as error:
                renewal = named_call("hosts.setup", renew=True)
                raise CertificateError(
                    f"{host.title}: {str(error).rstrip('.')}; make new ones by {renewal}."
                ) from None


@dataclass(frozen=True)
class KeptStatement:
    """A statement that a host keeps of a run.

    Attributes:
        statement: The statement, whose run's name is a token.
        request: The request for the run, as the statement has it.
    """

    statement: Statement
    request: Request


class LeftoverRun(Struct, frozen=True, kw_only=True):
    """The result of a run whose coordinator went away before it read the result: `hosts.collect`'s file.

    Attributes:
        schema: The version of the file's fields.
        run: The run's name.
        task: The name of the release.
        security: The name of the security model, with the number of parties if it is not the usual one.
        ended: The time at which the run ended, by the clock of a host that keeps its result.
        outputs: The opened integers, by the names of their lines. None unless all of the run's hosts signed
            the same.
        parties: The numbers of the parties whose hosts keep a statement.
    """

    schema: int
    run: str
    task: str
    security: str
    ended: str
    outputs: dict[str, list[int]] | None
    parties: list[int]


def leftover_runs(hosts: Sequence[Host], progress: Progress) -> list[LeftoverRun]:
    """Return the results of runs whose coordinator went away before it read them, the oldest first.

    Raises:
        HostUnfitError: A host keeps a statement of another party, or two of one run.
    """
    with connected(hosts, progress) as connections:
        progress("collect")
        kept_by_hosts = at_once(_kept, connections)
    runs: dict[str, list[KeptStatement]] = {}
    for statements in kept_by_hosts:
        for kept in statements:
            runs.setdefault(kept.statement.ran.run, []).append(kept)
    results = [leftover_run(statements) for statements in runs.values()]
    return sorted(results, key=lambda result: result.ended)


def _kept(connection: HostConnection) -> list[KeptStatement]:
    """Return the statements that a host keeps of its runs, which it has signed. Raises HostUnfitError."""
    host = connection.host
    refusal = Refusal(
        HostUnfitError,
        where=f"{host.title}: what it keeps",
        what="what hosts of this version sign",
        way_out="update FairShares there, or ask its owner",
    )
    kept: list[KeptStatement] = []
    for signed in connection.ask(Collect()):
        statement = read_signed(Statement, signed, refusal)
        if not is_token(statement.ran.run):
            refusal.say("it names a run that cannot be")
        try:
            request = request_of_run(statement.ran.asked)
        except OptionError:
            refusal.say("it is of a request that cannot be")
        kept.append(KeptStatement(statement, request))
    ran = [known.statement.ran for known in kept]
    own_runs = {intent.run for intent in ran if intent.party == host.party}
    if len(own_runs) < len(kept):
        raise HostUnfitError(
            f"{host.title} keeps what another party revealed, or the same run twice; correct hosts.toml, or "
            "ask its owner."
        )
    return kept


def leftover_run(kept: Sequence[KeptStatement]) -> LeftoverRun:
    """Return the result of a run, from the statements that hosts keep of it."""
    first = kept[0]
    statements = [known.statement for known in kept]
    signed_the_same = all(shared(statement) == shared(first.statement) for statement in statements)
    is_whole = len(statements) == first.request.model.parties
    return LeftoverRun(
        schema=1,
        run=first.statement.ran.run,
        task=first.request.task,
        security=first.request.model.title,
        ended=first.statement.ended,
        outputs=first.statement.outputs if signed_the_same and is_whole else None,
        parties=[statement.ran.party for statement in statements],
    )


def clean_up(hosts: Sequence[Host], progress: Progress) -> list[dict[str, int]]:
    """Have each host remove the remains of runs; return, by host, how many of each kind it removed."""
    with connected(hosts, progress) as connections:
        progress("clean")
        removed = at_once(lambda connection: connection.ask(Clean()), connections)
    return [to_builtins(counts) for counts in removed]


SHOWN = 17  # characters of a fingerprint
_NO_GREETING = bytes(NONCE_BYTES).hex()  # a greeting that no agent says
LOOKED_AT = ("ssh", "project", "clock", "engine", "directory", "policy", "certificates", "port", "clients")


@dataclass(frozen=True)
class HostAnswer:
    """A host's facts about itself, and the offset of its clock that its time shows.

    Attributes:
        facts: The facts that the host told.
        skew_s: The seconds by which the host's clock is ahead of this machine's clock, negative if it is
            behind.
    """

    facts: HostFacts
    skew_s: float


@dataclass
class Finding:
    """The findings about one host.

    Attributes:
        host: The host.
        faults: A sentence for each fault, by a name in `LOOKED_AT`.
        answer: The host's answer; None if it told nothing.
    """

    host: Host
    faults: dict[str, str] = field(default_factory=dict)
    answer: HostAnswer | None = None

    def marks(self) -> dict[str, bool]:
        """Return whether each of `LOOKED_AT` is right, without those that were not checked."""
        marks = {"ssh": True}
        if self.answer is not None:
            marks = dict.fromkeys(LOOKED_AT, True)
            if self.host.client_port is None:
                del marks["clients"]  # it takes no clients
        for name in self.faults:
            marks[name] = False
        return marks

    def to_json(self) -> JsonObject:
        """Return the entry in `hosts.check --json`."""
        fields: dict[str, JsonValue] = {
            "party": self.host.party,
            "address": self.host.address,
            "fit": not self.faults,
            "faults": dict(self.faults),
        }
        if self.answer is None:
            return fields | {
                "notices": [],
                "clock_ahead_s": 0.0,
                "commit": None,
                "engine_version": None,
                "party_can": [],
                "free_bytes": None,
                "ledger_bytes": None,
                "expires": {},
                "environment": None,
            }
        facts = self.answer.facts
        return fields | {
            "notices": list(facts.notices),
            "clock_ahead_s": round(self.answer.skew_s, 3),
            "commit": facts.commit,
            "engine_version": facts.engine_version,
            "party_can": [protection.value for protection in facts.unprotected],
            "free_bytes": facts.free_bytes,
            "ledger_bytes": facts.ledger_bytes,
            "expires": dict(facts.expires),
            "environment": as_json(facts.environment),
        }


@dataclass(frozen=True)
class ReachedHost:
    """A host to which this machine is connected, with the findings about it."""

    finding: Finding
    connection: HostConnection

    @classmethod
    def by(cls, connection: HostConnection) -> Self:
        """Return the host at the other end of a connection, of which nothing is found yet."""
        return cls(Finding(connection.host), connection)

    @property
    def host(self) -> Host:
        """The host."""
        return self.finding.host

    @property
    def faults(self) -> dict[str, str]:
        """The faults that are found, to which more are added."""
        return self.finding.faults


@dataclass(frozen=True)
class Answered(ReachedHost):
    """A reached host that told its facts."""

    answer: HostAnswer

    @property
    def facts(self) -> HostFacts:
        """The facts that the host told."""
        return self.answer.facts


def check_hosts(hosts: Sequence[Host], model: SecurityModel, progress: Progress) -> list[Finding]:
    """Look at every host, whatever is wrong with others; try clients' ports from this machine."""
    with ExitStack() as stack:

        def connect(host: Host) -> ReachedHost | Finding:
            try:
                connection = HostConnection(host)
            except FairSharesError as error:
                return Finding(host, faults={"ssh": str(error)})
            stack.callback(connection.close)
            return ReachedHost.by(connection)

        progress("connect")
        looked_at = at_once(connect, hosts)
        reached = [host for host in looked_at if isinstance(host, ReachedHost)]
        answered = check_connected(reached, model, progress)
        _find_early_acceptance(answered, engine_of(model))
        progress("clients")
        at_once(_reach_as_clients, [host for host in answered if host.host.client_port is not None])
    return [host.finding if isinstance(host, ReachedHost) else host for host in looked_at]


def fit_hosts(
    connections: Sequence[HostConnection], model: SecurityModel, progress: Progress, otherwise: str = ""
) -> list[Answered]:
    """Return the facts that hosts told, if all of them are fit.

    Raises:
        HostUnfitError: At least one host is unfit. The error has all faults, and ends with `otherwise`.
    """
    reached = [ReachedHost.by(connection) for connection in connections]
    answered = check_connected(reached, model, progress)
    faults = [fault for host in reached for fault in host.faults.values()]
    if faults:
        raise HostUnfitError(f"{' '.join(faults)}{otherwise}")
    return answered


def check_connected(
    reached: Sequence[ReachedHost], model: SecurityModel, progress: Progress
) -> list[Answered]:
    """Look at connected hosts; return those that told their facts."""
    progress("look")
    looked_at = at_once(lambda host: _look(host, model), reached)
    answered = [host for host in looked_at if host is not None]
    if answered:
        _compare_versions(answered)
        _compare_certificates(answered)
    progress("ports")
    may_listen = [host for host in answered if not {"directory", "policy"} & host.faults.keys()]
    _reach_each_other(may_listen, engine_of(model))
    return answered


def skew_s(asked: float, stated: float, answered: float) -> float:
    """Return the least number of seconds by which another clock is ahead of this machine's.

    It is negative for a clock that is behind, and 0 for a clock that may be right.
    [test: tests/harness/hosts/test_connection.py]

    Args:
        asked: The time at which the other machine was asked for its time, by this machine's clock.
        stated: The time that it stated, by its own clock.
        answered: The time at which the answer was here, by this machine's clock.
    """
    if stated > answered:
        return stated - answered
    return min(0.0, stated - asked)


def _look(reached: ReachedHost, model: SecurityModel) -> Answered | None:
    """Ask a host for its facts, and note the faults that follow from them; None if it tells none."""
    host = reached.host
    asked = time.time()
    message = Check(
        party=host.party,
        security=model.name,
        parties=model.stated_parties,
        port=host.port,
        client_ports=list(host.client_ports),
    )
    try:
        facts = reached.connection.ask(message)
    except FairSharesError as error:
        name = "policy" if isinstance(error, PolicyError) else "directory"
        reached.faults[name] = str(error)
        return None
    answer = HostAnswer(facts, skew_s(asked, facts.time, time.time()))
    reached.finding.answer = answer
    _note_faults(reached.host, answer, reached.faults)
    return Answered(reached.finding, reached.connection, answer)


def _note_faults(host: Host, answer: HostAnswer, faults: dict[str, str]) -> None:
    """Add the faults that follow from a host's own facts."""
    facts = answer.facts
    for what, stated in ((PROGRAM_TEXTS, facts.programs), (CODE, facts.code)):
        if stated != sources_hash(*COMPARED_FOLDERS[what]) and "project" not in faults:
            faults["project"] = (
                f"{host.title}: the {what} in {host.project} (commit {facts.commit[:12]}) are not "
                "those here; bring both to the same commit, without changes of their own."
            )
    if abs(answer.skew_s) > MAX_SKEW_S:
        direction = "ahead of" if answer.skew_s > 0 else "behind"
        faults["clock"] = (
            f"{host.title}: its clock is {abs(answer.skew_s):.0f} s {direction} this machine's; set both, "
            "by NTP for example."
        )
    told = {
        "engine": facts.unavailable,
        "certificates": facts.keys,
        "directory": facts.directory,
        "policy": facts.policy,
        "port": facts.port,
        "clients": facts.clients,
    }
    for name, fault in told.items():
        if fault is not None:
            faults[name] = f"{host.title}: {fault}"
    if facts.free_bytes < LEAST_FREE_BYTES and "directory" not in faults:
        faults["directory"] = (
            f"{host.title}: {facts.free_bytes // 10**6} MB are free for {host.directory}, less than "
            f"{LEAST_FREE_BYTES / 1e6:.0f} MB."
        )
    if facts.cache_free_bytes < LEAST_FREE_BYTES and "directory" not in faults:
        faults["directory"] = (
            f"{host.title}: {facts.cache_free_bytes // 10**6} MB are free for compiled programs (in "
            f"$XDG_CACHE_HOME), less than {LEAST_FREE_BYTES / 1e6:.0f} MB."
        )


def _compare_versions(answered: Sequence[Answered]) -> None:
    """Note a fault of each host whose engine has another version than the first host's engine."""
    with_engine = [host for host in answered if "engine" not in host.faults]
    for other in with_engine:
        first = with_engine[0]
        if other.facts.engine_version != first.facts.engine_version:
            other.faults["engine"] = (
                f"{other.host.title} has {other.facts.engine_version}, {first.host.name} has "
                f"{first.facts.engine_version}; all hosts need the same."
            )


def _compare_certificates(answered: Sequence[Answered]) -> None:
    """Note a fault of each host that holds another certificate of a party than the party's own host has."""
    for owner in answered:
        host = owner.host
        party = str(host.party)
        own = owner.facts.fingerprints.get(party, "")
        for other in answered:
            fingerprint = other.facts.fingerprints.get(party, own)
            if own and fingerprint != own:
                other.faults.setdefault(
                    "certificates",
                    f"{other.host.title} holds another certificate of party {party} "
                    f"({fingerprint[:SHOWN]}…) than "
                    f"{host.name} has ({own[:SHOWN]}…); if that host has new keys, accept them by "
                    f"{named_command('hosts.setup')}, if not, somebody is in its place.",
                )


def _called_by(number: int, hosts: Sequence[T], engine: Engine) -> Sequence[T]:
    """Return the hosts, in the parties' order, to which the party of one of them connects."""
    return hosts[:number] if engine.connects_down else hosts[number + 1 :]


_IN_FRONT = (
    "something in front of it accepts connections while nothing listens there, as some proxies and load "
    "balancers do; who calls before it listens would take that for it, and end. Have that pass connections "
    "on, or be reached without it."
)


def _find_early_acceptance(answered: Sequence[Answered], engine: Engine) -> None:
    """Have hosts call each other while none listens, and note a fault of each that seems to accept.

    A party that calls early tries again while it is refused. A proxy that accepts in the place of a party
    that does not listen yet ends the caller, after the charge.  [test: tests/commands/test_hosts.py]
    """
    hosts = [host for host in answered if not {"directory", "policy", "port"} & host.faults.keys()]

    def call(number: int) -> None:
        """Have a host call those others that its party will connect to."""
        called = _called_by(number, hosts, engine)
        others = [listener(other.host, _NO_GREETING) for other in called]
        calls = answers_of_each(hosts[number].connection, Reach(others=others), others)
        for other, call_end in zip(called, calls, strict=True):
            if not isinstance(call_end, NobodyAccepts):
                address, port = other.host.reached
                other.faults.setdefault("port", f"{other.host.title}: at {address}:{port} {_IN_FRONT}")

    at_once(call, range(len(hosts)))


def _reach_as_clients(reached: ReachedHost) -> None:
    """Call a host's port for clients from this machine, and note a fault if it cannot be reached."""
    host = reached.host
    if {"clients", "directory", "policy"} & reached.faults.keys():
        return
    address, port = host.client_reached
    listened_at = host.client_ports[0]  # which may be another one than callers reach
    while_it_listens = reach(address, port, reached.connection.ask(Listen(port=listened_at)))
    reached.connection.ask(StopListening())
    if not isinstance(while_it_listens, AgentGreets):
        reached.faults["clients"] = (
            f"{host.title}: this machine cannot reach it for clients at {address}:{port}: "
            f"{while_it_listens.fault}; open the port to clients, or correct client_reached_at in hosts.toml."
        )
    elif not isinstance(reach(address, port, _NO_GREETING), NobodyAccepts):
        reached.faults["clients"] = f"{host.title}: at {address}:{port} {_IN_FRONT}"


def _reach_each_other(reached: Sequence[ReachedHost], engine: Engine) -> None:
    """Have agents listen and connect as their parties will, and note a fault of each that is not reached."""
    able = [number for number, host in enumerate(reached) if "port" not in host.faults]

    def listen(number: int) -> str:
        """Have a host listen; return its greeting."""
        return reached[number].connection.ask(Listen(port=reached[number].host.port))

    greetings = dict(
        zip(able, at_once(listen, able), strict=True)
    )  # of the hosts that listen, by their number

    def call(number: int) -> None:
        """Have a host call those others that its party will connect to."""
        caller = reached[number]
        if engine.connects_down:
            called_numbers = [other for other in greetings if other < number]
        else:
            called_numbers = [other for other in greetings if other > number]
        called = [reached[other] for other in called_numbers]
        listeners = [listener(reached[other].host, greetings[other]) for other in called_numbers]
        calls = answers_of_each(caller.connection, Reach(others=listeners), listeners)
        for other, call_end in zip(called, calls, strict=True):
            if not isinstance(call_end, AgentGreets):
                address, port = other.host.reached
                other.faults.setdefault(
                    "port",
                    f"{other.host.title}: {caller.host.name} cannot reach it at {address}:{port}: "
                    f"{call_end.fault}; open the port to it, or correct reached_at in hosts.toml.",
                )

    at_once(call, range(len(reached)))
    ask_all([host.connection for host in reached], StopListening())
