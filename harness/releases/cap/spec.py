"""The programs of π_CAP: what each takes, and what it reveals."""

from dataclasses import replace

from fairshares.protocols.accounting.calibration import AboveThreshold
from fairshares.protocols.circuits.slots import slot_bits
from fairshares.protocols.spec import AT_REST, SLOTS, ProtocolSpec

_PUBLIC = ("caps to choose from", "how many clients may exceed the cap")  # in place of groups and labels

PI_CAP = ProtocolSpec(
    name="pi_cap",
    source="AboveThreshold (Dwork and Roth 2014) for the cap of Amin et al. 2019",
    arguments=("parties", "slots", "per_lane", "queries", "above", "epsilon", "delta_bits"),
    input_forms={SLOTS.name: replace(SLOTS, public=_PUBLIC + SLOTS.public[1:])},
    outputs=("index",),
    revealed=("which cap was chosen, to all parties",),
    release=lambda arguments: AboveThreshold(int(arguments["queries"])),
    uses_edabits=False,
    linear=False,
    slot_bits=lambda arguments: slot_bits(int(arguments["queries"])),
    compared=lambda arguments: int(arguments["queries"]),
    input_paths=AT_REST,
)

SPECS = (PI_CAP,)
