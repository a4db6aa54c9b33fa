"""What a vector that comes or goes moves in a sum of integers, with visible numbers and for any updates."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as arrays

from fairshares.harness.errors import OptionError
from fairshares.harness.inputs import updates as updates_module
from fairshares.harness.inputs.updates import MAX_WEIGHT, UpdateRule
from fairshares.protocols.accounting.calibration import PrivacyUnit

CLIENT, RECORD = PrivacyUnit.CLIENT, PrivacyUnit.RECORD
RULE = UpdateRule(2, clip=5.0, largest_weight=2.0, units=100, unit=CLIENT, rows=CLIENT)

ANY = st.floats(allow_nan=True, allow_infinity=True, width=64)
rules = st.builds(
    UpdateRule,
    st.integers(1, 9),
    clip=st.floats(1e-6, 1e6),
    largest_weight=st.floats(0.01, 50),
    units=st.sampled_from([1, 16, 256, 1 << 20]),
    unit=st.just(CLIENT),
    rows=st.just(CLIENT),
)


@contextmanager
def coins(value: float) -> Iterator[None]:
    """Have all coins that round show this number."""
    with mock.patch.object(updates_module, "_coins", lambda shape: np.full(shape, value)):
        yield


@pytest.fixture
def like_to_the_nearest() -> Iterator[None]:
    with coins(0.5):
        yield


@pytest.mark.usefixtures("like_to_the_nearest")
def test_clip_first_then_weigh_round_last() -> None:
    """(30, 40) has norm 50: clipped to 5 it is (3, 4), that is (60, 80) units; half of it is (30, 40)."""
    encoded = RULE.encode(np.array([[30.0, 40.0], [30.0, 40.0], [0.03, 0.04]]), np.array([1.0, 0.5, 2.0]))
    assert encoded.tolist() == [[60, 80], [30, 40], [1, 2]]  # 1.2 and 1.6 units, rounded last
    assert RULE.decode(encoded.sum(axis=0)).tolist() == pytest.approx([4.55, 6.1])


@pytest.mark.usefixtures("like_to_the_nearest")
@pytest.mark.parametrize(("weight", "kept"), [(9.0, 2), (np.inf, 2), (-1.0, 0), (np.nan, 0)])
def test_weights_are_capped(weight: float, kept: int) -> None:
    assert RULE.encode(np.array([[5.0, 0.0]]), np.array([weight])).tolist() == [[100 * kept, 0]]


@pytest.mark.usefixtures("like_to_the_nearest")
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_counts_as_nobody(bad: float) -> None:
    assert RULE.encode(np.array([[bad, 1.0], [0.0, 5.0]])).tolist() == [[0, 0], [0, 100]]


def test_sensitivities_in_visible_numbers() -> None:
    """With 4 coordinates, sqrt(d) = 2: 200 + 2 units for a vector, twice that for one that changes."""
    four = replace(RULE, coordinates=4)
    assert four.squares == 202**2
    assert replace(four, unit=RECORD, rows=RECORD).squares == 202**2
    assert replace(four, unit=RECORD).squares == 404**2
    assert replace(four, unit=RECORD, rows=RECORD, are_replaced=True).squares == 404**2
    assert replace(four, unit=RECORD, are_replaced=True).squares == 404**2
    assert four.largest == 201
    with pytest.raises(OptionError, match="any number of records"):
        replace(four, rows=RECORD)
    with pytest.raises(OptionError, match="only a record is replaced"):
        replace(four, are_replaced=True)


@given(st.data(), rules)
def test_a_vector_that_comes_or_goes_keeps_to_the_sensitivity(data: st.DataObject, rule: UpdateRule) -> None:
    """Both units where rows are theirs: a row against none; and a client's vector against another of its."""
    updates = data.draw(arrays.arrays(np.float64, (3, rule.coordinates), elements=ANY))
    weights = data.draw(st.none() | arrays.arrays(np.float64, 3, elements=ANY))
    shown = data.draw(st.sampled_from([0.0, 0.5, 1 - 2.0**-32]))
    with coins(shown):
        rows = [[int(z) for z in row] for row in rule.encode(updates, weights)]
    exact = (Fraction(rule.largest_weight) * rule.units, rule.coordinates)
    bound = float(exact[0]) + math.sqrt(exact[1])
    assert rule.squares == pytest.approx(bound**2, rel=1e-9, abs=1)
    for row in rows:
        assert sum(z * z for z in row) <= rule.squares
        assert max(map(abs, row)) <= rule.largest
    changed = replace(rule, unit=RECORD).squares
    assert changed == pytest.approx(4 * bound**2, rel=1e-9, abs=1)
    assert sum((a - b) ** 2 for a, b in zip(*rows[:2], strict=True)) <= changed
    assert replace(rule, unit=RECORD, rows=RECORD, are_replaced=True).squares == changed
    of_records = replace(rule, unit=RECORD, rows=RECORD)
    assert of_records.squares == rule.squares
    with coins(shown):
        assert np.array_equal(of_records.encode(updates, weights), rows)


