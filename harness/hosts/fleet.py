"""Actions on all hosts of a run at once."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from typing import Any, TypeVar

from harness.engines.base import Progress
from harness.engines.engine import Engine
from harness.engines.parties.certificates import check as check_certificate
from harness.engines.registry import engines
from harness.errors import CertificateError, HostUnfitError
from harness.hosts.cleanup import RUN, Removed
from harness.hosts.connection import Connection
from harness.hosts.inventory import Host
from harness.hosts.signed_results import Signed, Statement, read_signed, shared
from harness.request.releases import REQUESTS
from harness.security_models import MODELS, get_model
from harness.system.documents import Refusal
from harness.system.signals import uninterrupted

T = TypeVar("T")
U = TypeVar("U")

RENEW = "make all anew by ./inv hosts.setup --renew"


def at_once(function: Callable[[T], U], each: Sequence[T]) -> list[U]:
    """Return the function's values, computed at the same time; when all have ended, raise the first error."""
    with ThreadPoolExecutor(max(1, len(each))) as pool:
        waiting = [pool.submit(function, one) for one in each]
    return [one.result() for one in waiting]


def ask_of_others(one: Connection, request: str, kind: Any, others: Sequence[tuple[Host, str]]) -> list[Any]:
    """Return a host's answers, each a `kind`, about other hosts that listen, given their greetings."""
    wanted = [(*host.reached, greeting) for host, greeting in others]
    return list(one.ask(request, kind=tuple.__class_getitem__((kind,) * len(wanted)), others=wanted))


@contextmanager
def connected(hosts: Sequence[Host], role: str = "agent") -> Iterator[list[Connection]]:
    """Yield connections to all hosts; afterwards end their agents.

    Raises HostUnreachableError or HostUnfitError.
    """
    connections: list[Connection] = []
    try:
        at_once(lambda host: connections.append(Connection(host, role)), hosts)
        yield sorted(connections, key=lambda one: one.host.party)
    finally:
        with uninterrupted():
            at_once(Connection.close, connections)


def set_up(
    hosts: Sequence[Host], renew: bool, policy_text: str | None, progress: Progress
) -> dict[str, dict[int, str]]:
    """Have each host make its keys and policy, if need be, and hold on to the others' certificates.

    Without a `policy_text` for all, existing policies stay.

    Returns:
        All certificates, by engine and party; they are all that went from host to host.
    Raises:
        HostUnreachableError: A host cannot be reached.
        HostUnfitError: A key is not for a login.
        CertificateError: A host holds another certificate, or has one that others cannot trust.
    """
    progress("environments")
    with connected(hosts, "setup") as connections:
        progress("keys")
        own = at_once(
            lambda one: one.ask(
                "setup",
                kind=dict[str, str],
                party=one.host.party,
                renew=renew,
                policy_text=policy_text,
                port=one.host.port,
                client_port=one.host.client_port,
            ),
            connections,
        )
        certificates = {name: {i: texts.get(name, "") for i, texts in enumerate(own)} for name in engines()}
        for name, engine in engines().items():
            for host in hosts:
                check_own(host, engine, certificates[name][host.party])
        progress("certificates")
        at_once(lambda one: one.ask("pin", party=one.host.party, certificates=certificates), connections)
    return certificates


def check_own(host: Host, engine: Engine, certificate: str) -> None:
    """Check a host's certificate; CertificateError if no other host can trust it."""
    try:
        check_certificate(certificate.encode(), engine.common_name(host.party), "its certificate")
    except CertificateError as error:
        raise CertificateError(f"{host.title}: {str(error).rstrip('.')}; {RENEW}.") from None


def leftover_runs(hosts: Sequence[Host], progress: Progress) -> list[dict[str, Any]]:
    """Return what runs opened whose coordinator went away before it read that, the oldest first.

    Returns:
        Per run, the statement of the first host that has it, and whose hosts have it; `outputs` where all
        hosts of the run signed the same.
    Raises:
        HostUnfitError: A host has another party's records, or one twice.
    """
    progress("connect")
    with connected(hosts) as connections:
        progress("collect")
        kept = at_once(_kept, connections)
    runs: dict[str, list[Statement]] = {}
    for statement in chain.from_iterable(kept):
        runs.setdefault(statement.ran.run, []).append(statement)
    return sorted(map(_together, runs.values()), key=lambda run: str(run["ended"]))


def _kept(connection: Connection) -> list[Statement]:
    host = connection.host
    where, way_out = f"{host.title}: what it keeps", "update FairShares there, or ask its owner"
    refusal = Refusal(HostUnfitError, where, "what hosts of this version sign", way_out)
    signed = connection.ask("collect", kind=list[Signed])
    kept = [read_signed(Statement, one, refusal) for one in signed]
    for ran in (statement.ran for statement in kept):
        is_known = ran.asked.get("task") in REQUESTS and ran.asked.get("security") in MODELS
        if not is_known or not RUN.fullmatch(ran.run):
            refusal.say("it names a run, a task or a model that cannot be")
    if len({statement.ran.run for statement in kept if statement.ran.party == host.party}) < len(kept):
        raise HostUnfitError(
            f"{host.title} keeps what another party revealed, or the same run twice; correct hosts.toml, or "
            "ask its owner."
        )
    return kept


def _together(statements: Sequence[Statement]) -> dict[str, Any]:
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


def clean_up(hosts: Sequence[Host], progress: Progress) -> list[Removed]:
    """Have each host end and remove what runs left; return their counts."""
    progress("connect")
    with connected(hosts) as connections:
        progress("clean")
        return at_once(lambda one: one.ask("clean", kind=Removed), connections)
