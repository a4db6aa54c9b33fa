"""Every option of `./inv`, said once: what it is called, what reads it, what it is for, and its default.

An option that several commands have is a constant here; a class for each command lists what it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.cli.command_line import Option, Options, as_given, optional, required, switch, usual
from harness.cli.parsers import (
    in_module,
    one_of,
    parse_budget,
    parse_cap,
    parse_cap_or_auto,
    parse_clients,
    parse_delta,
    parse_epsilon,
    parse_error,
    parse_input_path,
    parse_link,
    parse_max_count,
    parse_model,
    parse_names,
    parse_party,
    parse_path,
    parse_population,
    parse_range,
    parse_relation,
    parse_seconds,
    parse_share,
    parse_shares,
    parse_threshold,
    parse_tolerance,
    parse_unit,
    whole,
)
from harness.errors import OptionError

if TYPE_CHECKING:
    from protocols.mechanisms.shifted_log import ErrorTarget

MOST_COUNT = 1 << 24  # beyond, a unit of a logarithm has too little epsilon for the noise
MOST_PLANNED = 10**12  # clients, or records
DEFAULT_ERROR = "0.01"

EPSILON = required(
    parse_epsilon,
    "privacy budget ε of this command, in total; above 0, at most 20, for example 1 or 0.5",
    "1",
)
DELTA = usual("2^-40", parse_delta, "upper bound of its δ, in total")
MODEL = optional(parse_model, "see `./inv schemes`; default: ring if available, else mpyc")
RELATION = optional(
    parse_relation, "add_or_remove_one or replace_one; default: the latter where --max-count is 1"
)
UNIT = usual(
    "record",
    parse_unit,
    "what is protected: record (default), one of a client; or client, all of its records",
)
RECORDS = optional(parse_path, "CSV or Parquet with client_id, group, label")
SHARES = optional(parse_path, "instead of --records: what `share` or `aggregate` wrote")
SHARES_OF_A_PARTY = required(parse_path, "what `share` wrote", "shares")
DOMAIN = optional(
    parse_path,
    'JSON file: {"groups": [...], "labels": [...], "max_count": n, "thresholds": t}, the last two '
    "optional; t: a list, or how many from 0 to 1 (1001)",
)
GROUPS = optional(parse_names, "all groups, for example a,b; with --labels, instead of --domain")
LABELS = optional(parse_names, "all labels, for example 0,1")
MAX_COUNT = optional(parse_max_count, "most records of one client; default: 2^31")
RANGE = optional(
    parse_range, "ends of the range of clients' performance values, for example 0,1; with --groups"
)
STEPS = optional(
    whole(1, in_module("harness.inputs.record_schema:MAX_STEPS")),
    "values are rounded to so many steps on each side of the range's centre; default: 1000",
)
INPUT_FORM = optional(
    as_given,
    "split (default: counts per group and label) or product (group indicator times label counts)",
)
CAP = optional(
    parse_cap,
    "with --privacy-unit client: how many records of a client count, for example 10; or weight-one: all do, "
    "and together as much as one",
)
CHOSEN_CAP = Option(
    parse_cap_or_auto,
    f"{CAP.help}; or auto, with --records: first chosen by π_CAP, a release of its own",
)
CAP_EPSILON = optional(parse_epsilon, "what --cap auto spends of ε on choosing the cap; default: a fifth")
CLIENTS_PER_UPLOAD = optional(
    whole(1, in_module("harness.inputs.shares:MAX_VALUES")),
    "with --shares: how many clients an upload may be of, 1 where each uploads for itself; default: any "
    "number",
)
INPUT_PATH = usual(
    "shares",
    parse_input_path,
    "shares (default), or clients: each sends while the parties run, and none of these can change its "
    "values; so active models take product",
)
HOSTS = usual("hosts.toml", parse_path, "the file that describes the hosts, see docs/hosts.md")
INVITE = optional(
    parse_path, "instead of --records: a directory; each client takes an invitation there, and sends"
)
CLIENTS = optional(parse_clients, "how many clients are invited")
POPULATION = optional(
    parse_population,
    "whose records these are, a name of your choice, which is charged; none: nobody counts",
)
BUDGET = optional(
    parse_budget,
    "the population's total ε, or ε,δ, for example 3 or 3,1e-6; refuses runs beyond it",
)
LEDGER = optional(parse_path, "the ledger's file; default: $FAIRSHARES_LEDGER, else runs/ledger.sqlite")
OUT = optional(parse_path, "a new directory for the results; default: runs/<task>-<time>")
TIMEOUT = usual("600", parse_seconds, "seconds that the parties may take")
REWEIGHING = usual(
    "balanced",
    one_of(in_module("harness.postprocessing.reweighing.formulas:REWEIGHINGS")),
    "balanced (default), label or kamiran-calders; all from the same noisy counts",
)
REVEAL = usual(
    "counts",
    one_of(lambda: ("counts", "weights")),
    "counts (default) or weights: only they are opened; models of MP-SPDZ",
)


def json_of(what: str) -> Option[bool]:
    """Return the option for JSON. Args: what: is printed."""
    return switch(f"print {what}, and nothing else, on standard output")


class ReleaseOptions(Options):
    """What releases take; what only some do is left out here, and said by those."""

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
    input_path = INPUT_PATH.left_out
    invite = INVITE.left_out
    clients = CLIENTS.left_out
    neighboring_relation = RELATION
    privacy_unit = UNIT
    cap = CHOSEN_CAP.left_out
    cap_epsilon = CAP_EPSILON.left_out
    population = POPULATION
    budget = BUDGET
    ledger = LEDGER
    out = OUT
    timeout = TIMEOUT
    json = json_of("the result as JSON")

    @property
    def chooses_cap(self) -> bool:
        """Whether a first run is to choose the cap: only where all clients' records are at hand."""
        return self.wants_chosen_cap and self.records is not None

    @property
    def wants_chosen_cap(self) -> bool:
        return self.texts["cap"] == "auto"


