"""Numbers and texts with the bounds that they have in files."""

import re
from typing import Annotated

from msgspec import Meta

Size = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
"""A number of things."""

Seconds = Annotated[float, Meta(ge=0, lt=1e9)]

ClockDifference = Annotated[float, Meta(ge=-1e9, le=1e9)]
"""Seconds between two readings of clocks, which may be just below 0."""

PerParty = Annotated[list[Size], Meta(max_length=64)]
"""A figure of each party, in the order of the parties."""

Count = Annotated[float, Meta(ge=-(2**80), le=2**80)]
"""A noisy count of records or clients, or an end of its interval; revealed sums are below 2^62."""

Deviation = Annotated[float, Meta(ge=0, le=2**80)]
"""A standard error of a count."""

Share = Annotated[float, Meta(ge=-1e-9, le=1 + 1e-9)]
"""A rate or a probability, up to rounding."""

Positive = Annotated[float, Meta(gt=0)]

NotNegative = Annotated[float, Meta(ge=0)]

Name = Annotated[str, Meta(max_length=1 << 20)]
"""A group, a label, or an option's value."""

Names = Annotated[list[Name], Meta(max_length=1 << 20)]

NumberOfParties = Annotated[int, Meta(ge=2, le=64)]
"""How many parties a run has, where that is not the usual number of its security model."""

Port = Annotated[int, Meta(ge=0, lt=1 << 16)]

HOST_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")

HostName = Annotated[str, Meta(pattern=rf"^(?:{HOST_NAME.pattern})\Z", max_length=255)]
"""A host's name, or its IPv4 address."""

Address = tuple[HostName, Port]
"""Where a host is reached."""
