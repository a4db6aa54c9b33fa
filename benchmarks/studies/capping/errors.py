"""Clients with few records and many, and expected errors by the cap.

benchmarks/results/reproduce-capping/README.md describes the clients. The noise is X + 1/2, X two-sided
geometric with the sign by complement. Its mean error is within 2 % of the default sampler's.
[test: tests/benchmarks/studies/test_capping_errors.py]
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.studies.utility.curves import (
    UNMITIGATED,
    cumulative,
    curves_of,
    gap,
    rates_at_grid,
    rates_under,
)
from fairshares.data.movielens import load_movielens
from fairshares.harness.inputs.record_schema import even_grid
from fairshares.harness.postprocessing.curves import OperatingPoints
from fairshares.harness.postprocessing.thresholds.constraints import EQUAL_OPPORTUNITY
from fairshares.harness.postprocessing.thresholds.search import (
    BALANCED_ACCURACY,
    best_mixed_rules,
    task_for,
)
from fairshares.harness.reweighing.count_errors import FLOOR
from fairshares.harness.reweighing.formulas import weights_of_counts
from fairshares.protocols.accounting.calibration import NeighboringRelation, Neighbors
from fairshares.protocols.arrays import Bools, Floats, Integers
from fairshares.protocols.mechanisms.count_tree import CountTree, best_tree

GROUPS = 2
MOST = 1000  # records of a synthetic client


@dataclass(frozen=True, eq=False)
class CountedClients:
    """Clients of two groups, each with its numbers of records of label 0 and of label 1."""

    name: str
    group: Integers  # shape (clients,): 0 or 1
    records: Integers  # shape (clients, 2): how many of each label

    @property
    def sizes(self) -> Integers:
        """Return each client's number of records."""
        return np.asarray(self.records.sum(axis=1))

    @property
    def table(self) -> Integers:
        """Return the records by group and label, shape (2, 2)."""
        return self._by_group(self.records)

    def part(self, clients: Bools) -> "CountedClients":
        """Return the clients for which `clients` is true."""
        return CountedClients(self.name, self.group[clients], self.records[clients])

    def missing(self, cap: int) -> int:
        """Return how many records a cap leaves out."""
        return int(np.maximum(0, self.sizes - cap).sum())

    def capped_tables(self, cap: int, draws: int, rng: np.random.Generator) -> Integers:
        """Draw tables, shape (draws, 2, 2), of the records that clients keep, at random, under a cap."""
        above = self.sizes > cap
        of_clients_below = np.where(above[:, np.newaxis], 0, self.records)
        tables = np.repeat(self._by_group(of_clients_below)[np.newaxis], draws, axis=0)
        zeros, ones = self.records[above].T
        for group in range(GROUPS):
            in_group = self.group[above] == group
            kept = rng.hypergeometric(ones[in_group], zeros[in_group], cap, (draws, int(in_group.sum())))
            kept_zeros = (cap - kept).sum(axis=1)
            kept_ones = kept.sum(axis=1)
            tables[:, group] += np.stack([kept_zeros, kept_ones], axis=1)
        return tables

    def _by_group(self, records: Integers) -> Integers:
        return np.stack([records[self.group == group].sum(axis=0) for group in range(GROUPS)])


def zipf(clients: int, exponent: float, seed: int) -> CountedClients:
    """Draw clients with n records, 1 to 1000, in proportion to n^-exponent."""
    rng = np.random.default_rng([seed, clients, round(1000 * exponent)])
    weights = np.arange(1, MOST + 1) ** -exponent
    drawn = 1 + rng.choice(MOST, clients, p=weights / weights.sum())
    return _drawn(f"Zipf {exponent:g}, {clients:,} clients", drawn, rng)


def lognormal(clients: int, spread: float, seed: int) -> CountedClients:
    """Draw clients with e^X records, 1 to 1000, X normal around ln 10 with this deviation."""
    rng = np.random.default_rng([seed, clients, round(1000 * spread), 1])
    drawn = np.rint(10 * np.exp(spread * rng.standard_normal(clients))).astype(np.int64)
    return _drawn(f"lognormal {spread:g}, {clients:,} clients", drawn.clip(1, MOST), rng)


