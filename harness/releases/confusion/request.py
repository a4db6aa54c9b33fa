"""The options of a run of `confusion`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, ClassVar

from fairshares.harness.errors import OptionError, named
from fairshares.harness.request.commands import ReleaseOptions
from fairshares.harness.request.fields import OptionGroup, optional
from fairshares.harness.request.readers import as_given, parse_threshold
from fairshares.harness.request.releases import ReleaseCall, ScoredSource, SourceOptions, form_help
from fairshares.harness.request.request import Inputs, Protect, Randomness, Request

if TYPE_CHECKING:
    from fairshares.harness.inputs.record_schema import RecordDomain, RecordKind
    from fairshares.harness.inputs.records import ClientRecords, ScoreCut
    from fairshares.harness.inputs.tables import TabularRecords


class ConfusionRequest(Request):
    """Compute a DP confusion matrix per group (π_CF)."""

    task = "confusion"
    protocols: ClassVar = {"counts": "pi_cf"}
    slots = "pi_cf_slots"

    protect = OptionGroup(Protect)
    randomness = OptionGroup(Randomness)
    inputs = OptionGroup(
        Inputs,
        input_form={"help": form_help("counts per group, label and prediction", "indicators of each record")},
    )
    positive_label = optional(
        as_given,
        "the label whose rates are shown, and which --threshold predicts; default: the last in order; "
        "of more than two labels, each one's rates",
    )

    @property
    def labels_named(self) -> Sequence[str]:
        if not self.positive_label:
            return []
        return [self.positive_label]


class PredictedSource(ScoredSource):
    """The source of records with predictions, or with scores that are cut."""

    prediction = optional(as_given, "the column of predictions; default: prediction")


class ConfusionCall(ReleaseCall):
    """A call of `confusion`, of predictions or of scores that are cut."""

    request = OptionGroup(ConfusionRequest)
    source = OptionGroup(
        PredictedSource,
        score={"help": "with --threshold: the column of scores; default: score"},
        records={"help": f"{SourceOptions.records.help}; prediction (a label); with --threshold: score"},
    )
    threshold = optional(parse_threshold, "predict the positive label from this score on")

    @property
    def cut(self) -> ScoreCut | None:
        """The rule that makes predictions from scores, if any."""
        from fairshares.harness.inputs.records import ScoreCut

        if self.threshold is None:
            return None
        return ScoreCut(self.threshold, self.request.positive_label)

    def check_source(self, *, clients_send: bool) -> None:  # noqa: ARG002
        if self.cut is not None and self.source.prediction:
            raise _two_predictions()
        if self.cut is None and self.source.score:
            raise OptionError(f"{named('score')} goes with {named('threshold')}, from which on it predicts.")
        if self.cut is not None and self.source.shares:
            raise OptionError(
                f"With {named('shares')} the predictions are those that were shared; leave out "
                f"{named('threshold')}."
            )

    def check_columns(self, columns: Collection[str]) -> None:
        if "prediction" in columns and ("score" in columns or self.cut is not None):
            raise _two_predictions()

    def read(
        self, source: TabularRecords, domain: RecordDomain | None, max_count: int, kind: RecordKind
    ) -> ClientRecords:
        from fairshares.harness.inputs.records import read_records

        return read_records(source, domain, max_count, kind=kind, cut=self.cut)


def _two_predictions() -> OptionError:
    return OptionError(
        f"Give either {named('prediction')}, or {named('score')} and {named('threshold')}, which make "
        "predictions."
    )


class ConfusionOptions(ReleaseOptions):
    """The options of `confusion`."""

    call = OptionGroup(ConfusionCall)
