"""Unit costs of the models, from which plans predict what a run takes."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from benchmarks.measure.cell import job_of, model_of
from benchmarks.measure.samples import OK, Cell, Sample, by_cell, summary
from fairshares.harness.forecast.operation_counts import Counts, counts_of
from fairshares.harness.forecast.unit_costs import FIGURES, UNITS, amounts, waiting_rounds
from fairshares.harness.request.networks import NetworkProfile, parse_network
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.harness.system.result_files import SCHEMA, write_json


@dataclass(frozen=True)
class Measured:
    """The medians of one cell's runs, with the names of the figures that are predicted."""

    cell: Mapping[str, Any]
    counts: Counts
    mpc_s: float
    sent_bytes: float
    rounds: float | None
    network: NetworkProfile | None
    compile_s: float | None = None


def measured(samples: Sequence[Sample]) -> list[Measured]:
    """Return the medians of each cell that has good runs."""
    compiled = {  # a program is compiled once, perhaps in a warm-up
        sample.program_hash: sample.times["compile_s"]
        for sample in samples
        if sample.status == OK and sample.times["compile_s"]
    }
    medians = []
    for cell_samples in by_cell(samples).values():
        seconds = summary(cell_samples)
        if seconds is None:
            continue
        good = [sample for sample in cell_samples if sample.status == OK]
        cell = good[0].cell
        rounds = [sample.rounds for sample in good if sample.rounds is not None]
        medians.append(
            Measured(
                cell=cell,
                counts=counts_of(job_of(cell), model_of(cell)),
                mpc_s=seconds.median,
                sent_bytes=statistics.median(sum(sample.sent_bytes) for sample in good),
                rounds=statistics.median(rounds) if rounds else None,
                network=parse_network(str(cell["network"])),
                compile_s=compiled.get(good[0].program_hash),
            )
        )
    return medians


def fit(model: SecurityModel, runs: Sequence[Measured]) -> dict[str, Any]:
    """Return a model's unit costs as JSON, by non-negative least squares of relative errors."""
    here = [run for run in runs if run.network is None]
    figures: dict[str, dict[str, float]] = {}
    for figure, names in FIGURES[model.engine].items():
        known = [run for run in here if getattr(run, figure)]
        if not known:
            continue
        rows = np.zeros((len(known), len(names)))
        for row, run in zip(rows, known, strict=True):
            by_name = amounts(run.counts, run.rounds or 0.0)
            row[:] = [by_name[name] for name in names]
        values = np.array([getattr(run, figure) for run in known], dtype=np.float64)
        costs, _ = nnls(rows / values[:, np.newaxis], np.ones(len(known)))
        figures[figure] = {name: float(f"{c:.4g}") for name, c in zip(names, costs, strict=True) if c > 0}
    return {**figures, "network": _network(runs)}


def _network(runs: Sequence[Measured]) -> dict[str, float] | None:
    """Return the costs of a network, by runs with an emulated network and the same runs without it.

    None if there are no such runs.
    """
    here = {_cell_but_network(run): run for run in runs if run.network is None}
    trips = []
    shares = []
    for run in runs:
        network = run.network
        same_here = here.get(_cell_but_network(run))
        if network is None or same_here is None:
            continue
        longer_s = run.mpc_s - same_here.mpc_s
        if network.rtt_s > 0:
            trips.append(longer_s / (waiting_rounds(run.counts, run.rounds) * network.rtt_s))
        elif network.rtt_s == 0:
            shares.append(longer_s * network.bandwidth_bits_per_s / (8 * run.sent_bytes))
    if not trips or not shares:
        return None
    costs = {"round_trips_per_round": statistics.median(trips), "link_share": statistics.median(shares)}
    return {name: float(f"{max(0.0, value):.4g}") for name, value in costs.items()}


def _cell_but_network(run: Measured) -> Cell:
    return tuple(sorted((name, level) for name, level in run.cell.items() if name != "network"))


def write_units(directory: Path, samples: Sequence[Sample]) -> list[str]:
    """Write unit costs beside their results, and return the models."""
    runs = measured(samples)
    units = {}
    models = {model_of(run.cell) for run in runs}
    for model in sorted(models, key=lambda model: ([*MODELS].index(model.name), model.parties)):
        units[model.title] = fit(model, [run for run in runs if model_of(run.cell) == model])
    last = next(sample for sample in reversed(samples) if sample.status == OK)
    write_json(
        directory / UNITS,
        {
            "schema": SCHEMA,
            "measured": {"time": last.time, "environment": dict(last.environment)},
            "models": units,
        },
    )
    return list(units)
