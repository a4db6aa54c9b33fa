"""`kamiran-calders`: group and label are independent in the weighted records."""

from collections.abc import Sequence

import numpy as np

from fairshares.harness.reweighing.intervals import (
    FAILURE,
    FLOOR,
    RAISED_FAILURE,
    Noise,
    Table,
    quantiles_of_sums,
)
from fairshares.harness.reweighing.weighting import Weighting, sums

_OUTSIDE = FAILURE / 120  # chance that one of seven sums is beyond one end of its range
_CELLS = 24  # that the range of a count of a Kamiran-Calders weight is cut into
_LARGEST = 500.0  # exponent; larger ones overflow and bound nothing


class KamiranCalders(Weighting):
    """C(s) C(y) / (N C(s, y)), for counts C and their total N.

    Source: Kamiran and Calders 2012.
    """

    def of_counts(self, counts: Table) -> Table:
        return sums(counts, -1) * sums(counts, -2) / (sums(counts, -2, -1) * counts)

    def intervals(self, counts: Table, noise: Noise) -> Table:
        """Return an interval of W = R L/(N a) for each count a, with its row sum R, column sum L and total N.

        Computes: with F the error of each sum and S = F_R/R + F_L/L - F_N/N - F_a/a, the logarithm of the
        noisy over the true weight is S + d(N) + d(a) - d(R) - d(L), d(v) = x - ln(1 + x) for v's relative
        error x. S is within an exact quantile. A box of all sums bounds d, and the change of S when its
        factors have noisy sums. Cells of a's range bound F_a and d(a).
        """
        groups, labels = counts.shape
        same_shape = np.broadcast_arrays(counts, sums(counts, 1), sums(counts, 0), sums(counts, 0, 1))
        counts, row, column, total = (table[..., np.newaxis] for table in same_shape)
        rest = total - row - column + counts
        values = [counts, row - counts, column - counts, rest, row, column, total]
        terms = [1, labels - 1, groups - 1, (labels - 1) * (groups - 1), labels, groups, counts.size]
        reaches = [noise.sum(n).quantile(_OUTSIDE) for n in terms]
        low = [np.maximum(value - t, n * FLOOR) for value, t, n in zip(values, reaches, terms, strict=True)]
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
        half = (FAILURE - RAISED_FAILURE) / 2 - len(terms) * _OUTSIDE
        of_cells = np.abs(np.stack(factors, axis=-1)).reshape(-1, 4)
        linear = quantiles_of_sums([noise.sum(n) for n in terms[:4]], of_cells, half).reshape(inverse.shape)
        linear = linear + radius * np.maximum(counts - start, end - counts)
        bends = []
        for i in (4, 5, 6):  # R, L, N
            linear = linear + reaches[i] * (1 / low[i] - 1 / values[i])
            bends.append(np.maximum(_bend(values[i] / low[i] - 1), _bend(values[i] / high[i] - 1)))
        most = np.maximum(_bend(counts / start - 1), _bend(counts / end - 1))
        least = _bend(counts / np.clip(counts, start, end) - 1)
        weight = row * column / (total * counts)
        lowest = np.maximum(lowest, weight * np.exp(-linear - bends[2] - most))
        exponents = np.minimum(linear + bends[0] + bends[1] - least, _LARGEST)
        highest = np.minimum(highest, weight * np.exp(exponents))
        is_possible = lowest <= highest
        least = np.where(is_possible, lowest, np.inf).min(axis=-1)
        largest = np.where(is_possible, highest, 0).max(axis=-1)
        return np.stack([least, largest], axis=-1)


def _bend(x: Table) -> Table:
    return x - np.log1p(x)


def _boxed_weights(low: Sequence[Table], high: Sequence[Table]) -> tuple[Table, Table]:
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


def _weight(own: Table, row: Table, column: Table, rest: Table) -> Table:
    """Return the weight of a count, with the others of its row and of its column, and the rest."""
    return (own + row) * (own + column) / ((own + row + column + rest) * own)


WEIGHTING = KamiranCalders()
