"""`kamiran-calders`: group and label are independent in the weighted records."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairshares.harness.reweighing.intervals import (
    FAILURE,
    FINE_PLACES,
    FLOOR,
    RAISED_FAILURE,
    CountsNoise,
    CountTable,
    Terms,
    WeightedSums,
    error_of_sum,
    quantiles_beside_raised,
    quantiles_of_sums,
)
from fairshares.harness.reweighing.weighting import Weighting, sums
from fairshares.protocols.noise.added import Distribution, Noise, noise_sum

_OUTSIDE = FAILURE / 120  # chance that one of seven sums is beyond one end of its range
_CELLS = 24  # that the range of a count of a Kamiran-Calders weight is cut into
_KEPT = 0.95  # part of a failure that stays for counts that are doubtful and not raised
_REST = 3  # the place of the rest among a weight's parts
_LARGEST = 500.0  # exponent; larger ones overflow and bound nothing


class KamiranCalders(Weighting):
    """C(s) C(y) / (N C(s, y)), for counts C and their total N.

    Source: Kamiran and Calders 2012.
    """

    def of_counts(self, counts: CountTable) -> CountTable:
        return sums(counts, -1) * sums(counts, -2) / (sums(counts, -2, -1) * counts)

    def intervals(self, counts: CountTable, noise: CountsNoise) -> CountTable:
        """Return an interval of W = R L/(N a) for each count a, with its row sum R, column sum L and total N.

        Computes: with F the error of each sum and S = F_R/R + F_L/L - F_N/N - F_a/a, the logarithm of the
        noisy over the true weight is S + d(N) + d(a) - d(R) - d(L), d(v) = x - ln(1 + x) for v's relative
        error x. S is within an exact quantile. A box of all sums bounds d, and the change of S when its
        factors have noisy sums. Cells of a's range bound F_a and d(a).
        """
        is_raised = bool((noise.doubtful & (counts <= FLOOR)).any())
        alike: dict[_Terms, list[int]] = {}  # places of counts whose sums have the same errors
        for place, cell in enumerate(np.ndindex(counts.shape)):
            alike.setdefault(_terms(noise, *cell), []).append(place)
        same_shape = np.broadcast_arrays(counts, sums(counts, 1), sums(counts, 0), sums(counts, 0, 1))
        flat = np.stack([table.ravel() for table in same_shape])
        intervals = np.empty((counts.size, 2))
        for terms, places in alike.items():
            intervals[places] = _intervals(
                flat[:, places, np.newaxis], terms, noise.of_count, is_raised=is_raised
            )
        return intervals.reshape((*counts.shape, 2))


@dataclass(frozen=True)
class _Terms:
    """How many counts the sums have that a weight is made of.

    Attributes:
        of_parts: The count itself, the others of its row, the others of its column, and the rest.
        of_sums: The row, the column, and the total.
    """

    of_parts: tuple[Terms, ...]
    of_sums: tuple[Terms, ...]


def _terms(noise: CountsNoise, group: int, label: int) -> _Terms:
    """Return how many counts are in the sums of a cell's weight."""
    own = np.zeros(noise.doubtful.shape, dtype=bool)
    row = own.copy()
    column = own.copy()
    own[group, label] = True
    row[group] = True
    column[:, label] = True
    parts = own, row & ~own, column & ~own, ~row & ~column
    return _Terms(
        of_parts=tuple(noise.terms(cells) for cells in parts),
        of_sums=tuple(noise.terms(cells) for cells in (row, column, np.ones_like(own))),
    )


