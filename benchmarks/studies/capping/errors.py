"""Expected error by the cap: of a sum, of counts, of sample weights, of the gap between groups, of curves.

The noise is what the default sampler's coins approach: two-sided geometric, the sign by complement, not
truncated. Its laws are elementary; the coins' mean error is within 2 % of its own.
[test: tests/benchmarks/studies/test_capping_errors.py]

Score curves: of their counts, of their rates, of thresholds chosen on them. MovieLens and the synthetic
clients have no scores. They get made-up ones: a model that tells labels apart better for clients with many
records, more so in the first group, so that a cap biases the curves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from benchmarks.studies.arrays import Floats, Integers
from benchmarks.studies.capping.population import GROUPS, MOST, Population
from benchmarks.studies.utility.curves import (
    UNMITIGATED,
    cumulative,
    curves_of,
    gap,
    rates_at_grid,
    rates_under,
)
from harness.inputs.record_schema import even_grid
from harness.postprocessing.curves import OperatingPoints
from harness.postprocessing.reweighing.formulas import FLOOR, weights_of_counts
from harness.postprocessing.thresholds.search import (
    BALANCED_ACCURACY,
    EQUAL_OPPORTUNITY,
    best_mixed_rules,
    task_for,
)
from protocols.accounting.calibration import NeighboringRelation, Neighbors
from protocols.circuits.weights import BALANCED
from protocols.mechanisms.count_tree import CountTree, best_tree

SUM, COUNTS, WEIGHTS, GAP = QUANTITIES = ("sum", "counts", "weights", "gap")
CHOICES = 24  # of records, drawn per cap
NOISES = 1024  # per cap

CURVES, RATES, THRESHOLDS = CURVE_QUANTITIES = ("curves", "rates", "thresholds")
BINS = 101
DRAWS = 12  # of kept records and noise, per cap

_GRID = np.array(even_grid(BINS))
_NAMES = tuple(f"group {g}" for g in range(1, GROUPS + 1))


@dataclass(frozen=True, eq=False)
class Errors:
    """Expected absolute errors of one quantity by the cap; arrays as long as `caps`.

    Attributes: noise: without a cap's bias, were noise made for that cap; bias: of capped records without
    noise; total: of what is released.
    """

    caps: tuple[int, ...]
    noise: Floats
    bias: Floats
    total: Floats

    @property
    def best(self) -> int:
        """Return the cap with the least error, by brute force."""
        return self.caps[int(np.argmin(self.total))]


def noise_error(epsilon: float, cap: int) -> float:
    """Return E|X + 1/2| of noise for epsilon / cap: q / (1 - q) + 1/2 with q = e^-(epsilon / cap)."""
    return float(1 / np.expm1(epsilon / cap) + 0.5)


def total_error(epsilon: float, cap: int, missing: Floats | Integers | float) -> Floats:
    """Return E|X + 1/2 - missing|: what a noisy count errs from which so many records are missing.

    Computes: b + q^b (q / (1 - q) + 1/2), b whole; a geometric variable forgets what it has passed.
    Guarantees: at most b + E|X + 1/2|, as Eq. 2 adds them up, and that at most 1.53 times this.
    [test: tests/benchmarks/studies/test_capping_errors.py]
    """
    b = np.asarray(missing, dtype=np.float64)
    return np.asarray(b + np.exp(-epsilon / cap * b) * noise_error(epsilon, cap))


def draw_noise(epsilon: float, cap: int, uniform: Floats) -> Floats:
    """Turn uniform numbers into X + 1/2. Args: uniform: shape (2, ...): magnitudes and signs."""
    magnitude = np.floor(np.log1p(-uniform[0]) / (-epsilon / cap)) + 0.5
    return np.asarray(np.where(uniform[1] < 0.5, magnitude, -magnitude))


def gap_of(tables: Floats) -> Floats:
    """Return the first group's share of label 1 less the second's. Args: tables: shape (..., 2, 2)."""
    raised = np.maximum(tables, FLOOR)
    share = raised[..., 1] / raised.sum(axis=-1)
    return np.asarray(share[..., 0] - share[..., 1])


def _gap_errors(tables: Floats, truth: Floats) -> Floats:
    return np.abs(gap_of(tables) - gap_of(truth))


def weight_errors(tables: Floats, truth: Floats) -> Floats:
    """Return the mean absolute logarithm of balanced weights over the true ones: shape (...)."""
    ratios = weights_of_counts(tables, BALANCED) / weights_of_counts(truth, BALANCED)
    return np.asarray(np.abs(np.log(ratios)).mean(axis=(-2, -1)))


class ExpectedErrors:
    """A population with what a cap leaves of it, drawn once per cap, and noise, drawn once for all."""

    def __init__(self, population: Population, caps: Sequence[int], rng: np.random.Generator) -> None:
        self.population, self.caps = population, tuple(caps)
        self._capped = [population.capped_tables(cap, CHOICES, rng) for cap in caps]
        self._uniform = rng.random((2, NOISES, *population.table.shape))

    def at(self, epsilon: float) -> dict[str, Errors]:
        """Return the errors of each quantity, for noise that keeps to epsilon per client."""
        by_cap = zip(self.caps, self._capped, strict=True)
        rows = np.array([self._of_cap(cap, capped, epsilon) for cap, capped in by_cap])
        errors = np.moveaxis(rows, 0, -1)
        return {name: Errors(self.caps, *each) for name, each in zip(QUANTITIES, errors, strict=True)}

    def _of_cap(self, cap: int, capped: Integers, epsilon: float) -> list[list[float]]:
        """Return each quantity's three errors."""
        truth = self.population.table.astype(np.float64)
        missing, one = float(self.population.missing(cap)), noise_error(epsilon, cap)
        noise = draw_noise(epsilon, cap, self._uniform)
        tables = (truth + noise, capped.astype(np.float64), noise + capped[np.arange(NOISES) % CHOICES])
        of_counts = total_error(epsilon, cap, truth - capped).sum(axis=(-2, -1)).mean()
        return [
            [one, missing, float(total_error(epsilon, cap, missing))],
            [truth.size * one, missing, float(of_counts)],
            *(
                [float(error(each, truth).mean()) for each in tables]
                for error in (weight_errors, _gap_errors)
            ),
        ]


