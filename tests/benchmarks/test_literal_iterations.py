"""What a threshold costs, from runs with several numbers of them."""

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.measure.samples import Sample
from benchmarks.validation.side_by_side import slopes

CELL = {"protocol": "pi_roc", "variant": "literal", "security": "ring", "shape": "ads", "records": 26_160}


def samples(thresholds: int, seconds: list[float], rounds: int, **other: Any) -> list[Sample]:
    cell = {**CELL, "thresholds": thresholds, **other}
    plain = [
        Sample("literal", cell, number, "ok", "now", {}, rounds=rounds) for number in range(len(seconds))
    ]
    pairs = zip(plain, seconds, strict=True)
    return [replace(sample, times={**sample.times, "mpc_s": taken}) for sample, taken in pairs]


def test_slopes_are_of_paired_repetitions() -> None:
    runs = {1: samples(1, [3.0, 2.0], 12), 2: samples(2, [5.0, 4.0], 22), 4: samples(4, [9.0, 11.0], 42)}
    slope = slopes(runs)
    assert slope is not None and slope.each == [2.0, 3.0] and slope.rounds == [10.0, 10.0]
    assert slope.bend == pytest.approx((10.0 - 4.5) / 2 / 2.0)
    assert slope.whole == (10 + 997 * 2, 10 + 997 * 3)  # the parts' slopes are 2 and 2.75


def test_too_few_levels_tell_no_slope() -> None:
    assert slopes({4: samples(4, [1.0], 9)}) is None
    assert slopes({1: samples(1, [1.0], 9), 2: samples(2, [1.0, 2.0], 9)[1:]}) is None
