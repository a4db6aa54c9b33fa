"""Benchmark runs over hosts, where they are started: connections stay open from one run to the next."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.engines.base import EngineResult, Job, Progress, no_charge
from harness.engines.emulated_network.profiles import Network
from harness.engines.registry import engine_of
from harness.errors import FairSharesError, HostUnfitError
from harness.hosts.checks import fit_hosts
from harness.hosts.cleanup import RunName
from harness.hosts.connection import Connection
from harness.hosts.fleet import ask_of_others, at_once
from harness.hosts.inventory import Host
from harness.hosts.runner import HostsRunner
from harness.hosts.trials import Program, Trial
from harness.security_models import Model
from harness.system.signals import uninterrupted

_AGAIN_S = 60.0  # after which hosts that were not fit for a model are looked at again
_LASTS_S = 600.0  # for which what was seen counts
_PATIENCE_S = 600.0  # for a host to make up records


@dataclass(frozen=True)
class Surroundings:
    """What a model's runs depend on besides the program.

    Attributes: at: when, by the monotonic clock; hosts: per party; links: per pair of parties, in the
    direction in which parties connect.
    """

    at: float
    hosts: tuple[dict[str, Any], ...]
    links: tuple[dict[str, Any], ...]

    def network(self) -> dict[str, Any]:
        """Return what a result says of it: all links, the longest round trip and the least rate."""
        return {
            "links": list(self.links),
            "measured_rtt_s": max(link["rtt_s"] for link in self.links),
            "measured_bandwidth_bits_per_s": min(link["bandwidth_bits_per_s"] for link in self.links),
        }


class BenchmarkHosts:
    """Hosts, and connections to them until they are closed."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self.hosts = hosts
        self._open: dict[int, Connection] = {}
        self._refused: dict[str, tuple[float, FairSharesError]] = {}
        self.seen: dict[str, Surroundings] = {}  # by model

    def close(self) -> None:
        """End all agents."""
        self._close(list(self._open))

    def ready(self, model: Model, progress: Progress) -> list[Connection]:
        """Return connections to the hosts of a model's parties, which are fit for its runs.

        Hosts that were not are taken at their word for a while.
        Raises: HostUnreachableError; HostUnfitError; PolicyError.
        """
        refused_at, refusal = self._refused.get(model.name, (0.0, None))
        if refusal is not None and time.monotonic() - refused_at < _AGAIN_S:
            raise refusal
        try:
            return self._connected(model, progress)
        except FairSharesError as error:
            self._refused[model.name] = (time.monotonic(), error)
            raise

    def _connected(self, model: Model, progress: Progress) -> list[Connection]:
        hosts = self.hosts[: model.parties]
        self._close([party for party, one in self._open.items() if one.lost])
        missing = [host for host in hosts if host.party not in self._open]

        def connect(host: Host) -> None:
            self._open[host.party] = Connection(host)

        at_once(connect, missing)
        connections = [self._open[host.party] for host in hosts]
        seen = self.seen.get(model.name)
        if missing or seen is None or time.monotonic() - seen.at > _LASTS_S:
            self.seen[model.name] = _look(connections, model, progress)
        return connections

    def _close(self, parties: Sequence[int]) -> None:
        with uninterrupted():
            at_once(Connection.close, [self._open.pop(party) for party in parties])


class BenchmarkRunner(HostsRunner):
    """Runs one cell's parties on hosts.

    Args: trial: what hosts are asked for, who derive the job of it; None for programs of their owners.
    """

    signs = False

    def __init__(self, hosts: BenchmarkHosts, model: Model, trial: Trial | None) -> None:
        super().__init__(hosts.hosts[: model.parties], model)
        self._benchmark, self._trial = hosts, trial

    def run(
        self,
        job: Job,
        model: Model,
        work: Path,
        timeout_s: float,
        progress: Progress,
        starting: Callable[[], None] = no_charge,
        network: Network | None = None,
    ) -> EngineResult:
        self._connections = self._benchmark.ready(model, progress)
        trial = asdict(self._trial or Trial(model.name, program=Program.of(job)))
        try:
            at_once(
                lambda one: one.ask("benchmark", _PATIENCE_S, party=one.host.party, trial=trial),
                self._connections,
            )
            return super().run(job, model, work, timeout_s, progress, starting, network)
        except FairSharesError:
            del self._benchmark.seen[model.name]  # so that the next run finds out what is wrong
            raise


def _look(connections: Sequence[Connection], model: Model, progress: Progress) -> Surroundings:
    """Return what runs of a model will depend on. Raises: HostUnfitError: with all that is wrong."""
    hosts = tuple(
        {
            "party": finding.host.party,
            "name": finding.host.address,
            **finding.facts["machine"],
            "environment": finding.facts["environment"],
            "engine_version": finding.facts["engine_version"],
            "clock_offset_s": round(finding.skew_s, 3),
        }
        for finding in fit_hosts(connections, model, progress)
    )
    return Surroundings(time.monotonic(), hosts, tuple(_links(connections, engine_of(model).connects_down)))


def _links(connections: Sequence[Connection], down: bool) -> Iterator[dict[str, Any]]:
    """Time all links, one after the other, as they would be in each other's way."""
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
