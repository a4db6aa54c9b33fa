"""The programs of π_RW: what each takes, and what it reveals."""

from dataclasses import replace

from fairshares.protocols.circuits.slots import slot_bits
from fairshares.protocols.spec import (
    AT_REST,
    CLIENTS,
    PRODUCT,
    REPLICATED,
    SHARES,
    SLOTS,
    SPLIT,
    EachColumn,
    ProtocolSpec,
    cells_of,
)

PI_RW = ProtocolSpec(
    name="pi_rw",
    source="PrivFairFL (Pentyala et al. 2022), Protocol 2",
    arguments=(
        "form",
        "path",
        "parties",
        "clients",
        "parts",
        "groups",
        "labels",
        "epsilon",
        "delta_bits",
    ),
    input_forms={form.name: form for form in (SPLIT, PRODUCT)},
    input_paths=(SHARES, CLIENTS, REPLICATED),
    outputs=("counts",),
    revealed=("noisy count of records per (group, label), to all parties",),
    release=EachColumn(cells_of),
    distributed_noise=True,
)

PI_RW_SLOTS = replace(
    PI_RW,
    name="pi_rw_slots",
    arguments=("parties", "slots", "per_lane", "groups", "labels", "epsilon", "delta_bits"),
    input_forms={SLOTS.name: SLOTS},
    input_paths=AT_REST,
    slot_bits=lambda arguments: slot_bits(cells_of(arguments)),
)

SPECS = (
    PI_RW,
    PI_RW_SLOTS,
)
