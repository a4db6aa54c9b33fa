"""Opened samples of π_LAP's noise, compared with their exact distribution."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import log, sqrt
from typing import ClassVar, Literal

from msgspec import Struct

from fairshares.harness.bounds import NotNegative, Share, Size
from fairshares.harness.releases.base import fitting
from fairshares.harness.security_models import SecurityModel
from fairshares.protocols.accounting.calibration import (
    NeighboringRelation,
    Neighbors,
    bits_at_most,
    each_cell_once,
    plan_distributed_noise,
)
from fairshares.protocols.accounting.rounding import float_up
from fairshares.protocols.circuits.coins import Coins, NoiseFamily, design_noise, family_of
from fairshares.protocols.circuits.noise import fair_bits_per_sample, noise_arguments
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.noise.added import NoiseDistribution, largest, mean_square_error, smallest
from fairshares.protocols.noise.truncated import cumulative, guarantee, twice_center
from fairshares.protocols.spec import JOINT_LAW, PI_LAP, PI_SUM, ProtocolSpec

WARNING = "The samples were revealed, so they protect nothing: never add one to a count that is released."
MOST_SAMPLES = 100_000
FALSE_ALARM = 1e-9  # probability that fair noise exceeds the bound

_EPSILON_GRID = 10**12  # rounds ε down, as it is part of the compiled program's name


@dataclass(frozen=True, kw_only=True)
class Sampler(ABC):
    """A kind of noise at an ε and a δ.

    Attributes:
        name: The name in tables and files.
        spec: The program that makes and reveals samples.
        arguments: The program's arguments for this noise, by name.
        fair_bits: The fair bits of each party for a sample.
        center: The mean.
        mean_square: The mean squared distance from the center.
        edges: The smallest and the largest sample.
        guarantee: The guarantee of a count that moves by 1 and carries a single secret sample.
    """

    name: str
    spec: ProtocolSpec
    arguments: Mapping[str, object]
    fair_bits: int
    center: Fraction
    mean_square: Fraction
    edges: tuple[int, int]
    guarantee: Guarantee

    @abstractmethod
    def cumulative(self, x: int) -> Fraction:
        """Return the probability of a sample of at most x, any integer."""


@dataclass(frozen=True, kw_only=True)
class _JointSampler(Sampler):
    """Joint noise, of these coins."""

    coins: Coins

    def cumulative(self, x: int) -> Fraction:
        return cumulative(self.coins, x)


@dataclass(frozen=True, kw_only=True)
class _OwnSampler(Sampler):
    """The sum of distributed noise.

    Attributes:
        weights_below: The weights of all sums below each value from the smallest on; the last is the total.
        largest: The largest sum; the smallest is its opposite.
    """

    weights_below: Sequence[int]
    largest: int

    def cumulative(self, x: int) -> Fraction:
        place = min(max(x + self.largest + 1, 0), len(self.weights_below) - 1)
        return Fraction(self.weights_below[place], self.weights_below[-1])


@lru_cache(maxsize=16)
def joint_sampler(epsilon: Fraction, delta: Fraction, family: NoiseFamily | None = None) -> Sampler:
    """Return the sampler of joint noise, or raise OptionError; without a family, of the one for epsilon."""
    rounded = Fraction(epsilon * _EPSILON_GRID // 1, _EPSILON_GRID)
    bits = bits_at_most(delta)
    with fitting(epsilon, delta):
        coins = design_noise(rounded, bits, family)
    return _JointSampler(
        name="default",
        spec=PI_LAP,
        arguments=dict(zip(JOINT_LAW, noise_arguments(rounded, bits, family_of(coins)), strict=True)),
        fair_bits=fair_bits_per_sample(coins),
        center=Fraction(twice_center(coins), 2),
        mean_square=mean_square_error(coins),
        edges=(smallest(coins), largest(coins)),
        coins=coins,
        guarantee=guarantee(coins),
    )


def own_sampler(
    distribution: NoiseDistribution, epsilon: Fraction, delta: Fraction, model: SecurityModel
) -> Sampler:
    """Return the sampler of distributed noise's sum, or raise OptionError."""
    with fitting(epsilon, delta):
        plan = plan_distributed_noise(
            each_cell_once(1),
            Neighbors(NeighboringRelation.ADD_OR_REMOVE_ONE),
            epsilon,
            delta,
            distribution,
            parties=model.parties,
            tolerated=model.corruptions,
        )
    noise = plan.own
    assert noise is not None
    weights_below = [0, *accumulate(noise.summed(model.parties))]  # of each value; the last is the total
    return _OwnSampler(
        name=f"own, {distribution}",
        spec=PI_SUM,
        arguments=noise.arguments(),
        fair_bits=0,
        center=Fraction(0),
        mean_square=noise.mean_square_error,
        edges=(smallest(noise), largest(noise)),
        weights_below=weights_below,
        largest=noise.largest,
        guarantee=plan.exact,
    )


