"""All releases, each a class that declares everything to ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from harness.errors import OptionError, named, refuse
from harness.request.base import AT_REST, Account, Inputs, Protect, Randomness, Request, Where
from harness.request.fields import Options, Part, as_text, optional, required, switch, usual
from harness.request.readers import (
    as_given,
    in_module,
    one_of,
    parse_choice,
    parse_epsilon,
    parse_grid,
    parse_input_path,
    parse_max_count,
    parse_names,
    parse_path,
    parse_range,
    parse_share,
    parse_threshold,
    parse_tolerance,
    whole,
)

if TYPE_CHECKING:
    from pathlib import Path

    from harness.inputs.record_schema import Grid
    from harness.inputs.records import ScoreCut
    from protocols.mechanisms.shifted_log import ErrorTarget
    from protocols.spec import ProtocolSpec

CAPPED_CURVES = ("histogram", "records")  # variants of thresholds with a bound, the default first


class Source(Options):
    """The source of clients' records."""

    records = optional(
        parse_path,
        "CSV or Parquet, a file, directory or glob, with group, label, and client_id where clients have "
        "several",
    )
    shares = optional(
        parse_path, "instead of --records: what parties' `aggregate` wrote; or uploads with all keys"
    )


class DeclaredDomain(Options):
    """A declaration of the groups, labels and sizes that records may have; or a file's name that has it."""

    domain = optional(
        parse_path,
        'JSON file: {"groups": [...], "labels": [...], "max_count": n, "thresholds": t}, the last two '
        "optional; t: a list of thresholds, or how many, evenly from 0 to 1 (default: 101)",
    )
    groups = optional(parse_names, "all groups, for example a,b; with --labels, instead of --domain")
    labels = optional(parse_names, "all labels, for example 0,1")
    max_count = optional(parse_max_count, "most records of one client; default: 2^31")
    range = optional(
        parse_range, "ends of the range of clients' performance values, for example 0,1; with --groups"
    )
    steps = optional(
        whole(1, in_module("harness.inputs.record_schema:MAX_STEPS")),
        "values are rounded to so many steps on each side of the range's center; default: 1000",
    )


class Invitations(Options):
    """Clients that are invited to send during the run."""

    invite = optional(
        parse_path,
        "instead of --records: a new directory for the clients' invitations, by which each sends "
        "during the run (needs MP-SPDZ)",
    )
    clients = optional(
        whole(1, in_module("harness.online.session:MAX_CONNECTIONS")), "how many clients are invited"
    )


class ReleaseCall(Options):
    """A request with everything needed to run it."""

    also = "--records my.csv"

    request = Part(Request)
    source = Part(Source)
    declares = Part(DeclaredDomain, without=("range", "steps"))
    account = Part(Account)
    where = Part(Where)

    @property
    def grid(self) -> Grid:
        """The thresholds beside the domain, or ()."""
        return ()

    @property
    def cut(self) -> ScoreCut | None:
        """The rule that makes predictions from scores, if any."""
        return None


def _form_help(usually: str, other: str) -> str:
    slots = "or slots (default with --privacy-unit client: no client can exceed the cap)"
    return f"split (default: {usually}), product ({other}) {slots}"


class WeightsRequest(Request):
    """Compute DP sample weights per group and label (π_RW)."""

    task = "weights"
    statistic = "weights:WeightsStatistic"
    protocols: ClassVar = {"counts": "pi_rw"}
    slots = "pi_rw_slots"
    online = True

    protect = Part(Protect)
    randomness = Part(Randomness)
    inputs = Part(
        Inputs,
        input_form={"help": _form_help("counts per group and label", "group indicator times label counts")},
        input_path={
            "parse": parse_input_path,
            "help": f"{AT_REST}; or clients: each sends during the run. By the last two active models take "
            "product, too",
        },
    )
    reweighing = usual(
        "kamiran-calders",
        one_of(in_module("harness.reweighing.formulas:REWEIGHINGS")),
        "kamiran-calders (default), balanced or label; all from the same noisy counts",
    )


class ConfusionRequest(Request):
    """Compute a DP confusion matrix per group (π_CF)."""

    task = "confusion"
    statistic = "confusion:ConfusionStatistic"
    protocols: ClassVar = {"counts": "pi_cf"}
    slots = "pi_cf_slots"

    protect = Part(Protect)
    randomness = Part(Randomness)
    inputs = Part(
        Inputs,
        without=("chain",),
        input_form={
            "help": _form_help("counts per group, label and prediction", "indicators of each record")
        },
    )
    positive_label = optional(
        as_given,
        "the label whose rates are shown, and which --threshold predicts; default: the last in order; "
        "of more than two labels, each one's rates",
    )

    @property
    def labels_named(self) -> Sequence[str]:
        return [self.positive_label] if self.positive_label else []


