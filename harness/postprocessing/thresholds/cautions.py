"""What to be wary of in chosen thresholds, although they are the best there are."""

from __future__ import annotations

import math

from harness.postprocessing.curves import GroupCurves
from harness.postprocessing.thresholds.choose import GroupThresholds
from harness.postprocessing.thresholds.rules import in_words
from harness.postprocessing.thresholds.search import ACCURACY, BALANCED_ACCURACY

NEARLY_ALL = 0.98  # of a group, predicted alike: a rule that tells hardly anybody apart


def constant_prediction(curves: GroupCurves, objective: str) -> float:
    """Return the objective of predicting the same for everybody, whichever label is better."""
    positives, negatives = (max(float(counts.sum()), 0.0) for counts in (curves.positives, curves.negatives))
    return max(positives, negatives) / (positives + negatives) if objective == ACCURACY else 0.5


def cautions(found: GroupThresholds, curves: GroupCurves, positive: str) -> list[str]:
    """Return a sentence for each thing to be wary of.

    Computes: a group whose rule predicts at least `NEARLY_ALL` of it alike; a group whose area under the
    curve is below 1/2 by more than two standard errors, of the sample (as of scores that say nothing) and
    the noise together.
    Args: curves: that the thresholds were chosen on; positive: the positive label.
    """
    said = []
    selection = found.rates["selection_rate"]
    extremes = {"hardly anybody": selection <= 1 - NEARLY_ALL, "almost everybody": selection >= NEARLY_ALL}
    for what, alike in extremes.items():
        if groups := [repr(group) for group, each in zip(found.rules, alike.tolist(), strict=True) if each]:
            other = (
                ""
                if found.objective == BALANCED_ACCURACY
                else (f" --objective {BALANCED_ACCURACY} weighs both labels alike, and costs no ε.")
            )
            said.append(
                f"{what.capitalize()} of group {', '.join(groups)} is predicted {positive!r}: "
                f"{in_words(found.objective)} {found.objective_value:.3f}, where predicting one label for "
                f"everybody has {constant_prediction(curves, found.objective):.3f}.{other}"
            )
    areas = curves.points().area_under_curve.tolist()
    below = [repr(group) for i, group in enumerate(found.rules) if _below_diagonal(curves, i, areas[i])]
    if below:
        said.append(
            f"In group {', '.join(below)} higher scores go with the other label more often than with "
            f"{positive!r}. If the scores are for the other label, name it by --positive-label; it costs "
            "no ε."
        )
    return said


def _below_diagonal(curves: GroupCurves, group: int, area: float) -> bool:
    positives, negatives = float(curves.positives[group]), float(curves.negatives[group])
    if min(positives, negatives) <= 0:
        return False
    sample = (positives + negatives + 1) / (12 * positives * negatives)
    noise = float(curves.noise.standard_errors().max()) / min(positives, negatives) if curves.noise else 0.0
    return 0.5 - area > 2 * math.sqrt(sample + noise**2)
