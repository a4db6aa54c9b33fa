"""What the parties opened, as statistics: from here on everything is post-processing of DP outputs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from harness.engines.base import EngineResult
from harness.errors import OutputError
from harness.records import RecordDomain
from protocols.circuits.coins import Coin
from protocols.noise import error_bound, largest_noise

# Truncated noise X takes the values x and -1-x equally often, so that X + 1/2 has mean 0.
DEBIAS = 0.5


@dataclass(frozen=True)
class NoisyCounts:
    """Differentially private counts of records per (group, label).

    Attributes: table: shape (groups, labels), opened + 1/2: unbiased, half-integers, maybe negative;
    coins: of each count's noise, public.
    """

    domain: RecordDomain
    table: npt.NDArray[np.float64]
    coins: tuple[Coin, ...]

    def __post_init__(self) -> None:
        expected = (len(self.domain.groups), len(self.domain.labels))
        if self.table.shape != expected:
            raise OutputError(f"The parties opened {self.table.size} counts where {expected} belong.")

    def error_bound(self, failure: Fraction) -> float:
        """Return t such that all counts are within t of the truth, but for probability `failure`.

        Computes: each count's exact tail at failure / cells (union bound).
        """
        return float(error_bound(self.coins, failure / self.domain.cells))


def read_counts(
    result: EngineResult, domain: RecordDomain, clients: int, coins: tuple[Coin, ...]
) -> NoisyCounts:
    """Return the counts that a run of π_RW opened.

    Raises: OutputError: there are too few or too many, or one is beyond what clients and noise could
    make; the message gives no value.
    """
    opened = result.outputs["counts"]
    if len(opened) != domain.cells:
        raise OutputError(f"The parties opened {len(opened)} counts where {domain.cells} belong.")
    noise = largest_noise(coins)
    if not all(-1 - noise <= count <= clients * domain.max_count + noise for count in opened):
        raise OutputError(
            "An opened count is beyond what the clients' declared maximum and the noise allow: "
            "some shares do not belong together. Share the records again."
        )
    table = np.array(opened, dtype=np.float64).reshape(len(domain.groups), len(domain.labels)) + DEBIAS
    return NoisyCounts(domain, table, coins)
