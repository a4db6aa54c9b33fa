"""Revealed values as noisy statistics."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairshares.harness.errors import OutputError
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.protocols.arrays import Floats
from fairshares.protocols.noise.added import Noise, largest, offset, smallest


@dataclass(frozen=True)
class NoisyCounts:
    """A noisy count for each cell of the domain: unbiased, a multiple of 1/2, possibly negative."""

    domain: RecordDomain
    table: Floats
    noise: Noise

    def __post_init__(self) -> None:
        if self.table.shape != self.domain.shape:
            raise OutputError(
                f"The parties revealed {self.table.size} counts where {self.domain.cells} belong."
            )


def read_counts(
    opened: Mapping[str, tuple[int, ...]], domain: RecordDomain, clients: int, noise: Noise
) -> NoisyCounts:
    """Return a run's revealed counts, less the noise's mean."""
    (values,) = opened.values()
    counts = read_unbiased(values, "counts", domain.cells, clients * domain.max_contribution, noise)
    return NoisyCounts(domain, counts.reshape(domain.shape), noise)


def read_unbiased(
    opened: Sequence[int], name: str, expected: int, most: int, noise: Noise, *, least: int = 0
) -> Floats:
    """Return the revealed values of one output line, less the noise's mean.

    Args:
        opened: The values as the parties revealed them.
        name: The name of the values, for messages.
        expected: How many values there should be.
        most: The largest value that is possible without noise.
        noise: The noise of each value.
        least: The smallest value that is possible without noise.

    Raises:
        OutputError: There are more or fewer values than expected.
    """
    if len(opened) != expected:
        raise OutputError(f"The parties revealed {len(opened)} {name} where {expected} belong.")
    possible = within(opened, least + smallest(noise), most + largest(noise))
    return np.array(possible, dtype=np.float64) + offset(noise)


def within(opened: Sequence[int], lowest: int, highest: int) -> list[int]:
    """Return values clipped to a range; if any is outside, warn without naming it.

    A client that lies can cause any value, and must not waste the run.
    """
    kept = [min(max(value, lowest), highest) for value in opened]
    if kept != list(opened):
        warnings.warn(
            "A revealed value is beyond what the clients' declared maximum and the noise allow; the nearest "
            "possible one is taken instead, and the result is wrong there. A client lied, or shares do not "
            "belong together.",
            stacklevel=2,
        )
    return kept
