"""Unit costs, from which plans predict."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from benchmarks.measure.cell import job_of, model_of
from benchmarks.measure.samples import OK, Cell, Sample, by_cell, summary
from harness.engines.emulated_network.profiles import Network, parse_network
from harness.forecast.operation_counts import Counts, counts_of
from harness.forecast.unit_costs import FIGURES, UNITS, amounts, waiting_rounds
from harness.security_models import MODELS, SecurityModel
from harness.system.result_files import SCHEMA, write_json


@dataclass(frozen=True)
class Measured:
    """Medians of one cell's runs, named as predictions are."""

    cell: Mapping[str, Any]
    counts: Counts
    mpc_s: float
    sent_bytes: float
    rounds: float | None
    network: Network | None
    compile_s: float | None = None


def measured(samples: Sequence[Sample]) -> list[Measured]:
    """Return each cell that went well."""
    compiled = {  # each program once, warm-ups included
        sample.program_hash: sample.times["compile_s"]
        for sample in samples
        if sample.status == OK and sample.times["compile_s"]
    }
    medians = []
    for of in by_cell(samples).values():
        if took := summary(of):
            good = [sample for sample in of if sample.status == OK]
            cell = good[0].cell
            rounds = [sample.rounds for sample in good if sample.rounds is not None]
            medians.append(
                Measured(
                    cell,
                    counts_of(job_of(cell), model_of(cell)),
                    took.median,
                    statistics.median(sum(sample.sent_bytes) for sample in good),
                    statistics.median(rounds) if rounds else None,
                    parse_network(str(cell["network"])),
                    compiled.get(good[0].program_hash),
                )
            )
    return medians


def fit(model: SecurityModel, runs: Sequence[Measured]) -> dict[str, Any]:
    """Return one model's unit costs, by non-negative least squares of relative errors, as JSON."""
    here = [run for run in runs if run.network is None]
    figures: dict[str, dict[str, float]] = {}
    for figure, names in FIGURES[model.engine].items():
        known = [run for run in here if getattr(run, figure)]
        if not known:
            continue
        things = [amounts(run.counts, run.rounds or 0.0) for run in known]
        rows = np.array([[thing[name] for name in names] for thing in things], dtype=np.float64)
        values = np.array([getattr(run, figure) for run in known], dtype=np.float64)
        costs, _ = nnls(rows / values[:, np.newaxis], np.ones(len(known)))
        figures[figure] = {name: float(f"{c:.4g}") for name, c in zip(names, costs, strict=True) if c > 0}
    return {**figures, "network": _network(runs)}


def _network(runs: Sequence[Measured]) -> dict[str, float] | None:
    here = {_place(run): run for run in runs if run.network is None}
    there = [(run, here[_place(run)], run.network) for run in runs if run.network and _place(run) in here]
    trips = [
        (run.mpc_s - same.mpc_s) / (waiting_rounds(run.counts, run.rounds) * network.rtt_s)
        for run, same, network in there
        if network.rtt_s > 0
    ]
    shares = [
        (run.mpc_s - same.mpc_s) * network.bandwidth_bits_per_s / (8 * run.sent_bytes)
        for run, same, network in there
        if network.rtt_s == 0
    ]
    if not trips or not shares:
        return None
    costs = {"round_trips_per_round": statistics.median(trips), "link_share": statistics.median(shares)}
    return {name: float(f"{max(0.0, value):.4g}") for name, value in costs.items()}


def _place(run: Measured) -> Cell:
    return tuple(sorted((name, level) for name, level in run.cell.items() if name != "network"))


def write_units(directory: Path, samples: Sequence[Sample]) -> list[str]:
    """Write unit costs beside their results, and return the models."""
    runs = measured(samples)
    models = [model for name, model in MODELS.items() if any(run.cell["security"] == name for run in runs)]
    units = {m.name: fit(m, [run for run in runs if run.cell["security"] == m.name]) for m in models}
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
