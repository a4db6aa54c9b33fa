"""Ways to choose a cap, and the expected error that each leaves."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from benchmarks.studies.arrays import Floats
from benchmarks.studies.capping.errors import (
    COUNTS,
    CURVE_QUANTITIES,
    CURVES,
    GAP,
    QUANTITIES,
    RATES,
    SUM,
    THRESHOLDS,
    WEIGHTS,
    Errors,
    draw_noise,
    tree_of_curves,
)
from benchmarks.studies.capping.population import Population
from harness.releases.contribution_cap import CURVE_RATIOS, RATIOS, counts_of_curves
from protocols.accounting.calibration import AboveThreshold, NeighboringRelation, Neighbors, plan_noise
from protocols.mechanisms.above_threshold import allowed_above, best_cap, clients_above, law_of_first_below

ALL_QUANTITIES = (*QUANTITIES, *CURVE_QUANTITIES)
CELLS = {SUM: 1, COUNTS: 4, WEIGHTS: 4, GAP: 4}  # how many counts are released
# How many times as many clients as is best for the counts themselves may exceed the cap: those tried, and
# what `cap` takes. What all clients lose alike leaves ratios as they are.
_RATIOS, _CURVE_RATIOS = (1, 4, 8, 16), (1, 4, 8, 16, 32)
TRIED: dict[str, tuple[int, ...]] = {
    SUM: (1,),
    COUNTS: (1,),
    WEIGHTS: _RATIOS,
    GAP: _RATIOS,
    CURVES: _CURVE_RATIOS,
    RATES: _CURVE_RATIOS,
    THRESHOLDS: _CURVE_RATIOS,
}
AIMS = {
    SUM: 1,
    COUNTS: 1,
    **dict.fromkeys((WEIGHTS, GAP), RATIOS),
    **dict.fromkeys(CURVE_QUANTITIES, CURVE_RATIOS),
}
COLUMNS = {"pi_cap": "π_CAP", "histogram": "noisy histogram"}  # of results, by a mechanism's
PI_CAP, HISTOGRAM = COLUMNS.values()
SHARES = (Fraction(1, 50), Fraction(1, 20), Fraction(1, 10), Fraction(1, 5), Fraction(1, 2))


@dataclass(frozen=True)
class Setting:
    """A total epsilon, and whether models are active: noise is for exchanged records then."""

    epsilon: Fraction
    active: bool = False

    @property
    def models(self) -> str:
        """What results call these models: `active` or `passive`."""
        return "active" if self.active else "passive"

    def left(self, share: Fraction) -> Fraction:
        """Return the epsilon by which the release's noise is scaled, after a share of it for the cap."""
        return self.epsilon * (1 - share) / (2 if self.active else 1)


Key = tuple[str, str, Setting, Fraction, int]
"""How a cap was chosen: mechanism, quantity, setting, the share of epsilon for it, and the aim."""


@dataclass(frozen=True)
class Choice:
    """A cap chosen with a share of epsilon, the rest being left for the release.

    Attributes: regret: the expected error over the least that any cap leaves where the choice is free;
    low, middle, high: caps of which 5 %, 50 % and 95 % of choices are at most.
    """

    regret: float
    low: int
    middle: int
    high: int


@dataclass(frozen=True, eq=False)
class Found:
    """What was found of one population.

    Attributes: errors: by setting and quantity; choices: with epsilon the total of choice and release;
    held_out: whether nothing in `cap` was chosen by it.
    """

    population: Population
    errors: dict[Setting, dict[str, Errors]]
    choices: dict[Key, Choice]
    held_out: bool


def target(epsilon: Fraction, quantity: str, aim: int) -> int:
    """Return how many clients should exceed the cap, for a release with this epsilon."""
    if quantity in CURVE_QUANTITIES:
        tree = tree_of_curves()
        return allowed_above(epsilon / aim, 4 * counts_of_curves(tree), (tree.bins + 1) // 2)
    return allowed_above(epsilon / aim, CELLS[quantity])


def by_rule(population: Population, caps: tuple[int, ...], epsilon: Fraction, quantity: str) -> int:
    """Return the cap by the paper's rule, from the contributions themselves: it is not private."""
    return best_cap(population.sizes, caps, target(epsilon, quantity, 1))


class Chooser:
    """Chooses caps for a population. Args: rng: of histograms only; other laws are exact."""

    def __init__(self, population: Population, caps: tuple[int, ...], rng: np.random.Generator) -> None:
        self.caps = caps
        self._above = clients_above(population.sizes, self.caps[:-1])
        self._uniform = rng.random((2, 4096, len(self._above)))  # of as many histograms

    def choices(
        self, setting: Setting, share: Fraction, left: dict[str, Errors], least: dict[str, Errors]
    ) -> Iterator[tuple[Key, Choice]]:
        """Yield the choice by every mechanism, for every quantity and aim.

        Args: left: errors with what this share of epsilon leaves; least: where the choice is free.
        """
        laws: dict[int, dict[str, Floats]] = {}
        for quantity, errors in left.items():
            for aim in TRIED[quantity]:
                above = target(setting.left(share), quantity, aim)
                laws[above] = laws.get(above) or {
                    PI_CAP: self.law_of_pi_cap(setting.epsilon * share, above),
                    HISTOGRAM: self.law_of_histogram(float(setting.epsilon * share), above),
                }
                for mechanism, law in laws[above].items():
                    regret = float(law @ errors.total / least[quantity].total.min())
                    spread = (self.quantile(law, at) for at in (0.05, 0.5, 0.95))
                    yield (mechanism, quantity, setting, share, aim), Choice(regret, *spread)

    def law_of_pi_cap(self, epsilon: Fraction, above: int) -> Floats:
        """Return the probability of each of `caps`, exactly but for floats, if π_CAP chooses."""
        unit = Neighbors(NeighboringRelation.ZERO_OUT_ONE)
        plan = plan_noise(AboveThreshold(len(self._above)), unit, epsilon, Fraction(1, 1 << 40))
        return law_of_first_below(plan.coins, self._above, above)

    def law_of_histogram(self, epsilon: float, above: int) -> Floats:
        """Return how often each cap is chosen from a noisy histogram of the clients' sizes, simulated.

        Computes: a client is in one bucket, so noise for all of epsilon on each; the first cap that at most
        `above` clients exceed, by noisy buckets added up.
        """
        noisy = draw_noise(epsilon, 1, self._uniform) - np.diff(np.append(self._above, 0))
        exceed = np.cumsum(noisy[:, ::-1], axis=1)[:, ::-1]
        fits = np.append(exceed <= above, np.ones((len(noisy), 1), dtype=bool), axis=1)
        return np.bincount(fits.argmax(axis=1), minlength=len(self.caps)) / len(noisy)

    def quantile(self, law: Floats, at: float) -> int:
        """Return the least cap that a choice is at most, with this probability."""
        return self.caps[min(int(np.searchsorted(np.cumsum(law), at)), len(self.caps) - 1)]
