"""From score curves to thresholds that treat groups alike, in the clear."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from fairshares.harness.errors import InfeasibleError, OptionError, TooNoisyError, UndefinedRateError, named
from fairshares.harness.postprocessing.confidence import CONFIDENCE
from fairshares.harness.postprocessing.curves import GroupCurves, OperatingPoints, population_bands
from fairshares.harness.postprocessing.thresholds.constraints import CONSTRAINTS, EQUALIZED_ODDS, RATES
from fairshares.harness.postprocessing.thresholds.rules import ThresholdRule, in_words
from fairshares.harness.postprocessing.thresholds.search import (
    ACCURACY,
    BALANCED_ACCURACY,
    ThresholdTask,
    best_mixed_rules,
    best_pure_rules,
    least_tolerance,
    task_for,
)
from fairshares.protocols.arrays import Floats

OBJECTIVES = (ACCURACY, BALANCED_ACCURACY)

GOOD_RATIO = 0.1  # ratio of noise to records that messages suggest
NEARLY_ALL = 0.98  # if this share of a group is predicted alike, the rule tells hardly anybody apart
_MOST_TIMES = 20  # messages suggest at most so many times the epsilon: no command takes an epsilon above 20


@dataclass(frozen=True, eq=False)
class GroupThresholds:
    """A decision rule for each group, and the rules' estimated effect.

    Args:
        constraint: One of `CONSTRAINTS`.
        objective: One of `OBJECTIVES`.
        tolerance: The difference between groups that was allowed in each constrained rate; under four_fifths
            how far the least rate may fall short of the largest, as a share of it.
        deterministic: Whether rules are single thresholds.
        rules: The rule of each group, by its name.
        rates: The groups' estimated rates, by the rate's name, shape (k,): the rates in `RATES`, and the rate
            of the constraint.
        intervals: The intervals of these rates, by the rate's name, shape (k, 2).
        objective_value: The estimated objective.
        gap: The largest estimated difference between groups in a constrained rate, in the tolerance's unit.
        gap_interval: The interval of the gap.
        confidence: All intervals hold at once with this probability, over the noise and the sample.
        least_tolerance: Whether the tolerance is the least that leaves a choice, as none was given.
    """

    constraint: str
    objective: str
    tolerance: float
    deterministic: bool
    rules: Mapping[str, ThresholdRule]
    rates: Mapping[str, Floats]
    intervals: Mapping[str, Floats]
    objective_value: float
    gap: float
    gap_interval: tuple[float, float]
    confidence: Fraction = CONFIDENCE
    least_tolerance: bool = False


def choose_thresholds(
    curves: GroupCurves,
    constraint: str = EQUALIZED_ODDS,
    objective: str = ACCURACY,
    tolerance: float | None = None,
    deterministic: bool = False,
) -> GroupThresholds:
    """Choose each group's thresholds: the best objective among all that meet the constraint.

    Source: Hardt, Price and Srebro 2016, as Fairlearn's `ThresholdOptimizer` without flipping. The optimum
    without a grid of rates, the tolerance under equalized odds, and deterministic rules are ours.
    Guarantees: on exact curves at least as good as Fairlearn's, up to the edge case.
    [test: tests/harness/postprocessing/test_thresholds_and_fairlearn.py]
    Edge cases: under equalized odds, a group whose rates are to be below its best curve draws between two
    thresholds. Of those that reach the rates within 10^-4, it takes the two that leave the fewest decisions
    to chance; else the two that come closest, if within half a record; else it draws among three thresholds.
    So the gap exceeds the tolerance by at most 2 * 10^-4 or one record's share.
    A draw between two thresholds does not average the positive predictive value. So under predictive parity
    rules are single thresholds, each of which accepts somebody.

    Args:
        curves: Exact or noisy.
        constraint: One of `CONSTRAINTS`.
        objective: One of `OBJECTIVES`.
        tolerance: The allowed difference between groups, from 0 to 1. None is 0.2 under four_fifths, else 0;
            if then deterministic rules could only accept everybody or nobody, None is about the least
            tolerance that leaves more.
        deterministic: Whether rules are single thresholds.
    Raises:
        OptionError: An argument is out of range.
        UndefinedRateError: A needed rate is 0/0.
        TooNoisyError: A group's records may all be noise.
        InfeasibleError: Without randomization, only accepting everybody or nobody meets the constraint.
    """
    points = curves.points()
    if constraint not in CONSTRAINTS:
        raise OptionError(f"The constraint must be one of {', '.join(CONSTRAINTS)}, not {constraint!r}.")
    chosen = CONSTRAINTS[constraint].tolerance if tolerance is None else tolerance
    deterministic = deterministic or not CONSTRAINTS[constraint].is_averaged_by_draws
    if objective not in OBJECTIVES:
        raise OptionError(f"The objective must be one of {', '.join(OBJECTIVES)}, not {objective!r}.")
    if not 0 <= chosen <= 1:
        raise OptionError(f"The tolerance must be between 0 and 1, not {chosen:g}.")
    _check_curves(curves, points, constraint, objective)
    task = task_for(points, constraint, objective)
    rules = best_pure_rules(task, chosen) if deterministic else best_mixed_rules(task, chosen)
    is_least = rules is None and tolerance is None
    if is_least:
        chosen = least_tolerance(task)
        rules = best_pure_rules(task, chosen)
    if rules is None:
        raise _infeasible(curves, task, chosen)
    chosen_rules = _assessed(curves, task, rules, chosen, deterministic)
    return replace(chosen_rules, least_tolerance=is_least)


def _assessed(
    curves: GroupCurves,
    task: ThresholdTask,
    rules: Sequence[ThresholdRule],
    tolerance: float,
    deterministic: bool,
) -> GroupThresholds:
    also = tuple(name for name in task.constrained if name not in RATES)
    bands = population_bands(curves, float(1 - CONFIDENCE), also)
    shares = np.zeros((len(rules), len(task.points.thresholds)))
    for row, rule in zip(shares, rules, strict=True):
        row[np.searchsorted(task.points.thresholds, rule.thresholds)] = rule.probabilities
    rates = {}
    intervals = {}
    for name in (*RATES, *also):
        drawn = np.where(shares > 0, shares * getattr(task.points, name), 0.0)
        estimates = drawn.sum(axis=1)
        band = (shares[..., np.newaxis] * bands[name]).sum(axis=1)
        # The estimate comes from monotone curves, which noise can put outside what the counts allow.
        band = np.stack([np.fmin(band[:, 0], estimates), np.fmax(band[:, 1], estimates)], axis=1)
        rates[name] = estimates
        intervals[name] = np.clip(band, 0, 1)
    interval_of_gap = _shortfall if task.is_of_ratios else _gap
    gaps = np.array([interval_of_gap(intervals[name]) for name in task.constrained])
    gap = max(float(np.ptp(rates[name])) for name in task.constrained)
    if task.is_of_ratios:
        largest = max(float(rates[name].max()) for name in task.constrained)
        gap = gap / largest if largest > 0 else 0.0
    tpr = np.nan_to_num(rates["true_positive_rate"])
    fpr = np.nan_to_num(rates["false_positive_rate"])
    return GroupThresholds(
        constraint=task.constraint,
        objective=task.objective,
        tolerance=tolerance,
        deterministic=deterministic,
        rules=dict(zip(curves.groups, rules, strict=True)),
        rates=rates,
        intervals=intervals,
        objective_value=float(task.constant + (task.gain * tpr - task.loss * fpr).sum()),
        gap=gap,
        gap_interval=(float(gaps[:, 0].max()), float(gaps[:, 1].max())),
    )


def _gap(intervals: Floats) -> tuple[float, float]:
    """Return the interval of the largest difference between groups, from the groups' intervals."""
    differences = intervals[:, 1] - intervals[:, np.newaxis, 0]  # a column's upper less a row's lower bound
    np.fill_diagonal(differences, -np.inf)
    apart = intervals[:, 0].max() - intervals[:, 1].min()
    return max(float(apart), 0.0), float(differences.max())