def _drawn(name: str, sizes: Integers, rng: np.random.Generator) -> CountedClients:
    """Draw groups and labels that depend on the number of records, so that caps bias counts."""
    activity = np.log(sizes) / np.log(MOST)  # from 0 to 1

    def between(least: float, most: float) -> Floats:
        return np.asarray(least + (most - least) * activity)

    group = (rng.random(len(sizes)) < between(0.5, 0.3)).astype(np.int64)
    ones = rng.binomial(sizes, np.where(group == 0, between(0.4, 0.6), between(0.4, 0.3)))
    return CountedClients(name, group, np.stack([sizes - ones, ones], axis=1))


def movielens(path: Path) -> CountedClients:
    """Return MovieLens' users by gender (F, M), with label 1 for 4 or 5 stars."""
    ratings = load_movielens(path)
    users = ratings.table.groupby("user", sort=True)
    name = ratings.name
    if not ratings.whole:
        name += ", in part"
    sizes = users.size().to_numpy(dtype=np.int64)
    ones = users["liked"].sum().to_numpy(dtype=np.int64)
    return CountedClients(
        name,
        np.asarray(users["gender"].first() == "M", dtype=np.int64),
        np.stack([sizes - ones, ones], axis=1),
    )


SUM = "sum"
COUNTS = "counts"
WEIGHTS = "weights"
GAP = "gap"
QUANTITIES = (SUM, COUNTS, WEIGHTS, GAP)
CHOICES = 24  # choices of records, drawn per cap
NOISES = 1024  # draws of noise, per cap

CURVES = "curves"
RATES = "rates"
THRESHOLDS = "thresholds"
CURVE_QUANTITIES = (CURVES, RATES, THRESHOLDS)
BINS = 101
DRAWS = 12  # draws of kept records and noise, per cap

_GRID = np.array(even_grid(BINS))
_NAMES = tuple(f"group {group}" for group in range(1, GROUPS + 1))


def by_quantity(quantities: Sequence[str], caps: Sequence[int], errors: Floats) -> dict[str, pd.DataFrame]:
    """Return each quantity's expected absolute errors by cap: by noise alone, by bias alone, and in total.

    Args:
        quantities: The names of the quantities.
        caps: The caps.
        errors: Shape (caps, quantities, 3); noise, bias, total along the last axis.
    """
    tables = {}
    for number, name in enumerate(quantities):
        tables[name] = pd.DataFrame(errors[:, number], list(caps), ["noise", "bias", "total"])
    return tables


def noise_error(epsilon: float, cap: int) -> float:
    """Return E|X + 1/2|, the mean error of a noisy count, at an epsilon per client under a cap."""
    return float(1 / np.expm1(epsilon / cap) + 0.5)


def total_error(epsilon: float, cap: int, missing: Floats | Integers | float) -> Floats:
    """Return E|X + 1/2 - b|, the error of a noisy count that lacks b records.

    Computes: b + q^b (q / (1 - q) + 1/2), as a geometric variable has no memory.
    Guarantees: b + E|X + 1/2|, as in Eq. 2, is 1 to 1.53 times this.
    [test: tests/benchmarks/studies/test_capping_errors.py]
    """
    b = np.asarray(missing, dtype=np.float64)
    return np.asarray(b + np.exp(-epsilon / cap * b) * noise_error(epsilon, cap))


def draw_noise(epsilon: float, cap: int, uniform: Floats) -> Floats:
    """Turn uniform numbers, shape (2, ...), into X + 1/2."""
    magnitude = np.floor(np.log1p(-uniform[0]) / (-epsilon / cap)) + 0.5
    return np.asarray(np.where(uniform[1] < 0.5, magnitude, -magnitude))


def gap_of(tables: Floats) -> Floats:
    """Return the difference of the groups' shares of label 1."""
    raised = np.maximum(tables, FLOOR)
    share = raised[..., 1] / raised.sum(axis=-1)
    return np.asarray(share[..., 0] - share[..., 1])