class ThresholdsRequest(Request):
    """Compute DP score curves per group and thresholds that treat groups alike (π_ROC)."""

    task = "thresholds"
    statistic = "score_curves:ThresholdsStatistic"
    protocols: ClassVar = {
        "histogram": "pi_roc",
        "records": "pi_roc_records",
    }

    protect = Part(Protect)
    randomness = Part(Randomness)
    inputs = Part(Inputs, without=("chain",), input_form={"help": "follows from --variant: split or keys"})
    variant = usual(
        "histogram",
        one_of(lambda: ThresholdsRequest.protocols),
        "histogram (default: clients count their records per bin of scores) or records (a key per record, "
        "which the parties count; not with mpyc)",
    )
    constraint = usual(
        "equalized_odds",
        one_of(in_module("harness.postprocessing.thresholds.choose:CONSTRAINTS")),
        "the fairness constraint: equalized_odds (default), equal_opportunity, false_positive_rate_parity or "
        "demographic_parity",
    )
    objective = usual(
        "accuracy_score",
        one_of(in_module("harness.postprocessing.thresholds.choose:OBJECTIVES")),
        "what to maximize under the constraint: accuracy_score (default) or balanced_accuracy_score",
    )
    tolerance = optional(
        parse_tolerance,
        "largest difference between groups that the constraint allows; default: 0, with --deterministic "
        "the least achievable",
    )
    deterministic = switch("one threshold per group, no randomization")
    positive_label = optional(as_given, "the label that counts as positive; default: the last in order")
    blocks = usual(
        "tree",
        one_of(lambda: ("tree", "flat")),
        "tree (default: counts in blocks of bins, for the least error) or flat (counts in single bins)",
    )

    @property
    def labels_named(self) -> Sequence[str]:
        return [self.positive_label] if self.positive_label else []

    @property
    def spec(self) -> ProtocolSpec:
        return self.specs()[self.variant]


