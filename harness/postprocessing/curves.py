"""Score curves per group, exact or estimated from noisy counts.

A prediction is positive iff its score, in [0, 1], is at least the threshold.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fairshares.harness.errors import RecordDomainError
from fairshares.harness.inputs.record_schema import check_grid
from fairshares.protocols.arrays import Floats
from fairshares.protocols.noise.added import Noise, mean_square_error, simulated_noise

EVERYBODY = 0.0  # no score is below
ACCEPT_NOBODY = 2.0  # above every score, because scores are at most 1; finite, so that JSON can hold it


@dataclass(frozen=True, eq=False)
class CurveNoise:
    """The public noise of one curve's counts. No other curve has the same nodes.

    Args:
        linear: Shape (T + 1, nodes). The errors of the T counts and of the total are `linear @ X`, where X is
            the nodes' noise less its mean.
        node: The noise of each node.
    """

    linear: Floats
    node: Noise

    def standard_errors(self) -> Floats:
        """Return the standard error of each count and of the total."""
        return np.asarray(np.sqrt(float(mean_square_error(self.node)) * (self.linear**2).sum(axis=1)))


@dataclass(frozen=True, eq=False)
class GroupCurves:
    """The number of records that score at least each of T thresholds, for each of k groups and each label.

    Estimates may be negative, and may rise along the thresholds. The 2k curves have independent noise.

    Args:
        groups: The groups' names.
        thresholds: Shape (T,), rising.
        tp: Shape (k, T): positive records.
        fp: Shape (k, T): negative records.
        positives: Shape (k,): all positive records of each group.
        negatives: Shape (k,): all negative records of each group.
        noise: The noise of each curve; None if the curves are exact.
    """

    groups: tuple[str, ...]
    thresholds: Floats
    tp: Floats
    fp: Floats
    positives: Floats
    negatives: Floats
    noise: CurveNoise | None = None

    def __post_init__(self) -> None:
        if len(self.groups) < 2 or len(set(self.groups)) != len(self.groups):
            raise RecordDomainError(
                "Thresholds that treat groups alike need at least two distinct groups, not "
                f"{list(self.groups)}."
            )
        check_grid(self.thresholds)
        k = len(self.groups)
        t = len(self.thresholds)
        shapes: dict[str, tuple[int, ...]] = {
            "tp": (k, t),
            "fp": (k, t),
            "positives": (k,),
            "negatives": (k,),
        }
        for name, shape in shapes.items():
            values = getattr(self, name)
            if values.shape != shape or not np.isfinite(values).all():
                raise ValueError(f"{name} must hold finite numbers of shape {shape}, not {values.shape}")
        if self.noise is not None and self.noise.linear.shape[:-1] != (t + 1,):
            raise ValueError(f"the noise needs one row for each of {t} counts and one for the total")

    def monotone(self) -> "GroupCurves":
        """Return the nearest curves that counts can form, which never rise and end at 0 or more.

        Computes: for each curve, the least-squares fit to (total, counts), with negative values raised to 0.
        [test: tests/harness/postprocessing/test_curves.py::test_monotone_does_not_add_to_the_worst_error]
        """
        positives, tp = _monotone(self.positives, self.tp)
        negatives, fp = _monotone(self.negatives, self.fp)
        return GroupCurves(self.groups, self.thresholds, tp, fp, positives, negatives, noise=self.noise)

    def points(self) -> "OperatingPoints":
        """Return the monotone curves' rates at each threshold, from EVERYBODY to ACCEPT_NOBODY.

        If a group has no positives, all its true positive rates are NaN. If it has no negatives, all its
        false positive rates are.
        """
        fitted = self.monotone()
        inner = self.thresholds > EVERYBODY
        return OperatingPoints(
            self.groups,
            np.concatenate([[EVERYBODY], self.thresholds[inner], [ACCEPT_NOBODY]]),
            _rates(fitted.tp[:, inner], fitted.positives),
            _rates(fitted.fp[:, inner], fitted.negatives),
            fitted.positives,
            fitted.negatives,
        )


@dataclass(frozen=True, eq=False)
class OperatingPoints:
    """Each group's rates at P thresholds, from 1 at EVERYBODY to 0 at ACCEPT_NOBODY; shape (k, P)."""

    groups: tuple[str, ...]
    thresholds: Floats
    true_positive_rate: Floats
    false_positive_rate: Floats
    positives: Floats
    negatives: Floats

    @property
    def selection_rate(self) -> Floats:
        """Each group's share of positive predictions; NaN for an empty group."""
        tp = self.positives[:, np.newaxis] * np.nan_to_num(self.true_positive_rate)
        fp = self.negatives[:, np.newaxis] * np.nan_to_num(self.false_positive_rate)
        return _over(tp + fp, self.positives + self.negatives)

    @property
    def accuracy(self) -> Floats:
        """Each group's share of correct predictions; NaN for an empty group. It may rise and fall."""
        tp = self.positives[:, np.newaxis] * np.nan_to_num(self.true_positive_rate)
        tn = self.negatives[:, np.newaxis] * (1 - np.nan_to_num(self.false_positive_rate))
        return _over(tp + tn, self.positives + self.negatives)

    @property
    def positive_predictive_value(self) -> Floats:
        """The share of positives among each group's positive predictions; NaN where there are none."""
        tp = self.positives[:, np.newaxis] * np.nan_to_num(self.true_positive_rate)
        fp = self.negatives[:, np.newaxis] * np.nan_to_num(self.false_positive_rate)
        return tp / np.where(tp + fp > 0, tp + fp, np.nan)

    @property
    def area_under_curve(self) -> Floats:
        """Each group's area under the ROC curve; 1/2 if undefined."""
        area = -np.trapezoid(self.true_positive_rate, self.false_positive_rate)
        return np.where(np.isnan(area), 0.5, area)