def _shortfall(intervals: Floats) -> tuple[float, float]:
    """Return the interval of how far the least rate falls short of the largest, as a share of it.

    It holds if the groups' intervals do. Where all rates are 0 nobody falls short.
    """
    low = intervals[:, 0]
    high = intervals[:, 1]
    shares = np.zeros((len(low), len(low)))  # a row's least rate over a column's largest
    np.divide(low[:, np.newaxis], high, out=shares, where=high > 0)
    shares[:, high <= 0] = 1.0
    np.fill_diagonal(shares, 1.0)
    least = 0.0
    if low.max() > 0:
        least = max(1 - float(high.min() / low.max()), 0.0)
    return least, 1 - float(shares.min())


def _check_curves(curves: GroupCurves, points: OperatingPoints, constraint: str, objective: str) -> None:
    """Raise an error if a total that divides a rate is not above 0, or may be all noise."""
    divides = CONSTRAINTS[constraint].divided_by
    needs_both = objective == BALANCED_ACCURACY
    needed = {}  # by what they count: each group's total, and the number of curves that it is the sum of
    if needs_both or "positives" in divides:
        needed["positives"] = (points.positives, 1)
    if needs_both or "negatives" in divides:
        needed["negatives"] = (points.negatives, 1)
    needed["records"] = (points.positives + points.negatives, 2)
    error = 0.0
    or_epsilon = ""
    if curves.noise is not None:
        error = float(curves.noise.standard_errors()[-1])
        or_epsilon = ", or spend more epsilon; the budget of this release is spent"
    for what, (totals, curves_added) in needed.items():
        for group, total in zip(points.groups, totals.tolist(), strict=True):
            if total <= 0:
                raise UndefinedRateError(
                    f"By the revealed counts group {group!r} has no {what}, so a rate that {constraint} "
                    f"with {objective} needs is 0/0. Merge the group with another, or gather more of its "
                    f"records{or_epsilon}."
                )
            noise = math.sqrt(curves_added) * error
            if total <= 2 * noise:
                more = math.ceil(noise / (GOOD_RATIO * total))
                times = f", or spend {more} times the epsilon" if more <= _MOST_TIMES else ""
                raise TooNoisyError(
                    f"The noise hides group {group!r}: its {what} are estimated to be {total:.1f}, with a "
                    f"standard error of {noise:.1f} from the noise. Merge the group with another, or gather "
                    f"{math.ceil(noise / GOOD_RATIO):,} such records{times}: then that error is "
                    f"{GOOD_RATIO:.0%} of them. The budget of this release is spent."
                )


