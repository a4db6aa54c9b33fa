"""Reports of very many clients of a local mechanism, simulated from seeds, which no real report may be."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import expm1

import numpy as np

from fairshares.protocols.arrays import Floats, Integers
from fairshares.protocols.local_dp.randomizers import Mechanism, MechanismL, MechanismR


@dataclass(frozen=True, eq=False)
class ClientValues:
    """The values that clients of each group hold, and how many clients hold each value."""

    values: tuple[Floats, ...]
    clients: tuple[Integers, ...]

    @property
    def sizes(self) -> Integers:
        """Return the number of clients of each group."""
        return np.array([counts.sum() for counts in self.clients], dtype=np.int64)


@dataclass(frozen=True)
class PublishedL:
    """M_L as published, whose noise has scale k / epsilon_2 where the group moved. It is LDP only if k = 2.

    `at_two` is the same mechanism with k = 2.
    """

    at_two: MechanismL
    k: Fraction


Simulable = Mechanism | PublishedL


@dataclass(frozen=True, eq=False)
class Simulated:
    """Reports in several runs of a mechanism, and the truth."""

    mechanism: Mechanism
    sizes: Integers
    means: Floats  # means in the declared range's unit; nan for an empty group
    counts: Integers  # shape (runs, d): how many reports name each group
    sums: Floats  # shape (runs, d): of the reports' values, from -1 to 1

    def estimated_means(self) -> Floats:
        """Return the groups' means, shape (runs, d), estimated with true sizes."""
        declared = self.mechanism.declared
        sizes = np.where(self.sizes > 0, self.sizes, np.nan)
        weight = float(self.mechanism.grr.keep) * self.mechanism.gain * sizes
        return np.asarray(declared.center + declared.radius * self.sums / weight)

    def estimated_gaps(self, a: int = 0, b: int = 1) -> Floats:
        """Return the estimated mean of group a less the estimated mean of group b, shape (runs,)."""
        means = self.estimated_means()
        return np.asarray(means[:, a] - means[:, b])

    def gap(self, a: int = 0, b: int = 1) -> float:
        """Return the true mean of group a less the true mean of group b."""
        return float(self.means[a] - self.means[b])


def simulate(
    mechanisms: Sequence[Simulable], population: ClientValues, runs: int, rng: np.random.Generator
) -> list[Simulated]:
    """Draw all clients' reports, in `runs` independent runs of each mechanism.

    Computes: all clients with the same group and value are drawn together. In M_R, the coin for a value's bit
    does not depend on the group. So the number of 1 bits is a sum of binomial numbers, and the reports of
    clients with the same group and bit are multinomial. In M_L, for each value a binomial number of clients
    keep their group, and a binomial number of these round up.

    Guarantees: the distribution of as many calls of `Mechanism.perturb`, within floating-point arithmetic.
    [test: tests/statistical/test_local_simulation.py]
    Memory grows with runs times values. [test: tests/benchmarks/studies/test_local_simulation.py]

    Raises:
        ValueError: A value is outside the declared range.
    """
    return [
        _simulated(mechanism, population, runs, stream)
        for mechanism, stream in zip(mechanisms, rng.spawn(len(mechanisms)), strict=True)
    ]


def _simulated(
    simulable: Simulable, population: ClientValues, runs: int, rng: np.random.Generator
) -> Simulated:
    if isinstance(simulable, PublishedL):
        mechanism: Mechanism = simulable.at_two
        k = simulable.k
    else:
        mechanism = simulable
        k = Fraction(2)  # the k of M_L
    held = list(zip(population.values, population.clients, strict=True))
    scaled = [(mechanism.declared.scaled(values), clients) for values, clients in held]
    if isinstance(mechanism, MechanismR):
        counts, sums = _reports_of_r(mechanism, scaled, runs, rng)
    else:
        assert isinstance(mechanism, MechanismL)
        counts, sums = _reports_of_l(mechanism, k, scaled, runs, rng)
    sizes = population.sizes
    totals = np.array([values @ clients for values, clients in held])
    means = totals / np.where(sizes > 0, sizes, np.nan)
    return Simulated(mechanism, sizes, means, counts, sums)


