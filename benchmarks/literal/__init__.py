"""PrivFairFL's Protocols 1 to 4 as printed, measured on records that they make up.

Their outputs are not private, whatever the epsilon.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from fairshares.harness.engines.execution import MadeUpJob
from fairshares.harness.security_models import SecurityModel
from fairshares.protocols.circuits.literal import AT_ONCE, FRACTION_BITS, MADE_UP, ONE_BY_ONE
from fairshares.protocols.spec import NO_INPUT, ProtocolSpec

FORMS = {"literal": ONE_BY_ONE, "literal-at-once": AT_ONCE}  # by a cell's variant
TOGETHER = (
    "literal-together"  # the variant of Protocol 4 with its thresholds in vectors, a program of its own
)
VARIANTS = (*FORMS, TOGETHER)
_LANES = 200_000  # of a vector of comparisons: more gain little, and take more memory
_SAMPLES = {"pi_lap": 1, "pi_rw": 4, "pi_cf": 0, "pi_roc": 8}  # of noise; of pi_roc, at each threshold


def _spec(protocol: str, number: int, arguments: tuple[str, ...], outputs: tuple[str, ...]) -> ProtocolSpec:
    """Return the program of a protocol, by the protocol's number in the paper."""
    return ProtocolSpec(
        name=f"{protocol}_literal",
        source=f"PrivFairFL (Pentyala et al. 2022), Protocol {number}, as printed; for benchmarks only",
        arguments=arguments,
        input_forms={NO_INPUT.name: NO_INPUT},
        outputs=outputs,
        revealed=("what it computes of records that it makes up, to all parties",),
        portable=False,  # loops, memory and fixed point
        uses_edabits=protocol == "pi_roc",
        records_at_once="thresholds" in arguments,  # all scores are compared with one
        fair_bits=lambda _: FRACTION_BITS,
        made_up=True,
    )


SPECS: Mapping[str, ProtocolSpec] = {
    "pi_lap": _spec("pi_lap", 1, ("parties", "samples", "epsilon"), ("noise",)),
    "pi_rw": _spec("pi_rw", 2, ("data", "form", "parties", "clients", "records", "epsilon"), ("weights",)),
    "pi_cf": _spec("pi_cf", 3, ("data", "form", "parties", "records"), ("counts",)),
    "pi_roc": _spec(
        "pi_roc",
        4,
        ("data", "form", "parties", "records", "thresholds", "epsilon"),
        ("roc_of_protected", "roc_of_others"),
    ),
}


TOGETHER_SPEC = replace(
    SPECS["pi_roc"],
    name="pi_roc_together_literal",
    arguments=("data", "at_once", "parties", "records", "thresholds", "epsilon"),
)


def literal_of(cell: Mapping[str, str | int | float]) -> ProtocolSpec | None:
    """Return a cell's literal protocol; None if the cell's variant is not a literal form."""
    variant = cell.get("variant")
    if variant == TOGETHER:
        return TOGETHER_SPEC if cell.get("protocol") == "pi_roc" else None
    if variant not in FORMS:
        return None
    return SPECS.get(str(cell.get("protocol")))


def literal_source(spec: ProtocolSpec) -> Path:
    """Return the file of a literal protocol's program."""
    return Path(__file__).with_name(f"{spec.name}.mpc")


def literal_job(cell: Mapping[str, str | int | float], model: SecurityModel) -> MadeUpJob:
    """Return a literal cell's job. Each party draws bits for the noise."""
    protocol = str(cell["protocol"])
    told: dict[str, str | int | float] = {**cell, "data": MADE_UP, "parties": model.parties}
    if cell["variant"] == TOGETHER:
        spec = TOGETHER_SPEC
        told["at_once"] = max(1, min(int(cell["thresholds"]), _LANES // int(cell["records"])))
    else:
        spec = SPECS[protocol]
        told["form"] = FORMS[str(cell["variant"])]
    samples = _SAMPLES[protocol]
    for factor in ("samples", "thresholds"):
        if factor in spec.arguments:
            samples *= int(told[factor])
    fair_bits: tuple[tuple[int, int], ...] = ()
    if samples:
        fair_bits = ((FRACTION_BITS, samples),)
    arguments = tuple(str(told[name]) for name in spec.arguments)
    return MadeUpJob(spec, literal_source(spec), arguments, fair_bits=fair_bits)
