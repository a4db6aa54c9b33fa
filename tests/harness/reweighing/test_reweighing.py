"""Weights from noisy counts: the formulas in exact fractions, the floor, and what the intervals cover."""

import json
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from fairshares.harness.errors import OutputError
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.postprocessing.noisy_counts import NoisyCounts, read_counts
from fairshares.harness.releases.weights.statistic import Weights
from fairshares.harness.reweighing.count_errors import FLOOR
from fairshares.harness.reweighing.formulas import REWEIGHINGS, GroupWeights
from fairshares.protocols.circuits.coins import Coin, design_coins
from fairshares.protocols.noise.truncated import probability_mass
from tests.support.stated import only_file

Scheme = Callable[[NoisyCounts], GroupWeights]
Numbers = Sequence[Sequence[float]]

COINS = design_coins(Fraction(1), 40)
SCHEMES = pytest.mark.parametrize("scheme", REWEIGHINGS.values(), ids=REWEIGHINGS)


def domain_of(table: Numbers) -> RecordDomain:
    groups, labels = len(table), len(table[0])
    return RecordDomain(tuple(f"g{i}" for i in range(groups)), tuple(f"l{i}" for i in range(labels)))


def noisy(table: Numbers | npt.NDArray[np.float64], coins: tuple[Coin, ...] = COINS) -> NoisyCounts:
    """Make noisy counts that happen to be these numbers."""
    values = np.array(table, dtype=float)
    return NoisyCounts(domain_of(values.tolist()), values, coins)


def test_visible_arithmetic() -> None:
    """16 records: a 1 + 3, b 3 + 9."""
    table = noisy([[1, 3], [3, 9]])
    assert REWEIGHINGS["balanced"](table).weights.tolist() == [[4, 4 / 3], [4 / 3, 4 / 9]]
    assert REWEIGHINGS["label"](table).weights.tolist() == [[2, 2 / 3], [2, 2 / 3]]
    assert REWEIGHINGS["kamiran-calders"](table).weights.tolist() == [[1, 1], [1, 1]]  # independent already


@SCHEMES
def test_counts_below_the_floor_are_raised_and_marked(scheme: Scheme) -> None:
    table = [[-7.5, 0.5], [1.5, 40.5]]
    weights, raised = scheme(noisy(table)), scheme(noisy([[1, 1], [1.5, 40.5]]))
    assert FLOOR == 1
    assert weights.noisy_counts.tolist() == table
    assert weights.floored.tolist() == [[True, True], [False, False]]
    assert weights.weights.tolist() == raised.weights.tolist()
    assert not scheme(noisy([[1, 1], [1, 1]])).floored.any()
    assert np.isfinite(weights.interval).all()
    assert (weights.weights > 0).all()


def test_weights_json() -> None:
    counts = noisy([[1.5, 3.5], [-0.5, 9.5]])
    written = only_file(Weights(counts, REWEIGHINGS["balanced"](counts)))
    assert set(written) == {
        "groups", "labels", "noisy_counts", "floor", "floored", "weights", "weights_interval", "confidence",
        "reweighing",
    }  # fmt: skip
    again = json.loads(json.dumps(written, allow_nan=False))
    assert again == written
    assert again["noisy_counts"] == [[1.5, 3.5], [-0.5, 9.5]]
    assert (again["floor"], again["floored"]) == (1.0, [[False, False], [True, False]])
    assert (again["confidence"], again["reweighing"]) == (0.95, "balanced")
    assert (again["groups"], again["labels"]) == (["g0", "g1"], ["l0", "l1"])
    low, high = np.moveaxis(np.array(again["weights_interval"]), -1, 0)
    weights = np.array(again["weights"])
    assert ((low < weights) & (weights < high)).all()


def test_opened_counts_are_made_unbiased_row_by_row() -> None:
    domain = RecordDomain(("a", "b"), ("0", "1", "2"), 100)
    counts = read_counts({"counts": (5, -3, 0, 1, 2, 300)}, domain, 3, COINS)
    assert counts.table.tolist() == [[5.5, -2.5, 0.5], [1.5, 2.5, 300.5]]
    mass = probability_mass(COINS)
    assert sum(p * (x + Fraction(1, 2)) for x, p in mass.items()) == 0


@pytest.mark.parametrize(
    ("count", "possible"), [(-32, True), (-33, False), (331, True), (332, False), (2**62, False)]
)
def test_counts_that_clients_and_noise_cannot_make(count: int, possible: bool) -> None:
    """Five coins: noise in [-32, 31]; three clients with at most 100 records."""
    domain = RecordDomain(("a", "b"), ("0", "1"), 100)
    if possible:
        assert read_counts({"counts": (0, 0, count, 0)}, domain, 3, COINS).table[1, 0] == count + 0.5
    else:
        with pytest.warns(UserWarning, match="beyond what the clients' declared maximum") as warned:
            counts = read_counts({"counts": (0, 0, count, 0)}, domain, 3, COINS)
        assert counts.table[1].tolist() == [331.5 if count > 0 else -31.5, 0.5]
        assert str(abs(count)) not in str(warned[0].message)


@pytest.mark.parametrize("counts", [(), (1, 2, 3), (1, 2, 3, 4, 5)])
def test_too_few_or_too_many_counts(counts: tuple[int, ...]) -> None:
    domain = RecordDomain(("a", "b"), ("0", "1"), 100)
    with pytest.raises(OutputError, match=f"revealed {len(counts)} counts where 4 belong"):
        read_counts({"counts": counts}, domain, 3, COINS)
    with pytest.raises(OutputError, match="counts where"):
        NoisyCounts(domain, np.array([counts], dtype=float), COINS)
