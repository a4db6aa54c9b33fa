"""Actions on all hosts of a run, and checks of each."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

from msgspec import to_builtins

from fairshares.harness.engines.base import Progress
from fairshares.harness.engines.engine import Engine
from fairshares.harness.engines.parties.certificates import check as check_certificate
from fairshares.harness.engines.program_hash import sources_hash
from fairshares.harness.engines.registry import engine_of, engines
from fairshares.harness.errors import CertificateError, FairSharesError, HostUnfitError, PolicyError
from fairshares.harness.hosts.connection import Connection, refusal_of
from fairshares.harness.hosts.inventory import Host
from fairshares.harness.hosts.local_host import CODE, PROGRAMS, SOURCES, reach
from fairshares.harness.hosts.messages import (
    Check,
    Clean,
    Collect,
    GetSuccessors,
    HostFacts,
    Listen,
    Listener,
    Message,
    Pin,
    Reach,
    SetUp,
    StopListening,
    is_token,
)
from fairshares.harness.hosts.party_run import MAX_SKEW_S
from fairshares.harness.hosts.signed_results import Statement, read_signed, shared
from fairshares.harness.releases.registry import REQUESTS
from fairshares.harness.security_models import MODELS, SecurityModel, get_model
from fairshares.harness.system.documents import Refusal
from fairshares.harness.system.signals import uninterrupted
from fairshares.protocols.json_values import JsonObject

T = TypeVar("T")
U = TypeVar("U")

RENEW = "make new ones by ./inv hosts.setup --renew"


def at_once(function: Callable[[T], U], each: Sequence[T]) -> list[U]:
    """Return the function's values, computed at once; raise the first error at the end."""
    with ThreadPoolExecutor(max(1, len(each))) as pool:
        return list(pool.map(function, each))


def listener(host: Host, greeting: str) -> Listener:
    """Return where a host's agent listens for others, and how it greets them."""
    address, port = host.reached
    return Listener(address=address, port=port, greeting=greeting)


def answers_of_each(connection: Connection, message: Message[list[T]], others: Sequence[Listener]) -> list[T]:
    """Return a host's answers about other hosts, in their order; HostUnfitError for another number."""
    answers = connection.ask(message)
    if len(answers) != len(others):
        fault = f"expected `array` of length {len(others)}, got {len(answers)}"
        refusal_of(connection.host, message.name()).say(fault)
    return answers


@contextmanager
def connected(
    hosts: Sequence[Host], progress: Progress, role: str = "agent", step: str = "connect"
) -> Iterator[list[Connection]]:
    """Yield connections to all hosts; HostUnreachableError or HostUnfitError without one."""
    progress(step)
    connections: list[Connection] = []
    try:
        at_once(lambda host: connections.append(Connection(host, role)), hosts)
        yield sorted(connections, key=lambda one: one.host.party)
    finally:
        with uninterrupted():
            at_once(Connection.close, connections)


def set_up(
    hosts: Sequence[Host],
    renew: bool,
    policy_text: str | None,
    progress: Progress,
    models: Sequence[str],
) -> dict[str, dict[int, str]]:
    """Have each host make its keys and policy, if need be, and hold on to the others' certificates.

    Without a `policy_text`, existing policies stay, and new ones accept the `models` alone. Return all
    certificates, by engine and party.

    Raises HostUnreachableError; HostUnfitError if a key is not for a login; CertificateError for one that
    others cannot trust, or that replaces another.
    """
    with connected(hosts, progress, "setup", "environments") as connections:
        progress("keys")

        def make(connection: Connection) -> dict[str, str]:
            message = SetUp(
                party=connection.host.party,
                renew=renew,
                policy_text=policy_text,
                models=list(models),
                port=connection.host.port,
                client_port=connection.host.client_port,
            )
            return connection.ask(message)

        own = at_once(make, connections)
        certificates = {name: {i: texts.get(name, "") for i, texts in enumerate(own)} for name in engines()}
        for name, engine in engines().items():
            for host in hosts:
                text = certificates[name][host.party]
                try:
                    check_certificate(text.encode(), engine.common_name(host.party), "its certificate")
                except CertificateError as error:
                    raise CertificateError(f"{host.title}: {str(error).rstrip('.')}; {RENEW}.") from None
        progress("certificates")
        signed = at_once(
            lambda connection: connection.ask(GetSuccessors(party=connection.host.party)), connections
        )
        stated = {
            name: {str(party): texts for party, texts in by_party.items()}
            for name, by_party in certificates.items()
        }
        successors = {
            name: {str(party): of_host.get(name, []) for party, of_host in enumerate(signed)}
            for name in engines()
        }

        def pin(connection: Connection) -> None:
            message = Pin(party=connection.host.party, certificates=stated, successors=successors)
            connection.ask(message)

        at_once(pin, connections)
    return certificates


