"""The options of a run of `thresholds`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from fairshares.harness.errors import OptionError, named
from fairshares.harness.request.commands import Earlier, ReleaseOptions
from fairshares.harness.request.fields import OptionGroup, as_text, optional, switch, usual
from fairshares.harness.request.readers import (
    OneOf,
    as_given,
    in_module,
    parse_grid,
    parse_path,
    parse_tolerance,
)
from fairshares.harness.request.releases import ReleaseCall, ScoredSource, SourceOptions
from fairshares.harness.request.request import BesideTraining, Inputs, Protect, Randomness, Request

if TYPE_CHECKING:
    from fairshares.harness.inputs.record_schema import Grid, RecordDomain, RecordKind
    from fairshares.harness.inputs.records import ClientRecords
    from fairshares.harness.inputs.tables import TabularRecords
    from fairshares.protocols.spec import ProtocolSpec


class ThresholdsRequest(Request):
    """Compute DP score curves per group and thresholds that treat groups alike (π_ROC)."""

    task = "thresholds"
    protocols: ClassVar = {
        "histogram": "pi_roc",
        "records": "pi_roc_records",
    }
    capped_variants = ("histogram", "records")
    beside_training = BesideTraining.DECIDING

    protect = OptionGroup(Protect)
    randomness = OptionGroup(Randomness)
    inputs = OptionGroup(Inputs, input_form={"help": "follows from --variant: split or keys"})
    variant = usual(
        "histogram",
        OneOf(lambda: ThresholdsRequest.protocols),
        "histogram (default: clients count their records per bin of scores) or records (a key per record, "
        "which the parties count; not with mpyc)",
    )
    constraint = usual(
        "equalized_odds",
        OneOf(in_module("fairshares.harness.postprocessing.thresholds.constraints:CONSTRAINTS")),
        "the fairness constraint: equalized_odds (default), equal_opportunity, false_positive_rate_parity, "
        "demographic_parity, four_fifths (the smallest selection rate is at least four fifths of the "
        "largest), accuracy_parity or predictive_parity (as many of the accepted are positive; one threshold "
        "per group)",
    )
    objective = usual(
        "accuracy_score",
        OneOf(in_module("fairshares.harness.postprocessing.thresholds.choose:OBJECTIVES")),
        "what to maximize under the constraint: accuracy_score (default) or balanced_accuracy_score",
    )
    tolerance = optional(
        parse_tolerance,
        "largest difference between groups that the constraint allows; default: 0, with --deterministic "
        "the least achievable; of four_fifths the share by which a rate may fall short, default: 0.2",
    )
    deterministic = switch("one threshold per group, no randomization")
    positive_label = optional(as_given, "the label that counts as positive; default: the last in order")
    blocks = usual(
        "tree",
        OneOf(lambda: ("tree", "flat")),
        "tree (default: counts in blocks of bins, for the least error) or flat (counts in single bins)",
    )

    @property
    def labels_named(self) -> Sequence[str]:
        if not self.positive_label:
            return []
        return [self.positive_label]

    @property
    def spec(self) -> ProtocolSpec:
        return self.specs()[self.variant]


class ThresholdsCall(ReleaseCall):
    """A call of `thresholds`, which may declare where scores are cut."""

    request = OptionGroup(ThresholdsRequest)
    source = OptionGroup(
        ScoredSource,
        records={
            "help": f"{SourceOptions.records.help}; score (from 0 to 1, of records that the model was not "
            "trained on)"
        },
    )
    thresholds = optional(
        parse_grid,
        "where scores are cut: how many thresholds, evenly from 0 to 1, or these, for example 0.3,0.5; "
        "default: those of --domain, else 101",
    )

    @property
    def grid(self) -> Grid:
        """The thresholds beside the domain, or (); RecordDomainError if they make no grid."""
        from fairshares.harness.inputs.record_schema import grid_from_json

        if not self.thresholds:
            return ()
        return grid_from_json(self.thresholds)

    def check_source(self, *, clients_send: bool) -> None:  # noqa: ARG002
        if self.grid and not self.source.records:
            raise OptionError(
                f"{named('thresholds')} goes with {named('records')}: shares have those of the domain they "
                "were made for."
            )

    def with_kind(self, domain: RecordDomain, kind: RecordKind) -> RecordDomain:
        return domain.with_kind(kind, self.grid)

    def read(
        self, source: TabularRecords, domain: RecordDomain | None, max_count: int, kind: RecordKind
    ) -> ClientRecords:
        from fairshares.harness.inputs.records import read_records

        return read_records(source, domain, max_count, kind=kind, grid=self.grid)

    def planned_sizes(self) -> dict[str, str]:
        return {**super().planned_sizes(), "thresholds": as_text(len(self.grid) or None)}


class EarlierCurves(Earlier):
    """The curves of an earlier run, on which thresholds are chosen again."""

    curves = optional(
        parse_path,
        "instead of --records: the directory of an earlier run; chooses on its curves again, for no ε",
    )


class ThresholdsOptions(ReleaseOptions):
    """The options of `thresholds`."""

    again = ("constraint", "objective", "tolerance", "deterministic", "positive_label")
    call = OptionGroup(ThresholdsCall, epsilon={"unless": "curves"})
    earlier = OptionGroup(EarlierCurves)
