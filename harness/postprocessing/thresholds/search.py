"""Each group's rule: a fairness constraint as geometry, and points back as thresholds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from fairshares.harness.postprocessing.curves import OperatingPoints
from fairshares.harness.postprocessing.thresholds.constraints import CONSTRAINTS, EQUALIZED_ODDS, RATES
from fairshares.harness.postprocessing.thresholds.geometry import (
    Hull,
    mixed_one_rate,
    mixed_one_ratio,
    mixed_two_rates,
    pure_one_rate,
    pure_two_rates,
    snapped,
)
from fairshares.harness.postprocessing.thresholds.rules import ThresholdRule, mixture
from fairshares.protocols.arrays import Floats

ACCURACY = "accuracy_score"
BALANCED_ACCURACY = "balanced_accuracy_score"

PAIR_SLACK = 1e-4  # the error with which two thresholds may hit a rate that takes three


@dataclass(frozen=True, eq=False)
class ThresholdTask:
    """A constraint, and the objective `constant + sum of gain * TPR - loss * FPR`."""

    points: OperatingPoints
    constraint: str
    objective: str
    constant: float
    gain: Floats
    loss: Floats

    @property
    def constrained(self) -> tuple[str, ...]:
        """The rates that are to be alike."""
        return CONSTRAINTS[self.constraint].rates

    @property
    def is_of_ratios(self) -> bool:
        """Whether the tolerance is a share of the largest rate, and not a difference."""
        return CONSTRAINTS[self.constraint].is_of_ratios

    @cached_property
    def curves(self) -> "tuple[GroupPoints, ...]":
        """The distinct points of each group. A true or false positive rate that is 0/0 is 0."""
        points = self.points
        curves = []
        rates: dict[str, Floats] = {name: getattr(points, name) for name in (*RATES, *self.constrained)}
        for name in ("true_positive_rate", "false_positive_rate"):
            rates[name] = np.nan_to_num(rates[name])
        for group in range(len(points.groups)):
            of_group = {name: values[group] for name, values in rates.items()}
            curves.append(_group_points(points.thresholds, of_group))
        return tuple(curves)


@dataclass(frozen=True, eq=False)
class GroupPoints:
    """The distinct effects of a group's thresholds, by rising selection rates.

    Attributes:
        thresholds: Shape (points,).
        rates: The rates by name, of shape (points,): the rates in `RATES`, and the rates of the constraint. A
            positive predictive value is NaN where nobody is accepted.
    """

    thresholds: Floats
    rates: Mapping[str, Floats]

    @property
    def true_positive_rate(self) -> Floats:
        """The true positive rate of each point."""
        return self.rates["true_positive_rate"]

    @property
    def false_positive_rate(self) -> Floats:
        """The false positive rate of each point."""
        return self.rates["false_positive_rate"]

    @property
    def selection_rate(self) -> Floats:
        """The selection rate of each point."""
        return self.rates["selection_rate"]

    def rule(self, shares: Sequence[tuple[int, float]]) -> ThresholdRule:
        """Return the rule that draws among points, as (index, probability)."""
        return mixture((float(self.thresholds[point]), share) for point, share in shares)


def task_for(points: OperatingPoints, constraint: str, objective: str) -> ThresholdTask:
    """Write the objective as a linear function of the groups' rates.

    Balanced accuracy counts all groups together under equalized odds; otherwise it averages theirs by size,
    as Fairlearn does.
    """
    positives = points.positives
    negatives = points.negatives
    sizes = positives + negatives
    if objective == ACCURACY:
        constant = float(negatives.sum() / sizes.sum())
        gain = positives / sizes.sum()
        loss = negatives / sizes.sum()
    elif constraint == EQUALIZED_ODDS:
        constant = 0.5
        gain = positives / positives.sum() / 2
        loss = negatives / negatives.sum() / 2
    else:
        constant = 0.5
        gain = sizes / sizes.sum() / 2
        loss = gain
    return ThresholdTask(points, constraint, objective, constant, gain, loss)


def best_mixed_rules(task: ThresholdTask, tolerance: float) -> list[ThresholdRule]:
    """Return each group's best rule with draws. The rate of the constraint is averaged by a draw."""
    if task.constraint != EQUALIZED_ODDS:
        hulls = [Hull.over(*one_rate) for one_rate in _one_rate(task)]
        if task.is_of_ratios:
            at_best = mixed_one_ratio(hulls, tolerance)
        else:
            at_best = mixed_one_rate(hulls, tolerance)
        best = zip(task.curves, hulls, at_best.tolist(), strict=True)
        return [curve.rule(hull.mix(x)) for curve, hull, x in best]
    hulls = [Hull.over(curve.false_positive_rate, curve.true_positive_rate) for curve in task.curves]
    half_a_record = 0.5 / np.column_stack([task.points.negatives, task.points.positives])
    aim = max(tolerance - 2 * PAIR_SLACK, 0.0)  # so that what pairs miss stays within the tolerance
    fpr, tpr = (rate.tolist() for rate in mixed_two_rates(hulls, task.gain, task.loss, aim))
    return list(map(_rule_at, task.curves, hulls, fpr, tpr, half_a_record.tolist()))


