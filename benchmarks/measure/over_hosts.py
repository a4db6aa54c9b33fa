"""Cells with each party on a host of its own; hosts make up the same clients as this machine would."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
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
from benchmarks.measure.samples import OK, Level, Sample
from benchmarks.suites import Planned
from harness.engines.base import Progress, Runner
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

    def measure(
        self, suite: str, planned: Planned, repetition: int, scratch: Path, progress: Progress
    ) -> Sample:
        sample = super().measure(suite, planned, repetition, scratch, progress)
        seen = self._fleet.seen.get(str(planned.cell["model"]))
        if seen is None or sample.status != OK:
            return sample
        return replace(sample, hosts=seen.hosts, network=seen.network())

    def why_not(self, planned: Planned) -> str | None:
        model, there = model_of(planned.cell), len(self._fleet.hosts)
        if planned.cell.get("network", "none") != "none":
            return "No network is emulated between hosts: theirs is measured, and stands beside each result."
        if there < model.parties:
            return f"Model {model.name} takes {model.parties} hosts; there are {there}."
        return super().why_not(planned)

    def identity(self, cell: Mapping[str, Level]) -> Identity | None:  # noqa: ARG002
        return None

    def about(self) -> dict[str, Any]:
        seen = self._fleet.seen
        hosts = {model: {"hosts": each.hosts, "links": each.links} for model, each in seen.items()}
        return {**super().about(), "hosts": hosts}

    def _hosts(self, cell: Mapping[str, Level]) -> Runner:
        return BenchmarkRunner(self._fleet, trial_of(cell))

    def _source(self, federation: Federation) -> Source:
        return SyntheticSource(federation)


@contextmanager
def over_hosts(path: Path) -> Iterator[HostsPlace]:
    """Yield the hosts in a file, and the connections to them while the block runs. Raises: HostsFileError."""
    with BenchmarkHosts(read_hosts(path)) as hosts:
        yield HostsPlace(hosts)


def trial_of(cell: Mapping[str, Level]) -> Trial:
    """Return what hosts are asked for."""
    model = model_of(cell).name
    if cell["protocol"] == "pi_lap":
        epsilon, delta = release_of(cell).epsilon, release_of(cell).delta
        return Trial(model, noise=Noise(str(cell["variant"]), str(epsilon), str(delta), int(cell["samples"])))
    statistic = statistic_of(cell)
    return Trial(model, asked_of(statistic, release_of(cell), None), federation_of(cell, statistic))