def exact_curves(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    sensitive_feature: npt.ArrayLike,
    groups: Sequence[str],
    thresholds: npt.ArrayLike,
) -> GroupCurves:
    """Return exact curves of public data.

    Args:
        y_true: Each record's label, 0 or 1.
        y_score: Each record's score, from 0 to 1.
        sensitive_feature: Each record's group.
        groups: The groups, in the order of the curves.
        thresholds: Rising.
    """
    truth = np.asarray(y_true)
    feature = np.asarray(sensitive_feature)
    score = np.asarray(y_score, dtype=float)
    grid = np.asarray(thresholds, dtype=float)

    def counts(label: int) -> tuple[Floats, Floats]:
        scores_by_group = [np.sort(score[(truth == label) & (feature == group)]) for group in groups]
        above = [len(scores) - np.searchsorted(scores, grid, side="left") for scores in scores_by_group]
        totals = [len(scores) for scores in scores_by_group]
        return np.array(above, dtype=float), np.array(totals, dtype=float)

    tp, positives = counts(1)
    fp, negatives = counts(0)
    return GroupCurves(tuple(groups), grid, tp, fp, positives, negatives)


def _monotone(totals: Floats, counts: Floats) -> tuple[Floats, Floats]:
    fitted = np.array([_not_rising(row) for row in np.column_stack([totals, counts])])
    return fitted[:, 0], fitted[:, 1:]


def _not_rising(values: Floats) -> Floats:
    """Return the nearest sequence >= 0 that never rises. SciPy has such a function, but loads slowly.

    Computes: neighboring values that rise are pooled, and get their mean.
    """
    pools: list[tuple[float, int]] = []  # each one's sum, and how many values it holds
    for value in values.tolist():
        total = value
        held = 1
        while pools and total * pools[-1][1] > pools[-1][0] * held:
            total_before, held_before = pools.pop()
            total = total_before + total
            held = held_before + held
        pools.append((total, held))
    means = [max(total / held, 0.0) for total, held in pools]
    return np.repeat(means, [held for _, held in pools])