def leftover_runs(hosts: Sequence[Host], progress: Progress) -> list[JsonObject]:
    """Return the results of runs whose coordinator went away before it read them, the oldest first.

    A run has a statement, the parties whose hosts keep one, and `outputs` if all its hosts signed the same.
    Raises HostUnfitError if a host has another party's records, or one twice.
    """
    with connected(hosts, progress) as connections:
        progress("collect")
        kept = at_once(_kept, connections)
    runs: dict[str, list[Statement]] = {}
    for statement in chain.from_iterable(kept):
        runs.setdefault(statement.ran.run, []).append(statement)
    return sorted(map(_together, runs.values()), key=lambda run: str(run["ended"]))


def _kept(connection: Connection) -> list[Statement]:
    host = connection.host
    refusal = Refusal(
        HostUnfitError,
        where=f"{host.title}: what it keeps",
        what="what hosts of this version sign",
        way_out="update FairShares there, or ask its owner",
    )
    kept = [read_signed(Statement, signed, refusal) for signed in connection.ask(Collect())]
    for ran in (statement.ran for statement in kept):
        task, security = ran.asked.get("task"), ran.asked.get("security")
        if task not in REQUESTS or security not in MODELS or not is_token(ran.run):
            refusal.say("it names a run, a task or a model that cannot be")
    if len({statement.ran.run for statement in kept if statement.ran.party == host.party}) < len(kept):
        raise HostUnfitError(
            f"{host.title} keeps what another party revealed, or the same run twice; correct hosts.toml, or "
            "ask its owner."
        )
    return kept


def _together(statements: Sequence[Statement]) -> JsonObject:
    first, ran = statements[0], statements[0].ran
    alike = list(map(shared, statements)) == [shared(first)] * get_model(ran.asked["security"]).parties
    return {
        "schema": 1,
        "run": ran.run,
        "task": ran.asked["task"],
        "security": ran.asked["security"],
        "ended": first.ended,
        "outputs": first.outputs if alike else None,
        "parties": [statement.ran.party for statement in statements],
    }


def clean_up(hosts: Sequence[Host], progress: Progress) -> list[dict[str, int]]:
    """Have each host remove the remains of runs; return counts."""
    with connected(hosts, progress) as connections:
        progress("clean")
        removed = at_once(lambda connection: connection.ask(Clean()), connections)
    return [to_builtins(counts) for counts in removed]


LEAST_FREE_BYTES = 1 << 29
SHOWN = 17  # of a fingerprint
LOOKED_AT = ("ssh", "project", "clock", "engine", "directory", "policy", "certificates", "port", "clients")


@dataclass
class Finding:
    """Findings about one host, with `faults` by names in `LOOKED_AT`."""

    host: Host
    connection: Connection | None = None
    faults: dict[str, str] = field(default_factory=dict)
    facts: HostFacts | None = None
    skew_s: float = 0.0

    def ask(self, message: Message[T]) -> T:
        """Return the answer of a host that is connected. Raises as `Connection.ask`."""
        assert self.connection is not None
        return self.connection.ask(message)

    def marks(self) -> dict[str, bool | None]:
        """Return whether each of `LOOKED_AT` is right; None if unknown."""
        known = None if self.facts is None else True
        return {
            **dict.fromkeys(LOOKED_AT, known),
            "ssh": True,
            "clients": known if self.host.client_port else None,
            **dict.fromkeys(self.faults, False),
        }

    def to_json(self) -> JsonObject:
        """Return the entry in `hosts.check --json`."""
        facts = self.facts
        return {
            "party": self.host.party,
            "address": self.host.address,
            "fit": not self.faults,
            "faults": self.faults,
            "notices": facts.notices if facts else [],
            "clock_ahead_s": round(self.skew_s, 3),
            "commit": facts.commit if facts else None,
            "engine_version": facts.engine_version if facts else None,
            "party_can": [protection.value for protection in facts.unprotected] if facts else [],
            "free_bytes": facts.free_bytes if facts else None,
            "environment": to_builtins(facts.environment) if facts else None,
        }


@dataclass(frozen=True)
class Answered:
    """A host that told its facts, with the findings about it."""

    finding: Finding
    facts: HostFacts


def check_hosts(hosts: Sequence[Host], model: SecurityModel, progress: Progress) -> list[Finding]:
    """Look at every host, whatever is wrong with others; try clients' ports from this machine."""
    with ExitStack() as stack:

        def connect(host: Host) -> Finding:
            try:
                connection = Connection(host)
            except FairSharesError as error:
                return Finding(host, faults={"ssh": str(error)})
            stack.callback(connection.close)
            return Finding(host, connection)

        progress("connect")
        findings = at_once(connect, hosts)
        connected_to = [finding for finding in findings if finding.connection is not None]
        check_connected(connected_to, model, progress)
        progress("clients")
        at_once(
            _reach_as_clients,
            [finding for finding in findings if finding.facts is not None and finding.host.client_port],
        )
    return findings


def fit_hosts(
    connections: Sequence[Connection], model: SecurityModel, progress: Progress, otherwise: str = ""
) -> list[Answered]:
    """Return what hosts told, or raise HostUnfitError with all faults, and then `otherwise`."""
    findings = [Finding(connection.host, connection) for connection in connections]
    answered = check_connected(findings, model, progress)
    faults = [fault for finding in findings for fault in finding.faults.values()]
    if faults:
        raise HostUnfitError(f"{' '.join(faults)}{otherwise}")
    return answered


