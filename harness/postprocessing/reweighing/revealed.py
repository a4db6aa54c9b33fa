"""Weights that the parties opened instead of counts, and what is known of the counts from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import OptionError, OutputError
from harness.inputs.record_schema import RecordDomain
from harness.postprocessing.noisy_counts import within
from harness.postprocessing.reweighing.intervals import CONFIDENCE, FLOOR, noise_of, ratio_interval
from protocols.circuits.coins import Coin
from protocols.circuits.weights import BALANCED, KAMIRAN_CALDERS, LABEL, Layout, layout

Table = npt.NDArray[np.float64]

_MOST_TOTALS = 1 << 20  # twice the sum of counts, up to which one that fits the weights is looked for
_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class OpenedWeights:
    """A sample weight per (group, label), without counts; tables have shape (groups, labels).

    Attributes: weights: the middle of what an opened integer allows; interval: shape (groups, labels, 2),
    each holds its weight of the true counts with probability 95 % at least; None for Kamiran-Calders
    weights; fraction_bits: the opened integers are the weights times 2^fraction_bits, rounded down.
    """

    domain: RecordDomain
    weights: Table
    interval: Table | None
    reweighing: str
    fraction_bits: int

    def to_json(self) -> dict[str, Any]:
        """Return the fields of `weights.json` but for the privacy statement; null is what nobody knows."""
        return {
            "groups": list(self.domain.groups),
            "labels": list(self.domain.labels),
            "noisy_counts": None,
            "floor": FLOOR,
            "floored": None,
            "weights": self.weights.tolist(),
            "weights_interval": None if self.interval is None else self.interval.tolist(),
            "confidence": None if self.interval is None else float(CONFIDENCE),
            "reweighing": self.reweighing,
            "fraction_bits": self.fraction_bits,
        }


def layout_for(domain: RecordDomain, clients: int, reweighing: str, noise_bits: int) -> Layout:
    """Return bounds and precision for these clients.

    Raises: OptionError: weights do not fit; the message says which maximum would do.
    """

    def fitting(max_count: int) -> Layout | None:
        try:
            return layout(len(domain.groups), len(domain.labels), reweighing, clients * max_count, noise_bits)
        except ValueError:
            return None

    found = fitting(domain.max_contribution)
    if found is not None:
        return found
    fits, not_any_more = 0, domain.max_contribution
    while not_any_more - fits > 1:
        middle = (fits + not_any_more) // 2
        fits, not_any_more = (middle, not_any_more) if fitting(middle) else (fits, middle)
    way_out = f"declare a maximum of {fits} (--max-count), or use --reveal counts"
    raise OptionError(
        f"Weights by {reweighing} of {clients} clients with up to {domain.max_contribution} records each "
        f"need more than 62 bits: {way_out if fits else 'use --reveal counts'}."
    )


def read_opened_weights(
    opened: Sequence[int], domain: RecordDomain, clients: int, coins: tuple[Coin, ...], reweighing: str
) -> OpenedWeights:
    """Return the weights that a run opened.

    Raises: OutputError: there are too few or too many.
    """
    chosen = layout_for(domain, clients, reweighing, len(coins))
    lanes = chosen.labels if reweighing == LABEL else domain.cells
    if len(opened) != lanes:
        raise OutputError(f"The parties revealed {len(opened)} weights where {lanes} belong.")
    most = (chosen.numerator << chosen.fraction_bits) // chosen.smallest
    opened = within(opened, 0, most)
    shape = (chosen.groups, chosen.labels)
    weights = (np.array(opened, dtype=np.float64) + 0.5) / 2**chosen.fraction_bits
    interval = None
    if reweighing != KAMIRAN_CALDERS:
        each = opened_intervals(opened, chosen, coins, clients * domain.max_contribution)
        interval = np.broadcast_to(each.reshape(-1, chosen.labels, 2), (*shape, 2)).copy()
    table = np.broadcast_to(weights.reshape(-1, chosen.labels), shape).copy()
    return OpenedWeights(domain, table, interval, reweighing, chosen.fraction_bits)


def opened_intervals(
    opened: Sequence[int], chosen: Layout, coins: tuple[Coin, ...], most_records: int
) -> Table:
    """Return an interval of each weight, from opened balanced or label weights alone.

    Computes: D W - 1 is the ratio of all other counts to the weight's own, with an opened weight between
    V/2^f and (V + 1)/2^f. Nobody knows the sum of the counts, only the least one that could have made
    these weights; Fieller's region of a ratio (`ratio_interval`) for that sum contains the one for
    every larger sum of the same ratios, the true one among them, as noise does not grow with counts.
    Guarantees: each holds its weight of the true counts with probability at least 95 %.
    [test: tests/statistical/test_weight_intervals.py]
    Edge cases: Kamiran-Calders weights have none: they are 1 for any independent table.
    Returns: shape (weights, 2).
    """
    cells = chosen.groups * chosen.labels
    terms, divisor = (1, cells) if chosen.reweighing == BALANCED else (chosen.groups, chosen.labels)
    values = np.array(opened, dtype=np.float64)
    low = np.maximum(divisor * values / 2**chosen.fraction_bits - 1, 0)
    high = divisor * (values + 1) / 2**chosen.fraction_bits - 1
    own = least_total(opened, chosen) / 2 / (1 + high)
    # A sum of counts does not tell whether one of them was raised.
    noise = noise_of(coins, cells, float(own.min()) if terms == 1 else 0.0)
    most = np.full(values.shape, (most_records + cells) / terms)
    return (1 + ratio_interval(low, high, own, terms, most, noise)) / divisor


def least_total(opened: Sequence[int], chosen: Layout) -> int:
    """Return a sum of twice the counts such that no smaller one makes these balanced or label weights.

    Computes: for each total T in turn, the counts t with floor(2^f T/(D t)) = V for each opened V: an
    interval of integers, of which 2 and odd ones are twice a count. T fits if there are some for all and
    their sums reach T. What fits no T up to 2^20 gets that.
    [test: tests/harness/postprocessing/test_revealed_weights.py]
    """
    single = chosen.reweighing == BALANCED
    divisor = chosen.groups * chosen.labels if single else chosen.labels
    least = 2 if single else 2 * chosen.groups
    values = np.array(opened, dtype=np.int64)
    for start in range(chosen.smallest, _MOST_TOTALS, _AT_ONCE):
        totals = np.arange(start, min(start + _AT_ONCE, _MOST_TOTALS), dtype=np.int64)
        scaled = totals[:, np.newaxis] << chosen.fraction_bits
        first = np.maximum(scaled // (divisor * (values + 1)) + 1, least)
        last = np.where(values > 0, scaled // (divisor * np.maximum(values, 1)), totals[:, np.newaxis])
        if single:
            first += (first > 2) & (first % 2 == 0)
            last -= (last > 2) & (last % 2 == 0)
        fits = (first <= last).all(axis=1) & (first.sum(axis=1) <= totals) & (totals <= last.sum(axis=1))
        if fits.any():
            return int(totals[np.argmax(fits)])
    return _MOST_TOTALS