def _reports_of_r(
    mechanism: MechanismR, tuples: list[tuple[Floats, Integers]], runs: int, rng: np.random.Generator
) -> tuple[Integers, Floats]:
    """Return how many reports name each group, and the sums of their bits, each 1 or -1, shape (runs, d)."""
    d = mechanism.grr.groups
    truth = float(mechanism.truth)
    keep = float(mechanism.grr.keep)
    move = float(mechanism.grr.move)
    ups = [_tosses(clients, (1 + values) / 2, runs, rng).sum(axis=1) for values, clients in tuples]
    reports = np.zeros((runs, d, 2), dtype=np.int64)  # reports by reported group and bit
    for group, (_, clients) in enumerate(tuples):
        downs = clients.sum() - ups[group]
        for bit, number in ((1, ups[group]), (0, downs)):
            distribution = np.full((d, 2), move / 2)
            distribution[group, bit] = keep * truth
            distribution[group, 1 - bit] = keep * (1 - truth)
            reports += rng.multinomial(number, distribution.ravel()).reshape(reports.shape)
    counts = reports.sum(axis=2)
    sums = reports[..., 1] - reports[..., 0]
    return counts, sums.astype(np.float64)


def _reports_of_l(
    mechanism: MechanismL,
    k: Fraction,
    tuples: list[tuple[Floats, Integers]],
    runs: int,
    rng: np.random.Generator,
) -> tuple[Integers, Floats]:
    """Return how many reports name each group, and the sums of their values, shape (runs, d)."""
    shape = (runs, mechanism.grr.groups)
    kept = np.zeros(shape, dtype=np.int64)
    sums = np.zeros(shape, dtype=np.int64)
    for group, (values, clients) in enumerate(tuples):
        exact = values * mechanism.unit
        low = np.floor(exact)
        kept_of_group = _tosses(clients, np.float64(mechanism.grr.keep), runs, rng)
        kept[:, group] = kept_of_group.sum(axis=1)
        up = _tosses(kept_of_group, exact - low, runs, rng)
        sums[:, group] = kept_of_group @ low.astype(np.int64) + up.sum(axis=1)
    sizes = np.array([clients.sum() for _, clients in tuples])
    moved = _moved(sizes - kept, rng)
    noise = np.zeros(shape, dtype=np.int64)
    for clients, wide in ((kept, mechanism.scale), (moved, mechanism.scale * k / 2)):
        odds = 1 / expm1(float(1 / wide))
        noise += summed_geometric(clients, odds, rng) - summed_geometric(clients, odds, rng)
    return kept + moved, (sums + noise) / mechanism.unit


def _tosses(clients: Integers, chances: Floats | np.float64, runs: int, rng: np.random.Generator) -> Integers:
    """Draw for how many of the clients with each value a coin falls 1, shape (runs, values)."""
    shape = (runs, clients.shape[-1])
    if clients.max(initial=0) > 1:
        return rng.binomial(np.broadcast_to(clients, shape), chances)
    return np.asarray((rng.random(shape) < chances) & (clients > 0), dtype=np.int64)


def _moved(leaving: Integers, rng: np.random.Generator) -> Integers:
    """Draw how many clients arrive in each group, if `leaving` says how many leave each group for others."""
    d = leaving.shape[-1]
    chances = (1 - np.eye(d)) / (
        d - 1
    )  # of each group to arrive in (column), by the group that is left (row)
    arrivals = [rng.multinomial(leaving[..., group], chances[group]) for group in range(d)]
    return np.asarray(np.sum(arrivals, axis=0))


def summed_geometric(clients: Integers | Floats, odds: float, rng: np.random.Generator) -> Integers:
    """Draw sums of `clients` geometric variables of mean `odds`, which are negative binomial."""
    return np.asarray(rng.poisson(rng.gamma(clients) * odds), dtype=np.int64)
