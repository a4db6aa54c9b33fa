"""The options of a run of `gap`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from fairshares.harness.errors import OptionError, named
from fairshares.harness.request.commands import ReleaseOptions
from fairshares.harness.request.fields import OptionGroup, as_text, optional
from fairshares.harness.request.plans import Expected
from fairshares.harness.request.readers import Whole, as_given, in_module, parse_range
from fairshares.harness.request.releases import DeclaredDomain, ReleaseCall, SourceOptions
from fairshares.harness.request.request import Inputs, Protect, Randomness, Request

if TYPE_CHECKING:
    from fairshares.harness.inputs.record_schema import RecordDomain, RecordKind


STEPS = optional(
    Whole(1, in_module("fairshares.harness.inputs.record_schema:MAX_STEPS")),
    "values are rounded to so many steps on each side of the range's center; default: 1000",
)


class GapRequest(Request):
    """Compute DP gaps between groups' mean performance values (π_GAP)."""

    task = "gap"
    protocols: ClassVar = {"sums": "pi_gap"}
    slots = "pi_gap_slots"

    protect = OptionGroup(
        Protect,
        without=("cap", "cap_epsilon"),
        privacy_unit={
            "help": "record (default: a client's value replaced or removed), or client (all it sends, there "
            "or not)"
        },
        neighboring_relation={
            "help": "replace_one (default: a client's group and value) or add_or_remove_one"
        },
    )
    randomness = OptionGroup(Randomness)
    inputs = OptionGroup(
        Inputs,
        input_form={
            "help": "split (default: the value and the size, in the client's group) or slots (default with "
            "--privacy-unit client: no client can go beyond the range)"
        },
    )

    @property
    def needs_smaller_table(self) -> str:
        return f"fewer {named('steps')}"


class DeclaredValues(DeclaredDomain):
    """A declaration of groups, and of the range of performance values."""

    range = optional(
        parse_range, "ends of the range of clients' performance values, for example 0,1; with --groups"
    )
    steps = STEPS

    def of_kind(self, kind: RecordKind) -> RecordDomain | None:
        from fairshares.harness.inputs.record_schema import RecordKind

        if kind is RecordKind.VALUE and (self.range or self.steps or not self.domain):
            return self._of_values()
        for_values = self.stated("range", "steps")
        if kind is not RecordKind.VALUE and for_values:
            raise OptionError(
                f"{named(for_values[0])} is for performance values, and these are records with a label; "
                "leave it out."
            )
        return super().of_kind(kind)

    def _of_values(self) -> RecordDomain:
        """Return the domain that is declared without a file; OptionError if it is not declared whole."""
        from fairshares.harness.inputs.record_schema import (
            DEFAULT_STEPS,
            RecordDomain,
            RecordKind,
            Rounding,
            ValueGrid,
        )

        if self.domain or self.labels or self.max_count or not (self.groups and self.range):
            raise OptionError(
                f"Declare performance values by {named('groups')} and {named('range')} and, if wanted, "
                f"{named('steps')}; or all by {named('domain')}."
            )
        low, high = self.range
        values = ValueGrid(low, high, self.steps or DEFAULT_STEPS, Rounding.RANDOM)
        return RecordDomain(tuple(sorted(self.groups)), (), 1, kind=RecordKind.VALUE, values=values)


class ValuedSource(SourceOptions):
    """The source of performance values."""

    value = optional(as_given, "the column of values; default: value")


class GapCall(ReleaseCall):
    """A call of `gap`, of performance values."""

    also = "--records values.csv --groups a,b --range 0,1"

    request = OptionGroup(GapRequest)
    source = OptionGroup(
        ValuedSource,
        without=("label",),
        records={"help": "CSV or Parquet with group, value: a number, or a fraction of counts as 17/20"},
    )
    declares = OptionGroup(
        DeclaredValues,
        without=("labels", "max_count"),
        domain={
            "help": 'JSON file: {"groups": [...], "values": {"low": x, "high": y, "steps": n}}, steps '
            "optional"
        },
        groups={"help": "all groups, for example a,b; with --range, instead of --domain"},
    )

    def planned_sizes(self) -> dict[str, str]:
        return {**super().planned_sizes(), "steps": as_text(self.declares.steps)}


class ExpectedValues(Expected):
    """Sizes of a planned federation whose clients have performance values."""

    steps = STEPS

    @property
    def value_steps(self) -> int | None:
        return self.steps


class GapOptions(ReleaseOptions):
    """The options of `gap`."""

    expected = ExpectedValues

    call = OptionGroup(GapCall)