def _form(usually: str, other: str) -> Option[str | None]:
    slots = "or slots (default with --privacy-unit client: no client can exceed the cap)"
    return INPUT_FORM.but(help=f"split (default: {usually}), product ({other}) {slots}")


class WeightsOptions(ReleaseOptions):
    """Compute DP sample weights per group and label (π_RW)."""

    input_form = _form("counts per group and label", "group indicator times label counts")
    input_path = INPUT_PATH
    invite = INVITE
    clients = CLIENTS
    cap = CHOSEN_CAP
    cap_epsilon = CAP_EPSILON
    reweighing = REWEIGHING
    reveal = REVEAL
    json = json_of("weights.json")


class ConfusionOptions(ReleaseOptions):
    """Compute a DP confusion matrix per group (π_CF)."""

    records = RECORDS.but(help=f"{RECORDS.help}, prediction (a label); with --threshold: score")
    shares = SHARES.but(help="instead of --records: what `share --task confusion` or `aggregate` wrote")
    input_form = _form("counts per group, label and prediction", "indicators of each record")
    cap = CHOSEN_CAP
    cap_epsilon = CAP_EPSILON
    threshold = optional(parse_threshold, "predict the second label from this score on")
    json = json_of("confusion.json")


class ThresholdsOptions(ReleaseOptions):
    """Compute DP score curves per group and thresholds that treat groups alike (π_ROC)."""

    epsilon = EPSILON.but(unless="curves")
    records = RECORDS.but(
        help=f"{RECORDS.help}, score (from 0 to 1, of records that the model was not trained on)"
    )
    shares = SHARES.but(help="instead of --records: what `share --task thresholds` or `aggregate` wrote")
    input_form = INPUT_FORM.but(help="what follows from --variant: split, keys or scores")
    cap = CHOSEN_CAP
    cap_epsilon = CAP_EPSILON
    variant = usual(
        "histogram",
        one_of(in_module("harness.cli.commands.thresholds:VARIANTS")),
        "histogram (default: clients count their records per bin of scores), records (a key per record, "
        "which the parties count; not with mpyc) or published (to compare: ε once per threshold)",
    )
    constraint = usual(
        "equalized_odds",
        one_of(in_module("harness.postprocessing.thresholds.choose:CONSTRAINTS")),
        "what is alike for all groups: equalized_odds (default), equal_opportunity or demographic_parity",
    )
    objective = usual(
        "accuracy_score",
        one_of(in_module("harness.postprocessing.thresholds.choose:OBJECTIVES")),
        "what is best under it: accuracy_score (default) or balanced_accuracy_score",
    )
    tolerance = usual("0", parse_tolerance, "largest difference between groups in what is to be alike")
    deterministic = switch("one threshold per group, no randomisation; most often needs a tolerance")
    positive_label = optional(as_given, "the label that counts as positive; default: the last in order")
    blocks = usual(
        "tree",
        one_of(lambda: ("tree", "flat")),
        "tree (default: the blocks of bins with the least error) or flat (bins only)",
    )
    curves = optional(
        parse_path,
        "results of an earlier run, to choose on their curves again for no ε, instead of --records",
    )
    json = json_of("thresholds.json")

    def __init__(self, **texts: str | bool) -> None:
        """Read the texts, as `Options` does. Raises: OptionError: with --curves, one is for a new run."""
        of_both = ("constraint", "objective", "tolerance", "deterministic", "positive_label", "curves", "out")
        for name, text in texts.items() if texts.get("curves") else ():
            option = self.declared[name]
            if text not in ("", False, option.default) and name not in (*of_both, "json"):
                raise OptionError(
                    f"{option.flag} is for a new run; --curves chooses on the curves of an earlier one: "
                    "leave one of them out."
                )
        super().__init__(**texts)