def _intervals(tables: CountTable, terms: _Terms, of_count: Noise, *, is_raised: bool) -> CountTable:
    """Return intervals of weights whose sums have the same errors, as `KamiranCalders.intervals`.

    Args:
        tables: Each weight's count, row sum, column sum and total, shape (4, weights, 1).
        terms: How many counts are in the sums.
        of_count: The noise of each count.
        is_raised: Whether any doubtful count is raised.

    Returns:
        Shape (weights, 2).
    """
    counts, row, column, total = tables
    rest = total - row - column + counts
    values = [counts, row - counts, column - counts, rest, row, column, total]
    errors = [error_of_sum(of_count, of_sum) for of_sum in terms.of_parts + terms.of_sums]
    numbers = [of_sum.number for of_sum in terms.of_parts + terms.of_sums]
    reaches = [error.quantile(_OUTSIDE) for error in errors]
    low = [np.maximum(value - t, n * FLOOR) for value, t, n in zip(values, reaches, numbers, strict=True)]
    high = [value + t for value, t in zip(values, reaches, strict=True)]
    edges = low[0] * (high[0] / low[0]) ** (np.arange(_CELLS + 1) / _CELLS)
    start = edges[..., :-1]
    end = edges[..., 1:]
    lowest, highest = _boxed_weights([start, *low[1:4]], [end, *high[1:4]])

    inverse = (1 / start + 1 / end) / 2
    radius = (1 / start - 1 / end) / 2
    factors = np.broadcast_arrays(
        1 / row + 1 / column - 1 / total - inverse,
        1 / row - 1 / total,
        1 / column - 1 / total,
        1 / total,
    )
    half = (FAILURE - RAISED_FAILURE) / 2 - len(values) * _OUTSIDE
    of_cells = np.abs(np.stack(factors, axis=-1)).reshape(-1, 4)
    above, below = _reaches(errors, of_cells, terms, of_count, half, is_raised=is_raised)
    curved = radius * np.maximum(counts - start, end - counts)
    bends = []
    for i in (4, 5, 6):  # R, L, N
        curved = curved + reaches[i] * (1 / low[i] - 1 / values[i])
        bends.append(np.maximum(_bend(values[i] / low[i] - 1), _bend(values[i] / high[i] - 1)))
    most = np.maximum(_bend(counts / start - 1), _bend(counts / end - 1))
    least = _bend(counts / np.clip(counts, start, end) - 1)
    weight = row * column / (total * counts)
    above = above.reshape(inverse.shape) + curved
    below = below.reshape(inverse.shape) + curved
    lowest = np.maximum(lowest, weight * np.exp(-above - bends[2] - most))
    exponents = np.minimum(below + bends[0] + bends[1] - least, _LARGEST)
    highest = np.minimum(highest, weight * np.exp(exponents))
    is_possible = lowest <= highest
    least = np.where(is_possible, lowest, np.inf).min(axis=-1)
    largest = np.where(is_possible, highest, 0).max(axis=-1)
    return np.stack([least, largest], axis=-1)


def _reaches(
    errors: Sequence[Distribution],
    factors: CountTable,
    terms: _Terms,
    of_count: Noise,
    failure: float,
    *,
    is_raised: bool,
) -> tuple[CountTable, CountTable]:
    """Return how far the sum S of `KamiranCalders.intervals` reaches above 0, and below 0, shape (rows,).

    Where the table has one doubtful count, and it is raised, its error is at most 0. So it moves S to one
    side alone. [why: docs/decisions/0085-intervals.md]

    Args:
        errors: The distributions of the errors of the parts, the first four.
        factors: The absolute values of the parts' factors, shape (rows, 4).
        terms: How many counts the parts have.
        of_count: The noise of each count.
        failure: That of one side.
        is_raised: Whether any doubtful count is raised.
    """
    doubtful = [part.doubtful for part in terms.of_parts]
    if sum(doubtful) != 1 or doubtful[0]:
        reach = quantiles_of_sums(errors[:4], factors, failure)
        return reach, reach
    reach = quantiles_of_sums(errors[:4], factors, _KEPT * failure)
    if not is_raised:
        return reach, reach
    part = doubtful.index(1)
    others = [i for i in range(4) if terms.of_parts[i].sure]
    sums_of_others = WeightedSums(
        [error_of_sum(of_count, Terms(terms.of_parts[i].sure)) for i in others],
        factors[:, others],
        FINE_PLACES,
    )
    beside = quantiles_beside_raised(
        sums_of_others, noise_sum(of_count, 1), factors[:, part], reach, 2 * failure
    )
    shorter = np.minimum(reach, beside)
    if part == _REST:  # S falls as the rest grows
        return reach, shorter
    return shorter, reach


def _bend(x: CountTable) -> CountTable:
    return x - np.log1p(x)


def _boxed_weights(low: Sequence[CountTable], high: Sequence[CountTable]) -> tuple[CountTable, CountTable]:
    """Return the lowest and the highest weight in a box.

    `low` and `high` are the ends of the count itself, of the others of its row, of the others of its column,
    and of the rest.
    """
    # The weight grows with the others of row and column, and falls with the rest. In its own count it falls
    # until rest own^2 = row column (2 own + row + column + rest), then rises.
    own_low, row_low, column_low, rest_low = low
    own_high, row_high, column_high, rest_high = high
    product = row_low * column_low
    root = product**2 + rest_high * product * (row_low + column_low + rest_high)
    turn = np.clip((product + np.sqrt(root)) / rest_high, own_low, own_high)
    lowest = _weight(turn, row_low, column_low, rest_high)
    at_own_low = _weight(own_low, row_high, column_high, rest_low)
    at_own_high = _weight(own_high, row_high, column_high, rest_low)
    return lowest, np.maximum(at_own_low, at_own_high)


def _weight(own: CountTable, row: CountTable, column: CountTable, rest: CountTable) -> CountTable:
    """Return the weight of a count, with the others of its row and of its column, and the rest."""
    return (own + row) * (own + column) / ((own + row + column + rest) * own)


WEIGHTING = KamiranCalders()
