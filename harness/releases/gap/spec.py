"""The programs of π_GAP: what each takes, and what it reveals."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fairshares.protocols.circuits.slots import slot_bits, value_bits
from fairshares.protocols.spec import (
    AT_REST,
    SLOTS,
    VALUED_SPLIT,
    ColumnNames,
    ColumnSums,
    ProtocolSpec,
    Sums,
)


@dataclass(frozen=True)
class EachDistance(ColumnSums):
    """The release of each group's two columns: clients' distances from either end of the range."""

    shared = True

    def sums(self, arguments: Mapping[str, str], /) -> Sums:
        """Return each column by itself."""
        columns = 2 * int(arguments["groups"])
        return Sums(columns, ColumnNames.first(columns).sums)

    def records(self, arguments: Mapping[str, str], /) -> list[dict[int, int]]:
        """Return the corners: clients at an end of the range, which are twice `steps` from the other end.

        A client v steps from the center adds steps + v to its group's first column and steps - v to the
        second.
        """
        columns = 2 * int(arguments["groups"])
        steps = int(arguments["steps"])
        return [{column: 2 * steps} for column in range(columns)]


PI_GAP = ProtocolSpec(
    name="pi_gap",
    source="the performance gap of Juarez and Korolova 2022, computed by parties instead of local noise",
    arguments=("parties", "groups", "epsilon", "delta_bits"),
    input_forms={VALUED_SPLIT.name: VALUED_SPLIT},
    input_paths=AT_REST,
    outputs=("sums",),
    revealed=(
        "noisy sums, per group, of clients' distances from the lower and from the upper end, to all parties",
    ),
    release=EachDistance(),
    distributed_noise=True,
)

PI_GAP_SLOTS = replace(
    PI_GAP,
    name="pi_gap_slots",
    arguments=("parties", "slots", "per_lane", "groups", "steps", "epsilon", "delta_bits"),
    input_forms={SLOTS.name: replace(SLOTS, public=VALUED_SPLIT.public)},
    slot_bits=lambda arguments: slot_bits(int(arguments["groups"])) + value_bits(int(arguments["steps"])),
)

SPECS = (
    PI_GAP,
    PI_GAP_SLOTS,
)
