"""What the parties opened, as statistics: from here on everything is post-processing of DP outputs."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.errors import OutputError
from harness.inputs.record_schema import RecordDomain
from protocols.noise.added import Noise, largest, offset, smallest

BEYOND = (
    "A revealed value is beyond what the clients' declared maximum and the noise allow; the nearest possible "
    "one is taken instead, and the result is wrong there. A client lied, or shares do not belong together."
)


@dataclass(frozen=True)
class NoisyCounts:
    """Differentially private counts of records per cell of the domain.

    Attributes: table: of the domain's shape, unbiased, whole or half numbers, maybe negative; noise: of each
    count, public.
    """

    domain: RecordDomain
    table: npt.NDArray[np.float64]
    noise: Noise

    def __post_init__(self) -> None:
        if self.table.shape != self.domain.shape:
            raise OutputError(
                f"The parties revealed {self.table.size} counts where {self.domain.cells} belong."
            )


def read_counts(
    opened: Mapping[str, tuple[int, ...]], domain: RecordDomain, clients: int, noise: Noise
) -> NoisyCounts:
    """Return the counts that a run opened, one per cell of the domain. Raises: as `read_unbiased`."""
    (values,) = opened.values()
    counts = read_unbiased(values, "counts", domain.cells, clients * domain.max_contribution, noise)
    return NoisyCounts(domain, counts.reshape(domain.shape), noise)


def read_unbiased(
    opened: Sequence[int], name: str, expected: int, most: int, noise: Noise, least: int = 0
) -> npt.NDArray[np.float64]:
    """Return the opened values of one output line, less the noise's mean: shape (expected,).

    Args: name: what they are called in messages; expected: how many; least, most: the ends of what there is
    without noise.
    Raises: OutputError: there are too few or too many.
    """
    if len(opened) != expected:
        raise OutputError(f"The parties revealed {len(opened)} {name} where {expected} belong.")
    possible = within(opened, least + smallest(noise), most + largest(noise))
    return np.array(possible, dtype=np.float64) + offset(noise)


def within(opened: Sequence[int], lowest: int, highest: int) -> list[int]:
    """Return opened values, each at the end of the range that it is beyond; warn, without a value, if one is.

    A client that lies can bring any value about, and must not be able to waste the run on all others.
    """
    kept = [min(max(value, lowest), highest) for value in opened]
    if kept != list(opened):
        warnings.warn(BEYOND, stacklevel=2)
    return kept