def _rates(inner: Floats, totals: Floats) -> Floats:
    ends = totals[:, np.newaxis]
    return _over(np.concatenate([ends, inner, np.zeros_like(ends)], axis=1), totals)


def _over(counts: Floats, totals: Floats) -> Floats:
    return counts / np.where(totals > 0, totals, np.nan)[:, np.newaxis]


_BATCH = 500  # simulated curves in memory at once
_SEED = 20_220_521  # arbitrary, but fixed, so that the same revealed values give the same interval

# Bounds on each rate, by its name, of each group at each threshold of `GroupCurves.points`. Shape (k, P, 2),
# where the last axis has the lower and the upper bound. Neither rises along the thresholds, but for those of
# accuracies and positive predictive values.
RateBands = dict[str, Floats]


def noise_bands(curves: GroupCurves, failure: float) -> RateBands:
    """Bound the rates of the counted records, from which the curves differ by noise alone.

    Guarantees: with probability 1 - failure over the noise, all rates of all groups at all thresholds are
    within their bounds.
    [test: tests/statistical/test_intervals.py]
    Edge cases: exact curves have bands without width; a rate that may be 0/0 has the band [0, 1].
    """
    above, below, _ = _count_bounds(curves, failure)
    return _rate_bands(above, below)


def population_bands(curves: GroupCurves, failure: float, also: Sequence[str] = ()) -> RateBands:
    """Bound the rates in the population of which the counted records are a sample.

    Source: the Dvoretzky-Kiefer-Wolfowitz inequality with Massart's constant.
    Guarantees: as `noise_bands`, over the noise and the sample, if records are independent.
    [test: tests/statistical/test_intervals.py]

    Args:
        curves: Exact or noisy.
        failure: The probability that some bound is wrong.
        also: Of "accuracy" and "positive_predictive_value", rates whose numerator or denominator has records
            of both labels, in shares that vary with the threshold. They follow from two more empirical
            distributions for each group: of a score or nothing, by whether the record is positive, and by
            whether it is negative. So each of the inequality's statements then fails with a smaller
            probability, and all bounds are wider.
    """
    above, below, (positives, negatives) = _count_bounds(curves, failure / 2)
    bands = _rate_bands(above, below)
    statements = 5 if also else 3  # statements of the inequality, for each group
    logarithm = math.log(2 / (failure / (2 * statements * len(curves.groups))))

    def widened(band: Floats, fewest: Floats) -> Floats:
        margin = np.sqrt(logarithm / (2 * np.maximum(fewest, 0.5)))[:, np.newaxis]
        return np.stack([np.maximum(band[..., 0] - margin, 0), np.minimum(band[..., 1] + margin, 1)], -1)

    of_both = {}
    if also:
        correct = above[0] + below[1]
        wrong = below[0] + above[1]
        twice = widened(_ratio_band(correct, wrong), (positives + negatives) / 4)  # twice the margin
        selected_positives = widened(
            _ratio_band(above[0], below[0] + above[1] + below[1]), positives + negatives
        )
        selected_negatives = widened(
            _ratio_band(above[1], below[1] + above[0] + below[0]), positives + negatives
        )
        precision = _ratio_band(selected_positives, selected_negatives)
        of_both = {"accuracy": twice, "positive_predictive_value": precision}
    return {name: of_both[name] for name in also} | {
        "true_positive_rate": widened(bands["true_positive_rate"], positives),
        "false_positive_rate": widened(bands["false_positive_rate"], negatives),
        "selection_rate": widened(bands["selection_rate"], positives + negatives),
    }


