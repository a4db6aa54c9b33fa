"""Expected error by the cap: of a sum, of counts, of sample weights, and of the gap between groups.

The noise is what the default sampler's coins approach: two-sided geometric, the sign by complement, not
truncated. Its laws are elementary; the coins' mean error is within 2 % of its own.
[test: tests/benchmarks/studies/test_capping_errors.py]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.studies.capping.population import Counts, Floats, Population
from harness.postprocessing.reweighing.formulas import weights_of_counts
from harness.postprocessing.reweighing.intervals import FLOOR
from protocols.circuits.weights import BALANCED

SUM, COUNTS, WEIGHTS, GAP = QUANTITIES = ("sum", "counts", "weights", "gap")
CHOICES = 24  # of records, drawn per cap
NOISES = 1024  # per cap


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


def total_error(epsilon: float, cap: int, missing: Floats | Counts | float) -> Floats:
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


def gap_errors(tables: Floats, truth: Floats) -> Floats:
    return np.abs(gap_of(tables) - gap_of(truth))


def weight_errors(tables: Floats, truth: Floats) -> Floats:
    """Return the mean absolute logarithm of balanced weights over the true ones: shape (...)."""
    ratio = weights_of_counts(tables, BALANCED) / weights_of_counts(truth, BALANCED)
    return np.asarray(np.abs(np.log(ratio)).mean(axis=(-2, -1)))


class ExpectedErrors:
    """A population with what a cap leaves of it, drawn once per cap, and noise, drawn once for all."""

    def __init__(self, population: Population, caps: Sequence[int], rng: np.random.Generator) -> None:
        self.population, self.caps = population, tuple(caps)
        self._capped = [population.capped_tables(cap, CHOICES, rng) for cap in caps]
        self._uniform = rng.random((2, NOISES, *population.table.shape))

    def at(self, epsilon: float) -> dict[str, Errors]:
        """Return the errors of each quantity, for noise that keeps to epsilon per client."""
        rows: dict[str, list[tuple[float, float, float]]] = {name: [] for name in QUANTITIES}
        for cap, capped in zip(self.caps, self._capped, strict=True):
            for name, row in self._of_cap(cap, capped, epsilon).items():
                rows[name].append(row)
        return {name: Errors(self.caps, *np.array(row).T) for name, row in rows.items()}

    def _of_cap(self, cap: int, capped: Counts, epsilon: float) -> dict[str, tuple[float, float, float]]:
        truth = self.population.table.astype(np.float64)
        missing, one = self.population.missing(cap), noise_error(epsilon, cap)
        noise = draw_noise(epsilon, cap, self._uniform)
        noisy = noise + capped[np.arange(NOISES) % CHOICES]
        found = {
            SUM: (one, float(missing), float(total_error(epsilon, cap, missing))),
            COUNTS: (
                truth.size * one,
                float(missing),
                float(total_error(epsilon, cap, truth - capped).sum(axis=(-2, -1)).mean()),
            ),
        }
        for name, error in ((WEIGHTS, weight_errors), (GAP, gap_errors)):
            tables = (truth + noise, capped.astype(np.float64), noisy)
            first, second, third = (float(error(each, truth).mean()) for each in tables)
            found[name] = (first, second, third)
        return found