def best_pure_rules(task: ThresholdTask, tolerance: float) -> list[ThresholdRule] | None:
    """Return each group's best single threshold.

    Return None if the constraint forces all groups to accept everybody, or nobody, unless that is optimal.
    """
    chosen = _best_points(task, tolerance, slice(None))
    free = [int(np.argmax(value)) for _, value in _one_rate(task)]
    if chosen is None:
        return None
    if _is_trivial(task, chosen) and not _is_trivial(task, free):
        between = _best_points(task, tolerance, slice(1, -1))  # neither everybody nor nobody
        if between is None:
            return None
    return [curve.rule([(point, 1.0)]) for curve, point in zip(task.curves, chosen, strict=True)]


def least_tolerance(task: ThresholdTask) -> float:
    """Return the least tolerance of `best_pure_rules`, at most 2 % too large."""
    low = 0.0
    high = 1.0
    while high - low > 0.02 * high:
        middle = (low + high) / 2
        if best_pure_rules(task, middle) is None:
            low = middle
        else:
            high = middle
    return high


_Points: TypeAlias = "slice[int | None, int | None, None]"
"""Points of each curve, from one to before another."""


def _best_points(task: ThresholdTask, tolerance: float, among: _Points) -> list[int] | None:
    """Return each curve's best point among some of its points, None if no choice is within the tolerance."""
    if any(len(curve.thresholds[among]) == 0 for curve in task.curves):
        return None
    if task.constraint == EQUALIZED_ODDS:
        points = [
            (curve.false_positive_rate[among], curve.true_positive_rate[among]) for curve in task.curves
        ]
        chosen = pure_two_rates(points, task.gain, task.loss, tolerance)
        if chosen is None:
            return None
        first = among.start or 0
        return [first + point for point in chosen.tolist()]
    rising = []  # the points of each curve by rising rate, without those that have none
    for rate, _ in _one_rate(task):
        allowed = np.arange(len(rate))[among]
        defined = allowed[~np.isnan(rate[allowed])]
        rising.append(defined[np.argsort(rate[defined], kind="stable")])
    if any(len(order) == 0 for order in rising):
        return None
    by_rate = [
        (rate[order], value[order]) for (rate, value), order in zip(_one_rate(task), rising, strict=True)
    ]
    chosen = pure_one_rate(by_rate, tolerance, relative=task.is_of_ratios)
    if chosen is None:
        return None
    return [int(order[point]) for order, point in zip(rising, chosen.tolist(), strict=True)]


def _is_trivial(task: ThresholdTask, chosen: Sequence[int]) -> bool:
    """Return whether all groups accept everybody, or nobody."""
    lasts = [len(curve.thresholds) - 1 for curve in task.curves]
    return not any(chosen) or list(chosen) == lasts


