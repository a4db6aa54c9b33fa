"""All hosts of a run at once: connected, asked the same, set up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from harness.engines.base import Progress
from harness.hosts.connection import Connection, NoEnvironmentError, make_environment
from harness.hosts.inventory import Host
from harness.interrupts import uninterrupted

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


def set_up(hosts: Sequence[Host], renew: bool, progress: Progress) -> dict[str, dict[int, str]]:
    """Have each host make its keys, if need be, and hold on to the others' certificates.

    Returns: all certificates, by engine and party; they are all that went from host to host.
    Raises: HostUnreachableError; HostUnfitError; CertificateError: a host holds on to another one.
    """
    progress("environments")
    with connected(hosts, _connect_with_environment) as connections:
        progress("keys")
        made = at_once(lambda one: one.ask("setup", party=one.host.party, renew=renew), connections)
        engines = list(made[0])
        found = {name: {i: texts[name] for i, texts in enumerate(made)} for name in engines}
        progress("certificates")
        at_once(lambda one: one.ask("pin", party=one.host.party, certificates=found), connections)
    return found


def _connect_with_environment(host: Host) -> Connection:
    try:
        return Connection(host)
    except NoEnvironmentError:
        make_environment(host)
    return Connection(host)