def test_the_worst_coins_move_a_vector_by_more_than_half_a_step_would() -> None:
    """(99, 99, 99, 99) and a little more has the norm 198; each coordinate up it has 200, beyond 198 + 1."""
    rule = replace(RULE, coordinates=4, largest_weight=1.98000001)
    with coins(0.0):
        (row,) = rule.encode(np.full((1, 4), 99.0000003), np.array([9.0]))
    assert row.tolist() == [100] * 4
    assert (198 + 1) ** 2 < sum(z * z for z in row.tolist()) <= rule.squares == 200**2


def test_rounding_has_the_right_mean() -> None:
    """To the nearest unit 200,000 rows would add up to nothing, or to each one more; 10^-9 false alarms.

    By Hoeffding, a sum of n coins is within sqrt(n ln(2 / failure) / 2) of its mean.
    """
    rows = 200_000
    rule = replace(RULE, units=4, clip=1.0, largest_weight=1.0)
    within = math.sqrt(rows * math.log(2e9) / 2)
    for vector in ((0.015, 0.015), (0.6, -0.8), (0.2, 0.0)):
        total = rule.encode(np.full((rows, 2), vector)).sum(axis=0)
        assert (np.abs(total - np.array(vector) * rule.units * rows) <= within + 1e-3).all()
        nearest = np.rint(np.array(vector) * rule.units) * rows
        assert (np.abs(nearest - np.array(vector) * rule.units * rows) > within).any()


def test_coins_are_the_systems_and_fill_the_unit_interval() -> None:
    drawn = updates_module._coins((100_000,))
    assert 0 <= drawn.min() < 0.001 and 0.999 < drawn.max() < 1
    assert not np.array_equal(drawn, updates_module._coins((100_000,)))


def test_sums_cannot_wrap() -> None:
    """A coordinate is 201 units at most: with noise up to 2^63 - 2011 ten rows fit, and not one more unit."""
    RULE.check_sums(10, (1 << 63) - 2011)
    with pytest.raises(OptionError, match="Sums of 10 vectors could overflow at 100 units"):
        RULE.check_sums(10, (1 << 63) - 2010)
    with coins(0.0):
        assert RULE.encode(np.full((3, 2), [1e300, 0.0]), np.full(3, np.inf)).max() == 200 < RULE.largest


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"coordinates": 0}, "coordinates, not 0"),
        ({"clip": 0.0}, "positive number, not 0.0"),
        ({"clip": math.nan}, "positive number, not nan"),
        ({"clip": math.inf}, "positive number, not inf"),
        ({"largest_weight": 0.0}, "largest weight is from 1e-06"),
        ({"largest_weight": 2.0 * MAX_WEIGHT}, "largest weight is from 1e-06"),
    ],
)
def test_rules_that_make_no_sense_are_refused(change: dict[str, float], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        replace(RULE, **change)  # type: ignore[arg-type]


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(OptionError, match=r"shape \(rows, 2\), not \(1, 3\)"):
        RULE.encode(np.zeros((1, 3)))
    with pytest.raises(OptionError, match="a weight for each of 2 rows"):
        RULE.encode(np.zeros((2, 2)), np.ones(3))
