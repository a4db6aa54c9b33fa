"""How far a group's rates may be from what its noisy curve says, at all thresholds at once."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from harness.postprocessing.curves import EVERYBODY, CurveNoise, Floats, GroupCurves
from protocols.noise.added import simulated_noise

_CERTAINTY = 1e-6  # that the simulated quantile is below the true one
_EXPECTED_BEYOND = 25  # simulated curves beyond the true quantile
_BATCH = 500
_SEED = 20_220_521  # any; fixed, so that the same opened values give the same interval


@dataclass(frozen=True, eq=False)
class RateBands:
    """Bounds on the rates of each group at each of the thresholds of `GroupCurves.points`.

    Attributes: all of shape (k, P, 2), low and high; they never rise along the thresholds.
    """

    true_positive_rate: Floats
    false_positive_rate: Floats
    selection_rate: Floats


def noise_bands(curves: GroupCurves, failure: float) -> RateBands:
    """Bound the rates among the records that were counted, which differ by the noise alone.

    Computes: with the counts at or above a threshold and below it known to within bounds, the rate is
    between low / (low + high below) and high / (high + low below); counts are not negative, and fall
    along the thresholds, so a bound holds for all thresholds that it implies.
    Guarantees: with probability 1 - failure over the noise, all rates of all groups at all thresholds
    are within, however a threshold is chosen.  [test: tests/statistical/test_intervals.py]
    Edge cases: exact curves have bands without width; where the bounds allow 0/0 the band is [0, 1].
    """
    return _rate_bands(*_count_bounds(curves, failure)[:2])


def population_bands(curves: GroupCurves, failure: float) -> RateBands:
    """Bound the rates in the population that the counted records are a sample of.

    Computes: `noise_bands` at failure / 2, widened by sqrt(ln(2 / d) / (2 n)) for each group's
    positives, negatives and all its records, n at least by the noise bounds, d = failure / (6 k).
    Source: Dvoretzky, Kiefer and Wolfowitz's inequality with Massart's constant: it holds for every n,
    every distribution of scores and all thresholds at once.
    Guarantees: as `noise_bands`, over the noise and the sample, if records are independent.
    [test: tests/statistical/test_intervals.py]
    """
    above, below, (positives, negatives) = _count_bounds(curves, failure / 2)
    bands = _rate_bands(above, below)
    logarithm = math.log(2 / (failure / (6 * len(curves.groups))))

    def widened(band: Floats, fewest: Floats) -> Floats:
        margin = np.sqrt(logarithm / (2 * np.maximum(fewest, 0.5)))[:, np.newaxis]
        return np.stack([np.maximum(band[..., 0] - margin, 0), np.minimum(band[..., 1] + margin, 1)], -1)

    return RateBands(
        widened(bands.true_positive_rate, positives),
        widened(bands.false_positive_rate, negatives),
        widened(bands.selection_rate, positives + negatives),
    )


def _count_bounds(curves: GroupCurves, failure: float) -> tuple[Floats, Floats, Floats]:
    """Return bounds on counts.

    Returns: of those at or above each threshold, and of those below it, shape (labels: positive, negative; k;
    P; 2); the least number of all records, shape (labels, k).
    """
    inner = curves.thresholds > EVERYBODY
    totals = np.array([curves.positives, curves.negatives])[..., np.newaxis]
    above = np.concatenate([totals, np.array([curves.tp, curves.fp])[..., inner], 0 * totals], axis=-1)
    below = totals - above
    above_error, below_error = np.zeros(above.shape[-1]), np.zeros(above.shape[-1])
    if curves.noise is not None:
        errors = _error_bounds(curves.noise, int((~inner).sum()), failure / (2 * len(curves.groups)))
        above_error[:-1], below_error[1:] = errors[0], errors[1]
    # Counts at or above a threshold fall along the thresholds, those below rise.
    low = np.maximum(np.maximum.accumulate((above - above_error)[..., ::-1], axis=-1)[..., ::-1], 0)
    high = np.maximum(np.minimum.accumulate(above + above_error, axis=-1), 0)
    low_below = np.maximum(np.maximum.accumulate(below - below_error, axis=-1), 0)
    high_below = np.maximum(np.minimum.accumulate((below + below_error)[..., ::-1], axis=-1)[..., ::-1], 0)
    return (
        np.stack([low, high], axis=-1),
        np.stack([low_below, high_below], axis=-1),
        np.maximum(low[..., 0], low_below[..., -1]),
    )


def _rate_bands(above: Floats, below: Floats) -> RateBands:
    def rates(above: Floats, below: Floats) -> Floats:
        with np.errstate(invalid="ignore"):
            found = above / (above + below[..., ::-1])
        return np.where(np.isnan(found), [0.0, 1.0], found)

    return RateBands(
        rates(above[0], below[0]),
        rates(above[1], below[1]),
        rates(above.sum(axis=0), below.sum(axis=0)),
    )


@lru_cache(maxsize=4)
def _error_bounds(noise: CurveNoise, first: int, failure: float) -> tuple[Floats, Floats]:
    """Return bounds on one curve's errors: of the total and the counts above, of those below and the total.

    Computes: the roots of the errors' standard errors, times one factor: the quantile of a curve's
    largest error over that root. (Equal bounds are too wide for small errors; bounds in proportion let
    those few decide that are least like a Gaussian.) It is estimated from simulated curves, whose noise
    has the exact public distribution, by an order statistic that is below the true quantile with
    probability 10^-6 at most (a binomial tail, for any distribution). Simulated noise protects nobody,
    so its seed may be known.
    Args: first: the threshold to begin with.
    """
    total, above = noise.linear[-1:], noise.linear[first:-1]
    rows = np.concatenate([total, above, total - above])
    spread = np.sqrt((rows**2).sum(axis=1))
    used = spread > 1e-9 * spread.max()  # where the grid begins or ends, nothing may be below or above
    scale = np.where(used, np.sqrt(spread), 0)
    simulations, beyond = _order_statistic(failure)
    rng = np.random.default_rng(_SEED)
    narrow, largest = rows[: 1 + len(above)].T.astype(np.float32), []
    for done in range(0, simulations, _BATCH):
        nodes = simulated_noise(noise.node, rng, (min(_BATCH, simulations - done), rows.shape[1]))
        errors = nodes.astype(np.float32) @ narrow
        both = np.concatenate([errors, errors[:, :1] - errors[:, 1:]], axis=1)
        largest.append((abs(both[:, used]) / scale[used]).max(axis=1))
    bound = float(np.sort(np.concatenate(largest))[-1 - beyond]) * scale
    return bound[: 1 + len(above)], np.concatenate([bound[1 + len(above) :], bound[:1]])


def _order_statistic(failure: float) -> tuple[int, int]:
    """Return how many curves to simulate, and how many of the largest values to leave out.

    Of the values beyond the true quantile there are fewer than that but for one time in a million: the
    binomial tail is added up from none on.
    """
    simulations = math.ceil(_EXPECTED_BEYOND / failure)
    few, mass = 0, (1 - failure) ** simulations
    tail = mass
    while tail < _CERTAINTY:
        mass *= (simulations - few) / (few + 1) * failure / (1 - failure)
        few, tail = few + 1, tail + mass
    return simulations, few - 1
