"""PrivFairFL's Table 3 by its own recipe, in the clear: what is trained, and what its epsilon really is.

Source: appendix C, for ML-1M, of which all numbers are; one dense unit with a sigmoid; FedAvg by the
number of records; DP-SGD at each client, a microbatch per record.
"""

from dataclasses import dataclass

import dp_accounting
import numpy as np
from scipy.special import expit

from benchmarks.studies.arrays import Floats
from benchmarks.studies.training.people import People
from harness.training.logistic import with_constant


@dataclass(frozen=True)
class Recipe:
    """What appendix C says of ML-1M.

    Attributes: noise: standard deviation over the clip, at each client; batch, centralised_rate and
    epochs: of centralised training; rounds, local_epochs and rate: of the federated.
    """

    rounds: int = 300
    local_epochs: int = 2
    rate: float = 0.03
    clip: float = 1.0
    noise: float = 1.1
    epochs: int = 20
    batch: int = 32
    centralised_rate: float = 0.015


PAPERS = Recipe()


def epsilon_of_gaussians(noise: float, steps: int) -> float:
    """Return epsilon at 10^-5 of so many sums with Gaussian noise, each over all records.

    Source: Balle and Wang 2018, theorem 8: together they are one with mu = sqrt(steps) / noise.
    [test: tests/benchmarks/studies/test_training.py, against dp_accounting]
    Args: noise: its standard deviation over what one unit changes.
    """
    return float(dp_accounting.get_epsilon_gaussian(noise / np.sqrt(steps), 1e-5))


def centralised(people: People, rng: np.random.Generator, recipe: Recipe = PAPERS) -> Floats:
    """Train on all records in one place, by SGD. Returns: parameters, shape (p + 1,), the intercept last."""
    inputs = with_constant(people.features)
    parameters = _start(inputs.shape[1], rng)
    for _ in range(recipe.epochs):
        order = rng.permutation(len(inputs))
        for at in range(0, len(order), recipe.batch):
            rows = order[at : at + recipe.batch]
            off = expit(inputs[rows] @ parameters) - people.label[rows]
            parameters = parameters - recipe.centralised_rate * (off @ inputs[rows]) / len(rows)
    return parameters


def federated(
    people: People, weights: Floats, rng: np.random.Generator, *, private: bool, recipe: Recipe = PAPERS
) -> Floats:
    """Train v models by FedAvg, side by side, each client a step per epoch on all of its records.

    Computes: with `private` DP-SGD at each client: a record's gradient, *already weighed*, as in the
    published code, is clipped; the client adds noise of its own to the sum.
    Args: weights: of each record, for each model, shape (n, v). Returns: parameters, shape (v, p + 1).
    """
    blocks = _blocks(people, weights)
    parameters = np.stack([_start(people.features.shape[1] + 1, rng) for _ in weights.T], axis=1)
    for _ in range(recipe.rounds):
        found = np.zeros_like(parameters)
        for inputs, label, weight, lengths, size in blocks:
            local = np.repeat(parameters[np.newaxis], len(size), axis=0)
            for _ in range(recipe.local_epochs):
                off = weight * (expit(inputs @ local) - label)
                if private:
                    off /= np.maximum(1, np.abs(off) * lengths / recipe.clip)
                gradient = inputs.swapaxes(1, 2) @ off
                if private:
                    gradient += rng.normal(0, recipe.noise * recipe.clip, gradient.shape)
                local -= recipe.rate * gradient / size
            found += (size * local).sum(axis=0)
        parameters = found / len(people.label)
    return parameters.T


def local_counts(people: People, epsilon: float, rng: np.random.Generator) -> Floats:
    """Return counts per group and label, shape (k, 2), of clients that each add noise to their own.

    Source: footnote 5, after Abay et al. 2020: Laplace noise on the client's counts, randomised response for
    its group. Each takes epsilon, as the text does not divide it: 2 epsilon in all.
    """
    counts = people.counted(people.client, people.clients)
    present = np.flatnonzero(counts.sum(axis=1))
    group = np.zeros(people.clients, dtype=np.int64)
    group[people.client] = people.group
    lies = rng.random(people.clients) >= np.exp(epsilon) / (np.exp(epsilon) + len(people.groups) - 1)
    told = np.where(lies, len(people.groups) - 1 - group, group)
    found = np.zeros((len(people.groups), 2))
    np.add.at(found, told[present], (counts + rng.laplace(0, 1 / epsilon, counts.shape))[present])
    return found


def _start(parameters: int, rng: np.random.Generator) -> Floats:
    """Return Glorot's uniform start for one unit; the intercept is 0."""
    most = np.sqrt(6 / parameters)
    return np.append(rng.uniform(-most, most, parameters - 1), 0.0)


Block = tuple[Floats, Floats, Floats, Floats, Floats]


def _blocks(people: People, weights: Floats) -> list[Block]:
    """Return clients of about as many records together, padded by records of weight 0.

    Returns: of each block the inputs, shape (clients, most, p + 1), labels, weights and lengths of inputs,
    (clients, most, 1 or v), and records, (clients, 1, 1).
    """
    inputs = with_constant(people.features)
    order = np.argsort(people.client, kind="stable")
    _, start, size = np.unique(people.client[order], return_index=True, return_counts=True)
    blocks: list[Block] = []
    power = np.ceil(np.log2(size))
    for each in np.unique(power):
        chosen = np.flatnonzero(power == each)
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
