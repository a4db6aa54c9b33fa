"""Figures that audits find: a type for each kind of audited item."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Self

from fairshares.protocols.accounting.calibration import NeighboringRelation
from fairshares.protocols.accounting.exact_privacy import PrivacyCurve

Figure = Fraction | int | str | None
"""A figure of a row. A text is an exact p/q; None says that no finite value will do."""

DELTAS = {"1e-6": Fraction(1, 10**6), "1e-9": Fraction(1, 10**9), "2^-40": Fraction(1, 2**40)}
"""Deltas at which an epsilon is found, by the names that rows have."""


class Figures(ABC):
    """The findings of an audit of an item."""

    @abstractmethod
    def by_name(self) -> dict[str, Figure]:
        """Return the figures by the ends of their rows' names, in the order of the rows."""


@dataclass(frozen=True)
class CurveFigures:
    """Points of the privacy curve of a noise.

    Attributes:
        epsilon: The least epsilon with the requested delta; None if no epsilon has it.
        delta: The delta at the requested epsilon.
        delta_at_every_epsilon: The delta that remains however large epsilon is.
        epsilon_at: The least epsilon with each of `DELTAS`, by its name; None if no epsilon has it.
    """

    epsilon: Fraction | None
    delta: Fraction
    delta_at_every_epsilon: Fraction
    epsilon_at: Mapping[str, Fraction | None]

    @classmethod
    def of(cls, curve: PrivacyCurve, epsilon: Fraction, delta: Fraction) -> Self:
        """Return the points of a curve.

        Args:
            curve: The noise's delta at each epsilon.
            epsilon: The epsilon at which its delta is found.
            delta: The delta at which its epsilon is found.
        """
        return cls(
            epsilon=curve.least_epsilon(delta),
            delta=curve.delta_bounds(epsilon)[1],
            delta_at_every_epsilon=curve.impossible,
            epsilon_at={name: curve.least_epsilon(usual) for name, usual in DELTAS.items()},
        )

    def by_name(self) -> dict[str, Figure]:
        """Return the figures, as `Figures.by_name`."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "delta_at_every_epsilon": str(self.delta_at_every_epsilon),
            **_at_deltas(self.epsilon_at),
        }


@dataclass(frozen=True)
class SampleCost:
    """The costs of one sample of noise for the parties.

    Attributes:
        ands: The number of AND gates.
        and_depth: How many of them follow each other.
        fair_bits: The fair bits that each party draws.
    """

    ands: int
    and_depth: int
    fair_bits: int


@dataclass(frozen=True)
class NoiseFigures(Figures):
    """The figures of noise on one count.

    Attributes:
        curve: The figures of the noise's privacy curve.
        largest_noise: The largest absolute value.
        mean_square_error: The mean square of the noise.
        cost: The cost of one sample; None for published noise, which is not made here.
    """

    curve: CurveFigures
    largest_noise: Fraction | int
    mean_square_error: Fraction
    cost: SampleCost | None = None

    def by_name(self) -> dict[str, Figure]:
        figures: dict[str, Figure] = {
            **self.curve.by_name(),
            "largest_noise": self.largest_noise,
            "mean_square_error": self.mean_square_error,
        }
        if self.cost is not None:
            figures["ands"] = self.cost.ands
            figures["and_depth"] = self.cost.and_depth
            figures["fair_bits"] = self.cost.fair_bits
        return figures


@dataclass(frozen=True)
class PartiesNoise:
    """The noise that honest parties add to a value with distributed noise.

    Attributes:
        honest_parties: How many parties are honest.
        table_entries: The number of entries in the table from which a party draws.
        mean_square_error: The mean square of all parties' noise together.
    """

    honest_parties: int
    table_entries: int
    mean_square_error: Fraction


@dataclass(frozen=True)
class ReleaseFigures(Figures):
    """The figures of a release.

    Attributes:
        relation: The neighboring relation under which it was audited.
        values_moved: How many noisy values two neighbors differ in.
        epsilon: The exact epsilon.
        delta: The exact delta; None for a release that needs none.
        values: The number of noisy values; None for a published release.
        units_moved: The number of units by which the values move in all; None if each moves by 1.
        epsilon_at: The least epsilon with some of `DELTAS`, where all values together could be computed.
        noise: The noise that honest parties add, for distributed noise.
    """

    relation: NeighboringRelation
    values_moved: int
    epsilon: Fraction
    delta: Fraction | None = None
    values: int | None = None
    units_moved: int | None = None
    epsilon_at: Mapping[str, Fraction | None] = field(default_factory=dict)
    noise: PartiesNoise | None = None

    def by_name(self) -> dict[str, Figure]:
        figures: dict[str, Figure] = {}
        if self.values is not None:
            figures["values"] = self.values
        figures["values_moved"] = self.values_moved
        if self.units_moved is not None:
            figures["units_moved"] = self.units_moved
        figures["epsilon"] = self.epsilon
        if self.delta is not None:
            figures["delta"] = self.delta
        figures.update(_at_deltas(self.epsilon_at))
        if self.noise is not None:
            figures["honest_parties"] = self.noise.honest_parties
            figures["table_entries"] = self.noise.table_entries
            figures["mean_square_error"] = self.noise.mean_square_error
        return figures


@dataclass(frozen=True)
class LocalFigures(Figures):
    """The figures of a local mechanism.

    Attributes:
        epsilon: The exact epsilon; None if the ratio of two inputs' probabilities has no bound.
        epsilon_claimed: The epsilon by the published theorems.
        log_ratio_at_10: The logarithm of that ratio at an output of 10, where the ratio has no bound.
    """

    epsilon: Fraction | None
    epsilon_claimed: Fraction
    log_ratio_at_10: Fraction | None = None

    def by_name(self) -> dict[str, Figure]:
        figures: dict[str, Figure] = {"epsilon": self.epsilon, "epsilon_claimed": self.epsilon_claimed}
        if self.log_ratio_at_10 is not None:
            figures["log_ratio_at_10"] = self.log_ratio_at_10
        return figures


def _at_deltas(epsilon_at: Mapping[str, Fraction | None]) -> dict[str, Figure]:
    return {f"epsilon_at_{name}": epsilon for name, epsilon in epsilon_at.items()}