class GapOptions(ReleaseOptions):
    """Compute DP gaps between groups' mean performance values (π_GAP)."""

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


class ErrorOptions(Options):
    """The error that π_COUNT keeps to."""

    relative_error = usual("0.1", parse_share, "of counts, on average: 0.1 (default) is a tenth of the count")
    error_from = usual("100", whole(1, MOST_COUNT), "the least count for which that holds")
    error_to = usual("1048576", whole(1, MOST_COUNT), "the largest")

    def target(self) -> ErrorTarget:
        """Return the error that is kept to. Raises: OptionError: its range has no count."""
        from protocols.mechanisms.shifted_log import ErrorTarget

        low, high = self.error_from, self.error_to
        if low > high:
            raise OptionError(f"--error-from {low} is above --error-to {high}; give a range of counts.")
        return ErrorTarget(self.relative_error, low, high)


class CountOptions(ErrorOptions, ReleaseOptions):
    """Count records per group and label, with more privacy for larger groups (π_COUNT)."""

    epsilon = EPSILON.but(
        help="the most that a record in a small group is charged; in larger groups it gives away less"
    )
    input_form = INPUT_FORM.left_out
    json = json_of("count.json")


class CapTargetOptions(Options):
    """The release that a cap is for."""

    release = usual(
        "weights",
        one_of(in_module("harness.cli.commands.cap:RELEASES")),
        "what clients are to be capped for: weights (default), confusion, thresholds, or counts of records",
    )
    release_epsilon = required(
        parse_epsilon, "the ε that it is to have; the smaller, the more clients may exceed the cap", "1"
    )
    counts = optional(
        whole(1, 10**6), "with --release counts: how many, each record in one of them; 1 for one sum"
    )
    variant = optional(
        as_given, "with --release thresholds: histogram (default) or records, as it will be run"
    )


class CapOptions(CapTargetOptions, ReleaseOptions):
    """Choose how many records of a client are to count, with differential privacy (π_CAP)."""

    shares = SHARES.but(help="instead of --records: what `share --task cap` or `aggregate` wrote")
    max_count = MAX_COUNT.but(help="most records of one client, and the largest cap, up to 1000")
    input_form = INPUT_FORM.left_out
    neighboring_relation = RELATION.left_out
    privacy_unit = UNIT.but(default="client").left_out
    json = json_of("cap.json")