def _one_rate(task: ThresholdTask) -> list[tuple[Floats, Floats]]:
    """Return, of each group's points, the rate that is to be alike, and the part of the objective."""
    rates_and_values = []
    for curve, gain, loss in zip(task.curves, task.gain, task.loss, strict=True):
        rate = curve.rates[task.constrained[0]]
        value = np.asarray(gain * curve.true_positive_rate - loss * curve.false_positive_rate)
        rates_and_values.append((rate, value))
    return rates_and_values


def _rule_at(curve: GroupPoints, hull: Hull, x: float, y: float, half_a_record: list[float]) -> ThresholdRule:
    """Return a rule with these rates: on the hull exact, below by two thresholds, or else three."""
    if y >= float(hull.at(x)) - 1e-9:
        return curve.rule(hull.mix(x))
    pair = _pair_at(curve, x, y, half_a_record)
    if pair:
        return curve.rule(pair)
    beside = hull.y * x - hull.x * y  # falls along the hull, 0 where the line meets it
    right = min(int(np.flatnonzero(beside >= 0)[-1]) + 1, len(beside) - 1)
    share = float(beside[right - 1] / (beside[right - 1] - beside[right]))
    height = float((1 - share) * hull.y[right - 1] + share * hull.y[right])
    part = y / height
    left_point, right_point = hull.corners[right - 1 : right + 1].tolist()
    return curve.rule([(0, 1 - part), (left_point, part * (1 - share)), (right_point, part * share)])


def _pair_at(
    curve: GroupPoints, x: float, y: float, half_a_record: list[float]
) -> list[tuple[int, float]] | None:
    """Return two points, with shares, that mix to about (x, y), or None."""
    x_of = curve.false_positive_rate - x
    y_of = curve.true_positive_rate - y
    x_slack, y_slack = (max(half, PAIR_SLACK) for half in half_a_record)
    first = np.flatnonzero((x_of <= x_slack) & (y_of <= y_slack))
    second = np.flatnonzero((x_of >= -x_slack) & (y_of >= -y_slack))
    # Arrays from here on have a row for each first point, and a column for each second one.
    x_first = x_of[first, np.newaxis]
    y_first = y_of[first, np.newaxis]
    x_step = x_of[second] - x_first
    y_step = y_of[second] - y_first
    length = np.maximum(x_step**2 + y_step**2, 1e-30)  # 0 between a point and itself
    share = snapped(-(x_first * x_step + y_first * y_step) / length)
    x_missed = abs(x_first + share * x_step)
    y_missed = abs(y_first + share * y_step)
    by_chance = abs(curve.selection_rate[second] - curve.selection_rate[first, np.newaxis])
    missed = np.maximum(x_missed, y_missed)
    within = (x_missed <= x_slack) & (y_missed <= y_slack)
    # Pairs that hit the point come first, and among them those that leave least to chance.
    cost_within = np.where(missed <= PAIR_SLACK, by_chance - 1, missed)
    cost = np.where(within, cost_within, np.inf)
    if not np.isfinite(cost).any():
        return None
    i, j = np.unravel_index(int(np.argmin(cost)), cost.shape)
    return [(int(first[i]), 1 - float(share[i, j])), (int(second[j]), float(share[i, j]))]


def _group_points(thresholds: Floats, rates: Mapping[str, Floats]) -> GroupPoints:
    """Merge thresholds with the same rates into the middle one, except at the ends."""
    tpr = rates["true_positive_rate"]
    fpr = rates["false_positive_rate"]
    last = len(tpr) - 1
    ends = np.concatenate([np.flatnonzero((np.diff(tpr) != 0) | (np.diff(fpr) != 0)), [last]])
    begins = np.concatenate([[0], ends[:-1] + 1])
    middle = (begins + ends) // 2
    middle[0] = 0
    middle[-1] = last
    at = middle[::-1]
    return GroupPoints(thresholds[at], {name: values[at] for name, values in rates.items()})
