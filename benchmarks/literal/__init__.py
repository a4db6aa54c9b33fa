"""PrivFairFL's Protocols 1 to 4 as printed, measured on records that they make up.

Their outputs are not private, whatever the epsilon. `protocols.py` makes their jobs.
"""

from collections.abc import Mapping
from fractions import Fraction

from benchmarks.literal.protocols import IN_VECTORS, SPECS, SPECS_IN_VECTORS, LiteralProtocol
from fairshares.harness.engines.execution import MadeUpJob
from fairshares.harness.hosts.trials import CloneTrial, ProgramArgument
from fairshares.harness.security_models import SecurityModel
from fairshares.protocols.circuits.literal import AT_ONCE, ONE_BY_ONE
from fairshares.protocols.spec import ProtocolSpec

FORMS = {"literal": ONE_BY_ONE, "literal-at-once": AT_ONCE}  # the form of a cell's variant
TOGETHER = "literal-together"  # the variant of Protocol 4 with its thresholds in vectors
VARIANTS = (*FORMS, TOGETHER)


def literal_of(cell: Mapping[str, str | int | float]) -> ProtocolSpec | None:
    """Return a cell's literal protocol; None if the cell's variant is not a literal form."""
    variant = cell.get("variant")
    protocol = str(cell.get("protocol"))
    if variant == TOGETHER:
        return SPECS_IN_VECTORS.get(protocol)
    if variant not in FORMS:
        return None
    return SPECS.get(protocol)


def literal_protocol(cell: Mapping[str, str | int | float]) -> LiteralProtocol:
    """Return a literal cell's protocol, with the cell's numbers."""
    return LiteralProtocol(
        protocol=str(cell["protocol"]),
        form=FORMS.get(str(cell["variant"]), IN_VECTORS),
        claimed_epsilon=Fraction(str(cell.get("epsilon", 1))),
        clients=int(cell.get("clients", 0)),
        records=int(cell.get("records", 0)),
        thresholds=int(cell.get("thresholds", 0)),
        samples=int(cell.get("samples", 0)),
    )


def literal_job(cell: Mapping[str, str | int | float], model: SecurityModel) -> MadeUpJob:
    """Return a literal cell's job."""
    return literal_protocol(cell).job(model)


def literal_trial(cell: Mapping[str, str | int | float], model: SecurityModel) -> CloneTrial:
    """Return a literal cell's trial at hosts, which have its program in their clones."""
    job = literal_job(cell, model)
    named = job.named_arguments
    return CloneTrial(
        security=model.name,
        parties=model.stated_parties,
        program=job.source.stem,
        arguments=tuple(ProgramArgument(name=name, text=text) for name, text in named.items()),
        fair_bits=job.fair_bits,
        compares_all=job.spec.records_at_once,
    )