class ShareOptions(Options):
    """Split records into shares: a client's step, one file per party."""

    records = required(parse_path, RECORDS.help, "my.csv")
    out = required(parse_path, "directory for one file per party", "results")
    task = usual(
        "weights",
        one_of(in_module("harness.cli.commands.shares:TASKS")),
        "what the shares are for: weights (default), confusion (records also have a column prediction), "
        "thresholds (a column score), gap (columns client_id, group and value) or cap",
    )
    domain = DOMAIN
    groups = GROUPS
    labels = LABELS
    max_count = MAX_COUNT
    range = RANGE.but(help=f"with --task gap: {RANGE.help}")
    steps = STEPS.but(help=f"with --task gap: {STEPS.help}")
    model = MODEL
    input_form = INPUT_FORM.but(
        help=f"{INPUT_FORM.help}; for thresholds also keys (a key per record); with --cap slots (default for "
        "weights, confusion and gap)"
    )
    threshold = optional(
        parse_threshold,
        "with --task confusion: predict the second label from this score on; a column score instead of "
        "prediction",
    )
    cap = CAP


PARTY = required(parse_party, "number of the party, from 0", "0")


class UploadsOptions(Options):
    """List which uploads one party has and which are sound, so that all take the same: a party's step."""

    party = PARTY
    shares = SHARES_OF_A_PARTY
    out = required(
        parse_path,
        "the list to write, party-<i>.uploads; bring all parties' lists together",
        "results",
    )
    domain = DOMAIN.but(help="the declared domain; uploads of another are not sound")
    clients_per_upload = CLIENTS_PER_UPLOAD.but(
        help="how many clients an upload may be of; larger ones are not sound"
    )


class AggregateOptions(Options):
    """Turn one party's shares into what it feeds into a run: a party's step."""

    party = PARTY
    shares = SHARES_OF_A_PARTY
    out = required(parse_path, "the file to write", "results")
    uploads = optional(
        parse_path, "directory with all parties' lists; only uploads that are sound at every party are taken"
    )


class SendOptions(Options):
    """Show a run's terms, and send one client's values, masked, to its parties: a client's step."""

    records = required(parse_path, f"{RECORDS.help} of one client", "my.csv")
    invitation = required(
        parse_path,
        "the file that this client was given; it holds where to send, and a key",
        "client-0.json",
    )
    timeout = TIMEOUT.but(help="seconds until all parties have to be there")
    epsilon = optional(
        parse_epsilon, "the most that this client accepts; nothing is sent to a run that spends more"
    )
    fingerprints = optional(
        parse_path,
        "a file with the SHA-256 of each party's certificate, a line each, party 0 first; nothing is sent to "
        "parties with others",
    )


class LedgerOptions(Options):
    """Show what each population's runs have spent, or give one a budget."""

    population = POPULATION.but(help="the one to show; default: all")
    budget = BUDGET.but(help="gives the population this budget: a total ε, or ε,δ, for example 3 or 3,1e-6")
    ledger = LEDGER
    json = switch("print JSON")


class NoiseOptions(Options):
    """Open samples of the noise, which then protect nothing: for audits and benchmarks (π_LAP)."""

    n = required(
        whole(1, in_module("harness.releases.noise_samples:MOST_SAMPLES")),
        "how many samples, up to 100000",
        "1000",
    )
    epsilon = EPSILON.but(help="the ε that each is made for, for a count that one record moves by 1")
    delta = optional(
        parse_delta, "the δ that each is made for; default: 2^-40 (not for the published sampler)"
    )
    sampler = usual(
        "default",
        one_of(lambda: ("default", "symmetric", "published")),
        "default (default: as in all releases), symmetric (discrete Laplace, mean 0), or published (for "
        "comparison; MP-SPDZ only)",
    )
    rounded = switch("round the published sampler's noise to integers in the computation")
    model = MODEL
    out = OUT
    timeout = TIMEOUT
    json = json_of("noise.json")


_SIZE = whole(2, 4096)


