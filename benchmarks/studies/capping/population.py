"""Clients with few records and many, and what a cap leaves of them."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.studies.arrays import Floats, Integers
from data.movielens import load_movielens

GROUPS = 2
MOST = 1000  # records of a synthetic client


@dataclass(frozen=True, eq=False)
class Population:
    """Clients of two groups, each with records of label 0 and 1.

    Attributes: group: shape (clients,), 0 or 1; records: shape (clients, 2), how many of each label.
    """

    name: str
    group: Integers
    records: Integers

    @property
    def slug(self) -> str:
        """Return the name as a file's may be."""
        return re.sub("[^a-z0-9.]+", "-", self.name.lower().replace(",", ""))

    @property
    def sizes(self) -> Integers:
        """Return each client's number of records."""
        return np.asarray(self.records.sum(axis=1))

    @property
    def table(self) -> Integers:
        """Return the records of each group and label: shape (2, 2)."""
        return self._by_group(self.records)

    def part(self, clients: npt.NDArray[np.bool_]) -> "Population":
        """Return the population of some of the clients."""
        return Population(self.name, self.group[clients], self.records[clients])

    def missing(self, cap: int) -> int:
        """Return how many records a cap leaves out: the sum of max(0, n_k - cap), exactly."""
        return int(np.maximum(0, self.sizes - cap).sum())

    def capped_tables(self, cap: int, draws: int, rng: np.random.Generator) -> Integers:
        """Draw capped tables: a client above the cap keeps a uniformly random choice of its records.

        Returns: shape (draws, 2, 2).
        """
        above = self.sizes > cap
        tables = np.repeat(
            self._by_group(np.where(above[:, np.newaxis], 0, self.records))[None], draws, axis=0
        )
        zeros, ones = self.records[above].T
        for g in range(GROUPS):
            of_group = self.group[above] == g
            kept = rng.hypergeometric(ones[of_group], zeros[of_group], cap, (draws, int(of_group.sum())))
            tables[:, g] += np.stack([(cap - kept).sum(axis=1), kept.sum(axis=1)], axis=1)
        return tables

    def _by_group(self, records: Integers) -> Integers:
        return np.stack([records[self.group == g].sum(axis=0) for g in range(GROUPS)])


def zipf(clients: int, exponent: float, seed: int) -> Population:
    """Draw clients that have n records in proportion to n^-exponent, 1 <= n <= 1000."""
    rng = np.random.default_rng([seed, clients, round(1000 * exponent)])
    weights = np.arange(1, MOST + 1) ** -exponent
    drawn = 1 + rng.choice(MOST, clients, p=weights / weights.sum())
    return _drawn(f"Zipf {exponent:g}, {clients:,} clients", drawn, rng)


def lognormal(clients: int, spread: float, seed: int) -> Population:
    """Draw clients with e^X records, rounded, 1 to 1000; X is normal around ln 10 with this deviation."""
    rng = np.random.default_rng([seed, clients, round(1000 * spread), 1])
    drawn = np.rint(10 * np.exp(spread * rng.standard_normal(clients))).astype(np.int64)
    return _drawn(f"lognormal {spread:g}, {clients:,} clients", drawn.clip(1, MOST), rng)


def _drawn(name: str, sizes: Integers, rng: np.random.Generator) -> Population:
    """Draw the clients' groups and labels.

    Computes: the more records a client has, the less likely it is of the second group, and the further
    apart are the groups' shares of label 1: so that a cap biases what is counted.
    """
    activity = np.log(sizes) / np.log(MOST)

    def between(least: float, most: float) -> Floats:
        """Return what goes for a client with one record, and for one with the most, by the logarithm."""
        return np.asarray(least + (most - least) * activity)

    group = (rng.random(len(sizes)) < between(0.5, 0.3)).astype(np.int64)
    ones = rng.binomial(sizes, np.where(group == 0, between(0.4, 0.6), between(0.4, 0.3)))
    return Population(name, group, np.stack([sizes - ones, ones], axis=1))


def movielens(path: Path) -> Population:
    """Return MovieLens' users: group by gender (F, M), a record per rating, label 1 for 4 or 5 stars."""
    ratings = load_movielens(path)
    users = ratings.table.groupby("user", sort=True)
    ones = users["liked"].sum().to_numpy(dtype=np.int64)
    return Population(
        ratings.name if ratings.whole else f"{ratings.name}, in part",
        np.asarray(users["gender"].first() == "M", dtype=np.int64),
        np.stack([users.size().to_numpy(dtype=np.int64) - ones, ones], axis=1),
    )