def _gap_errors(tables: Floats, truth: Floats) -> Floats:
    return np.abs(gap_of(tables) - gap_of(truth))


def weight_errors(tables: Floats, truth: Floats) -> Floats:
    """Return the mean absolute logarithm of balanced weights over the true ones."""
    ratios = weights_of_counts(tables, "balanced") / weights_of_counts(truth, "balanced")
    return np.asarray(np.abs(np.log(ratios)).mean(axis=(-2, -1)))


class ExpectedErrors:
    """Errors of the counts of a population's capped records, with noise that is drawn once."""

    def __init__(self, population: CountedClients, caps: Sequence[int], rng: np.random.Generator) -> None:
        self.population = population
        self.caps = tuple(caps)
        self._capped = [population.capped_tables(cap, CHOICES, rng) for cap in caps]
        self._uniform = rng.random((2, NOISES, *population.table.shape))

    def at(self, epsilon: float) -> dict[str, pd.DataFrame]:
        """Return the errors of each quantity, at an epsilon per client."""
        errors = np.array(
            [self._of_cap(cap, capped, epsilon) for cap, capped in zip(self.caps, self._capped, strict=True)]
        )
        return by_quantity(QUANTITIES, self.caps, errors)

    def _of_cap(self, cap: int, capped: Integers, epsilon: float) -> list[list[float]]:
        """Return a row for each of `QUANTITIES`: the error by noise alone, by bias alone, and in total."""
        truth = self.population.table.astype(np.float64)
        missing = float(self.population.missing(cap))
        of_noise = noise_error(epsilon, cap)
        of_sum = [of_noise, missing, float(total_error(epsilon, cap, missing))]
        of_all_counts = total_error(epsilon, cap, truth - capped).sum((-2, -1))
        of_counts = [truth.size * of_noise, missing, float(of_all_counts.mean())]
        noise = draw_noise(epsilon, cap, self._uniform)
        with_noise = truth + noise
        with_bias = capped.astype(np.float64)
        with_both = noise + capped[np.arange(NOISES) % CHOICES]
        tables = (with_noise, with_bias, with_both)
        of_weights = [float(weight_errors(table, truth).mean()) for table in tables]
        of_gap = [float(_gap_errors(table, truth).mean()) for table in tables]
        return [of_sum, of_counts, of_weights, of_gap]


def tree_of_curves() -> CountTree:
    """Return the best blocks for an epsilon of 1/10."""
    return best_tree(BINS, Neighbors(NeighboringRelation.ZERO_OUT_ONE), Fraction(1, 10), Fraction(1, 1 << 40))


class ScoredClients:
    """A population's records with scores, whose distribution depends on the client's activity."""

    def __init__(self, population: CountedClients, rng: np.random.Generator) -> None:
        level = np.floor(np.log2(population.sizes)).astype(np.int64)
        levels = np.unique(level)
        self._levels = [population.part(level == number) for number in levels]
        activities = np.minimum(levels / np.log2(MOST), 1.0)
        self._scores: list[Integers] = []
        for part, activity in zip(self._levels, activities, strict=True):
            self._scores.append(rng.multinomial(part.table, _distributions(activity)))
        self.histogram: Integers = np.array(self._scores).sum(axis=0)

    def capped(self, cap: int, draws: int, rng: np.random.Generator) -> Integers:
        """Draw the scores under a cap, shape (draws, 2, 2, bins)."""
        capped: Integers = np.zeros((draws, *self.histogram.shape), dtype=np.int64)
        for part, scores in zip(self._levels, self._scores, strict=True):
            if part.sizes.max() <= cap:
                capped += scores
                continue
            tables = part.capped_tables(cap, draws, rng)
            for cell in np.ndindex(tables.shape):
                kept = int(tables[cell])
                capped[cell] += rng.multivariate_hypergeometric(scores[cell[1:]], kept, method="marginals")
        return capped


