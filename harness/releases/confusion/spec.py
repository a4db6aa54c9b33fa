"""The programs of π_CF: what each takes, and what it reveals."""

from collections.abc import Mapping
from dataclasses import replace

from fairshares.protocols.circuits.slots import slot_bits
from fairshares.protocols.spec import AT_REST, PRODUCT_PER_RECORD, SLOTS, SPLIT, EachColumn, ProtocolSpec


def _cells(arguments: Mapping[str, str]) -> int:
    return int(arguments["groups"]) * int(arguments["labels"]) ** 2


PI_CF = ProtocolSpec(
    name="pi_cf",
    source="PrivFairFL (Pentyala et al. 2022), Protocol 3",
    arguments=("form", "parties", "records", "groups", "labels", "epsilon", "delta_bits"),
    input_forms={form.name: form for form in (SPLIT, PRODUCT_PER_RECORD)},
    input_paths=AT_REST,
    outputs=("counts",),
    revealed=("noisy count of records per (group, label, predicted label), to all parties",),
    release=EachColumn(_cells),
    distributed_noise=True,
)

PI_CF_SLOTS = replace(
    PI_CF,
    name="pi_cf_slots",
    arguments=("parties", "slots", "per_lane", "groups", "labels", "epsilon", "delta_bits"),
    input_forms={SLOTS.name: SLOTS},
    slot_bits=lambda arguments: slot_bits(_cells(arguments)),
)

SPECS = (
    PI_CF,
    PI_CF_SLOTS,
)
