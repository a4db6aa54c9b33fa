"""Measured runs on file: they come back as they went, and a machine that died costs one line at most."""

import errno
import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measure.samples import (
    Sample,
    Summary,
    append,
    by_cell,
    interval_of_median,
    load,
    summary,
)
from fairshares.harness.engines.execution import TIMES
from fairshares.harness.errors import ResultFileError, WriteError


def sample(repetition: int = 0, mpc_s: float | None = 0.5, **more: Any) -> Sample:
    """Return a run of one of two cells."""
    fields: dict[str, Any] = {
        "suite": "noise",
        "cell": {"security": "ring", "records": 4},
        "repetition": repetition,
        "status": "ok",
        "time": "2026-01-01T00:00:00+00:00",
        "environment": {"cores": 2},
        "times": {**dict.fromkeys(TIMES), "mpc_s": mpc_s, "party_mpc_s": [0.5, 0.25]},
        "sent_bytes": (3, 4),
        **more,
    }
    return Sample(**fields)


def test_samples_come_back_as_they_went(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    written = [
        sample(),
        sample(1, status="failed", reason="Party 1 was killed by SIGKILL."),
        sample(2, client_sent_bytes=(1, 2, 3), compile_options=("-R", "64"), network={"rtt_s": 0.04}),
    ]
    for run in written:
        append(path, run, schema=1)
    assert load(path) == load(tmp_path) == written


@pytest.mark.parametrize("torn", [b'{"schema": 1, "su', b'{"schema": 1}', b"\0" * 100])
def test_a_torn_last_line_is_dropped_and_written_over(torn: bytes, tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    append(path, sample(), schema=1)
    with path.open("ab") as file:
        file.write(torn)
    assert load(path) == [sample()]
    append(path, sample(1), schema=1)
    assert load(path) == [sample(), sample(1)]
    assert len(path.read_bytes().splitlines()) == 2


def test_packed_samples_are_read_and_go_on_unpacked(tmp_path: Path) -> None:
    path, packed = tmp_path / "samples.jsonl", tmp_path / "samples.jsonl.gz"
    append(path, sample(), schema=1)
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert load(path) == load(tmp_path) == [sample()]
    append(path, sample(1), schema=1)
    assert load(path) == [sample(), sample(1)] and not packed.exists()
    packed.write_bytes(gzip.compress(path.read_bytes())[:-20])
    with pytest.raises(ResultFileError, match=r"Cannot read .*samples\.jsonl"):
        load(path)


@pytest.mark.parametrize("damaged", ["{", "[]", '{"schema": 1}', '{"schema": 1, "a": 2}', '{"schema": 2}'])
def test_a_damaged_line_among_others_is_named(damaged: str, tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    append(path, sample(), schema=1)
    with path.open("a") as file:
        file.write(damaged + "\n")
    append(path, sample(1), schema=1)
    with pytest.raises(ResultFileError, match="line 2"):
        load(path)


def test_cells_hold_the_last_attempt_of_each_repetition() -> None:
    other = sample(cell={"records": 4, "security": "semi2k"})
    again = sample(0, 0.75)
    cells = by_cell([sample(1), sample(0, status="failed", reason="It did not end."), other, again])
    assert cells == {
        (("records", 4), ("security", "ring")): [again, sample(1)],
        (("records", 4), ("security", "semi2k")): [other],
    }


def test_summary_is_of_the_runs_that_went_well_and_know_the_time() -> None:
    failed = sample(3, 100.0, status="failed", reason="It did not end.")
    runs = [sample(0, 1.0), sample(1, 4.0), sample(2, 2.0), failed, sample(4, None)]
    assert summary(runs) == Summary(n=3, median=2.0, low=1.0, high=4.0)
    assert summary(runs, "online_s") is None
    assert summary([failed]) is None


def test_interval_of_a_median_holds_it_as_often_as_it_says() -> None:
    """Exactly, over all 2^n ways in which n values can fall below and above their median."""
    for n, confidence in ((5, 0.95), (6, 0.95), (9, 0.95), (10, 0.5), (12, 0.99)):
        held = 0
        for ways in range(2**n):
            interval = interval_of_median([1.0 if ways >> i & 1 else -1.0 for i in range(n)], confidence)
            held += interval is not None and interval[0] <= 0 <= interval[1]
        assert held == 0 if n == 5 else held / 2**n >= confidence
    assert interval_of_median([1.0] * 5, 0.95) is None and interval_of_median([], 0.5) is None
    assert interval_of_median([4.0, 1.0, 6.0, 3.0, 2.0, 5.0], 0.95) == (1.0, 6.0)
    assert interval_of_median([float(i) for i in range(9)], 0.95) == (1.0, 7.0)  # 1 - 2 * 10 / 512
    assert interval_of_median([float(i) for i in range(10)], 0.5) == (3.0, 6.0)


def test_a_full_disk_is_told_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "samples.jsonl"
    append(path, sample(), schema=1)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteError, match="No space left on device; all earlier results are there"):
        append(path, sample(), schema=1)
    assert load(path)
