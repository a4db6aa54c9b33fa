"""Options of the commands that release a statistic.

A class for each statistic: what its command takes, what runs, and the statistic that its options make.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from harness.cli.options import (
    BUDGET,
    CAP_EPSILON,
    CHOSEN_CAP,
    CLIENTS,
    CLIENTS_PER_UPLOAD,
    DELTA,
    DOMAIN,
    EPSILON,
    GROUPS,
    INPUT_FORM,
    INPUT_PATH,
    INPUT_PATH_OF_SHARES,
    INVITE,
    LABELS,
    LAW,
    LEDGER,
    MAX_COUNT,
    MODEL,
    NOISE,
    OUT,
    PLOT,
    POPULATION,
    POSITIVE_LABEL,
    QUIET,
    RANGE,
    RECORDS,
    RELATION,
    SHARES,
    STEPS,
    TIMEOUT,
    UNIT,
    VERBOSE,
    json_of,
)
from harness.errors import OptionError
from harness.request.fields import Option, Options, as_given, optional, required, switch, usual
from harness.request.readers import (
    in_module,
    one_of,
    parse_choice,
    parse_epsilon,
    parse_path,
    parse_share,
    parse_threshold,
    parse_tolerance,
    whole,
)

if TYPE_CHECKING:
    from harness.releases.base import Statistic
    from harness.releases.contribution_cap import CapStatistic
    from harness.releases.score_curves import ThresholdChoice
    from protocols.mechanisms.shifted_log import ErrorTarget
    from protocols.spec import ProtocolSpec

CAPPED_RELEASES = ("weights", "confusion", "thresholds")
CAPPED_CURVES = ("histogram", "records")  # variants of thresholds that a cap can be for, the default first


class ReleaseOptions(Options):
    """What releases take; what only some do is left out here, and said by those.

    Attributes: task: the statistic's name; place: of the function that runs it; chooses: the option that
    says which of the statistic's protocols runs, if there is one.
    """

    task: ClassVar[str]
    place: ClassVar[str]
    chooses: ClassVar[str] = ""
    also = "--records my.csv"

    epsilon = EPSILON
    delta = DELTA
    records = RECORDS
    shares = SHARES
    domain = DOMAIN
    groups = GROUPS
    labels = LABELS
    max_count = MAX_COUNT
    range = RANGE.left_out
    steps = STEPS.left_out
    clients_per_upload = CLIENTS_PER_UPLOAD
    model = MODEL
    hosts = optional(parse_path, "").left_out
    input_form = INPUT_FORM
    input_path = INPUT_PATH_OF_SHARES
    invite = INVITE.left_out
    clients = CLIENTS.left_out
    neighboring_relation = RELATION
    privacy_unit = UNIT
    cap = CHOSEN_CAP.left_out
    cap_epsilon = CAP_EPSILON.left_out
    noise = NOISE
    law = LAW
    population = POPULATION
    budget = BUDGET
    ledger = LEDGER
    out = OUT
    timeout = TIMEOUT
    json = json_of("the result as JSON")
    plot = PLOT
    verbose = VERBOSE
    quiet = QUIET

    @property
    def chooses_cap(self) -> bool:
        """Whether a first run is to choose the cap: only where all clients' records are at hand."""
        return self.wants_chosen_cap and self.records is not None

    @property
    def wants_chosen_cap(self) -> bool:
        """Whether `--cap auto` is given, whatever else is."""
        return self.texts["cap"] == "auto"

    def statistic(self, spec: ProtocolSpec) -> Statistic[Any]:
        """Return what is released, by this protocol. Raises: OptionError: its options do not go together."""
        raise NotImplementedError


_RUNS = "harness.cli.commands"


def _form(usually: str, other: str) -> Option[str | None]:
    slots = "or slots (default with --privacy-unit client: no client can exceed the cap)"
    return INPUT_FORM.but(help=f"split (default: {usually}), product ({other}) {slots}")


class WeightsOptions(ReleaseOptions):
    """Compute DP sample weights per group and label (π_RW)."""

    task, place = "weights", f"{_RUNS}.weights:weights"
    epsilon = EPSILON.but(unless="arrivals")
    input_form = _form("counts per group and label", "group indicator times label counts")
    input_path = INPUT_PATH
    invite = INVITE
    clients = CLIENTS
    cap = CHOSEN_CAP
    cap_epsilon = CAP_EPSILON
    reweighing = usual(
        "balanced",
        one_of(in_module("harness.postprocessing.reweighing.formulas:REWEIGHINGS")),
        "balanced (default), label or kamiran-calders; all from the same noisy counts",
    )
    arrivals = optional(
        parse_path,
        "with --shares: a folder for a series of runs, epochs; each counts what arrived since the last, and "
        "gives the weights of all so far",
    )
    horizon = optional(
        whole(1, in_module("protocols.mechanisms.counts_so_far:MAX_HORIZON")),
        "how many epochs share ε and δ, while records arrive; they are charged before the first",
    )
    json = json_of("weights.json")

    def statistic(self, spec: ProtocolSpec) -> Statistic[Any]:
        from harness.releases.series import WeightsSeries
        from harness.releases.weights import WeightsStatistic
        from protocols.mechanisms.counts_so_far import best_schedule

        if self.horizon is None:
            return WeightsStatistic(self.reweighing, spec)
        return WeightsSeries(self.reweighing, spec, schedule=best_schedule(self.horizon))


