"""Hosts within this process: what a coordinator asks goes to each host's work, as an agent hands it on."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from harness.engines.parties.supervisor import free_ports
from harness.errors import HostUnfitError
from harness.hosts import runner
from harness.hosts.connection import checked
from harness.hosts.inventory import Host
from harness.hosts.runner import HostsRunner
from harness.hosts.work import Work
from harness.request.base import Request
from harness.security_models import SecurityModel
from harness.system.documents import Refusal, call
from tests.support.coordinators import have_port

After = Callable[[str, Work, Any], Any]  # of a request, the host's work and its answer: what is answered


class Loopback:
    """Stands for the connection to a host's agent. Args: after: changes what it answers, or what it has."""

    lost = False

    def __init__(self, host: Host, stack: ExitStack, after: After) -> None:
        self.host, self._after = host, after
        self.work = Work(Path(host.directory), stack)
        self._ended: dict[str, Any] | None = None

    def ask(self, request: str, _patience_s: float = 0.0, kind: Any = None, **details: Any) -> Any:
        refusal = Refusal(HostUnfitError, f"The request {request!r}", "one of this version", "both need one")
        answer = call(self.work.handlers[request], json.loads(json.dumps(details)), refusal)
        said = json.loads(json.dumps(self._after(request, self.work, answer)))
        return checked(kind, said, self.host, request)

    @property
    def ended(self) -> dict[str, Any] | None:
        if self.work.is_running:
            self._ended = self.work.ended()
        return self._ended

    @ended.setter
    def ended(self, how: dict[str, Any] | None) -> None:
        self._ended = how


def honest(_request: str, _work: Work, answer: Any) -> Any:
    return answer


@contextmanager
def hosts_runner(
    directories: Sequence[Path],
    model: SecurityModel,
    asked: Request,
    after: dict[int, After] | None = None,
) -> Iterator[HostsRunner]:
    """Yield what runs a model on hosts of this process, which were asked for a release.

    Args: directories: of the hosts, set up; after: by party, see `Loopback`.
    """
    with ExitStack() as stack, free_ports(model.parties) as ports:
        hosts = [
            Host(party=i, address="127.0.0.1", directory=str(directory), project="/", port=ports[i])
            for i, directory in enumerate(directories)
        ]
        for host in hosts:
            have_port(Path(host.directory), host.port)
        made = HostsRunner(hosts, model)
        connections: list[Any] = [
            Loopback(host, stack, (after or {}).get(host.party, honest)) for host in hosts
        ]
        made._connections = connections
        for one in connections:
            one.work.propose(asked.to_json())
        # One after the other, as these hosts have one process, and one cache of programs, in common.
        stack.enter_context(patch.object(runner, "at_once", lambda do, each: [do(one) for one in each]))
        yield made