def check_connected(findings: Sequence[Finding], model: SecurityModel, progress: Progress) -> list[Answered]:
    """Look at connected hosts; return those that told their facts."""
    progress("look")
    at_once(lambda finding: _look(finding, model), findings)
    answered = [Answered(finding, finding.facts) for finding in findings if finding.facts is not None]
    if answered:
        _compare_versions(answered)
        _compare_certificates(answered)
    progress("ports")
    told = [one.finding for one in answered]
    _reach_each_other(
        [finding for finding in told if not {"directory", "policy"} & finding.faults.keys()],
        engine_of(model),
    )
    return answered


def skew_s(asked: float, stated: float, answered: float) -> float:
    """Return the seconds by which another clock is at least ahead of ours, 0 if it may be right.

    It `stated` its time between the times `asked` and `answered` of our clock.
    [test: tests/harness/hosts/test_connection.py]
    """
    return stated - answered if stated > answered else min(0.0, stated - asked)


def _look(finding: Finding, model: SecurityModel) -> None:
    host, faults, asked = finding.host, finding.faults, time.time()
    message = Check(
        party=host.party, security=model.name, port=host.port, client_ports=list(host.client_ports)
    )
    try:
        facts = finding.ask(message)
    except FairSharesError as error:
        faults["policy" if isinstance(error, PolicyError) else "directory"] = str(error)
        return
    finding.facts, finding.skew_s = facts, skew_s(asked, facts.time, time.time())
    for what, stated in ((PROGRAMS, facts.programs), (CODE, facts.code)):
        if stated != sources_hash(*SOURCES[what]) and "project" not in faults:
            faults["project"] = (
                f"{host.title}: the {what} in {host.project} (commit {facts.commit[:12]}) are not "
                "those here; bring both to the same commit, without changes of their own."
            )
    if abs(finding.skew_s) > MAX_SKEW_S:
        faults["clock"] = (
            f"{host.title}: its clock is {abs(finding.skew_s):.0f} s "
            f"{'ahead of' if finding.skew_s > 0 else 'behind'} this machine's; set both, by NTP for example."
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


def _compare_versions(answered: Sequence[Answered]) -> None:
    with_engine = [one for one in answered if "engine" not in one.finding.faults]
    for other in with_engine:
        own, first = other.facts.engine_version, with_engine[0].facts.engine_version
        if own != first:
            other.finding.faults["engine"] = (
                f"{other.finding.host.title} has {own}, {with_engine[0].finding.host.name} has {first}; all "
                "hosts need the same."
            )


def _compare_certificates(answered: Sequence[Answered]) -> None:
    for owner in answered:
        host = owner.finding.host
        party = str(host.party)
        own = owner.facts.fingerprints.get(party, "")
        for other in answered:
            fingerprint = other.facts.fingerprints.get(party, own)
            if own and fingerprint != own:
                other.finding.faults.setdefault(
                    "certificates",
                    f"{other.finding.host.title} holds another certificate of party {party} "
                    f"({fingerprint[:SHOWN]}…) than "
                    f"{host.name} has ({own[:SHOWN]}…); if that host has new keys, accept them by ./inv "
                    "hosts.setup, if not, somebody is in its place.",
                )


def _reach_as_clients(finding: Finding) -> None:
    host = finding.host
    if {"clients", "directory", "policy"} & finding.faults.keys():
        return
    address, port = host.client_reached
    fault = reach(address, port, finding.ask(Listen(port=host.client_port)))
    finding.ask(StopListening())
    if fault is not None:
        finding.faults["clients"] = (
            f"{host.title}: this machine cannot reach it for clients at {address}:{port}: {fault}; open the "
            "port to clients, or correct client_reached_at in hosts.toml."
        )


def _reach_each_other(findings: Sequence[Finding], engine: Engine) -> None:
    """Have agents listen and connect as their parties will."""
    able = [number for number, finding in enumerate(findings) if "port" not in finding.faults]
    greetings = at_once(lambda i: findings[i].ask(Listen(port=findings[i].host.port)), able)
    listened = [(number, findings[number], text) for number, text in zip(able, greetings, strict=True)]

    def reach(number: int) -> None:
        finding = findings[number]
        others = [
            (other, text)
            for i, other, text in listened
            if i != number and (i < number) == engine.connects_down
        ]
        wanted = [listener(other.host, text) for other, text in others]
        assert finding.connection is not None
        faults = answers_of_each(finding.connection, Reach(others=wanted), wanted)
        for (there, _), fault in zip(others, faults, strict=True):
            if fault is not None:
                address, port = there.host.reached
                there.faults.setdefault(
                    "port",
                    f"{there.host.title}: {finding.host.name} cannot reach it at {address}:{port}: {fault}; "
                    "open the port to it, or correct reached_at in hosts.toml.",
                )

    at_once(reach, range(len(findings)))
    at_once(lambda finding: finding.ask(StopListening()), findings)
