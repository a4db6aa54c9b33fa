"""All releases, each a class that declares everything to ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from harness.errors import OptionError, named, refuse
from harness.request.base import AT_REST, DISTRIBUTED, DISTRIBUTED_GAUSSIAN, JOINT, Account, Request, Run
from harness.request.fields import Option, Options, optional, required, switch, usual
from harness.request.readers import (
    as_given,
    in_module,
    one_of,
    parse_cap,
    parse_cap_or_auto,
    parse_choice,
    parse_epsilon,
    parse_grid,
    parse_input_path,
    parse_max_count,
    parse_names,
    parse_path,
    parse_population,
    parse_range,
    parse_relation,
    parse_share,
    parse_threshold,
    parse_tolerance,
    whole,
)

if TYPE_CHECKING:
    from pathlib import Path

    from protocols.mechanisms.shifted_log import ErrorTarget
    from protocols.spec import ProtocolSpec

RANGE = optional(
    parse_range, "ends of the range of clients' performance values, for example 0,1; with --groups"
)
STEPS = optional(
    whole(1, in_module("harness.inputs.record_schema:MAX_STEPS")),
    "values are rounded to so many steps on each side of the range's center; default: 1000",
)
STOCK = optional(
    parse_path,
    "the directory of noise made ahead, by --preprocess, for --offline; default: stock, beside the ledger",
)


class Records(Options):
    """The source of clients' records, and their domain."""

    records: Option[Path | None] = optional(
        parse_path,
        "CSV or Parquet, a file, directory or glob, with group, label, and client_id where clients have "
        "several",
    )
    shares = optional(
        parse_path, "instead of --records: what parties' `aggregate` wrote; or uploads with all keys"
    )
    domain = optional(
        parse_path,
        'JSON file: {"groups": [...], "labels": [...], "max_count": n, "thresholds": t}, the last two '
        "optional; t: a list of thresholds, or how many, evenly from 0 to 1 (default: 101)",
    )
    groups = optional(parse_names, "all groups, for example a,b; with --labels, instead of --domain")
    labels: Any = optional(parse_names, "all labels, for example 0,1")
    max_count: Any = optional(parse_max_count, "most records of one client; default: 2^31")
    # Fields of some releases only.
    range: Any = None
    steps: Any = None
    threshold: Any = None
    invite: Any = None
    clients: Any = None


class ReleaseCall(Run, Account, Records, Request):
    """A request with everything needed to run it."""

    requested: ClassVar[type[Request]]

    stock: Any = None

    @property
    def request(self) -> Any:
        """The request alone."""
        return self.requested.of(self)


CAPPED_RELEASES = ("weights", "confusion", "thresholds")
CAPPED_CURVES = ("histogram", "records")  # variants of thresholds with a bound, the default first

INPUT_FORM = optional(
    as_given,
    "split (default: counts per group and label) or product (group indicator times label counts)",
)
CAP_OF_SHARES = optional(
    parse_cap,
    "how many records of a client count, for example 10; or weight-one: all count, with a total weight of 1",
)
NOISES = one_of(lambda: (JOINT, DISTRIBUTED, DISTRIBUTED_GAUSSIAN))


def _form(usually: str, other: str) -> Option[str | None]:
    slots = "or slots (default with --privacy-unit client: no client can exceed the cap)"
    return INPUT_FORM.but(help=f"split (default: {usually}), product ({other}) {slots}")


class SumsRequest(Request):
    """A release of sums, to which the parties add noise."""

    neighboring_relation = optional(
        parse_relation, "add_or_remove_one or replace_one; default: the latter where --max-count is 1"
    )
    noise = usual(
        JOINT,
        NOISES,
        "joint (default: made in the computation, known to nobody) or distributed (each party adds its own: "
        "much faster, with larger errors; a party that deviates can shift the result unnoticed), which adds "
        "up to Laplace's; or distributed-gaussian, which adds up to Gauss's",
    )
    offline = switch("take joint noise that --preprocess made before; refused where none fits")