def _infeasible(curves: GroupCurves, task: ThresholdTask, tolerance: float) -> InfeasibleError:
    least = math.ceil(least_tolerance(task) * 1000) / 1000
    message = (
        f"Without randomization, {task.constraint} within a tolerance of {tolerance:g} is met only by "
        f"accepting everybody, or nobody, in all groups. Allow a tolerance of {least:g}, or let decisions "
        f"be randomized: choosing again on the same curves ({named('curves')}) costs no epsilon."
    )
    if curves.noise is not None:
        error = float(curves.noise.standard_errors().max())
        sizes = np.concatenate([task.points.positives, task.points.negatives])
        worst = error / float(sizes[sizes > 0].min())
        message += (
            f" The noise alone moves a rate by {worst:.2g} (standard error, smallest group), in proportion "
            "to 1/(epsilon * records)"
        )
        if worst > tolerance > 0 and worst / tolerance <= _MOST_TIMES:
            message += f": {math.ceil(worst / tolerance)} times either brings that down to the tolerance."
        else:
            message += "."
    return InfeasibleError(message)


def constant_prediction(curves: GroupCurves, objective: str) -> float:
    """Return the objective of predicting the same label for everybody, the better one of the two."""
    if objective != ACCURACY:
        return 0.5
    positives = max(float(curves.positives.sum()), 0.0)
    negatives = max(float(curves.negatives.sum()), 0.0)
    return max(positives, negatives) / (positives + negatives)


def cautions(thresholds: GroupThresholds, curves: GroupCurves, positive: str) -> list[str]:
    """Warn of groups with a nearly constant prediction, or an area under the curve clearly below 1/2.

    Args:
        thresholds: The chosen rules.
        curves: The curves by which the rules were chosen.
        positive: The positive label's name.
    """
    warnings = []
    below = [repr(group) for i, group in enumerate(thresholds.rules) if _below_diagonal(curves, i)]
    if below:
        warnings.append(
            f"In {_named(below)} higher scores go with the other label more often than with {positive!r}. If "
            f"the scores are for the other label, name it by {named('positive_label')}; it costs no ε."
        )
    selection = thresholds.rates["selection_rate"]
    extremes = {"Hardly anybody": selection <= 1 - NEARLY_ALL, "Almost everybody": selection >= NEARLY_ALL}
    for what, alike in extremes.items():
        pairs = zip(thresholds.rules, alike.tolist(), strict=True)
        groups = [repr(group) for group, is_alike in pairs if is_alike]
        if not groups:
            continue
        warning = (
            f"{what} of {_named(groups)} is predicted {positive!r}: "
            f"{in_words(thresholds.objective)} {thresholds.objective_value:.3f}, where predicting one label "
            f"for everybody has {constant_prediction(curves, thresholds.objective):.3f}."
        )
        if thresholds.objective != BALANCED_ACCURACY:
            balanced = named("objective", BALANCED_ACCURACY)
            warning += f" {balanced} weighs both labels alike, and costs no ε."
        warnings.append(warning)
    return warnings


def _named(groups: Sequence[str]) -> str:
    noun = "group" if len(groups) == 1 else "groups"
    return f"{noun} {' and '.join(groups)}"


def _below_diagonal(curves: GroupCurves, group: int) -> bool:
    """Return whether an area is below 1/2 by more than two standard errors of sample and noise."""
    positives = float(curves.positives[group])
    negatives = float(curves.negatives[group])
    if min(positives, negatives) <= 0:
        return False
    sample = (positives + negatives + 1) / (12 * positives * negatives)
    noise = float(curves.noise.standard_errors().max()) / min(positives, negatives) if curves.noise else 0.0
    return 0.5 - float(curves.points().area_under_curve[group]) > 2 * math.sqrt(sample + noise**2)
