"""Noise of a party's own, in what it inputs: from its column of shares to the numbers that the engine reads.

Nothing here draws, keeps or prints noise; `harness.engines.parties.main` draws it, right before the engine
takes the process's place.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import ShareError
from harness.inputs.rings import RINGS, Ring
from protocols.arrays import Words
from protocols.circuits.blocks import block_sizes, block_sums
from protocols.noise.added import OwnNoise


def law_of(told: Mapping[str, Any]) -> OwnNoise:
    """Return the law of a party's noise. Args: told: by `Engine.config`."""
    return OwnNoise.from_json(told["noise"])


def with_noise(told: Mapping[str, Any], held: bytes, drawn: npt.ArrayLike) -> bytes:
    """Return what a party inputs: sums of its values with its noise in them, or values and then noise.

    Guarantees: noise is where the program takes it from, as the party holds no more values than the program
    reads.  [test: tests/harness/engines/test_own_noise.py]
    Args: told: by `Engine.config`; held: the party's column, empty if it holds none; drawn: a noise for each
    value that is opened.
    Raises: ShareError: it holds more or fewer values than the program reads.
    """
    domain = RINGS[told["domain"]]
    if len(held) != told["values"] * domain.value_bytes:
        raise ShareError(
            f"This party holds {len(held) // domain.value_bytes} values, not the {told['values']} that are "
            "to be counted."
        )
    noise = domain.encode(np.asarray(drawn, dtype=np.int64))
    if not held or told["blocks"] is None:
        return held + domain.to_bytes(noise)
    histograms, bins, sizes = told["blocks"]
    column = _Column(domain, domain.from_bytes(held))
    sums = block_sums(_Column, column, histograms, bins, block_sizes(sizes))
    if len(sums.words) != len(noise):
        raise ShareError(f"This party has {len(sums.words)} sums, and drew noise for {len(noise)}.")
    return domain.to_bytes(domain.add(sums.words, noise))


class _Column:
    """A party's column, as far as circuits take it for a secret vector: adding up shares adds up secrets."""

    def __init__(self, domain: Ring, words: Words) -> None:
        self._domain, self.words = domain, words

    def get_vector(self, first: int, size: int) -> "_Column":
        return _Column(self._domain, self.words[first : first + size])

    def sum(self) -> "_Column":
        return _Column(self._domain, self._domain.total(self.words)[np.newaxis])

    @staticmethod
    def concat(parts: "Sequence[_Column]") -> "_Column":
        return _Column(parts[0]._domain, np.concatenate([part.words for part in parts]))