class SampleSummary(Struct, frozen=True, kw_only=True):
    """Samples compared with the exact distribution.

    `distance` is the largest distance between the distribution functions. The distance of fair noise exceeds
    `distance_bound` with probability `false_alarm` at most (DKW, for any distribution).
    """

    samples: Size
    mean: float
    exact_mean: float
    mean_square: NotNegative
    exact_mean_square: NotNegative
    extremes: tuple[int, int]
    exact_extremes: tuple[int, int]
    distance: Share
    distance_bound: NotNegative
    false_alarm: Share


class SampleGuarantee(Struct, frozen=True, kw_only=True):
    """The guarantee of a count that moves by 1, with one secret sample. The floats are rounded up."""

    epsilon: NotNegative
    delta: Share
    epsilon_exact: Fraction
    delta_exact: Fraction
    sensitivity: Literal[1] = 1


class NoiseFile(Struct, frozen=True, kw_only=True):
    """`noise.json`."""

    file_name: ClassVar[str] = "noise.json"
    schema: Literal[1] = 1
    warning: str
    sampler: str
    parameters: dict[str, str]
    guarantee_of_one_secret_sample: SampleGuarantee
    summary: SampleSummary
    samples: list[int]


def summarise(samples: Sequence[int], sampler: Sampler) -> SampleSummary:
    """Compare samples with the sampler's exact distribution."""
    n = len(samples)
    center = float(sampler.center)
    return SampleSummary(
        samples=n,
        mean=sum(samples) / n,
        exact_mean=center,
        mean_square=sum((x - center) ** 2 for x in samples) / n,
        exact_mean_square=float(sampler.mean_square),
        extremes=(min(samples), max(samples)),
        exact_extremes=sampler.edges,
        distance=distance(samples, sampler.cumulative),
        distance_bound=sqrt(log(2 / FALSE_ALARM) / (2 * n)),
        false_alarm=FALSE_ALARM,
    )


def distance(samples: Sequence[int], cumulative: Callable[[int], Fraction]) -> float:
    """Return sup |F_n - F| over all integers, which is at a sample or right below it."""
    n = len(samples)
    seen = 0
    furthest = Fraction(0)
    for x, times in sorted(Counter(samples).items()):
        below = abs(Fraction(seen, n) - cumulative(x - 1))
        seen += times
        at = abs(Fraction(seen, n) - cumulative(x))
        furthest = max(furthest, below, at)
    return float(furthest)


def noise_file(sampler: Sampler, samples: Sequence[int], summary: SampleSummary) -> NoiseFile:
    """Return `noise.json`."""
    guarantee = sampler.guarantee
    return NoiseFile(
        warning=WARNING,
        sampler=sampler.name,
        parameters={name: str(value) for name, value in sampler.arguments.items()},
        guarantee_of_one_secret_sample=SampleGuarantee(
            epsilon=float_up(guarantee.epsilon),
            delta=float_up(guarantee.delta),
            epsilon_exact=guarantee.epsilon,
            delta_exact=guarantee.delta,
        ),
        summary=summary,
        samples=list(samples),
    )
