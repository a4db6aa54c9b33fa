"""Made-up measured runs, literal ones too, that all checks of `bench.validate` pass, for tests to spoil."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from benchmarks.measure.samples import Sample
from benchmarks.papers import privfairfl
from fairshares.harness.engines.execution import TIMES

REPETITIONS = 3
THRESHOLDS = (1, 2, 4)  # of which each takes as long as the others
ITERATIONS = "ml-1m"  # the federation of which they ran, an instance after the other
CLIENTS = (100, 1_000, 10_000, 100_000, 1_000_000)

Change = Callable[[Sample], Sample | None]


def run(
    suite: str, cell: dict[str, Any], repetition: int, *, seconds: float, sent: int, parties: int
) -> Sample:
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
    """Yield our cells with what they cost."""
    paper = privfairfl()
    for model, shape, protocol in paper.table2:
        size = paper.shapes[shape]
        cell = {"security": model, "shape": shape, "clients": size.clients, "records": size.records}
        rank = {"ring": 1.0, "rep4-ring": 1.3, "sy-rep-ring": 2.6, "semi2k": 5.0, "spdz2k": 150.0}[model]
        if protocol == "pi_rw":
            yield {**cell, "protocol": protocol, "variant": "product"}, 0.02 * rank
            yield {**cell, "protocol": protocol, "variant": "default"}, 0.004 * rank
            yield {**cell, "protocol": protocol, "variant": "default", "noise": "distributed"}, 0.002 * rank
        else:
            ours = {**cell, "protocol": protocol, "variant": "default", "thresholds": paper.thresholds}
            yield ours, 0.05 * rank
            yield {**ours, "noise": "distributed"}, 0.005 * rank


def _literal() -> Iterator[tuple[dict[str, Any], float, int]]:
    """Yield cells with their seconds and rounds: as the paper has it, or a hundredth of that all at once."""
    paper = privfairfl()
    for (model, shape, protocol), printed in paper.table2.items():
        size = paper.shapes[shape]
        cell = {"security": model, "shape": shape, "clients": size.clients, "records": size.records}
        form = {**cell, "protocol": protocol, "variant": "literal"}
        at_once = {**form, "variant": "literal-at-once"}
        if protocol == "pi_rw":
            seconds = printed.seconds * (1.2 if model == "rep4-ring" else 1)  # ring's to two digits
            yield form, seconds, 100
            yield at_once, seconds / 100, 10
            continue
        for few in THRESHOLDS:
            part = few / paper.thresholds
            yield {**at_once, "thresholds": few}, printed.seconds * part / 100, 20 * few
            if shape == ITERATIONS:
                yield {**form, "thresholds": few}, printed.seconds * part, 9 * few * size.records
        yield {**at_once, "thresholds": paper.thresholds}, printed.seconds / 100, 20 * paper.thresholds


def samples() -> list[Sample]:
    """Return three whole suites."""
    whole = []
    for repetition in range(REPETITIONS):
        for cell, seconds in _table2():
            parties = privfairfl().parties[cell["security"]]
            whole.append(
                run("table2", cell, repetition, seconds=seconds, sent=round(seconds * 1e6), parties=parties)
            )
        for cell, seconds, rounds in _literal():
            parties, sent = privfairfl().parties[cell["security"]], round(seconds * 1e6)
            whole.append(
                replace(
                    run("literal", cell, repetition, seconds=seconds, sent=sent, parties=parties),
                    rounds=rounds,
                )
            )
        for clients in CLIENTS:
            for variant, seconds in (("product", 0.001 + clients * 1.5e-6), ("default", 0.004)):
                cell = {
                    "protocol": "pi_rw",
                    "variant": variant,
                    "security": "ring",
                    "shape": "",
                    "clients": clients,
                }
                whole.append(
                    run("scale", cell, repetition, seconds=seconds, sent=round(seconds * 1e6), parties=3)
                )
    return whole


def spoilt(change: Change, **levels: Any) -> list[Sample]:
    """Return the samples with a change, or None for those to leave out, to all that have these levels."""
    kept = []
    for sample in samples():
        here = {**vars(sample), **sample.cell}
        hit = all(here.get(name) == level for name, level in levels.items())
        changed = change(sample) if hit else sample
        kept += [] if changed is None else [changed]
    return kept


def slower(times: float) -> Change:
    """Return a change that makes runs take so many times as long."""
    return lambda sample: replace(sample, times={**sample.times, "mpc_s": sample.times["mpc_s"] * times})