class AuditOptions(Options):
    """Recompute what noise and releases protect, exactly: `--sampler`, `--release`, or the reference set."""

    sampler = optional(
        one_of(lambda: (*in_module("harness.privacy.audit.samplers:SAMPLERS")(), "published")),
        "default, symmetric or published; instead of the reference set",
    )
    release = optional(
        one_of(in_module("harness.privacy.audit.releases:RELEASES")),
        "weights, weights-only, weights-of-clients, gap, gap-of-clients, confusion, confusion-of-clients, "
        "count, thresholds, thresholds-of-records or cap, or, as in active models, "
        "weights-of-clients-active, confusion-of-clients-active, gap-of-clients-active or "
        "thresholds-of-clients-active; instead of a sampler",
    )
    epsilon = optional(parse_epsilon, "the ε that the noise is made for; default: 1")
    delta = optional(parse_delta, "the δ that it is made for; default: 2^-40 (not for the published sampler)")
    sensitivity = optional(
        whole(1, in_module("protocols.accounting.exact_privacy:MAX_SENSITIVITY")),
        "of a sampler: by how much a count may move, up to 64; default: 1",
    )
    groups = optional(_SIZE, "of a release: how many; default: 2")
    labels = optional(_SIZE, "of a release: how many; default: 2")
    thresholds = optional(_SIZE, "of the release `thresholds`: how many; default: 1001")
    steps = optional(_SIZE, "of the release gap: how many on each side of the range's centre; default: 1000")
    neighboring_relation = RELATION.but(
        help="of a release: add_or_remove_one (default), replace_one or zero_out_one"
    )
    cap = optional(
        whole(1, in_module("harness.inputs.contribution_bounds:MAX_CAP")),
        "of a release under zero_out_one: how many records of a client count; default: 10",
    )
    out = OUT
    json = json_of("audit.json")


class PlanOptions(Options):
    """Say what a release would cost in each model, and how far off it would be, before anything runs."""

    task = usual(
        "weights",
        one_of(in_module("harness.releases.registry:STATISTICS")),
        "weights (default), confusion, thresholds, gap, count or cap",
    )
    clients = required(whole(1, MOST_PLANNED), "how many there would be", "100")
    records = optional(whole(1, MOST_PLANNED), "how many they have in all; default: one each")
    groups = required(
        parse_shares,
        "how many (2), their names (a,b), or with their shares of the records (a:0.7,b:0.3)",
        "2",
    )
    labels = optional(parse_shares, "the same of labels; default: 2")
    variant = optional(
        as_given, "of thresholds, or a cap for them: histogram (default), records or published"
    )
    thresholds = optional(
        whole(2, in_module("harness.inputs.record_schema:MAX_THRESHOLDS")), "how many; default: 1001"
    )
    steps = STEPS
    max_count = MAX_COUNT
    epsilon = EPSILON
    delta = DELTA
    neighboring_relation = RELATION
    privacy_unit = UNIT
    input_form = INPUT_FORM
    reveal = optional(as_given, "of weights: counts (default) or weights")
    reweighing = REWEIGHING.but(help="of weights: balanced (default), label or kamiran-calders", default="")
    cap = CHOSEN_CAP.but(help=f"{CAP.help}; or auto: chosen first, by π_CAP")
    cap_epsilon = CAP_EPSILON
    release = CapTargetOptions.release.passed_on(f"of a cap: {CapTargetOptions.release.help}")
    release_epsilon = CapTargetOptions.release_epsilon.passed_on(
        f"of a cap: {CapTargetOptions.release_epsilon.help}"
    )
    counts = CapTargetOptions.counts.passed_on(f"of a cap: {CapTargetOptions.counts.help}")
    relative_error = ErrorOptions.relative_error.passed_on(f"of count: {ErrorOptions.relative_error.help}")
    error_from = ErrorOptions.error_from.passed_on(f"of count: {ErrorOptions.error_from.explained}")
    error_to = ErrorOptions.error_to.passed_on(f"of count: {ErrorOptions.error_to.explained}")
    model = MODEL.but(help="only this one; default: all")
    network = usual(
        "none",
        parse_link,
        "none (default: all parties on one machine), lan, wan, or a round-trip time and a bandwidth, for "
        "example 40ms,100Mbit",
    )
    error = optional(
        parse_error, f"the error to say for what it takes, for example {DEFAULT_ERROR} (default)"
    )
    units = optional(
        parse_path, "directory of unit costs that `./inv bench.units` measured; default: those recorded here"
    )
    json = switch("print JSON")

    @property
    def chooses_cap(self) -> bool:
        """Whether a first release is to choose the cap."""
        return self.texts["cap"] == "auto"


