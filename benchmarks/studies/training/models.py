"""Models by PrivFairFL's own recipe, and models at one joint epsilon, and their figures on test records.

benchmarks/results/reproduce-training/README.md tells the recipe. At a joint epsilon, gradients are clipped
and then weighed, and each sum gets noise once, as by `SumSession`. The losses of all sums add up by theorem
4.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import dp_accounting
import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from benchmarks.papers.metrics import corrected_metrics, published_metrics
from benchmarks.studies.outcome import Row
from benchmarks.studies.training.people import People
from benchmarks.studies.utility.curves import cumulative, curves_of, histogram_of, rules_of
from fairshares.harness.evaluation.metrics import group_rates
from fairshares.harness.inputs.record_schema import even_grid
from fairshares.harness.inputs.updates import UpdateRule, units_for
from fairshares.harness.postprocessing.thresholds.rules import ThresholdRule
from fairshares.harness.postprocessing.thresholds.search import ACCURACY
from fairshares.harness.reweighing.formulas import weights_of_counts
from fairshares.harness.training.fairness import SHARE, STEP, FairGrad
from fairshares.harness.training.logistic import Descent, Examples, fit, probabilities, with_constant
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.accounting.rounds import largest_rho
from fairshares.protocols.arrays import Floats, Integers

PAPERS: Row = {  # the facts of appendix C on ML-1M
    # Federated training.
    "rounds": 300,
    "local_epochs": 2,
    "rate": 0.03,
    "clip": 1.0,
    "noise": 1.1,  # standard deviation over the clip, at each client
    # Centralised training.
    "epochs": 20,
    "batch": 32,
    "centralised_rate": 0.015,
    # Readings of federated training.
    "local_batch": 0,  # all records of the client
    "one_microbatch": False,  # a batch's mean gradient is clipped, not each record's
    "stops_early": False,  # a client goes on with its epochs only while its own loss falls
}

# Appendix C: "early stopping per client and setting a large maximum number of epochs"; 20 is ours.
EARLY: Row = {"local_epochs": 20, "stops_early": True}


def epsilon_of_gaussians(noise: float, steps: int) -> float:
    """Return the epsilon, at delta = 10^-5, of several sums with Gaussian noise.

    Args:
        noise: The noise's standard deviation, over the change that a unit makes to a sum.
        steps: The number of sums.

    Source: Balle and Wang 2018, theorem 8: together they are one sum with mu = sqrt(steps) / noise.
    [test: tests/benchmarks/studies/test_training.py, against dp_accounting]
    """
    return float(dp_accounting.get_epsilon_gaussian(noise / np.sqrt(steps), 1e-5))


def centralised(people: People, rng: np.random.Generator, recipe: Row = PAPERS) -> Floats:
    """Train on all records by SGD, and return parameters, the intercept last."""
    inputs = with_constant(people.features)
    parameters = _start(inputs.shape[1], rng)
    for _ in range(recipe["epochs"]):
        order = rng.permutation(len(inputs))
        for first in range(0, len(order), recipe["batch"]):
            rows = order[first : first + recipe["batch"]]
            off = expit(inputs[rows] @ parameters) - people.label[rows]
            parameters = parameters - recipe["centralised_rate"] * (off @ inputs[rows]) / len(rows)
    return parameters


def federated(
    people: People, weights: Floats, rng: np.random.Generator, *, private: bool, recipe: Row = PAPERS
) -> Floats:
    """Train models by FedAvg, one for each column of weights.

    Private training clips a microbatch's gradient that is *already weighed*, as in the published code.

    Args:
        people: The training records.
        weights: The records' weights, shape (n, v), for v models.
        rng: Randomness of starts, batches and noise.
        private: Whether clients clip their gradients and add noise to them.
        recipe: The values that `PAPERS` has.

    Returns:
        The models' parameters, shape (v, p + 1), the intercept last.
    """
    blocks = _blocks(people, weights)
    parameters = np.stack([_start(people.features.shape[1] + 1, rng) for _ in weights.T], axis=1)
    for _ in range(recipe["rounds"]):
        sums = np.zeros_like(parameters)
        for *block, size in blocks:
            local = np.repeat(parameters[np.newaxis], len(size), axis=0)
            going = np.ones((len(size), 1, 1), dtype=bool)
            if recipe["stops_early"]:
                loss = _loss(block, local)
            for _ in range(recipe["local_epochs"]):
                stepped = local
                for rows in _batches(block[0].shape[1], recipe["local_batch"], rng):
                    stepped = _step([values[:, rows] for values in block], stepped, private, recipe, rng)
                if recipe["stops_early"]:
                    after = _loss(block, stepped)
                    going &= after < loss
                    loss = after
                local = np.where(going, stepped, local)
            sums += (size * local).sum(axis=0)
        parameters = sums / len(people.label)
    return parameters.T


def _batches(records: int, size: int, rng: np.random.Generator) -> Iterator[Integers | slice]:
    """Yield the rows of each batch. If the size is 0, there is one batch of all rows."""
    if not size:
        yield slice(None)
        return
    order = rng.permutation(records)
    for first in range(0, records, size):
        yield order[first : first + size]


def _step(
    batch: Sequence[Floats], local: Floats, private: bool, recipe: Row, rng: np.random.Generator
) -> Floats:
    """Return the clients' parameters after a batch each, shape (clients, p + 1, v)."""
    inputs, label, weight, lengths = batch
    records = np.maximum((lengths > 0).sum(axis=1, keepdims=True), 1)
    whole = recipe["one_microbatch"]
    off = weight * (expit(inputs @ local) - label)
    if private and not whole:
        off /= np.maximum(1, np.abs(off) * lengths / recipe["clip"])
    gradient = inputs.swapaxes(1, 2) @ off
    if whole:
        gradient /= records
    if private and whole:
        gradient /= np.maximum(1, np.linalg.norm(gradient, axis=1, keepdims=True) / recipe["clip"])
    if private:
        gradient += rng.normal(0, recipe["noise"] * recipe["clip"], gradient.shape)
    change = recipe["rate"] * gradient
    if not whole:
        change /= records
    return np.asarray(local - change)