class CappedRequest(SumsRequest):
    """A release that can protect all records of a client, up to a cap."""

    cap = optional(
        parse_cap_or_auto,
        f"with --privacy-unit client: {CAP_OF_SHARES.help}; or auto, with --records: π_CAP chooses it first, "
        "in a release of its own",
    )
    cap_epsilon = optional(
        parse_epsilon, "the part of ε that --cap auto spends on choosing the cap; default: a fifth"
    )


class WeightsRequest(CappedRequest):
    """Compute DP sample weights per group and label (π_RW)."""

    task = "weights"
    statistic = "weights:WeightsStatistic"
    protocols: ClassVar = {"counts": "pi_rw"}
    slots = "pi_rw_slots"
    online = True

    input_form = _form("counts per group and label", "group indicator times label counts")
    input_path = usual(
        "shares",
        parse_input_path,
        f"{AT_REST}; or clients: each sends during the run. By the last two active models take product, too",
    )
    reweighing = usual(
        "kamiran-calders",
        one_of(in_module("harness.reweighing.formulas:REWEIGHINGS")),
        "kamiran-calders (default), balanced or label; all from the same noisy counts",
    )
    chain = optional(
        parse_population,
        "a name of your choice, with --shares or --hosts: runs that have it count new uploads each, and "
        "spend ε once together, if clients share each record once",
    )


class ConfusionRequest(CappedRequest):
    """Compute a DP confusion matrix per group (π_CF)."""

    task = "confusion"
    statistic = "confusion:ConfusionStatistic"
    of_call: ClassVar = {
        "records": Records.records.but(
            help=f"{Records.records.help}; prediction (a label); with --threshold: score"
        ),
        "threshold": optional(parse_threshold, "predict the positive label from this score on"),
    }
    protocols: ClassVar = {"counts": "pi_cf"}
    slots = "pi_cf_slots"

    input_form = _form("counts per group, label and prediction", "indicators of each record")
    positive_label = optional(
        as_given,
        "the label whose rates are shown, and which --threshold predicts; default: the last in order; "
        "of more than two labels, each one's rates",
    )


class ThresholdsRequest(CappedRequest):
    """Compute DP score curves per group and thresholds that treat groups alike (π_ROC)."""

    task = "thresholds"
    statistic = "score_curves:ThresholdsStatistic"
    of_call: ClassVar = {
        "records": Records.records.but(
            help=f"{Records.records.help}; score (from 0 to 1, of records that the model was not trained on)"
        ),
        "thresholds": optional(
            parse_grid,
            "where scores are cut: how many thresholds, evenly from 0 to 1, or these, for example 0.3,0.5; "
            "default: those of --domain, else 101",
        ),
    }
    protocols: ClassVar = {
        "histogram": "pi_roc",
        "records": "pi_roc_records",
    }

    input_form = INPUT_FORM.but(help="follows from --variant: split or keys")
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


class GapRequest(SumsRequest):
    """Compute DP gaps between groups' mean performance values (π_GAP)."""

    task = "gap"
    statistic = "gaps:GapStatistic"
    of_call: ClassVar = {
        "records": Records.records.but(
            help="CSV or Parquet with group, value: a number, or a fraction of counts as 17/20"
        ),
        "domain": Records.domain.but(
            help='JSON file: {"groups": [...], "values": {"low": x, "high": y, "steps": n}}, steps optional'
        ),
        "groups": Records.groups.but(help="all groups, for example a,b; with --range, instead of --domain"),
        "labels": None,
        "max_count": None,
        "range": RANGE,
        "steps": STEPS,
    }
    also = "--records values.csv --groups a,b --range 0,1"
    protocols: ClassVar = {"sums": "pi_gap"}
    slots = "pi_gap_slots"

    input_form = INPUT_FORM.but(
        help="split (default: the value and the size, in the client's group) or slots (default with "
        "--privacy-unit client: no client can go beyond the range)"
    )
    neighboring_relation = SumsRequest.neighboring_relation.but(
        help="replace_one (default: a client's group and value) or add_or_remove_one"
    )
    privacy_unit = Request.privacy_unit.but(
        help="record (default: a client's value replaced or removed), or client (all it sends, there or not)"
    )


