"""Benchmark runs over hosts, from the coordinator; connections stay open between runs."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.engines.base import EngineResult, Job, Progress, no_charge
from harness.engines.emulated_network.profiles import Network
from harness.engines.registry import engine_of
from harness.errors import FairSharesError, HostUnfitError
from harness.hosts.connection import Connection
from harness.hosts.fleet import ask_of_others, at_once, fit_hosts
from harness.hosts.inventory import Host
from harness.hosts.local_host import RunName
from harness.hosts.runner import HostsRunner
from harness.hosts.trials import Trial
from harness.security_models import SecurityModel
from harness.system.signals import uninterrupted

_LASTS_S = 600.0  # for which findings stay valid
_PATIENCE_S = 600.0  # for a host to make up records


class BenchmarkHosts:
    """Hosts, and connections to them until they are closed.

    Attributes:
        seen: By model, `hosts`, by party, and `network`, with all links, the longest round trip and the least
            rate.
    """

    def __init__(self, hosts: Sequence[Host]) -> None:
        self.hosts = hosts
        self._open: dict[int, Connection] = {}
        self._seen_at: dict[str, float] = {}  # by the monotonic clock
        self.seen: dict[str, dict[str, Any]] = {}

    def close(self) -> None:
        """End all agents."""
        self._close(list(self._open))

    def ready(self, model: SecurityModel, progress: Progress) -> list[Connection]:
        """Return connections to the hosts of a model's parties, which are fit.

        Raises HostUnreachableError, HostUnfitError or PolicyError.
        """
        hosts = self.hosts[: model.parties]
        self._close([party for party, one in self._open.items() if one.lost])
        missing = [host for host in hosts if host.party not in self._open]

        def connect(host: Host) -> None:
            self._open[host.party] = Connection(host)

        at_once(connect, missing)
        connections = [self._open[host.party] for host in hosts]
        if missing or model.name not in self.seen or time.monotonic() - self._seen_at[model.name] > _LASTS_S:
            self.seen[model.name] = _look(connections, model, progress)
            self._seen_at[model.name] = time.monotonic()
        return connections

    def _close(self, parties: Sequence[int]) -> None:
        with uninterrupted():
            at_once(Connection.close, [self._open.pop(party) for party in parties])


class BenchmarkRunner(HostsRunner):
    """Runs one cell's parties on hosts, which derive the job from `trial`."""

    signs = False

    def __init__(self, hosts: BenchmarkHosts, model: SecurityModel, trial: Trial) -> None:
        super().__init__(hosts.hosts[: model.parties], model)
        self._benchmark, self._trial = hosts, trial

    def run(
        self,
        job: Job,
        model: SecurityModel,
        work: Path,
        timeout_s: float,
        progress: Progress,
        starting: Callable[[], None] = no_charge,
        network: Network | None = None,
    ) -> EngineResult:
        self._connections = self._benchmark.ready(model, progress)
        trial = asdict(self._trial)
        try:
            at_once(
                lambda one: one.ask("benchmark", _PATIENCE_S, party=one.host.party, trial=trial),
                self._connections,
            )
            return super().run(job, model, work, timeout_s, progress, starting, network)
        except FairSharesError:
            del self._benchmark.seen[model.name]  # so that the next run checks the hosts again
            raise


def _look(connections: Sequence[Connection], model: SecurityModel, progress: Progress) -> dict[str, Any]:
    hosts = [
        {
            "party": finding.host.party,
            "name": finding.host.address,
            **finding.facts["machine"],
            "environment": finding.facts["environment"],
            "engine_version": finding.facts["engine_version"],
            "clock_offset_s": round(finding.skew_s, 3),
        }
        for finding in fit_hosts(connections, model, progress)
    ]
    links = list(_links(connections, engine_of(model).connects_down))
    network = {
        "links": links,
        "measured_rtt_s": max(link["rtt_s"] for link in links),
        "measured_bandwidth_bits_per_s": min(link["bandwidth_bits_per_s"] for link in links),
    }
    return {"hosts": hosts, "network": network}


def _links(connections: Sequence[Connection], down: bool) -> Iterator[dict[str, Any]]:
    """Time all links, one after the other, so that they do not slow each other."""
    with ExitStack() as stack:
        stack.callback(at_once, lambda one: one.ask("stop_listening"), connections)
        greetings = at_once(lambda one: one.ask("listen", kind=RunName, port=one.host.port), connections)
        for number, one in enumerate(connections):
            others = range(number) if down else range(number + 1, len(connections))
            wanted = [(connections[other].host, greetings[other]) for other in others]
            times = ask_of_others(one, "time_links", tuple[float, float] | None, wanted)
            for other, timed in zip(others, times, strict=True):
                if timed is None:
                    raise HostUnfitError(
                        f"{one.host.title} lost {connections[other].host.name} while the link between them "
                        "was measured; look at the network between them."
                    )
                yield {"parties": [number, other], "rtt_s": timed[0], "bandwidth_bits_per_s": timed[1]}
