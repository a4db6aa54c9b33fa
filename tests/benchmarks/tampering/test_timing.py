"""Two extreme inputs are told apart by no message, and a leak of time or of size would be found."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from benchmarks.measure.samples import append
from benchmarks.tampering.attack import Attack, build_interposer
from benchmarks.tampering.production import PROGRAMS
from benchmarks.tampering.timing import Pair, load, summary, watch
from harness.errors import ResultFileError
from harness.security_models import MODELS

PI_CAP = next(operation for operation in PROGRAMS if operation.name == "pi_cap")


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler cc is there")
@pytest.mark.parametrize("model", [pytest.param("ring", marks=pytest.mark.mpspdz("ring"))])
def test_messages_are_as_many_and_as_long_whatever_the_inputs(model: str, tmp_path: Path) -> None:
    attack = Attack(MODELS[model], PI_CAP, 0, build_interposer(tmp_path), tmp_path / "parties")
    with attack.laid_out():
        (zeros, seconds), (ones, _) = watch(attack, ones=False), watch(attack, ones=True)
    assert zeros == ones and len(zeros) == MODELS[model].parties
    assert min(sent.total() for sent in zeros) > 10 and 0 < seconds < 60


def pairs(operation: str, later: float, n: int = 200) -> list[Pair]:
    """Runs of 10 ms that spread by 1 ms, those on ones later by so many seconds."""
    drawn = np.random.default_rng(4).normal(0.01, 0.001, (n, 2)) + np.array([0.0, later])
    return [Pair("ring", operation, True, tuple(each)) for each in drawn.tolist()]


def test_a_difference_of_times_is_found_and_none_is_not() -> None:
    """By 0.5 ms, half of the spread of one run; and the interval says so."""
    same, other = summary([*pairs("pi_cap", 0.0), *pairs("pi_rw", 0.0005)])
    assert not same["found"] and other["found"] and same["pairs"] == 200
    low, high = other["difference_s"]
    assert low < 0.0005 < high and high - low < 0.0008
    assert summary(pairs("pi_cap", 1.0, n=4))[0]["difference_s"] is None  # too few to say


def test_other_sizes_are_counted() -> None:
    (row,) = summary([*pairs("pi_cap", 0.0), Pair("ring", "pi_cap", False, (0.01, 0.01))])
    assert row["sizes_differ"] == 1


def test_pairs_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    made = Pair("ring", "pi_cap", True, [0.25, 0.5])
    append(path, made)
    assert load(path) == [made]
    path.write_text('{"security": "ring"}\n')
    with pytest.raises(ResultFileError, match="line 1 is not a pair of runs"):
        load(path)