def _count_bounds(curves: GroupCurves, failure: float) -> tuple[Floats, Floats, Floats]:
    """Bound the numbers of records that score at least, and less than, each threshold.

    Returns:
        Bounds of the numbers above and of the numbers below, each with shape (2, k, P, 2): positive and
        negative records, groups, thresholds, lower and upper bound. Last, shape (2, k), a lower bound of all
        records of each label and group.
    """
    inner = curves.thresholds > EVERYBODY
    totals = np.array([curves.positives, curves.negatives])[..., np.newaxis]
    above = np.concatenate([totals, np.array([curves.tp, curves.fp])[..., inner], 0 * totals], axis=-1)
    below = totals - above
    above_error = np.zeros(above.shape[-1])
    below_error = np.zeros(above.shape[-1])
    if curves.noise is not None:
        failure_of_curve = failure / (2 * len(curves.groups))
        errors = _error_bounds(curves.noise, int((~inner).sum()), failure_of_curve)
        above_error[:-1] = errors[0]
        below_error[1:] = errors[1]
    # Along the thresholds, counts at or above a threshold fall, and counts below it rise.
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
    return {
        "true_positive_rate": _ratio_band(above[0], below[0]),
        "false_positive_rate": _ratio_band(above[1], below[1]),
        "selection_rate": _ratio_band(above.sum(axis=0), below.sum(axis=0)),
    }


def _ratio_band(part: Floats, rest: Floats) -> Floats:
    """Bound part / (part + rest) by bounds of both, along the last axis; [0, 1] where both may be 0."""
    with np.errstate(invalid="ignore"):
        bands = part / (part + rest[..., ::-1])
    return np.where(np.isnan(bands), [0.0, 1.0], bands)


@lru_cache(maxsize=4)
def _error_bounds(noise: CurveNoise, first: int, failure: float) -> tuple[Floats, Floats]:
    """Return bounds on one curve's errors: of (total, counts above), and of (counts below, total).

    Computes: an error's bound is the root of its standard error, times one factor for all. The factor is a
    quantile, over simulated curves, of the curve's largest error divided by that root. As an order statistic
    it is below the true quantile with probability 10^-6 at most.

    Args:
        noise: The curve's noise.
        first: Counts before this one are at thresholds that everybody reaches, and are left out.
        failure: The probability that some error exceeds its bound.
    """
    total = noise.linear[-1:]
    above = noise.linear[first:-1]
    rows = np.concatenate([total, above, total - above])
    spread = np.sqrt((rows**2).sum(axis=1))
    used = spread > 1e-9 * spread.max()  # where the grid begins or ends, nothing may be below or above
    scale = np.where(used, np.sqrt(spread), 0)
    simulations, beyond = _order_statistic(failure)
    rng = np.random.default_rng(_SEED)
    simulated_rows = rows[: 1 + len(above)].T.astype(np.float32)  # the other rows are their differences
    largest = []
    for done in range(0, simulations, _BATCH):
        nodes = simulated_noise(noise.node, rng, (min(_BATCH, simulations - done), rows.shape[1]))
        errors = nodes.astype(np.float32) @ simulated_rows
        errors = np.concatenate([errors, errors[:, :1] - errors[:, 1:]], axis=1)
        largest.append((abs(errors[:, used]) / scale[used]).max(axis=1))
    bound = float(np.sort(np.concatenate(largest))[-1 - beyond]) * scale
    return bound[: 1 + len(above)], np.concatenate([bound[1 + len(above) :], bound[:1]])


def _order_statistic(failure: float) -> tuple[int, int]:
    """Return how many curves to simulate, and how many of them may lie beyond the bound.

    Computes: the most that lie beyond the true quantile with probability 10^-6 at most, by the binomial
    distribution.
    """
    simulations = math.ceil(25 / failure)  # so that 25 are expected beyond the true quantile
    beyond = 0
    mass = (1 - failure) ** simulations
    tail = mass
    while tail < 1e-6:  # the probability that the simulated quantile is below the true one
        mass *= (simulations - beyond) / (beyond + 1) * failure / (1 - failure)
        beyond += 1
        tail += mass
    return simulations, beyond - 1
