"""What released score curves are worth: every method, against epsilon, records and groups."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from benchmarks.studies.outcome import rounded
from benchmarks.studies.utility.measures import MEASURES, measure, unmitigated
from benchmarks.studies.utility.populations import (
    LoanPopulation,
    Population,
    Sample,
    SyntheticPopulation,
    curves_of,
)
from benchmarks.studies.utility.releases import METHODS, NOISE_FREE, release_for
from protocols.accounting.calibration import NeighboringRelation
from protocols.accounting.rounding import float_up

Floats = npt.NDArray[np.float64]

SEED = 20_221_119  # any; fixed, so that figures can be repeated

# As PrivFairFL's appendix D: 0.25 to 50.
EPSILONS = tuple(map(Fraction, ("1/4", "1/2", "1", "2", "5", "10", "20", "50")))
_FEW_EPSILONS = tuple(map(Fraction, ("1/4", "1", "5", "50")))


@dataclass(frozen=True)
class Setting:
    """One population and how many of its records are counted, under several epsilons."""

    population: Population
    records: int
    epsilons: tuple[Fraction, ...] = EPSILONS


@dataclass(frozen=True, eq=False)
class Measured:
    """What one method did in one setting.

    Attributes: epsilon: asked for, None without noise; epsilon_exact, delta_exact: true upper bounds;
    samples: by measure, one number per repetition; unmitigated_gap: what thresholds of 0.5 leave.
    """

    population: str
    records: int
    groups: int
    thresholds: int
    method: str
    epsilon: Fraction | None
    epsilon_exact: Fraction | None
    delta_exact: Fraction | None
    unmitigated_gap: float
    samples: dict[str, list[float]]

    def quartiles(self, name: str) -> tuple[float, float, float]:
        """Return a measure's lower quartile, median and upper quartile over the repetitions."""
        low, middle, high = np.quantile(self.samples[name], [0.25, 0.5, 0.75]).tolist()
        return low, middle, high

    def parameters(self) -> dict[str, Any]:
        """Return what identifies the outcome, as JSON; bounds are rounded up."""
        return {
            "population": self.population,
            "records": self.records,
            "groups": self.groups,
            "thresholds": self.thresholds,
            "method": self.method,
            "epsilon": None if self.epsilon is None else float(self.epsilon),
            "epsilon_exact": None if self.epsilon_exact is None else float_up(self.epsilon_exact),
            "delta_exact": None if self.delta_exact is None else float_up(self.delta_exact),
            "unmitigated_gap": rounded(self.unmitigated_gap),
        }


Values = Callable[[Measured], Floats]
"""Returns a figure of an outcome, one number per repetition."""


def settings(quick: bool) -> tuple[Setting, ...]:
    """Return the suite: epsilon by records for two groups; more groups; real data.

    Args: quick: two small settings instead.
    """
    two = SyntheticPopulation(2)
    if quick:
        few, coarse = (Fraction(1), Fraction(10)), SyntheticPopulation(2, thresholds=101)
        return Setting(coarse, 10_000, few), Setting(LoanPopulation(), LoanPopulation.records(), few)
    return (
        *(Setting(two, records) for records in (1_000, 10_000, 100_000, 1_000_000)),
        *(Setting(SyntheticPopulation(groups), 100_000, _FEW_EPSILONS) for groups in (3, 5)),
        Setting(LoanPopulation(), LoanPopulation.records()),
    )


def run(
    suite: Sequence[Setting],
    repetitions: int,
    relation: NeighboringRelation,
    progress: Callable[[int, int], None],
) -> list[Measured]:
    """Measure every method in every setting.

    The methods of a setting see the same records. All is on one thread.
    Args: progress: called with how many outcomes there are, out of how many.
    """
    total = sum(1 + len(setting.epsilons) * len(METHODS) for setting in suite)
    outcomes: list[Measured] = []
    with threadpool_limits(limits=1):
        for setting in suite:
            for outcome in _outcomes(setting, repetitions, relation):
                outcomes.append(outcome)
                progress(len(outcomes), total)
    return outcomes


def _outcomes(setting: Setting, repetitions: int, relation: NeighboringRelation) -> Iterator[Measured]:
    population = setting.population
    what = (population.name, population.groups, setting.records)
    sample = population.sample(setting.records, repetitions, generator(*what))
    yield _outcome(setting, sample, NOISE_FREE, None, relation, generator(*what))
    for epsilon in setting.epsilons:
        for method in METHODS:
            yield _outcome(setting, sample, method, epsilon, relation, generator(*what, method, epsilon))


def _outcome(
    setting: Setting,
    sample: Sample,
    method: str,
    epsilon: Fraction | None,
    relation: NeighboringRelation,
    rng: np.random.Generator,
) -> Measured:
    repetitions, groups, _, bins = sample.histograms.shape
    release = release_for(method, bins, groups, setting.records, epsilon or Fraction(1), relation)
    counts = release.estimate(sample.histograms, rng)
    whole, names = sample.whole.points(), sample.whole.groups
    samples: dict[str, list[float]] = {name: [] for name in MEASURES}
    for repetition in range(repetitions):
        estimated = curves_of(names, sample.whole.thresholds, counts[repetition])
        for name, value in measure(estimated, sample.counted(repetition), whole).items():
            samples[name].append(rounded(value))
    guarantee = release.guarantee
    return Measured(
        setting.population.name,
        setting.records,
        groups,
        bins,
        method,
        epsilon,
        guarantee.epsilon if guarantee else None,
        guarantee.delta if guarantee else None,
        unmitigated(whole)[0],
        samples,
    )


def generator(*what: object) -> np.random.Generator:
    """Return random numbers that depend on the seed and on what they are for, in whatever order it is run."""
    return np.random.default_rng([SEED, zlib.crc32(repr(what).encode())])


def summary_of(outcome: Measured) -> dict[str, Any]:
    """Return an outcome's parameters, how often thresholds were chosen, and each measure's quartiles."""
    row = outcome.parameters()
    row["repetitions"] = len(outcome.samples["chosen"])
    row["chosen"] = int(sum(outcome.samples["chosen"]))
    for name in MEASURES:
        if name != "chosen":
            values = map(rounded, outcome.quartiles(name))
            row |= dict(zip((f"{name}_q1", f"{name}_median", f"{name}_q3"), values, strict=True))
    return row
