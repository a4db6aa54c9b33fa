"""Random rounding of performance values: its mean, and the range that no coin leaves."""

import numpy as np
import pytest

from fairshares.harness.inputs.record_schema import (
    RecordDomain,
    RecordKind,
    Rounding,
    ValueGrid,
    domain_from_json,
)

GRID = ValueGrid(0.0, 1.0, 10, Rounding.RANDOM)


@pytest.mark.parametrize("value", [0.0, 0.012, 0.524, 0.73, 0.999, 1.0])
def test_the_mean_is_the_value(value: float) -> None:
    """Of n = 100,000 draws: it is off by more than 0.012 with probability 2 exp(-2 n 0.012^2) < 10^-12."""
    exact = 20 * value - 10
    steps = GRID.rounded(np.full(100_000, value))
    assert abs(steps.mean() - exact) < 0.012
    assert set(steps) <= {int(np.floor(exact)), int(np.ceil(exact))}


def test_no_coin_leaves_the_range() -> None:
    """So a client moves a sum by the range at most, as with rounding to the nearest step."""
    steps = GRID.rounded(np.array([-3.0, 0.0, 1e-300, 1 - 1e-16, 1.0, 7.0] * 1000))
    assert steps.min() == -10 and steps.max() == 10


def test_grids_of_version_1_round_to_the_nearest_step() -> None:
    old = ValueGrid(0.0, 1.0, 10)
    assert old.rounded(np.array([0.524] * 1000)).tolist() == [0] * 1000
    assert "rounding" not in old.to_json()
    domain = RecordDomain(("a", "b"), (), 1, kind=RecordKind.VALUE, values=GRID)
    assert domain_from_json(domain.to_json(), "it") == domain
