"""A trained model, and what it does to records that it was not trained on, as one flat row of figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from benchmarks.studies.training.people import Floats, Integers, People
from benchmarks.studies.utility.curves import UNMITIGATED
from harness.errors import UndefinedRateError
from harness.evaluation.metrics import corrected_metrics, group_rates, published_metrics
from harness.postprocessing.curves import GroupCurves
from harness.postprocessing.thresholds.choose import choose_thresholds
from harness.postprocessing.thresholds.rules import ThresholdRule
from harness.training.logistic import probabilities, with_constant

PUBLISHED = ("one_minus_di", "delta_eop", "delta_eodd", "delta_sp")
ODDS = "odds"  # the mean of the differences of true and false positive rates: what delta EODD was meant to be


@dataclass(frozen=True, eq=False)
class Trained:
    """A model and its rules. Attributes: parameters: shape (p + 1,); rules: by group, none: 0.5 for all."""

    parameters: Floats
    rules: Mapping[str, ThresholdRule] = field(default_factory=dict)


def judged(tests: People, model: Trained, rng: np.random.Generator) -> dict[str, float | None]:
    """Return what a model does to test records."""
    found = scores(tests, model.parameters)
    return figures(tests, found, predictions(found, tests, model.rules, rng))


def scores(people: People, parameters: Floats) -> Floats:
    """Return the probability of label 1, shape (n,)."""
    return np.asarray(probabilities(parameters[np.newaxis], with_constant(people.features))[:, 1])


def rules_of(curves: GroupCurves) -> Mapping[str, ThresholdRule]:
    """Return the most accurate rules with equalized odds; 0.5 for all where noise leaves a rate 0/0."""
    try:
        return choose_thresholds(curves).rules
    except UndefinedRateError:
        return dict.fromkeys(curves.groups, UNMITIGATED)


def predictions(
    scores: Floats, people: People, rules: Mapping[str, ThresholdRule], rng: np.random.Generator
) -> Integers:
    """Return 0 or 1 for each score, drawn where a rule is; without rules 1 from 0.5 on."""
    if not rules:
        return (scores >= 0.5).astype(np.int64)
    found = np.zeros(len(scores), dtype=np.int64)
    drawn = rng.random(len(scores))
    for number, name in enumerate(people.groups):
        rule, of = rules[name], people.group == number
        place = np.searchsorted(np.cumsum(rule.probabilities)[:-1], drawn[of], side="right")
        found[of] = scores[of] >= np.array(rule.thresholds)[place]
    return found


def figures(people: People, scores: Floats, predicted: Integers) -> dict[str, float | None]:
    """Return the figures of one model on test records; None where one is undefined.

    Computes: accuracy, that of the better constant, balanced accuracy and the area under the ROC curve; each
    group's true positive and selection rate; PrivFairFL's four figures by its formulas, `odds` and
    `parity` as the field defines equalized odds (mean) and demographic parity.
    """
    truth, named = people.label, np.array(people.groups)[people.group]
    rates = group_rates(truth, predicted, named, people.groups)
    published = published_metrics(truth, predicted, named, people.groups)
    corrected = corrected_metrics(truth, predicted, named, people.groups)
    positive = truth == 1
    found = {
        "accuracy": np.mean(truth == predicted),
        "constant": max(np.mean(positive), np.mean(~positive)),
        "balanced": balanced_accuracy_score(truth, predicted),
        "auc": roc_auc_score(positive, scores),
        **{name: getattr(published, name) for name in PUBLISHED},
        ODDS: corrected.delta_eodd,
        "parity": corrected.delta_sp,
        **{
            f"tpr, {group}": rate for group, rate in zip(people.groups, rates.true_positive_rate, strict=True)
        },
        **{
            f"selected, {group}": rate
            for group, rate in zip(people.groups, rates.selection_rate, strict=True)
        },
    }
    return {name: round(float(value), 6) if np.isfinite(value) else None for name, value in found.items()}