def tree_of_curves() -> CountTree:
    """Return which blocks are counted: the best ones where a node's epsilon is small, as under most caps.

    Computes: for an epsilon of 1/10, at which noise is hardly rounded.
    """
    unit = Neighbors(NeighboringRelation.ZERO_OUT_ONE)
    return best_tree(BINS, unit, Fraction(1, 10), Fraction(1, 1 << 40))


class ScoredClients:
    """A population's records with a score each.

    Computes: how active a client is, by powers of 2 of its number of records, decides with group and label
    how a score is distributed. So the scores that a cap leaves of clients equally active are, given how many
    of them, a uniformly random choice.
    """

    def __init__(self, population: Population, rng: np.random.Generator) -> None:
        level = np.floor(np.log2(population.sizes)).astype(np.int64)
        levels = np.unique(level)
        self._levels = [population.part(level == each) for each in levels]
        activity = np.minimum(levels / np.log2(MOST), 1.0)
        self._scores: list[Integers] = [
            rng.multinomial(part.table, _laws(active))
            for part, active in zip(self._levels, activity, strict=True)
        ]
        self.histogram: Integers = np.array(self._scores).sum(axis=0)

    def capped(self, cap: int, draws: int, rng: np.random.Generator) -> Integers:
        """Draw what a cap leaves: shape (draws, 2, 2, bins)."""
        found: Integers = np.zeros((draws, *self.histogram.shape), dtype=np.int64)
        for part, scores in zip(self._levels, self._scores, strict=True):
            if part.sizes.max() <= cap:
                found += scores
                continue
            tables = part.capped_tables(cap, draws, rng)
            for cell in np.ndindex(tables.shape):
                kept = int(tables[cell])
                found[cell] += rng.multivariate_hypergeometric(scores[cell[1:]], kept, method="marginals")
        return found


