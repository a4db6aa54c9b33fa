"""Public terms of a party's own noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

if TYPE_CHECKING:
    from fairshares.protocols.noise.added import DistributedNoise

PositiveInteger = Annotated[int, Meta(ge=1, le=(1 << 63) - 1)]


class NoiseTerms(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Public terms of `fairshares.protocols.noise.added.DistributedNoise`."""

    distribution: Literal["laplace", "gaussian"]
    rate: Annotated[str, Meta(max_length=1 << 12)]
    edge: PositiveInteger
    parties: PositiveInteger
    honest: PositiveInteger

    def noise(self) -> DistributedNoise:
        """Return the noise with these terms, or raise ValueError."""
        from msgspec.structs import asdict

        from fairshares.protocols.noise.added import DistributedNoise

        return DistributedNoise.from_json(asdict(self))
