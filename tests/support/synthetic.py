"""Made-up measured runs that all checks of `bench.validate` pass or leave aside, for tests to spoil."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from benchmarks.measure.samples import Sample
from benchmarks.papers import privfairfl
from harness.engines.base import TIMES

REPETITIONS = 3
THRESHOLDS = (5, 10, 20)
CLIENTS = (100, 1_000, 10_000, 100_000, 1_000_000)

Change = Callable[[Sample], Sample | None]


def run(suite: str, cell: dict[str, Any], repetition: int, seconds: float, sent: int, parties: int) -> Sample:
    """Return a run; a later repetition takes a little longer."""
    seconds *= 1 + repetition / 100
    return Sample(
        suite,
        {"input_path": "shares", "network": "none", "groups": 2, "labels": 2, "epsilon": "1", **cell},
        repetition,
        "ok",
        "2026-01-01T00:00:00+00:00",
        {"cores": 2},
        times={**dict.fromkeys(TIMES), "mpc_s": seconds, "party_mpc_s": [seconds] * parties, "wall_s": 1.0},
        rounds=10,
        sent_bytes=(sent,) * parties,
        peak_memory_bytes=(10**7,) * parties,
        program_hash=f"hash of {sorted(cell.items())}",
        engine="mp-spdz",
        engine_version="MP-SPDZ 0.4.2",
    )


def _table2() -> Iterator[tuple[dict[str, Any], float]]:
    """Yield cells with what they cost: as the paper has it, but for the default of π_ROC."""
    paper = privfairfl()
    for (model, shape, protocol), printed in paper.table2.items():
        size = paper.shapes[shape]
        cell = {"security": model, "shape": shape, "clients": size.clients, "records": size.records}
        rank = {"ring": 1.0, "rep4-ring": 1.3, "sy-rep-ring": 2.6, "semi2k": 5.0, "spdz2k": 150.0}[model]
        if protocol == "pi_rw":
            yield {**cell, "protocol": protocol, "variant": "product"}, 0.02 * rank
            yield {**cell, "protocol": protocol, "variant": "default"}, 0.004 * rank
            yield {**cell, "protocol": protocol, "variant": "default", "noise": "distributed"}, 0.002 * rank
        else:
            grid = paper.thresholds
            ours = {**cell, "protocol": protocol, "variant": "default", "thresholds": grid}
            yield ours, 0.05 * rank
            yield {**ours, "noise": "distributed"}, 0.005 * rank
            for few in THRESHOLDS:
                part = printed.seconds * (few + 1) / (grid + 1)
                yield {**cell, "protocol": protocol, "variant": "published", "thresholds": few}, part


def samples() -> list[Sample]:
    """Return two whole suites."""
    found = []
    for repetition in range(REPETITIONS):
        for cell, seconds in _table2():
            parties = privfairfl().parties[cell["security"]]
            found.append(run("table2", cell, repetition, seconds, round(seconds * 1e6), parties))
        for clients in CLIENTS:
            for variant, seconds in (("product", 0.001 + clients * 1.5e-6), ("default", 0.004)):
                cell = {
                    "protocol": "pi_rw",
                    "variant": variant,
                    "security": "ring",
                    "shape": "",
                    "clients": clients,
                }
                found.append(run("scale", cell, repetition, seconds, round(seconds * 1e6), 3))
    return found


def spoilt(change: Change, **levels: Any) -> list[Sample]:
    """Return the samples with a change, or None for those to leave out, to all that have these levels."""
    found = []
    for sample in samples():
        here = {**vars(sample), **sample.cell}
        hit = all(here.get(name) == level for name, level in levels.items())
        changed = change(sample) if hit else sample
        found += [] if changed is None else [changed]
    return found


def slower(times: float) -> Change:
    """Return a change that makes runs take so many times as long."""
    return lambda sample: replace(sample, times={**sample.times, "mpc_s": sample.times["mpc_s"] * times})
