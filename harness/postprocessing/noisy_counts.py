"""What the parties opened, as statistics: from here on everything is post-processing of DP outputs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from harness.errors import OutputError
from harness.inputs.record_schema import RecordDomain
from protocols.circuits.coins import Coin
from protocols.noise.truncated import error_bound, largest_noise

# Truncated noise X takes the values x and -1-x equally often, so that X + 1/2 has mean 0.
DEBIAS = 0.5
BEYOND = (
    "A revealed value is beyond what the clients' declared maximum and the noise allow; the nearest possible "
    "one is taken instead, and the result is wrong there. A client lied, or shares do not belong together."
)


@dataclass(frozen=True)
class NoisyCounts:
    """Differentially private counts of records per cell of the domain.

    Attributes: table: of the domain's shape, opened + 1/2: unbiased, half-integers, maybe negative;
    coins: of each count's noise, public.
    """

    domain: RecordDomain
    table: npt.NDArray[np.float64]
    coins: tuple[Coin, ...]

    def __post_init__(self) -> None:
        if self.table.shape != self.domain.shape:
            raise OutputError(
                f"The parties revealed {self.table.size} counts where {self.domain.cells} belong."
            )

    def error_bound(self, failure: Fraction) -> float:
        """Return t such that all counts are within t of the truth, but for probability `failure`.

        Computes: each count's exact tail at failure / cells (union bound).
        """
        return float(error_bound(self.coins, failure / self.domain.cells))


def read_counts(
    opened: Mapping[str, tuple[int, ...]], domain: RecordDomain, clients: int, coins: tuple[Coin, ...]
) -> NoisyCounts:
    """Return the counts that a run opened, one per cell of the domain. Raises: as `read_unbiased`."""
    counts = read_unbiased(opened["counts"], "counts", domain.cells, clients * domain.max_contribution, coins)
    return NoisyCounts(domain, counts.reshape(domain.shape), coins)


def read_unbiased(
    opened: Sequence[int], name: str, expected: int, most: int, coins: tuple[Coin, ...], least: int = 0
) -> npt.NDArray[np.float64]:
    """Return the opened values of one output line, plus 1/2: shape (expected,).

    Args: name: what they are called in messages; expected: how many; least, most: the ends of what there is
    without noise.
    Raises: OutputError: there are too few or too many.
    """
    if len(opened) != expected:
        raise OutputError(f"The parties revealed {len(opened)} {name} where {expected} belong.")
    noise = largest_noise(coins)
    return np.array(within(opened, least - 1 - noise, most + noise), dtype=np.float64) + DEBIAS


def within(opened: Sequence[int], lowest: int, highest: int) -> list[int]:
    """Return opened values, each at the end of the range that it is beyond; warn, without a value, if one is.

    A client that lies can bring any value about, and must not be able to waste the run on all others.
    """
    kept = [min(max(value, lowest), highest) for value in opened]
    if kept != list(opened):
        warnings.warn(BEYOND, stacklevel=2)
    return kept