class GapRequest(Request):
    """Compute DP gaps between groups' mean performance values (π_GAP)."""

    task = "gap"
    statistic = "gaps:GapStatistic"
    protocols: ClassVar = {"sums": "pi_gap"}
    slots = "pi_gap_slots"

    protect = Part(
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
    randomness = Part(Randomness)
    inputs = Part(
        Inputs,
        without=("chain",),
        input_form={
            "help": "split (default: the value and the size, in the client's group) or slots (default with "
            "--privacy-unit client: no client can go beyond the range)"
        },
    )


_COUNT = whole(1, in_module("protocols.mechanisms.shifted_log:MOST_COUNT"))


class CountRequest(Request):
    """Count records per group and label, with more privacy for larger groups (π_COUNT)."""

    task = "count"
    statistic = "counts:CountStatistic"
    protocols: ClassVar = {"logarithms": "pi_count"}

    protect = Part(
        Protect,
        without=("cap", "cap_epsilon"),
        epsilon={
            "help": "the ε of a record in a small group, which is charged; in larger groups a record's ε is "
            "smaller"
        },
    )
    randomness = Part(Randomness, without=("noise",))
    relative_error = usual(
        "0.1", parse_share, "average relative error of a count: 0.1 (default) is a tenth of it"
    )
    error_from = usual("100", _COUNT, "the smallest count that has to keep to --relative-error")
    error_to = usual("1048576", _COUNT, "the largest")

    @property
    def target(self) -> ErrorTarget:
        """The target error; an empty range raises OptionError."""
        from protocols.mechanisms.shifted_log import ErrorTarget

        low, high = self.error_from, self.error_to
        if low > high:
            raise OptionError(
                f"{named('error_from', low)} is above {named('error_to', high)}; give a range of counts."
            )
        return ErrorTarget(self.relative_error, low, high)


class CapRequest(Request):
    """Choose how many records of a client are to count, with differential privacy (π_CAP)."""

    task = "cap"
    statistic = "contribution_cap:CapStatistic"
    protocols: ClassVar = {"index": "pi_cap"}

    protect = Part(
        Protect,
        without=("neighboring_relation", "cap", "cap_epsilon"),
        fixed={"privacy_unit": "client"},
    )
    release = usual(
        "weights",
        one_of(lambda: (*capped_releases(), "counts")),
        "the release that the cap is for: weights (default), confusion, thresholds, or counts of records",
    )
    release_epsilon = required(
        parse_epsilon,
        "ε of the release that the cap is for; the smaller it is, the more clients may exceed the cap",
        "1",
    )
    counts = optional(
        whole(1, 10**6),
        "with --release counts: the number of counts, each record being in one of them; 1 for a single sum",
    )
    variant = optional(
        as_given, "with --release thresholds: histogram (default) or records, as it will be run"
    )
    thresholds = optional(
        whole(2, in_module("harness.inputs.record_schema:MAX_THRESHOLDS")),
        "with --release thresholds: how many; default: those of --domain, else 101",
    )

    @property
    def curves(self) -> ProtocolSpec | None:
        """The protocol of the curves that the bound is for, if any; raises OptionError for conflicts."""
        from protocols.accounting.rounding import exact_text
        from protocols.circuits.coins import MIN_EPSILON

        refuse(
            OptionError,
            (
                (self.release == "counts") != bool(self.counts),
                f"{named('release', 'counts')} and {named('counts')} (how many; 1 for one sum) go together.",
            ),
            (
                (self.variant or self.thresholds) and self.release != ThresholdsRequest.task,
                f"{named('variant' if self.variant else 'thresholds')} goes with "
                f"{named('release', 'thresholds')} only.",
            ),
            (
                self.release_epsilon < MIN_EPSILON,  # also keeps the number of clients within an integer
                f"{named('release_epsilon', exact_text(self.release_epsilon))} is too small; give at least "
                f"{exact_text(MIN_EPSILON)}.",
            ),
        )
        if self.release != ThresholdsRequest.task:
            return None
        return ThresholdsRequest.specs()[
            parse_choice("variant", self.variant or CAPPED_CURVES[0], list(CAPPED_CURVES))
        ]

    def also_needed(self) -> Sequence[Request]:
        if self.curves is None:
            return ()
        return (ThresholdsRequest(epsilon=1, security=self.model.name, variant=self.variant),)

    def with_domain_of(self, file: Path) -> CapRequest:
        from harness.inputs.record_schema import read_domain

        if self.release != ThresholdsRequest.task:
            return self
        return self.but(thresholds=len(read_domain(file).thresholds) or None)


class NoiseRequest(Request):
    """Reveal samples of noise, which then protect nothing, for audits and benchmarks (π_LAP)."""

    task = "noise"
    protocols: ClassVar = {"default": "pi_lap"}

    protect = Part(Protect, without=("privacy_unit", "neighboring_relation", "cap", "cap_epsilon"))


class WeightsCall(ReleaseCall):
    """A call of `weights`."""

    request = Part(WeightsRequest)


class ConfusionCall(ReleaseCall):
    """A call of `confusion`, of predictions or of scores that are cut."""

    request = Part(ConfusionRequest)
    source = Part(
        Source,
        records={"help": f"{Source.records.help}; prediction (a label); with --threshold: score"},
    )
    threshold = optional(parse_threshold, "predict the positive label from this score on")

    @property
    def cut(self) -> ScoreCut | None:
        from harness.inputs.records import ScoreCut

        if self.threshold is None:
            return None
        return ScoreCut(self.threshold, self.request.positive_label or "")


class ThresholdsCall(ReleaseCall):
    """A call of `thresholds`, which may declare where scores are cut."""

    request = Part(ThresholdsRequest)
    source = Part(
        Source,
        records={
            "help": f"{Source.records.help}; score (from 0 to 1, of records that the model was not trained "
            "on)"
        },
    )
    thresholds = optional(
        parse_grid,
        "where scores are cut: how many thresholds, evenly from 0 to 1, or these, for example 0.3,0.5; "
        "default: those of --domain, else 101",
    )

    @property
    def grid(self) -> Grid:
        from harness.inputs.record_schema import grid_from_json

        return grid_from_json(self.thresholds) if self.thresholds else ()


class GapCall(ReleaseCall):
    """A call of `gap`, of performance values."""

    also = "--records values.csv --groups a,b --range 0,1"

    request = Part(GapRequest)
    source = Part(
        Source,
        records={"help": "CSV or Parquet with group, value: a number, or a fraction of counts as 17/20"},
    )
    declares = Part(
        DeclaredDomain,
        without=("labels", "max_count"),
        domain={
            "help": 'JSON file: {"groups": [...], "values": {"low": x, "high": y, "steps": n}}, steps '
            "optional"
        },
        groups={"help": "all groups, for example a,b; with --range, instead of --domain"},
    )


class CountCall(ReleaseCall):
    """A call of `count`."""

    request = Part(CountRequest)


class CapCall(ReleaseCall):
    """A call of `cap`, whose noise is not made ahead."""

    request = Part(CapRequest)
    declares = Part(
        DeclaredDomain,
        without=("range", "steps"),
        max_count={"help": "most records of one client, and the largest cap, up to 1000"},
    )
    where = Part(Where, without=("stock",))


CALLS: Mapping[str, type[ReleaseCall]] = {
    call.request.kind.task: call
    for call in (WeightsCall, ConfusionCall, ThresholdsCall, GapCall, CountCall, CapCall)
}


REQUESTS: Mapping[str, type[Request]] = {task: call.request.kind for task, call in CALLS.items()}


def capped_releases() -> tuple[str, ...]:
    """Return the tasks whose releases take a contribution bound."""
    return tuple(task for task, kind in REQUESTS.items() if "cap" in kind.declared)


def request_from_json(fields: object) -> Request:
    """Return the request that `Request.to_json` wrote, or raise OptionError."""
    given = dict(fields) if isinstance(fields, Mapping) else {}
    task = given.pop("task", None)
    try:
        kind = REQUESTS[str(task)]
        for name, text in given.items():
            if name not in kind.declared or not isinstance(text, str):
                raise OptionError("a field that no such request has")
            if kind.declared[name].parse is None and text != as_text(True):
                raise OptionError("a switch that is neither left out nor on")
        request = kind(**given)
        _ = request.form
    except (KeyError, OptionError):
        raise OptionError(
            f"The run that is asked for ({str(task)[:20]}) is none that this version knows; both machines "
            "need the same commit."
        ) from None
    return request
