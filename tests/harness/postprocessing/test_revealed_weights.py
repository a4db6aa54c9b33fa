"""Weights that were opened alone: what they say of the counts, and what cannot have been opened."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from harness.errors import OptionError, OutputError
from harness.inputs.record_schema import RecordDomain
from harness.postprocessing.reweighing.intervals import count_intervals
from harness.postprocessing.reweighing.revealed import layout_for, least_total, read_opened_weights
from protocols import reference
from protocols.circuits.coins import design_coins
from protocols.circuits.weights import layout

COINS = design_coins(Fraction(1), 40)
DOMAIN = RecordDomain(("a", "b"), ("0", "1"), 100)
CLIENTS = 109


def opened(noisy: list[list[int]], reweighing: str) -> tuple[int, ...]:
    """Return what the parties open for noisy counts, before the half is added."""
    f = layout_for(DOMAIN, CLIENTS, reweighing, len(COINS)).fraction_bits
    table = reference.opened_weights(noisy, reweighing, f)
    return tuple(table[0] if reweighing == "label" else [weight for row in table for weight in row])


NOISY = [[180, 437], [308, 3054]]


@pytest.mark.parametrize("reweighing", reference.WEIGHTS)
def test_weights_are_right_to_half_of_their_last_bit(reweighing: str) -> None:
    found = read_opened_weights(opened(NOISY, reweighing), DOMAIN, CLIENTS, COINS, reweighing)
    exact = reference.WEIGHTS[reweighing]([[2 * count + 1 for count in row] for row in NOISY])
    assert np.abs(found.weights - np.array(exact, dtype=float)).max() <= 0.5 / 2**found.fraction_bits
    assert found.fraction_bits == 20 and (found.weights > 0).all()


@pytest.mark.parametrize("reweighing", ["balanced", "label"])
def test_intervals_contain_those_of_opened_counts(reweighing: str) -> None:
    """Nobody knows how many records there are, or if a count was raised, so they may not be narrower."""
    found = read_opened_weights(opened(NOISY, reweighing), DOMAIN, CLIENTS, COINS, reweighing)
    of_counts = count_intervals(np.array(NOISY) + 0.5, reweighing, COINS)
    assert found.interval is not None
    rounding = 2**-found.fraction_bits
    assert (found.interval[..., 0] <= of_counts[..., 0] + rounding).all()
    assert (found.interval[..., 1] >= of_counts[..., 1] - rounding).all()
    widths, least = (np.diff(each, axis=-1) for each in (found.interval, of_counts))
    # Three ratios need nearly all the records that there are; a single one is made by fewer.
    assert (widths < (1.3 if reweighing == "balanced" else 8) * least).all()


def test_weights_json() -> None:
    for reweighing in ("balanced", "kamiran-calders"):
        weights = opened(NOISY, reweighing)
        found = read_opened_weights(weights, DOMAIN, CLIENTS, COINS, reweighing).to_json()
        assert json.loads(json.dumps(found, allow_nan=False)) == found
        assert (found["noisy_counts"], found["floored"], found["floor"]) == (None, None, 1.0)
        assert (found["weights_interval"] is None) == (reweighing == "kamiran-calders")
        assert found["confidence"] == (None if reweighing == "kamiran-calders" else 0.95)
        rounded = [int(weight * 2 ** found["fraction_bits"]) for row in found["weights"] for weight in row]
        assert rounded == list(weights)


def test_visible_totals() -> None:
    """1 : 1 : 1 : 1 is made by counts of 1 already, 3 : 5 : 7 : 9 by halves of these and nothing smaller."""
    chosen = layout(2, 2, "balanced", 1000, len(COINS))
    assert least_total(opened([[40, 40], [40, 40]], "balanced"), chosen) == 8
    assert least_total(opened([[1, 2], [3, 4]], "balanced"), chosen) == 3 + 5 + 7 + 9
    assert least_total(opened([[4, 7], [10, 13]], "balanced"), chosen) == 3 + 5 + 7 + 9  # three times
    by_label = layout(2, 2, "label", 1000, len(COINS))
    assert least_total(opened([[40, 40], [40, 40]], "label"), by_label) == 8


@given(st.data(), st.sampled_from(["balanced", "label"]))
@settings(max_examples=60)
def test_no_smaller_total_than_the_least(data: st.DataObject, reweighing: str) -> None:
    """What was opened came from a total that is not below; and all totals below make something else."""
    noisy = data.draw(st.lists(st.lists(st.integers(-3, 12), min_size=2, max_size=2), min_size=2, max_size=2))
    chosen = layout_for(DOMAIN, CLIENTS, reweighing, len(COINS))
    weights = opened(noisy, reweighing)
    truth = sum(max(2 * count + 1, 2) for row in noisy for count in row)
    least = least_total(weights, chosen)
    assert chosen.smallest <= least <= truth
    other = data.draw(st.lists(st.lists(st.integers(0, 12), min_size=2, max_size=2), min_size=2, max_size=2))
    if opened(other, reweighing) == weights:
        assert sum(max(2 * count + 1, 2) for row in other for count in row) >= least


@pytest.mark.parametrize("weights", [(), (1, 2, 3), (1, 2, 3, 4, 5)])
def test_too_few_or_too_many(weights: tuple[int, ...]) -> None:
    with pytest.raises(OutputError, match=f"revealed {len(weights)} weights where 4 belong"):
        read_opened_weights(weights, DOMAIN, CLIENTS, COINS, "balanced")


@pytest.mark.parametrize("weight", [-1, 2**62])
def test_weights_that_clients_and_noise_cannot_make(weight: int) -> None:
    with pytest.warns(UserWarning, match="beyond what the clients' declared maximum") as warned:
        found = read_opened_weights((1 << 20, weight, 1 << 20, 1 << 20), DOMAIN, CLIENTS, COINS, "balanced")
    assert str(abs(weight)) not in str(warned[0].message)
    assert np.isfinite(found.weights).all() and (found.weights > 0).all()


def test_what_does_not_fit_says_which_maximum_would() -> None:
    domain = RecordDomain(("a", "b"), ("0", "1"), 2**31)
    layout_for(domain, CLIENTS, "balanced", 5)
    with pytest.raises(OptionError, match=r"declare a maximum of 9850841 \(--max-count\)"):
        layout_for(domain, CLIENTS, "kamiran-calders", 5)
    for most, fits in ((9850841, True), (9850842, False)):
        closer = RecordDomain(("a", "b"), ("0", "1"), most)
        if fits:
            layout_for(closer, CLIENTS, "kamiran-calders", 5)
        else:
            with pytest.raises(OptionError):
                layout_for(closer, CLIENTS, "kamiran-calders", 5)
    with pytest.raises(OptionError, match="each need more than 62 bits: use --reveal counts"):
        layout_for(domain, 2**40, "kamiran-calders", 5)
