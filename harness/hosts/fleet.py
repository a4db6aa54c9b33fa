"""All hosts of a run at once: connected, asked the same, set up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from typing import Any, TypeVar

from harness.engines.base import Progress
from harness.engines.output_parser import parse_outputs
from harness.errors import OutputError
from harness.hosts.connection import Connection, NoEnvironmentError, make_environment
from harness.hosts.inventory import Host
from harness.security_models import get_model
from harness.system.signals import uninterrupted
from protocols.spec import PROTOCOLS

T = TypeVar("T")
U = TypeVar("U")


def at_once(function: Callable[[T], U], each: Sequence[T]) -> list[U]:
    """Return the function's value of each, computed at the same time.

    Raises: what it raises for the first of those for which it raises anything, when all have ended.
    """
    with ThreadPoolExecutor(max(1, len(each))) as pool:
        waiting = [pool.submit(function, one) for one in each]
    return [one.result() for one in waiting]


@contextmanager
def connected(
    hosts: Sequence[Host], connect: Callable[[Host], Connection] = Connection
) -> Iterator[list[Connection]]:
    """Yield connections to all hosts; end their agents, and what these had started, afterwards.

    Raises: HostUnreachableError; HostUnfitError.
    """
    with ExitStack() as stack:
        connections: list[Connection] = []

        def close() -> None:
            with uninterrupted():
                at_once(Connection.close, connections)

        stack.callback(close)

        def open_one(host: Host) -> None:
            connections.append(connect(host))

        at_once(open_one, hosts)
        yield sorted(connections, key=lambda one: one.host.party)


def set_up(
    hosts: Sequence[Host], renew: bool, policy_text: str | None, progress: Progress
) -> dict[str, dict[int, str]]:
    """Have each host make its keys and policy, if need be, and hold on to the others' certificates.

    Args: policy_text: for all hosts; None: the default, where there is no policy.
    Returns: all certificates, by engine and party; they are all that went from host to host.
    Raises: HostUnreachableError; HostUnfitError: a key is not for a login; CertificateError: a host holds on
    to another certificate; PolicyError.
    """
    progress("environments")
    with connected(hosts, _connect_with_environment) as connections:
        progress("keys")
        own = at_once(
            lambda one: one.ask("setup", party=one.host.party, renew=renew, policy_text=policy_text),
            connections,
        )
        engines = list(own[0])
        certificates = {name: {i: texts[name] for i, texts in enumerate(own)} for name in engines}
        progress("certificates")
        at_once(lambda one: one.ask("pin", party=one.host.party, certificates=certificates), connections)
    return certificates


def leftover_runs(hosts: Sequence[Host], progress: Progress) -> list[dict[str, Any]]:
    """Return what runs opened whose starter went away before it read that, per run, the oldest first.

    Returns: per run its facts; `outputs` where all parties' records are there and agree; per party, times
    and sizes as it printed them.
    """
    progress("connect")
    with connected(hosts) as connections:
        progress("collect")
        kept = at_once(lambda one: one.ask("collect"), connections)
    runs: dict[str, list[dict[str, Any]]] = {}
    for record in chain.from_iterable(kept):
        runs.setdefault(record["run"], []).append(record)
    return sorted((_together(records) for records in runs.values()), key=lambda run: str(run["ended"]))


def _together(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    first, parties = records[0], get_model(records[0]["model"]).parties
    lines = [record["lines"] for record in records]
    outputs: Any = None
    if len(records) == parties:
        with suppress(OutputError):
            outputs = parse_outputs(lines, PROTOCOLS[first["protocol"]].outputs)
    said = {str(record["party"]): record["lines"] for record in records}
    facts = ("run", "model", "protocol", "arguments", "program_hash", "engine_version", "ended")
    return {"schema": 1, **{name: first[name] for name in facts}, "outputs": outputs, "parties": said}


def clean_up(hosts: Sequence[Host], progress: Progress) -> list[dict[str, int]]:
    """Have each host end and remove what runs left; return per host how much that was."""
    progress("connect")
    with connected(hosts) as connections:
        progress("clean")
        return at_once(lambda one: one.ask("clean"), connections)


def _connect_with_environment(host: Host) -> Connection:
    try:
        return Connection(host, "setup")
    except NoEnvironmentError:
        make_environment(host)
    return Connection(host, "setup")
