"""Two extreme inputs are told apart by no message, and a leak of time or of size would be found."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from benchmarks.tampering.attack import Attack, build_interposer
from benchmarks.tampering.production import PROGRAMS
from benchmarks.tampering.timing import Pair, summary, watch
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
    of_other_sizes = Pair("ring", "pi_rw", False, (0.01, 0.01))
    same, other = summary([*pairs("pi_cap", 0.0), *pairs("pi_rw", 0.0005), of_other_sizes])
    assert (same["sizes_differ"], other["sizes_differ"]) == (0, 1)
    assert not same["found"] and other["found"] and same["pairs"] == 200
    low, high = other["difference_s"]
    assert low < 0.0005 < high and high - low < 0.0008
    assert summary(pairs("pi_cap", 1.0, n=4))[0]["difference_s"] is None  # too few to say
