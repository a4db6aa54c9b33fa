"""The layout of a party's shares, bits and noise in files: a class for each input form and path.

Whoever starts a party lays its shares out by such a value, and states it in the party's configuration. The
party's process finds its shares by the same value. Functions import numpy, as a party of plain shares and
bits should not pay for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from fairshares.harness.bounds import Size
from fairshares.harness.engines.parties.noise_terms import NoiseTerms, PositiveInteger
from fairshares.harness.engines.parties.working_directory import (
    DATA,
    PUBLIC_INTEGERS,
    SHARED_BITS,
    kept_shares_file,
    values_file,
)
from fairshares.harness.errors import ShareError

if TYPE_CHECKING:
    import numpy.typing as npt

    from fairshares.harness.engines.parties.randomness import PartyRandomness
    from fairshares.harness.inputs.rings import Ring
    from fairshares.protocols.arrays import Words

RingName = Literal["ring64", "field127"]


class NoShares(Struct, frozen=True, tag="none", forbid_unknown_fields=True):
    """No shares are laid out: there are none, clients send them later, or they come in rounds."""

    def lay_out(self, values: Path, party: int, directory: Path) -> None:  # noqa: ARG002
        """Raise ShareError: a file that nobody reads is a mistake."""
        raise ShareError(f"Party {party} was given a file of values, and its program reads none.")

    def column(self, party: int) -> bytes:  # noqa: ARG002
        """Return no shares."""
        return b""

    def bits(self) -> bytes:
        """Return no bits."""
        return b""


class AdditiveShares(Struct, frozen=True, tag="column", forbid_unknown_fields=True):
    """Additive shares of values, one after the other, in the file that the engine reads."""

    def lay_out(self, values: Path, party: int, directory: Path) -> None:
        """Move the file of values into the party's directory."""
        import shutil

        shutil.move(values, directory / DATA / values_file(party))

    def column(self, party: int) -> bytes:
        """Return the party's shares, from the current directory."""
        return Path(DATA, values_file(party)).read_bytes()

    def bits(self) -> bytes:
        """Return no bits."""
        return b""


class PublicIntegers(Struct, frozen=True, tag="public", forbid_unknown_fields=True):
    """No shares: the integers that a party inputs are public, a line of digits each."""

    def lay_out(self, values: Path, party: int, directory: Path) -> None:  # noqa: ARG002
        """Move the file of integers into the party's directory."""
        import shutil

        shutil.move(values, directory / DATA / PUBLIC_INTEGERS)

    def column(self, party: int) -> bytes:  # noqa: ARG002
        """Return no shares."""
        return b""

    def bits(self) -> bytes:
        """Return the integers, as the engine reads a party's inputs."""
        return Path(DATA, PUBLIC_INTEGERS).read_bytes()


class Slots(Struct, frozen=True, kw_only=True, tag="slots", forbid_unknown_fields=True):
    """Clients' slots, shared bit by bit. They precede the party's own bits in the file of bits.

    Attributes:
        slots: Number of slots of all clients.
        width: Bits of a slot.
        per_lane: Slots that the program counts in one lane.
    """

    slots: PositiveInteger
    width: Annotated[int, Meta(ge=1, le=64)]
    per_lane: PositiveInteger

    def lay_out(self, values: Path, party: int, directory: Path) -> None:
        """Turn the file of values, a word for each slot, into a file of bits.

        Raises ShareError for another number of slots, as bits that are left over would become noise.
        """
        from fairshares.harness.inputs.encoding import input_bits
        from fairshares.harness.inputs.rings import XOR
        from fairshares.harness.system.files import create_file

        words = values.read_bytes()
        if len(words) != self.slots * XOR.value_bytes:
            raise ShareError(
                f"Party {party} holds {len(words) // XOR.value_bytes} slots, not the {self.slots} that "
                "are to be counted."
            )
        create_file(directory / DATA / SHARED_BITS, input_bits(words, self.width, self.per_lane))
        values.unlink()

    def column(self, party: int) -> bytes:  # noqa: ARG002
        """Return no shares: all are bits."""
        return b""

    def bits(self) -> bytes:
        """Return the party's shares of clients' bits, as its engine reads them."""
        return Path(DATA, SHARED_BITS).read_bytes()


