"""Cells with each party on a host of its own; hosts make up the same clients as this machine would."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.measure.cell import (
    Identity,
    Place,
    federation_of,
    model_of,
    release_of,
    statistic_of,
)
from benchmarks.measure.samples import Level
from benchmarks.suites import PROGRAM
from harness.engines.base import Runner
from harness.hosts.benchmarks import BenchmarkHosts, BenchmarkRunner
from harness.hosts.inventory import read_hosts
from harness.hosts.trials import Noise, Trial
from harness.inputs.synthetic import Federation
from harness.pipeline.party_inputs import Source, SyntheticSource
from harness.pipeline.terms import asked_of


class HostsPlace(Place):
    """Hosts, the first of which run a model's parties. What their programs are shows when they have run."""

    def __init__(self, hosts: BenchmarkHosts) -> None:
        self._fleet = hosts

    def identity(self, cell: Mapping[str, Level]) -> Identity | None:  # noqa: ARG002
        return None

    def hosts(self, cell: Mapping[str, Level]) -> Runner:
        trial = None if PROGRAM in cell else trial_of(cell)
        return BenchmarkRunner(self._fleet, model_of(cell), trial)

    def unfit(self, cell: Mapping[str, Level]) -> str | None:
        model, there = model_of(cell), len(self._fleet.hosts)
        if cell.get("network", "none") != "none":
            return "No network is emulated between hosts: theirs is measured, and stands beside each result."
        if there < model.parties:
            return f"Model {model.name} takes {model.parties} hosts; there are {there}."
        return None

    def surroundings(self, cell: Mapping[str, Level]) -> dict[str, Any]:
        seen = self._fleet.seen[str(cell["model"])]
        return {"hosts": seen.hosts, "network": seen.network()}

    def _source(self, federation: Federation) -> Source:
        return SyntheticSource(federation)


@contextmanager
def over_hosts(path: Path) -> Iterator[HostsPlace]:
    """Yield the hosts in a file, and the connections to them while the block runs. Raises: HostsFileError."""
    hosts = BenchmarkHosts(read_hosts(path))
    try:
        yield HostsPlace(hosts)
    finally:
        hosts.close()


def trial_of(cell: Mapping[str, Level]) -> Trial:
    """Return what hosts are asked for."""
    model = model_of(cell).name
    if cell["protocol"] == "pi_lap":
        epsilon, delta = release_of(cell).epsilon, release_of(cell).delta
        return Trial(model, noise=Noise(str(cell["variant"]), str(epsilon), str(delta), int(cell["samples"])))
    statistic = statistic_of(cell)
    return Trial(model, asked_of(statistic, release_of(cell), None), federation_of(cell, statistic))