def _loss(block: Sequence[Floats], local: Floats) -> Floats:
    inputs, label, weight, _ = block
    scores = inputs @ local
    return np.asarray((weight * (np.logaddexp(0, scores) - label * scores)).sum(axis=1, keepdims=True))


def local_counts(people: People, epsilon: float, rng: np.random.Generator) -> Floats:
    """Return counts per group and label, shape (k, 2), of clients that each add noise to their own.

    Source: footnote 5, after Abay et al. 2020. Laplace noise on the counts and randomised response for the
    group take epsilon each.
    """
    counts = people.counted(people.client, people.clients)
    present = np.flatnonzero(counts.sum(axis=1))
    group = np.zeros(people.clients, dtype=np.int64)
    group[people.client] = people.group
    lies = rng.random(people.clients) >= np.exp(epsilon) / (np.exp(epsilon) + len(people.groups) - 1)
    reported = np.where(lies, len(people.groups) - 1 - group, group)
    noisy_counts = counts + rng.laplace(0, 1 / epsilon, counts.shape)
    table = np.zeros((len(people.groups), 2))
    np.add.at(table, reported[present], noisy_counts[present])
    return table


def _start(parameters: int, rng: np.random.Generator) -> Floats:
    most = np.sqrt(6 / parameters)
    return np.append(rng.uniform(-most, most, parameters - 1), 0.0)


def _blocks(people: People, weights: Floats) -> list[tuple[Floats, ...]]:
    """Return blocks of clients whose numbers of records differ by less than a factor of two.

    A block has inputs, labels, weights and the inputs' lengths, of shape (clients, most, ...), and the
    clients' numbers of records. Clients with fewer than `most` records have records of weight 0 besides.
    """
    inputs = with_constant(people.features)
    order = np.argsort(people.client, kind="stable")
    _, start, size = np.unique(people.client[order], return_index=True, return_counts=True)
    blocks: list[tuple[Floats, ...]] = []
    power = np.ceil(np.log2(size))
    for exponent in np.unique(power):
        chosen = np.flatnonzero(power == exponent)
        place = np.arange(int(size[chosen].max()))
        inside = (place < size[chosen][:, np.newaxis])[..., np.newaxis]
        rows = order[np.minimum(start[chosen][:, np.newaxis] + place, len(order) - 1)]
        block = inputs[rows] * inside
        blocks.append(
            (
                block,
                people.label[rows][..., np.newaxis].astype(float),
                weights[rows] * inside,
                np.linalg.norm(block, axis=-1, keepdims=True),
                size[chosen][:, np.newaxis, np.newaxis].astype(float),
            )
        )
    return blocks


DELTA = Fraction(1, 100_000)