class ReplicatedShares(Struct, frozen=True, kw_only=True, tag="replicated", forbid_unknown_fields=True):
    """Replicated shares, in the file in which a virtual machine keeps shares between programs.

    Attributes:
        head: The first bytes of such a file.
        order: The order of a party's shares in each value, as indices into
            `fairshares.harness.inputs.shares.held_by`.
    """

    head: bytes
    order: Annotated[tuple[Size, ...], Meta(min_length=1)]

    def lay_out(self, values: Path, party: int, directory: Path) -> None:
        """Turn the file of values, one share of all values after the other, into the machine's file."""
        from fairshares.harness.inputs.rings import RING
        from fairshares.harness.system.files import create_file

        place = directory / kept_shares_file(party)
        place.parent.mkdir(mode=0o700)
        shares = RING.from_bytes(values.read_bytes()).reshape(len(self.order), -1)
        create_file(place, self.head, RING.to_bytes(shares[list(self.order)].T))
        values.unlink()

    def column(self, party: int) -> bytes:  # noqa: ARG002
        """Return no shares: the machine reads its own file."""
        return b""

    def bits(self) -> bytes:
        """Return no bits."""
        return b""


ShareLayout: TypeAlias = NoShares | AdditiveShares | PublicIntegers | Slots | ReplicatedShares
"""How a party's shares of clients' values lie."""


class NoiseBehindColumn(Struct, frozen=True, kw_only=True, tag="behind", forbid_unknown_fields=True):
    """A party's own noise follows its column of shares, or stands alone.

    Attributes:
        ring: The ring of the shares.
        values: Number of values in the column, 0 if shares come another way.
        samples: Number of noises that the party draws.
        noise: The noise that the party draws.
    """

    ring: RingName
    values: Size
    samples: Size
    noise: NoiseTerms

    def drawn(self, randomness: PartyRandomness) -> npt.ArrayLike:
        """Return the party's own noise, shape (samples,)."""
        return randomness.noise(self.noise, self.samples)

    def with_noise(self, column: bytes, drawn: npt.ArrayLike) -> bytes:
        """Return the shares in a column, followed by noise.

        Guarantees: the program finds the noise, since another number of values raises ShareError.
        [test: tests/harness/engines/test_distributed_noise.py]
        """
        ring = _checked(self.ring, column, self.values)
        return column + ring.to_bytes(_encoded(ring, drawn))


class SumsOfColumn(Struct, frozen=True, kw_only=True, tag="sums", forbid_unknown_fields=True):
    """A party adds its shares up to shares of sums, and its own noise to these.

    Attributes:
        ring: The ring of the shares.
        values: Number of values in the column.
        sums: The numbers of the values that each result is the sum of.
        noise: The noise that the party draws for each sum; None if joint noise is added later.
    """

    ring: RingName
    values: Size
    sums: tuple[Annotated[tuple[Size, ...], Meta(min_length=1)], ...]
    noise: NoiseTerms | None

    def drawn(self, randomness: PartyRandomness) -> npt.ArrayLike:
        """Return the party's own noise, shape (sums,); zeros if joint noise is added."""
        if self.noise is None:
            return [0] * len(self.sums)
        return randomness.noise(self.noise, len(self.sums))

    def with_noise(self, column: bytes, drawn: npt.ArrayLike) -> bytes:
        """Return shares of noisy sums.

        Guarantees: each sum has noise, since other numbers of values or noises raise ShareError.
        [test: tests/harness/engines/test_distributed_noise.py]
        """
        ring = _checked(self.ring, column, self.values)
        noise = _encoded(ring, drawn)
        if len(noise) != len(self.sums):
            raise ShareError(f"This party has {len(self.sums)} sums, and drew noise for {len(noise)}.")
        return ring.to_bytes(ring.add(self._summed(ring, ring.from_bytes(column)), noise))

    def _summed(self, ring: Ring, column: Words) -> Words:
        """Return sums of a column's shares, shape (sums, words)."""
        import numpy as np

        results = np.zeros((len(self.sums), ring.words), dtype=np.uint64)
        for at, added in enumerate(self.sums):
            results[at] = column[added[0]] if len(added) == 1 else ring.total(column[list(added)])
        return results


OwnNoise: TypeAlias = NoiseBehindColumn | SumsOfColumn
"""How a party's own noise enters its input."""


def as_signed_words(name: RingName, column: bytes) -> bytes:
    """Return a column of elements as signed words of 64 bits (`Ring.signed_words`)."""
    from fairshares.harness.inputs.rings import RINGS

    ring = RINGS[name]
    return ring.to_bytes(ring.signed_words(ring.from_bytes(column)))


def _checked(name: RingName, column: bytes, values: int) -> Ring:
    """Return the ring of a column, or raise ShareError for another number of values."""
    from fairshares.harness.inputs.rings import RINGS

    ring = RINGS[name]
    if len(column) != values * ring.value_bytes:
        raise ShareError(
            f"This party holds {len(column) // ring.value_bytes} values, not the {values} that are to be "
            "counted."
        )
    return ring


def _encoded(ring: Ring, drawn: npt.ArrayLike) -> Words:
    import numpy as np

    return ring.encode(np.asarray(drawn, dtype=np.int64))
