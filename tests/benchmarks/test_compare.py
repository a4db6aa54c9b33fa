"""What `bench.compare` and `bench.export` make of runs: intervals that hold, tables that anybody can read."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.measure.samples import Sample, append
from benchmarks.report.compare import FASTER, FEW, NOISE, SLOWER, Change, compare
from benchmarks.report.export import export
from harness.engines.base import TIMES

HOSTS = tuple(
    {"name": name, "environment": {"cores": 8, "platform": "Linux"}, "processor": "P", "memory_bytes": 10**9}
    for name in ("a", "b", "c")
)


def run(seconds: float, number: int = 0, security: str = "ring", **more: object) -> Sample:
    cell = {
        "protocol": "pi_rw",
        "variant": "default",
        "shape": "ads",
        "network": "none",
        "security": security,
    }
    times = {**dict.fromkeys(TIMES), "mpc_s": seconds, "party_mpc_s": [seconds, seconds / 2]}
    fields = {"rounds": 9, "sent_bytes": (10, 20), "peak_memory_bytes": (5, 6), "program_hash": "p", **more}
    return Sample("some", cell, number, "ok", "2026-01-01", {"cores": 2}, times=times, **fields)  # type: ignore[arg-type]


def runs(*seconds: float, **more: object) -> list[Sample]:
    return [run(duration, number, **more) for number, duration in enumerate(seconds)]  # type: ignore[arg-type]


def only(first: list[Sample], second: list[Sample]) -> Change:
    (change,) = compare(first, second)
    return change


def test_a_change_is_told_from_noise_by_intervals_of_both_medians() -> None:
    seven = runs(*(1 + i / 100 for i in range(7)))
    slower = only(seven, runs(*(2 + i / 100 for i in range(7))))
    assert (slower.verdict, slower.ratio) == (SLOWER, 2.03 / 1.03)
    assert slower.interval == (2.0 / 1.06, 2.06 / 1.0)  # of 7, all that 97.5 % leave is least to most
    assert only(runs(*(2 + i / 100 for i in range(7))), seven).verdict == FASTER
    assert only(seven, runs(*(1.05 + i / 100 for i in range(7)))).verdict == NOISE
    few = only(seven[:6], runs(*[9.0] * 6))
    assert (few.verdict, few.interval, few.others) == (FEW, None, "")


def test_the_same_distribution_is_called_changed_no_more_often_than_stated() -> None:
    """Of 2,000 comparisons at 5 %, more than 160 are with probability below 10^-8 (binomial tail)."""
    rng = random.Random(20220523)
    seven = [[runs(*(rng.expovariate(1) for _ in range(7))) for _ in "ab"] for _ in range(2000)]
    assert sum(only(*both).verdict in (SLOWER, FASTER) for both in seven) <= 160
    shifted = [only(a, [run(s.times["mpc_s"] * 200, s.repetition) for s in b]) for a, b in seven[:200]]
    assert sum(change.verdict == SLOWER for change in shifted) > 150


def test_what_is_not_noise_is_named() -> None:
    others = only(
        runs(1.0),
        runs(1.0, rounds=8, sent_bytes=(10, 21), program_hash="q", hosts=HOSTS, engine_version="x"),
    ).others
    assert others == "sent 30 and 31 bytes, rounds 9 and 8, hosts 0 and 3, engine None and x, another program"
    (gone, new) = compare(runs(1.0), runs(1.0, security="semi2k"))
    assert (gone.verdict, new.verdict) == ("not in the second", "not in the first")
    failed = replace(run(1.0), status="failed", reason="So it is.")
    assert list(compare([failed], [failed])) == []
    assert only([replace(run(9.0), warm_up=True), run(1.0)], runs(1.0)).ratio == 1.0


@pytest.fixture
def results(tmp_path: Path) -> Path:
    directory = tmp_path / "results"
    directory.mkdir()
    (directory / "about.json").write_text("{}")
    for sample in [replace(run(9.0), warm_up=True), *runs(1.0, 2.0, 3.0), *runs(4.0, security="semi2k")]:
        append(directory / "samples.jsonl", sample, schema=1)
    return directory


def test_exported_tables_hold_every_run(results: Path, tmp_path: Path) -> None:
    (out := tmp_path / "out").mkdir()
    export(results, out)
    for table in (pd.read_csv(out / "runs.csv"), pd.read_parquet(out / "runs.parquet")):
        assert table["mpc_s"].tolist() == [9.0, 1.0, 2.0, 3.0, 4.0]
        assert table["warm_up"].tolist() == [True, False, False, False, False]
        assert table["sent_bytes_1"].tolist() == [20] * 5 and table["mpc_s_1"].tolist()[0] == 4.5
    cells = pd.read_csv(out / "cells.csv")
    assert cells[["security", "runs", "median_s"]].values.tolist() == [
        ["ring", 3, 2.0],
        ["semi2k", 1, 4.0],
    ]
    assert cells["interval_low_s"].isna().all()
    assert (out / "cells.pdf").read_bytes().startswith(b"%PDF")
    assert json.loads((out / "measured" / "about.json").read_text()) == {}