def _laws(activity: float) -> Floats:
    """Return the probability of each score bin: shape (2, 2, bins).

    Computes: P(score >= t) = (1 - t^a)^b, with (a, b) between those of a client with one record, and of one
    with the most.
    """
    of_negatives = (((1.2, 2.0), (1.2, 4.0)), ((1.2, 2.0), (1.2, 2.5)))  # per group
    of_positives = (((2.0, 2.0), (4.0, 2.0)), ((2.0, 2.0), (2.5, 2.0)))
    ends = np.array([of_negatives, of_positives])
    a, b = np.moveaxis((1 - activity) * ends[:, :, 0] + activity * ends[:, :, 1], -1, 0)
    tails = (1 - _GRID ** a[..., np.newaxis]) ** b[..., np.newaxis]
    return np.swapaxes(-np.diff(tails, axis=-1, append=0.0), 0, 1)


class ExpectedCurveErrors:
    """As `ExpectedErrors`, of curves. All are simulated: the same choices and noise for all epsilons."""

    def __init__(self, population: Population, caps: Sequence[int], rng: np.random.Generator) -> None:
        self.caps, tree = tuple(caps), tree_of_curves()
        self._scored = ScoredClients(population, rng)
        self._truth = cumulative(self._scored.histogram)
        self._points = curves_of(_NAMES, _GRID, self._truth).points()
        self._capped = [cumulative(self._scored.capped(cap, DRAWS, rng)) for cap in caps]
        self._estimator, self._levels = tree.estimator(), len(tree.blocks)
        self._uniform = rng.random((2, DRAWS, GROUPS, 2, tree.nodes))
        self._bias = np.array([self._measured(capped) for capped in self._capped])

    def at(self, epsilon: float, noise_alone: bool = True) -> dict[str, Errors]:
        """Return the errors of each quantity, for noise that keeps to epsilon per client.

        Args: noise_alone: whether that is computed, too, but of thresholds; else it is not a number.
        """
        rows = []
        for cap, capped in zip(self.caps, self._capped, strict=True):
            noise = draw_noise(epsilon / self._levels, cap, self._uniform) @ self._estimator.T
            noise = np.concatenate([noise, noise[..., :1]], axis=-1)
            alone = self._of_curves(*self._fitted(self._truth + noise)) if noise_alone else (np.nan, np.nan)
            rows.append(((*alone, np.nan), self._measured(capped + noise)))
        alone, total = np.moveaxis(np.array(rows), 0, -1)
        return {
            name: Errors(self.caps, *each)
            for name, *each in zip(CURVE_QUANTITIES, alone, self._bias.T, total, strict=True)
        }

    def _measured(self, counts: Floats) -> tuple[float, float, float]:
        """Return the mean error of counts, that of rates, and gap left.

        Args: counts: shape (draws, 2, 2, bins + 1).
        """
        fitted = self._fitted(counts)
        return *self._of_curves(*fitted), float(np.mean([self._gap_left(each) for each in fitted[1]]))

    @staticmethod
    def _fitted(counts: Floats) -> tuple[Floats, list[OperatingPoints]]:
        return counts, [curves_of(_NAMES, _GRID, each).points() for each in counts]

    def _of_curves(self, counts: Floats, fitted: list[OperatingPoints]) -> tuple[float, float]:
        of_counts = np.abs(counts - self._truth)[..., :-1].mean()
        of_rates = np.abs(np.array([*map(rates_at_grid, fitted)]) - rates_at_grid(self._points)).mean()
        return float(of_counts), float(of_rates)

    def _gap_left(self, fitted: OperatingPoints) -> float:
        """Return by how much true positive rates differ between groups under thresholds chosen on these."""
        rules = [UNMITIGATED] * GROUPS
        if min(*fitted.positives, *fitted.negatives) > 0:  # else `choose_thresholds` refuses
            rules = best_mixed_rules(task_for(fitted, EQUAL_OPPORTUNITY, BALANCED_ACCURACY), 0.0)
        tpr, _ = rates_under(dict(zip(_NAMES, rules, strict=True)), self._points)
        return gap(tpr, tpr)