_COUNT = whole(1, in_module("protocols.mechanisms.shifted_log:MOST_COUNT"))


class CountRequest(
    Request,
    epsilon={
        "help": "the ε of a record in a small group, which is charged; in larger groups a record's ε is "
        "smaller"
    },
):
    """Count records per group and label, with more privacy for larger groups (π_COUNT)."""

    task = "count"
    statistic = "counts:CountStatistic"
    protocols: ClassVar = {"logarithms": "pi_count"}

    relative_error = usual(
        "0.1", parse_share, "average relative error of a count: 0.1 (default) is a tenth of it"
    )
    error_from = usual("100", _COUNT, "the smallest count that has to keep to --relative-error")
    error_to = usual("1048576", _COUNT, "the largest")
    neighboring_relation = SumsRequest.neighboring_relation
    offline = SumsRequest.offline

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
    of_call: ClassVar = {
        "max_count": Records.max_count.but(help="most records of one client, and the largest cap, up to 1000")
    }
    protocols: ClassVar = {"index": "pi_cap"}

    release = usual(
        "weights",
        one_of(lambda: (*CAPPED_RELEASES, "counts")),
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
    def privacy_unit(self) -> Any:
        """The client."""
        from protocols.accounting.calibration import PrivacyUnit

        return PrivacyUnit.CLIENT

    @property
    def spec(self) -> ProtocolSpec:
        return next(iter(self.specs().values()))

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
                (self.variant or self.thresholds) and self.release != "thresholds",
                f"{named('variant' if self.variant else 'thresholds')} goes with "
                f"{named('release', 'thresholds')} only.",
            ),
            (
                self.release_epsilon < MIN_EPSILON,  # also keeps the number of clients within an integer
                f"{named('release_epsilon', exact_text(self.release_epsilon))} is too small; give at least "
                f"{exact_text(MIN_EPSILON)}.",
            ),
        )
        if self.release != "thresholds":
            return None
        return ThresholdsRequest.specs()[
            parse_choice("variant", self.variant or CAPPED_CURVES[0], list(CAPPED_CURVES))
        ]


class NoiseRequest(Request):
    """Reveal samples of noise, which then protect nothing, for audits and benchmarks (π_LAP)."""

    task = "noise"
    protocols: ClassVar = {"default": "pi_lap"}

    population: Any = None
    privacy_unit: Any = None


REQUESTS: Mapping[str, type[Request]] = {
    request.task: request
    for request in (
        WeightsRequest,
        ConfusionRequest,
        ThresholdsRequest,
        GapRequest,
        CountRequest,
        CapRequest,
    )
}


def _call_of(request: type[Request]) -> type[ReleaseCall]:
    stock = {"stock": STOCK} if "offline" in request.declared else {}
    members = {"__doc__": request.__doc__, "requested": request, **stock, **request.of_call}
    call: type[ReleaseCall] = type(f"{request.task.capitalize()}Call", (ReleaseCall, request), members)
    return call


CALLS = {task: _call_of(request) for task, request in REQUESTS.items()}


def request_from_json(fields: Any) -> Request:
    """Return the request that `Request.to_json` wrote, or raise OptionError."""
    given = dict(fields) if isinstance(fields, Mapping) else {}
    task = given.pop("task", None)
    try:
        kind = REQUESTS[str(task)]
        if given.keys() - kind.declared.keys() or not all(isinstance(text, str) for text in given.values()):
            raise OptionError("a field that no such request has")
        request = kind(**given)
        _ = request.form
    except (KeyError, OptionError):
        raise OptionError(
            f"The run that is asked for ({str(task)[:20]}) is none that this version knows; both machines "
            "need the same commit."
        ) from None
    return request
