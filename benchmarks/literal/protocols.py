"""PrivFairFL's Protocols 1 to 4 as printed, as jobs on records that they make up.

Their outputs are not private, whatever the epsilon.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from fairshares.harness.engines.execution import MadeUpJob
from fairshares.harness.errors import OptionError
from fairshares.harness.hosts.trials import CLONE_PROGRAMS
from fairshares.harness.security_models import SecurityModel
from fairshares.protocols.circuits.literal import FRACTION_BITS, MADE_UP
from fairshares.protocols.spec import NO_INPUT, ProtocolSpec

_SAMPLES = {"pi_lap": 1, "pi_rw": 4, "pi_cf": 0, "pi_roc": 8}  # of noise; of pi_roc, at each threshold


def _fraction_bits(arguments: Mapping[str, str]) -> int:  # noqa: ARG001
    """Return the bits of a sample of noise, whatever the program's arguments are."""
    return FRACTION_BITS


def _spec(
    protocol: str,
    number: int,
    arguments: tuple[str, ...],
    outputs: tuple[str, ...],
    *,
    compares_scores: bool = False,
) -> ProtocolSpec:
    """Return the program of a protocol.

    Args:
        protocol: The protocol.
        number: The protocol's number in the paper.
        arguments: The names of the program's arguments.
        outputs: The names of its lines of outputs.
        compares_scores: Whether it compares all scores with a threshold at once.
    """
    return ProtocolSpec(
        name=f"{protocol}_literal",
        source=f"PrivFairFL (Pentyala et al. 2022), Protocol {number}, as printed; for benchmarks only",
        arguments=arguments,
        input_forms={NO_INPUT.name: NO_INPUT},
        outputs=outputs,
        revealed=("what it computes of records that it makes up, to all parties",),
        portable=False,  # loops, memory and fixed point
        uses_edabits=compares_scores,
        records_at_once=compares_scores,
        fair_bits=_fraction_bits,
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
        compares_scores=True,
    ),
}


# Protocol 4 with its thresholds in vectors, a program of its own: docs/decisions/0090-any-machine.md.
SPECS_IN_VECTORS: Mapping[str, ProtocolSpec] = {
    "pi_roc": replace(
        SPECS["pi_roc"],
        name="pi_roc_together_literal",
        arguments=("data", "at_once", "parties", "records", "thresholds", "epsilon"),
    )
}
IN_VECTORS = "together"  # the name of this form
_LANES = 200_000  # lanes of a vector of comparisons: more gain little, and take more memory


def literal_source(spec: ProtocolSpec) -> Path:
    """Return the file of a literal protocol's program."""
    return CLONE_PROGRAMS / f"{spec.name}.mpc"


@dataclass(frozen=True, kw_only=True)
class LiteralProtocol:
    """A protocol as printed, and its public numbers.

    Attributes:
        protocol: The protocol, by a key of `SPECS`.
        form: How the program takes instances, as `protocols/circuits/literal.py` names forms.
        claimed_epsilon: The epsilon that the protocol claims, which it does not guarantee.
        clients: The number of clients, 0 where the protocol has none, as each other number.
        records: The number of records of all clients.
        thresholds: The number of thresholds.
        samples: The number of samples of noise.
    """

    protocol: str
    form: str
    claimed_epsilon: Fraction = Fraction(1)
    clients: int = 0
    records: int = 0
    thresholds: int = 0
    samples: int = 0

    @property
    def spec(self) -> ProtocolSpec:
        """The program. Raises OptionError if there is none of this protocol."""
        if self.protocol not in SPECS:
            raise OptionError(f"There is no protocol as printed other than {', '.join(SPECS)}.")
        if self.form == IN_VECTORS:
            if self.protocol not in SPECS_IN_VECTORS:
                raise OptionError(f"{self.protocol} as printed has no thresholds to take in vectors.")
            return SPECS_IN_VECTORS[self.protocol]
        return SPECS[self.protocol]

    def job(self, model: SecurityModel) -> MadeUpJob:
        """Return the job of a model's parties, each of which draws bits for the noise.

        Raises:
            OptionError: A number that the protocol takes is 0 or less, or there is no such protocol.
        """
        spec = self.spec
        numbers = {
            "clients": self.clients,
            "records": self.records,
            "thresholds": self.thresholds,
            "samples": self.samples,
        }
        exact: dict[str, Fraction | int] = {"epsilon": self.claimed_epsilon, **numbers}
        for name in spec.arguments:
            if name in exact and exact[name] <= 0:
                raise OptionError(f"{spec.name} takes {name} above 0; got {exact[name]}.")
        at_once = max(1, min(self.thresholds, _LANES // max(1, self.records)))
        given = {
            "data": MADE_UP,
            "form": self.form,
            "at_once": at_once,
            "parties": model.parties,
            **exact,
        }
        samples = _SAMPLES[self.protocol]
        for name in ("samples", "thresholds"):
            if name in spec.arguments:
                samples *= numbers[name]
        fair_bits: tuple[tuple[int, int], ...] = ()
        if samples:
            fair_bits = ((FRACTION_BITS, samples),)
        arguments = tuple(str(given[name]) for name in spec.arguments)
        return MadeUpJob(spec, literal_source(spec), arguments, fair_bits=fair_bits)
