"""A party's process that gets numbers in place of those that it would draw.

It is the production party's `main`, with another source of randomness. Benchmarks run users' programs on
public integers by it, and tests run programs on known bits and noise. Installed packages lack it.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fairshares.harness.engines.parties import main as production
from fairshares.harness.engines.parties.noise_terms import NoiseTerms
from fairshares.harness.engines.parties.randomness import PartyRandomness

if TYPE_CHECKING:
    from fairshares.protocols.arrays import Integers

GIVEN = "given-numbers"  # a party's file, one number a line


class GivenNumbers(PartyRandomness):
    """Numbers in the order in which the party asks for them: noise first, then bits.

    Args:
        numbers: All of them. If the party's program states no blocks of bits, all that are left are its bits.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        self._left = list(numbers)

    def integers(self, blocks: Sequence[tuple[int, int]]) -> list[int]:
        """Return the next numbers, fewer if no more are left."""
        if not blocks:
            return self._next(len(self._left))
        return self._next(sum(lanes for _, lanes in blocks))

    def noise(self, terms: NoiseTerms, samples: int) -> "Integers":  # noqa: ARG002
        """Return the next numbers, fewer if no more are left."""
        import numpy as np  # once the process is shut off: numpy starts threads

        return np.array(self._next(samples), dtype=np.int64)

    def _next(self, count: int) -> list[int]:
        numbers = self._left[:count]
        del self._left[:count]
        return numbers


if __name__ == "__main__":
    sys.exit(production.main(GivenNumbers([int(word) for word in Path(GIVEN).read_text().split()])))
