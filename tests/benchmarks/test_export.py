"""What `bench.export` makes of runs: tables that anybody can read."""

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.measure.samples import Sample, append
from benchmarks.report.export import export
from fairshares.harness.engines.execution import TIMES


def run(seconds: float, number: int = 0, security: str = "ring") -> Sample:
    cell = {
        "protocol": "pi_rw",
        "variant": "default",
        "shape": "ads",
        "network": "none",
        "security": security,
    }
    times = {**dict.fromkeys(TIMES), "mpc_s": seconds, "party_mpc_s": [seconds, seconds / 2]}
    fields = {"rounds": 9, "sent_bytes": (10, 20), "peak_memory_bytes": (5, 6), "program_hash": "p"}
    return Sample("some", cell, number, "ok", "2026-01-01", {"cores": 2}, times=times, **fields)  # type: ignore[arg-type]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    directory = tmp_path / "results"
    directory.mkdir()
    (directory / "about.json").write_text("{}")
    for sample in [
        replace(run(9.0), warm_up=True),
        *(run(1.0 + i, i) for i in range(3)),
        run(4.0, security="semi2k"),
    ]:
        append(directory / "samples.jsonl", sample, schema=1)
    return directory


def test_exported_tables_hold_every_run(results: Path, tmp_path: Path) -> None:
    (out := tmp_path / "out").mkdir()
    export(results, out)
    for table in (pd.read_csv(out / "runs.csv"), pd.read_parquet(out / "runs.parquet")):
        assert table["times.mpc_s"].tolist() == [9.0, 1.0, 2.0, 3.0, 4.0]
        assert table["warm_up"].tolist() == [True, False, False, False, False]
    assert table["sent_bytes"].map(list).tolist() == [[10, 20]] * 5
    cells = pd.read_csv(out / "cells.csv")
    assert cells[["cell.security", "count", "50%"]].values.tolist() == [["ring", 3, 2.0], ["semi2k", 1, 4.0]]
    assert r"pi\_rw.default.ads & 2.0000 & 4.0000" in (out / "table.tex").read_text()
    assert (out / "cells.pdf").read_bytes().startswith(b"%PDF")
    assert json.loads((out / "measured" / "about.json").read_text()) == {}