class ConfusionOptions(ReleaseOptions):
    """Compute a DP confusion matrix per group (π_CF)."""

    task, place = "confusion", f"{_RUNS}.releases:confusion"
    records = RECORDS.but(help=f"{RECORDS.help}, prediction (a label); with --threshold: score")
    shares = SHARES.but(help="instead of --records: what `share --task confusion` or `aggregate` wrote")
    input_form = _form("counts per group, label and prediction", "indicators of each record")
    cap = CHOSEN_CAP
    cap_epsilon = CAP_EPSILON
    threshold = optional(parse_threshold, "predict the positive label from this score on")
    positive_label = POSITIVE_LABEL.but(
        help="the label whose rates are shown, and which --threshold predicts; default: the last in order; "
        "of more than two labels, each one's rates"
    )
    json = json_of("confusion.json")

    def statistic(self, spec: ProtocolSpec) -> Statistic[Any]:
        from harness.releases.confusion import ConfusionStatistic

        return ConfusionStatistic(spec, self.positive_label or "")


class ThresholdsOptions(ReleaseOptions):
    """Compute DP score curves per group and thresholds that treat groups alike (π_ROC)."""

    task, place, chooses = "thresholds", f"{_RUNS}.thresholds:thresholds", "variant"
    epsilon = EPSILON.but(unless="curves")
    records = RECORDS.but(
        help=f"{RECORDS.help}, score (from 0 to 1, of records that the model was not trained on)"
    )
    shares = SHARES.but(help="instead of --records: what `share --task thresholds` or `aggregate` wrote")
    input_form = INPUT_FORM.but(help="follows from --variant: split, keys or scores")
    cap = CHOSEN_CAP
    cap_epsilon = CAP_EPSILON
    variant = usual(
        "histogram",
        one_of(lambda: in_module("harness.releases.score_curves:CurvesStatistic")().specs),
        "histogram (default: clients count their records per bin of scores), records (a key per record, "
        "which the parties count; not with mpyc) or published (for comparison: spends ε at every "
        "threshold)",
    )
    constraint = usual(
        "equalized_odds",
        one_of(in_module("harness.postprocessing.thresholds.choose:CONSTRAINTS")),
        "the fairness constraint: equalized_odds (default), equal_opportunity or demographic_parity",
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
    positive_label = POSITIVE_LABEL
    blocks = usual(
        "tree",
        one_of(lambda: ("tree", "flat")),
        "tree (default: counts in blocks of bins, for the least error) or flat (counts in single bins)",
    )
    curves = optional(
        parse_path,
        "instead of --records: the directory of an earlier run; chooses on its curves again, for no ε",
    )
    json = json_of("thresholds.json")

    def __init__(self, **texts: str | bool) -> None:
        """Read the texts, as `Options` does. Raises: OptionError: with --curves, one is for a new run."""
        of_both = {"constraint", "objective", "tolerance", "deterministic", "positive_label", "curves"}
        of_both |= {"out", "json", "plot", "verbose", "quiet"}
        for name, text in texts.items() if texts.get("curves") else ():
            option = self.declared[name]
            if text not in ("", False, option.default) and name not in of_both:
                raise OptionError(
                    f"{option.flag} is for a new run; --curves chooses on the curves of an earlier one: "
                    "leave one of them out."
                )
        super().__init__(**texts)

    def statistic(self, spec: ProtocolSpec) -> Statistic[Any]:
        from harness.releases.score_curves import CurvesStatistic, ThresholdsStatistic

        curves = CurvesStatistic(self.blocks == "flat", self.positive_label or "", spec)
        return ThresholdsStatistic(curves, self.choice)

    @property
    def choice(self) -> ThresholdChoice:
        """How thresholds are chosen."""
        from harness.releases.score_curves import ThresholdChoice

        return ThresholdChoice(self.constraint, self.objective, self.tolerance, self.deterministic)


class GapOptions(ReleaseOptions):
    """Compute DP gaps between groups' mean performance values (π_GAP)."""

    task, place = "gap", f"{_RUNS}.releases:gap"
    also = "--records values.csv --groups a,b --range 0,1"
    records = RECORDS.but(
        help="CSV or Parquet with client_id, group, value; a number, or a fraction of counts as 17/20"
    )
    shares = SHARES.but(help="instead of --records: what `share --task gap` or `aggregate` wrote")
    domain = DOMAIN.but(
        help='JSON file: {"groups": [...], "values": {"low": x, "high": y, "steps": n}}, steps optional'
    )
    groups = GROUPS.but(help="all groups, for example a,b; with --range, instead of --domain")
    labels = LABELS.left_out
    max_count = MAX_COUNT.left_out
    range = RANGE
    steps = STEPS
    input_form = INPUT_FORM.but(
        help="split (default: the value and the size, in the client's group) or slots (default with "
        "--privacy-unit client: no client can go beyond the range)"
    )
    neighboring_relation = RELATION.but(
        help="replace_one (default: a client's group and value) or add_or_remove_one"
    )
    privacy_unit = UNIT.but(
        help="record (default: a client's value replaced or removed), or client (all it sends, there or not)"
    )
    json = json_of("gap.json")

    def statistic(self, spec: ProtocolSpec) -> Statistic[Any]:
        from harness.releases.gaps import GapStatistic

        return GapStatistic(spec)


_COUNT = whole(1, in_module("protocols.mechanisms.shifted_log:MOST_COUNT"))


class ErrorOptions(Options):
    """The error that π_COUNT keeps to."""

    relative_error = usual(
        "0.1", parse_share, "average relative error of a count: 0.1 (default) is a tenth of it"
    )
    error_from = usual("100", _COUNT, "the smallest count that has to keep to --relative-error")
    error_to = usual("1048576", _COUNT, "the largest")

    def target(self) -> ErrorTarget:
        """Return the error that is kept to. Raises: OptionError: its range has no count."""
        from protocols.mechanisms.shifted_log import ErrorTarget

        low, high = self.error_from, self.error_to
        if low > high:
            raise OptionError(f"--error-from {low} is above --error-to {high}; give a range of counts.")
        return ErrorTarget(self.relative_error, low, high)


class CountOptions(ErrorOptions, ReleaseOptions):
    """Count records per group and label, with more privacy for larger groups (π_COUNT)."""

    task, place = "count", f"{_RUNS}.releases:count"
    epsilon = EPSILON.but(
        help="the ε of a record in a small group, which is charged; in larger groups a record's ε is smaller"
    )
    input_form = INPUT_FORM.left_out
    noise = NOISE.left_out
    law = LAW.left_out
    json = json_of("count.json")

    def statistic(self, spec: ProtocolSpec) -> Statistic[Any]:
        from harness.releases.counts import CountStatistic

        return CountStatistic(self.target(), spec)


class CapOptions(ReleaseOptions):
    """Choose how many records of a client are to count, with differential privacy (π_CAP)."""

    task, place = "cap", f"{_RUNS}.cap:cap"
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
    shares = SHARES.but(help="instead of --records: what `share --task cap` or `aggregate` wrote")
    max_count = MAX_COUNT.but(help="most records of one client, and the largest cap, up to 1000")
    input_form = INPUT_FORM.left_out
    neighboring_relation = RELATION.left_out
    privacy_unit = UNIT.but(default="client").left_out
    noise = NOISE.left_out
    law = LAW.left_out
    json = json_of("cap.json")

    @property
    def curves(self) -> ProtocolSpec | None:
        """The protocol of the curves that the cap is for, None where it is for something else.

        Raises: OptionError: the options do not go together, or no noise fits.
        """
        from harness.releases.score_curves import CurvesStatistic
        from protocols.accounting.rounding import exact_text
        from protocols.circuits.coins import MIN_EPSILON

        if (self.release == "counts") != bool(self.counts):
            raise OptionError("--release counts and --counts (how many; 1 for one sum) go together.")
        if self.variant and self.release != "thresholds":
            raise OptionError("--variant goes with --release thresholds only.")
        if self.release_epsilon < MIN_EPSILON:  # nor would so many clients fit an integer
            raise OptionError(
                f"--release-epsilon {self.texts['release_epsilon']} is too small; give at least "
                f"{exact_text(MIN_EPSILON)}."
            )
        if self.release != "thresholds":
            return None
        return CurvesStatistic.specs[
            parse_choice("--variant", self.variant or CAPPED_CURVES[0], list(CAPPED_CURVES))
        ]

    def statistic(self, spec: ProtocolSpec) -> CapStatistic:
        from harness.inputs.record_schema import DEFAULT_THRESHOLDS, read_domain
        from harness.releases.contribution_cap import CapStatistic, CapTarget

        form = next(iter((self.curves or spec).input_forms.values()))
        grid = read_domain(self.domain).thresholds if self.domain else ()
        target = CapTarget(
            self.release,
            self.release_epsilon,
            self.delta,
            len(grid) or DEFAULT_THRESHOLDS,
            form.exchangeable,
            self.counts or 1,
        )
        return CapStatistic(target, spec)


RELEASES: dict[str, type[ReleaseOptions]] = {
    each.task: each
    for each in (
        WeightsOptions,
        ConfusionOptions,
        ThresholdsOptions,
        GapOptions,
        CountOptions,
        CapOptions,
    )
}
OF_ALL = {name: option for each in RELEASES.values() for name, option in each.declared.items()}


def _own() -> dict[str, list[str]]:
    """Return the options that not all releases have, and whose they are."""
    found: dict[str, list[str]] = {}
    for task, release in RELEASES.items():
        for name in release.declared:
            if name not in ReleaseOptions.declared:
                found.setdefault(name, []).append(task)
    return found


OWN = _own()