def _points_of(counts: Floats) -> list[OperatingPoints]:
    """Return the operating points of each draw of counts."""
    return [curves_of(_NAMES, _GRID, draw).points() for draw in counts]


def _distributions(activity: float) -> Floats:
    """Return the probability of each bin, shape (2, 2, bins), by P(score >= t) = (1 - t^a)^b."""
    ends = np.array(  # (a, b) of negatives, then of positives, per group, of the least and most active
        [
            [[(1.2, 2.0), (1.2, 4.0)], [(1.2, 2.0), (1.2, 2.5)]],
            [[(2.0, 2.0), (4.0, 2.0)], [(2.0, 2.0), (2.5, 2.0)]],
        ]
    )
    a, b = np.moveaxis((1 - activity) * ends[:, :, 0] + activity * ends[:, :, 1], -1, 0)
    tails = (1 - _GRID ** a[..., np.newaxis]) ** b[..., np.newaxis]
    return np.swapaxes(-np.diff(tails, axis=-1, append=0.0), 0, 1)


class ExpectedCurveErrors:
    """Errors of the curves of a population's capped records, with noise that is drawn once."""

    def __init__(self, population: CountedClients, caps: Sequence[int], rng: np.random.Generator) -> None:
        self.caps = tuple(caps)
        tree = tree_of_curves()
        self._scored = ScoredClients(population, rng)
        self._truth = cumulative(self._scored.histogram)
        self._points = curves_of(_NAMES, _GRID, self._truth).points()
        self._capped = [cumulative(self._scored.capped(cap, DRAWS, rng)) for cap in caps]
        self._estimator = tree.estimator()
        self._levels = len(tree.blocks)
        self._uniform = rng.random((2, DRAWS, GROUPS, 2, tree.nodes))
        self._bias = np.array([self._measured(capped) for capped in self._capped])

    def at(self, epsilon: float, noise_alone: bool = True) -> dict[str, pd.DataFrame]:
        """Return the errors of each quantity, at an epsilon per client.

        Without `noise_alone` the errors by noise alone are left out, and are NaN. The errors of thresholds by
        noise alone always are.
        """
        rows = []
        for cap, capped, bias in zip(self.caps, self._capped, self._bias, strict=True):
            noise = draw_noise(epsilon / self._levels, cap, self._uniform) @ self._estimator.T
            noise = np.concatenate([noise, noise[..., :1]], axis=-1)
            curves = np.nan
            rates = np.nan
            if noise_alone:
                counts = self._truth + noise
                curves, rates = self._of_curves(counts, _points_of(counts))
            rows.append(np.transpose([(curves, rates, np.nan), bias, self._measured(capped + noise)]))
        return by_quantity(CURVE_QUANTITIES, self.caps, np.array(rows))

    def _measured(self, counts: Floats) -> tuple[float, float, float]:
        """Return the mean error of each of `CURVE_QUANTITIES` over draws of counts."""
        fitted = _points_of(counts)
        curves, rates = self._of_curves(counts, fitted)
        gaps = [self._gap_left(points) for points in fitted]
        return curves, rates, float(np.mean(gaps))

    def _of_curves(self, counts: Floats, fitted: list[OperatingPoints]) -> tuple[float, float]:
        """Return the mean errors of counts, and of rates."""
        of_counts = np.abs(counts - self._truth)[..., :-1]
        rates = np.array([rates_at_grid(points) for points in fitted])
        of_rates = np.abs(rates - rates_at_grid(self._points))
        return float(of_counts.mean()), float(of_rates.mean())

    def _gap_left(self, fitted: OperatingPoints) -> float:
        """Return the true gap under thresholds that are chosen by noisy curves."""
        rules = [UNMITIGATED] * GROUPS
        least = min(*fitted.positives, *fitted.negatives)
        if least > 0:  # else `choose_thresholds` refuses
            rules = best_mixed_rules(task_for(fitted, EQUAL_OPPORTUNITY, BALANCED_ACCURACY), 0.0)
        tpr, _ = rates_under(dict(zip(_NAMES, rules, strict=True)), self._points)
        return gap(tpr, tpr)
