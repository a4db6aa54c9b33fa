"""The options of a reveal of a sum of vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from fairshares.harness.errors import OptionError, named
from fairshares.harness.request.fields import OptionGroup, required
from fairshares.harness.request.readers import SHA256, OneOf, Whole, in_module
from fairshares.harness.request.request import (
    DISTRIBUTED,
    JOINT,
    Inputs,
    Protect,
    Randomness,
    Request,
    RevealInSeries,
)

if TYPE_CHECKING:
    from fairshares.harness.inputs.record_schema import RecordDomain
    from fairshares.protocols.accounting.calibration import NeighboringRelation

_MOST_REVEALS = in_module("fairshares.harness.inputs.record_schema:MOST_REVEALS")
_EXAMPLE = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
USUAL_DELTA = "1e-5"  # of all reveals; as of trainings, whose noise for 2^-40 would be half as large again


def parse_name_of_task(text: str, option: str) -> str:
    """Read the name of a task, the SHA-256 of its file."""
    if not SHA256.fullmatch(text):
        raise OptionError(
            f"{named(option)} must be a task's name, of 64 hexadecimal digits, as `task` prints it; "
            f"got {text[:80]!r}."
        )
    return text


class RevealRequest(Request):
    """Reveal the noisy sum of clients' vectors, one of as many as their task declares."""

    task = "sums"
    protocols: ClassVar = {"sums": "pi_rounds"}

    protect = OptionGroup(
        Protect,
        without=("neighboring_relation", "cap", "cap_epsilon"),
        fixed={"privacy_unit": "client"},
        epsilon={"help": "the ε of all reveals that the task declares, in total"},
        delta={"default": USUAL_DELTA, "help": "the δ of all reveals that the task declares, in total"},
    )
    randomness = OptionGroup(
        Randomness,
        without=("noise_family",),
        noise={
            "parse": OneOf(lambda: (JOINT, DISTRIBUTED)),
            "help": "joint (default: made in the computation, known to nobody) or distributed (each party "
            "adds its own); Gaussian in either case",
        },
    )
    inputs = OptionGroup(Inputs, without=("input_form", "input_path"))
    upload_task = required(
        parse_name_of_task, "the name of the task for which clients share vectors", _EXAMPLE
    )
    reveal = required(Whole(1, _MOST_REVEALS), "the number of the reveal for which clients sealed", "1")

    @property
    def series(self) -> RevealInSeries:
        return RevealInSeries(self.upload_task, self.reveal)

    def relation_in(self, domain: RecordDomain) -> NeighboringRelation:  # noqa: ARG002
        """Return the relation of clients: one takes part in all reveals, or in none."""
        from fairshares.protocols.accounting.calibration import NeighboringRelation

        return NeighboringRelation.ZERO_OUT_ONE
