"""Bits and noise that a party draws, fresh from the operating system."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairshares.harness.engines.parties.noise_terms import NoiseTerms

if TYPE_CHECKING:
    from fairshares.protocols.arrays import Integers


class PartyRandomness:
    """A party's source of fair bits and of its own noise.

    A process has no other: no file, variable or argument takes its place.
    [test: tests/harness/engines/test_party_bits.py]
    """

    def integers(self, blocks: Sequence[tuple[int, int]]) -> list[int]:
        """Return uniform integers: for each block (width, lanes) `lanes` integers of `width` bits."""
        drawn: list[int] = []
        for width, lanes in blocks:
            for _ in range(lanes):
                drawn.append(secrets.randbits(width))
        return drawn

    def noise(self, terms: NoiseTerms, samples: int) -> Integers:
        """Return noises of this party alone, shape (samples,)."""
        return terms.noise().draw(samples)


def integers_as_text(integers: Sequence[int]) -> bytes:
    """Return integers as engines read them from a party's file of bits, one a line."""
    return "".join(f"{integer}\n" for integer in integers).encode()