@dataclass(frozen=True)
class Scheme:
    """The releases of a scheme, and its way of training.

    Args:
        name: The scheme's name in results.
        private: Whether gradients are clipped and releases are noisy.
        weights: The name of a weighting; empty for none.
        largest_weight: A larger weight counts as this.
        thresholds: Whether thresholds are chosen by a part of the clients.
        fairness: The constraint of `FairGrad`; empty for none.
        step: The step of `FairGrad`.
        share: The share of `FairGrad`.
    """

    name: str
    private: bool = True
    weights: str = ""
    largest_weight: float = 1.0
    thresholds: bool = False
    fairness: str = ""
    step: float = STEP
    share: float = SHARE


CHOSEN: Row = {  # hyperparameters of ours, public, chosen on `wagepan` alone
    "rounds": 80,
    "clip": 0.5,
    "rate": 2.0,  # the step, along the gradient's mean over records or clients
    "momentum": 0.9,
    "of_weights": 0.05,  # the share of rho for counts
    "held": 0.4,  # the share of clients for thresholds
    "bins": 20,  # the bins of their scores
}


@lru_cache
def rho_of(epsilon: float) -> float:
    """Return the largest rho, to 10^-4, for (epsilon, 10^-5)-differential privacy. It is rounded down."""
    rho = float(largest_rho(Fraction(epsilon), DELTA))
    step = epsilon / 2 ** math.ceil(math.log2(epsilon / rho / 1e-4))
    return float(rho // step * step)


def noisy(values: npt.NDArray[Any], squares: float, rho: float, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Add rounded Gaussian noise to values.

    Args:
        values: The values.
        squares: The most that one unit adds to the sum of the squares of the values' changes.
        rho: The zCDP of the noisy values; 0 for no noise.
        rng: Randomness of the noise.
    """
    if not rho:
        return values
    deviation = np.sqrt(squares / (2 * rho))
    return values + np.rint(rng.normal(0, deviation, values.shape))


def train(
    people: People,
    scheme: Scheme,
    epsilon: float,
    rng: np.random.Generator,
    choices: Row = CHOSEN,
) -> "Trained":
    """Train a model by a scheme.

    Guarantees: all that is revealed is (epsilon, 10^-5)-differentially private for the records' unit, if the
    scheme is private.
    """
    rho = rho_of(epsilon) if scheme.private else 0.0
    counting = rho * choices["of_weights"]  # also without weights, as the step is divided by the count
    counts, size = _counts(people, counting, rng)
    weight = None
    if scheme.weights:
        table = np.minimum(weights_of_counts(counts, scheme.weights), scheme.largest_weight)
        weight = table[people.group, people.label]
    if not scheme.thresholds:
        return Trained(_fit(people, weight, scheme, size, rho=rho - counting, rng=rng, choices=choices))
    order = rng.permutation(people.clients)
    held_out = np.isin(people.client, order[: round(choices["held"] * people.clients)])
    rest = people.of_rows(~held_out)
    if weight is not None:
        weight = weight[~held_out]
    size *= 1 - choices["held"]
    parameters = _fit(rest, weight, scheme, size, rho=rho - counting, rng=rng, choices=choices)
    rules = _rules(people.of_rows(held_out), parameters, rho - counting, rng, choices)
    return Trained(parameters, rules)


def _counts(people: People, rho: float, rng: np.random.Generator) -> tuple[Floats, float]:
    """Return the noisy counts per group and label, and their sum, by which the step is divided.

    If clients are the unit, a client's records share a count of 1, in parts of 1/1024.
    """
    groups = len(people.groups)
    if people.unit is PrivacyUnit.CLIENT:
        scale = 1024
        sizes = np.bincount(people.client, minlength=people.clients)
        counts = people.counted(people.group, groups, scale / sizes[people.client])
        # The squares of a client's parts add up to at most this, rounding included.
        squares = (scale + np.sqrt(counts.size) / 2) ** 2
    else:
        scale = 1
        counts = people.counted(people.group, groups)
        squares = 1
    noisy_counts = noisy(np.rint(counts), squares, rho, rng) / scale
    return noisy_counts, max(float(noisy_counts.sum()), 1.0)


def _fit(
    people: People,
    weight: Floats | None,
    scheme: Scheme,
    size: float,
    *,
    rho: float,
    rng: np.random.Generator,
    choices: Row,
) -> Floats:
    """Return a model's parameters, trained with noise for `rho` over all rounds, or without if it is 0."""
    examples = Examples(people.features, people.label, people.client, people.clients, 2, weight, people.group)
    coordinates = people.features.shape[1] + 1
    norm = choices["clip"]
    fairgrad = None
    if scheme.fairness:
        fairgrad = FairGrad(scheme.fairness, len(people.groups), 2, 1, step=scheme.step, share=scheme.share)
        coordinates += fairgrad.cells
        norm = math.hypot(norm, fairgrad.unit(norm))
    most = scheme.largest_weight
    rule = UpdateRule(coordinates, norm, most, units_for(coordinates, most), people.unit, people.unit)

    def sum_of(updates: Floats) -> Floats:
        if not rho:
            return np.asarray(updates.sum(axis=0))
        # As `rule.encode` does with vectors that are clipped and weighed already.
        exact = updates * (rule.units / rule.clip)
        below = np.floor(exact)
        rounds_up = rng.random(exact.shape) < exact - below
        whole = (below + rounds_up).sum(axis=0)
        return rule.decode(noisy(whole, rule.squares, rho / choices["rounds"], rng))

    clip = choices["clip"]
    if not rho:
        clip = 1e9  # no gradient is longer
    step = choices["rate"] * examples.clients / size
    descent = Descent(choices["rounds"], clip, most, step, choices["momentum"])
    (parameters,) = fit(examples, sum_of, descent, people.unit, fairgrad)
    return np.asarray(parameters)


def _rules(
    people: People, parameters: Floats, rho: float, rng: np.random.Generator, choices: Row
) -> Mapping[str, ThresholdRule]:
    grid = even_grid(choices["bins"] + 1)
    histogram = histogram_of(people.group, people.label, scores(people, parameters), grid, len(people.groups))
    counts = cumulative(noisy(histogram, 1, rho, rng))
    return rules_of(curves_of(people.groups, np.array(grid), counts), ACCURACY)


ODDS = "odds"  # the mean of both rates' differences: what delta EODD was meant to be


@dataclass(frozen=True, eq=False)
class Trained:
    """A model, and the rules by which scores become decisions, by group."""

    parameters: Floats  # shape (p + 1,)
    rules: Mapping[str, ThresholdRule] = field(default_factory=dict)  # without any, 0.5 for all


def judged(tests: People, model: Trained, rng: np.random.Generator) -> dict[str, float | None]:
    """Return a model's figures on test records."""
    probability = scores(tests, model.parameters)
    return figures(tests, probability, predictions(probability, tests, model.rules, rng))


def scores(people: People, parameters: Floats) -> Floats:
    """Return each record's probability of label 1 under a model, shape (n,)."""
    return np.asarray(probabilities(parameters[np.newaxis], with_constant(people.features))[:, 1])


def predictions(
    scores: Floats, people: People, rules: Mapping[str, ThresholdRule], rng: np.random.Generator
) -> Integers:
    """Return a decision, 0 or 1, for each score: by the group's rule, or without rules by 0.5."""
    if not rules:
        return (scores >= 0.5).astype(np.int64)
    predicted = np.zeros(len(scores), dtype=np.int64)
    drawn = rng.random(len(scores))
    for number, name in enumerate(people.groups):
        rule = rules[name]
        in_group = people.group == number
        ends = np.cumsum(rule.probabilities)[:-1]
        threshold = np.array(rule.thresholds)[np.searchsorted(ends, drawn[in_group], side="right")]
        predicted[in_group] = scores[in_group] >= threshold
    return predicted


def figures(people: People, scores: Floats, predicted: Integers) -> dict[str, float | None]:
    """Return the figures of a model. An undefined figure is None.

    PrivFairFL's four figures are by its formulas. `odds` is the mean of the differences of both rates, and
    `parity` the demographic parity difference, as the field defines them.
    """
    truth = people.label
    records = (truth, predicted, np.array(people.groups)[people.group], people.groups)
    rates = group_rates(*records)
    corrected = corrected_metrics(*records)
    values = {
        "accuracy": np.mean(truth == predicted),
        "constant": max(np.mean(truth), 1 - np.mean(truth)),
        "balanced": balanced_accuracy_score(truth, predicted),
        "auc": roc_auc_score(truth, scores),
        **published_metrics(*records),
        ODDS: corrected["delta_eodd"],
        "parity": corrected["delta_sp"],
    }
    for group, rate in zip(people.groups, rates.true_positive_rate, strict=True):
        values[f"tpr, {group}"] = rate
    for group, rate in zip(people.groups, rates.selection_rate, strict=True):
        values[f"selected, {group}"] = rate
    return {name: round(float(value), 6) if np.isfinite(value) else None for name, value in values.items()}