class QuickstartOptions(Options):
    """Run the main job on real data: DP weights and thresholds from secret shares, before and after."""

    model = MODEL
    epsilon = usual("4", parse_epsilon, EPSILON.help)
    out = OUT


class SchemesOptions(Options):
    """Say which models can run here, on which engine, and why one cannot."""

    json = switch("print JSON")


class TestOptions(Options):
    """Check format, lint, imports and types, then run the tests."""

    args = optional(as_given, "passed on to pytest, for example '-k sharing'")
    all = switch("exhaustive tests, too, as continuous integration does; tests/README.md says what they are")


class HostsCheckOptions(Options):
    """Look whether every host can take its part in a run; change nothing."""

    hosts = HOSTS
    model = MODEL.but(help="what the hosts are to run; default: ring, or what the number of hosts allows")
    json = switch("print JSON")


class HostsSetupOptions(Options):
    """Have every host make its own key, and hold on to the others' certificates."""

    hosts = HOSTS
    renew = switch("make new keys everywhere, also where there are some")


class HostsCollectOptions(Options):
    """Fetch what runs opened whose starter went away before it could read that."""

    hosts = HOSTS
    out = OUT.but(help="a new directory for a file per run; default: runs/hosts.collect-<time>")


class HostsCleanOptions(Options):
    """End what runs left running on the hosts, and remove what they left there."""

    hosts = HOSTS


RELEASES: dict[str, type[ReleaseOptions]] = {
    "weights": WeightsOptions,
    "confusion": ConfusionOptions,
    "thresholds": ThresholdsOptions,
    "gap": GapOptions,
    "count": CountOptions,
    "cap": CapOptions,
}


class HostsRunOptions(Options):
    """Run a release on shares, or on what clients send, each party on its own host."""

    task = usual(
        "weights", one_of(lambda: RELEASES), "weights (default), confusion, thresholds, gap, count or cap"
    )

    def of_the_release(self) -> ReleaseOptions:
        """Return what the release takes. Raises: OptionError: an option is of another one."""
        release = RELEASES[self.task]
        given = {name: text for name, text in self.texts.items() if text and name != "task"}
        for name in given:
            if name not in release.declared:
                raise OptionError(f"{self.declared[name].flag} does not go with --task {self.task}.")
        return release(**given)


def _of_hosts() -> dict[str, Option[Any]]:
    """Return the options of all releases that make sense on hosts, for the release that is run to read."""
    own: dict[str, list[str]] = {}
    for task, release in RELEASES.items():
        for name in release.declared.keys() - ReleaseOptions.declared.keys():
            own.setdefault(name, []).append(task)
    invited: dict[str, Option[Any]] = {
        "groups": GROUPS,
        "labels": LABELS,
        "max_count": MAX_COUNT,
        "clients": CLIENTS,
    }
    said = {
        **{name: f"of {' and '.join(tasks)}; see `./inv {tasks[0]} --help`" for name, tasks in own.items()},
        **{name: f"with --invite: {option.explained}" for name, option in invited.items()},
        "shares": "what `share` or `aggregate` wrote, on this machine; each party's files go to its host "
        "only. Without it, each host takes what is in its own directory `shares`",
        "model": "see `./inv schemes`; default: ring on three hosts or more, semi2k on two",
        "invite": "of weights, instead of shares: a directory on this machine; each client takes an "
        "invitation there, and sends to the hosts while they run",
        "domain": "JSON file with the domain that uploads have to be of, default: that of most; or, with "
        "--invite, clients' records",
        "cap": f"with --invite and {CAP.help.removeprefix('with ')}",
        "input_form": "as the shares were made; with --invite, as clients are to send; default: split",
        "reveal": "of weights: counts (default) or weights",
    }
    of_records = ("records", "threshold", "curves", "range", "steps", "cap_epsilon", "input_path")
    of_all = {name: option for release in RELEASES.values() for name, option in release.declared.items()}
    of_all |= ReleaseOptions.declared
    found = {name: option.passed_on(said.get(name, option.explained)) for name, option in of_all.items()}
    found["hosts"] = HOSTS.but(parse=as_given, attribute="hosts")
    return {name: option for name, option in found.items() if name not in of_records}


HostsRunOptions.declared = {**HostsRunOptions.declared, **_of_hosts()}
