"""The options of all commands, a class for each."""

from typing import TYPE_CHECKING

from fairshares.harness.errors import OptionError, named
from fairshares.harness.releases.gap.request import DeclaredValues
from fairshares.harness.releases.registry import one_of_releases, releases_of_slots
from fairshares.harness.request.fields import (
    GivenValue,
    OptionGroup,
    Options,
    as_text,
    optional,
    required,
    required_unless,
    several,
    switch,
    usual,
)
from fairshares.harness.request.readers import (
    OneOf,
    Whole,
    as_given,
    in_module,
    parse_cap,
    parse_heads,
    parse_lost,
    parse_models,
    parse_names,
    parse_party,
    parse_path,
    parse_place,
    parse_population,
    parse_seconds,
    parse_unit,
)
from fairshares.harness.request.request import (
    ACCEPTED_DELTA,
    CAP_HELP,
    INPUT_FORM_HELP,
    NOISES,
    OUT,
    PLOT,
    PREPROCESS,
    AccountOptions,
    Inputs,
    Protect,
    Randomness,
    Request,
    Spending,
    Trust,
    Where,
)
from fairshares.harness.training.request import TrainRequest
from fairshares.harness.uploads.files import TASK_FILE

if TYPE_CHECKING:
    from fairshares.harness.uploads.page import Site


def parse_last_day(text: str, option: str) -> str:
    """Return a day, as 2027-12-31 is, that is not over in UTC; raise OptionError otherwise."""
    from fairshares.harness.uploads.keys import is_date, today  # slow to load

    if not is_date(text):
        raise OptionError(f"{named(option)} must be a day, as 2027-12-31 is; got {text!r}.")
    if text < today():
        raise OptionError(
            f"{named(option, text)} is over: this machine's clock says {today()}. Name a later day, or "
            "correct the clock."
        )
    return text


def parse_site_address(text: str, option: str) -> "Site":
    """Return the URL at which a page is served; raise OptionError for what is no such address."""
    from fairshares.harness.uploads.page import parse_site  # slow to load

    return parse_site(text, option)


@several()
def parse_numbers(given: GivenValue, option: str) -> list[int]:
    """Return whole numbers from 1, separated by commas; raise OptionError for others."""
    text = as_text(given)
    numbers = text.replace(" ", "").split(",")
    if not all(number.isascii() and number.isdigit() and len(number) < 10 for number in numbers):
        raise OptionError(f"{named(option)} must be whole numbers, as 7,12 are; got {text!r}.")
    return [int(number) for number in numbers]


HOSTS = usual(
    "hosts.toml",
    parse_path,
    "the file that describes the hosts; the page on several hosts in the documentation has an example",
)


FOR_TASKS = optional(
    parse_names, "with --epsilon: the only tasks that may use it; default: all that its records fit"
)
UNIT_OF_A_POLICY = optional(
    parse_unit,
    "with --epsilon: what a run has to protect at least: record (default) or client (all its records)",
)
_OF_CLIENTS = "CSV or Parquet, a file, directory or glob, with client_id, group, label"


class Allowance(Options):
    """A limit to the ε and δ that runs may spend; without these options there is none."""

    epsilon = Spending.epsilon.optional()
    delta = Spending.delta.optional()


class ShareOptions(
    Allowance,
    epsilon={
        "help": "the most ε that all runs on this upload may spend together, if less than the task allows",
    },
    delta={"help": f"with --epsilon: the most δ, likewise; default: {ACCEPTED_DELTA}"},
):
    """Split and seal records for a task's parties, and send them: a client's step."""

    also = "--to task"
    task = required(parse_path, "the file that `task` made", TASK_FILE)
    records = required_unless("to", parse_path, _OF_CLIENTS, "my.csv")
    out = required_unless("check", parse_path, "directory for one file per party and client", "results")
    to = optional(
        as_given,
        "where uploads are sent: task (the addresses in it), an invitation's link, or a URL per party "
        "(https://…, s3://…, gs://…, sftp://…), separated by spaces; sends what is in --out and was not "
        "stored yet",
    )
    certificate = optional(
        parse_path, "with --to: a PEM file of this client's certificate and key, for servers that ask"
    )
    check = switch("say what the task means and which records would be left out, and share nothing")
    round = optional(
        parse_path,
        "of a task of vectors: the file of a round of a training, round.json, for which one client's update "
        "is made from its records; --out is the client's own directory, which stays",
    )
    counted = optional(
        parse_path,
        "the client's own file of what it has shared: a file of records is refused a second time, and the "
        "task's cap is for all uploads together",
    )
    for_tasks = FOR_TASKS
    privacy_unit = UNIT_OF_A_POLICY


class TaskOptions(Options):
    """Make a task, which clients upload for and leave; or check one that is there, and say what it means."""

    first = "file"
    also = "--parties keys-0/party.json,keys-1/party.json,keys-2/party.json --until 2027-12-31"
    epsilon = Spending.epsilon.but(
        example="", default="1", help="the most ε that all runs on an upload may spend together"
    )
    delta = Spending.delta.optional(help=f"the most δ, likewise; default: {ACCEPTED_DELTA}")
    declares = OptionGroup(DeclaredValues)
    file = required(parse_path, "the task: shown if it is there, else made by the other options", TASK_FILE)
    parties = optional(parse_names, "what the parties' `keys` wrote, party 0 first")
    until = optional(parse_last_day, "the last day on which clients share, for example 2027-12-31")
    admission = usual(
        "anyone",
        OneOf(in_module("fairshares.harness.uploads.task:ADMISSIONS")),
        "which clients the parties' servers let upload: anyone (default), certificate (they show one) or "
        "urls (each upload has one of its own); `share --to` refuses without",
    )
    least_uploads = usual("100", Whole(1, 10**9), "how many uploads a run counts at least")
    for_tasks = FOR_TASKS.but(
        help=f"what runs may release: {one_of_releases()}; several need the same kind of records"
    )
    privacy_unit = UNIT_OF_A_POLICY.but(help="what a run has to protect at least: record (default) or client")
    cap = optional(parse_cap, CAP_HELP)
    trust = OptionGroup(Trust, without=("parties",))  # there are as many as the files of `parties`
    input_path = Inputs.input_path
    input_form = Inputs.input_form.but(
        help=f"{INPUT_FORM_HELP}; with --cap slots (default for {releases_of_slots()}), or keys, for "
        "thresholds"
    )
    plan = optional(Whole(1, 10**12), "says what so many uploads would take each party and all clients")
    page = optional(
        parse_path,
        "writes a page from which people and organizations take part by a browser, into this new directory, "
        "with nginx's configuration for it and for the parties' servers",
    )
    site = optional(
        parse_site_address, "with --page: where that page will be served, as https://take-part.example.org/"
    )
    wording = optional(
        parse_path, "with --page: a JSON file with your own words for its questions and answers"
    )
    open_link = switch("with --page: anybody who has its address may take part, any number of times")
    status = switch("say how many uploads are stored at all parties and at some, by --uploads")
    uploads = optional(parse_path, "with --status: the directory of the parties' lists, party-<i>.uploads")
    invitations = optional(
        parse_path, "with --status: the directory that `invite` wrote, to say how many are invited"
    )


class InviteOptions(Options):
    """Make, count and revoke one-time links to a task's page: the step of the task's maker."""

    first = "task"
    task = required(parse_path, "the file of a task for one-time links", TASK_FILE)
    directory = required(
        parse_path,
        "where the links and each party's list of them are, or will be; nobody else reads it",
        "invited",
    )
    site = optional(
        parse_site_address, "where the page is served, as https://take-part.example.org/; once is enough"
    )
    number = usual("0", Whole(0, 10**6), "how many links are made, after those that are there")
    revoke = optional(parse_numbers, "the numbers of links that are to work no more, as 7,12")


class KeysOptions(Options):
    """Make a party's sealing keys and show which are in use: a party's step."""

    directory = required(parse_path, "the party's own directory of keys; nobody else reads it", "keys")
    until = optional(
        parse_last_day, "makes a key that clients seal for up to this day, after the others: 2027-12-31"
    )
    name = usual("party", as_given, "with the first --until: whose keys these are, as clients read it")
    address = optional(
        as_given, "with the first --until: where uploads are put, https://…/, or s3://…/ of an object store"
    )
    sealing = usual(
        "hybrid",
        OneOf(lambda: ("hybrid", "x25519")),
        "hybrid (default: ML-KEM-768 and X25519, for uploads that outlast elliptic curves) or x25519",
    )
    lock = optional(parse_path, "a new file for a copy of these keys, which a passphrase locks")
    unlock = optional(parse_path, "such a file, whose keys go into --directory, which has none")


PARTY = required(parse_party, "number of the party, from 0", "0")


class OfTask(
    Allowance,
    epsilon={
        "help": "what runs will spend in all on these uploads; those whose clients allow less are left out; "
        "default: all that the task allows",
    },
    delta={"help": f"with --epsilon: likewise; default: {ACCEPTED_DELTA}"},
):
    """Common options of counting uploads."""

    party = PARTY
    shares = required(
        parse_place,
        "where the uploads are: a directory, or an object store's s3://, gs:// or sftp://",
        "shares",
    )
    task = required(parse_path, "the task that clients shared for", TASK_FILE)
    keys = required(parse_path, "the party's directory of sealing keys", "keys")
    for_tasks = FOR_TASKS.but(help="with --epsilon: what the runs release; default: what the task allows")
    privacy_unit = UNIT_OF_A_POLICY


class UploadsOptions(OfTask):
    """List one party's uploads and which are sound, so that all parties use the same ones: a party's step."""

    population = Request.population.but(
        help="whom the run that the list is for is charged to: it counts uploads again that their earlier "
        "runs counted; default: nobody, and the list leaves out what any run counted"
    )
    chain = optional(
        parse_population, "with --population: the run's chain; the list leaves out what that chain counted"
    )
    ledger = AccountOptions.ledger.but(help="where runs are charged here, and which uploads they counted")
    out = required(parse_path, "the list to write, party-<i>.uploads, for all parties to read", "results")


class AggregateOptions(OfTask):
    """Add up one party's shares into its input for a run: a party's step."""

    out = required(parse_path, "the file to write", "results")
    uploads = required(
        parse_path,
        "directory with all parties' lists; only uploads that are sound at every party are taken",
        "lists",
    )
    cluster = optional(
        as_given,
        "the scheduler of a Dask cluster whose workers open uploads, tcp://… or tls://…; they see the "
        "party's keys, so it has to be the party's own",
    )


class SendOptions(Options):
    """Show a run's terms, then send one client's values, masked, to the parties: a client's step."""

    epsilon = Spending.epsilon.optional(
        help="the largest ε that this client accepts; nothing is sent to a run that spends more"
    )
    delta = Spending.delta.but(default=ACCEPTED_DELTA, help="the largest δ that it accepts, likewise")
    records = required(parse_path, f"{_OF_CLIENTS} of one client", "my.csv")
    invitation = required(
        parse_path,
        "the invitation that this client was given: addresses of the parties, and a key",
        "client-0.json",
    )
    timeout = Where.timeout.but(help="seconds until all parties have to be there")
    fingerprints = optional(
        parse_path,
        "a file with the SHA-256 of each party's certificate, a line each, party 0 first; nothing is sent to "
        "parties with others",
    )
    population = usual(
        "me",
        parse_population,
        "whose records these are, a name of your choice, which is charged what the run spends; none: nobody "
        "counts",
    )
    budget = AccountOptions.budget.but(
        help="the population's total ε, or ε,δ, for example 3 or 3,1e-6; sends nothing beyond it"
    )
    ledger = AccountOptions.ledger


class LedgerOptions(Options):
    """Show what each population's runs have spent, give or retire one, and copy or shrink the ledger."""

    population = Request.population.but(help="the one to show; default: all")
    budget = AccountOptions.budget.but(
        help="gives the population this budget: a total ε, or ε,δ, for example 3 or 3,1e-6; ,renyi or a "
        "number of runs after it says how they add up"
    )
    retire = Request.population.but(
        help="a population that stays, and that runs without a name need not mind, until it gets another "
        "budget"
    )
    ledger = AccountOptions.ledger
    copy = optional(parse_path, "a new file for a copy of the ledger, also while runs are under way")
    close_task = optional(
        parse_path,
        "the file of a task whose last day is over: no run takes its uploads any more, and the ledger, which "
        "gets smaller, forgets the counted ones",
    )
    plot = PLOT
    prints = "JSON"


class NoiseOptions(Options):
    """Reveal samples of noise, which then protect nothing, for audits and benchmarks (π_LAP)."""

    epsilon = Spending.epsilon.but(
        help="the ε that each sample would give a count, of which a record changes 1"
    )
    delta = Spending.delta.optional(help="the δ of such a count; default: 2^-40")
    n = required(
        Whole(1, in_module("fairshares.harness.releases.noise_samples:MOST_SAMPLES")),
        "how many samples, up to 100000",
        "1000",
    )
    noise = Randomness.noise
    trust = OptionGroup(Trust)
    out = OUT
    timeout = Where.timeout
    prints = "noise.json"


_SIZE = Whole(2, 4096)


class AuditOptions(
    Allowance,
    epsilon={"help": "the ε that the noise is made for; default: 1"},
    delta={
        "help": "the δ that it is made for; default: 2^-40 (not for the published sampler)",
    },
):
    """Recompute privacy guarantees exactly: of a --sampler, of a --release, or of the reference set."""

    sampler = optional(
        OneOf(lambda: ("default", "published")),
        "default, or in a clone of the project published; instead of the reference set",
    )
    release = optional(
        OneOf(in_module("fairshares.harness.privacy.audit.releases:AUDIT_TARGETS")),
        "a release, as weights; of clients, as weights-of-clients; as in active models, as "
        "weights-of-clients-active; any other word is answered by all of them; instead of a sampler",
    )
    sensitivity = optional(
        Whole(1, in_module("fairshares.protocols.accounting.exact_privacy:MAX_SENSITIVITY")),
        "of a sampler: by how much a count may move, up to 64; default: 1",
    )
    groups = optional(_SIZE, "of a release: how many; default: 2")
    labels = optional(_SIZE, "of a release: how many; default: 2")
    thresholds = optional(_SIZE, "of the release `thresholds`: how many; default: 101")
    steps = optional(_SIZE, "of the release gap: how many on each side of the range's center; default: 1000")
    neighboring_relation = Protect.neighboring_relation.but(
        help="of a release: add_or_remove_one (default), replace_one or zero_out_one"
    )
    noise = optional(
        NOISES,
        "of a release: joint (default), distributed or distributed-gaussian; of the parties of --security",
    )
    trust = OptionGroup(Trust, security={"help": "with --noise distributed: the model; see `./inv security`"})
    cap = optional(
        Whole(1, in_module("fairshares.harness.inputs.record_schema:MAX_CAP")),
        "of a release under zero_out_one: how many records of a client count; default: 10",
    )
    plot = PLOT
    out = OUT
    prints = "audit.json"

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of a release that are given, by name."""
        sizes = {
            "groups": self.groups,
            "labels": self.labels,
            "thresholds": self.thresholds,
            "steps": self.steps,
        }
        return {name: size for name, size in sizes.items() if size is not None}


class QuickstartOptions(Spending, epsilon={"default": "4", "example": ""}):
    """Compute DP weights and thresholds for real data, and compare a model with and without them."""

    trust = OptionGroup(Trust)
    out = OUT


class SecurityOptions(Options):
    """List the models that can run here, their engines, and what the other models lack."""

    prints = "JSON"


class TestOptions(Options):
    """Check format, lint, imports and types, then run the tests."""

    args = optional(as_given, "passed on to pytest, for example '-k sharing'")
    all = switch("exhaustive tests, too, as continuous integration does; tests/README.md says what they are")


class CheckOptions(Options):
    """Check one file or folder and run its tests, in seconds."""

    first = "path"
    path = required(
        parse_path,
        "a module, a program, a page, a file of tests, or a folder; tests/README.md says which tests are a "
        "module's",
        "harness/inputs/records.py",
    )
    fix = switch("format the code, and mend what Ruff can mend, before the checks")
    all = switch("all of its tests, however many there are and however long they take")


class DocsOptions(Options):
    """Build the documentation site; a warning, as of a link that leads nowhere, fails it."""


PARTIES_OF_MODELS = "how many parties these models have; default: the usual number of each"


class HostsCheckOptions(Options):
    """Check whether every host is ready for a run, or how this one is; change nothing."""

    hosts = HOSTS
    directory = optional(
        parse_path, "instead of --hosts, by the owner of one host, on it: that host's own directory"
    )
    metrics = optional(parse_path, "with --directory: a file for Prometheus' textfile collector")
    trust = OptionGroup(
        Trust,
        security={
            "help": "the model that the hosts are checked for; default: ring, or what the number of hosts "
            "allows"
        },
    )
    prints = "JSON"


class HostsSetupOptions(Options):
    """Make each host's keys and policy on that host, and give it the other hosts' certificates."""

    hosts = HOSTS
    renew = switch("make new keys, also where there are some, which sign the new ones as their successors")
    policy = optional(parse_path, "a policy for all hosts; default: the usual one, on hosts without any")
    security = optional(
        parse_models,
        "the models that the usual policy accepts, for example ring,mpyc; default: ring, or what the number "
        "of hosts allows; with --directory: ring if available, else mpyc",
    )
    parties = Trust.parties.but(help=PARTIES_OF_MODELS)
    directory = optional(
        parse_path, "instead of --hosts, by the owner of one host, on it: that host's own directory"
    )
    party = optional(parse_party, "with --directory: the number of its party")
    pin = optional(parse_names, "with --directory: the files that other hosts' owners sent")
    lost = optional(parse_lost, "with --pin: the parties whose owners say that they lost their keys")


class HostsPolicyOptions(Options):
    """Write a host's policy if it has none; check it, and show what has been spent of it."""

    directory = required(parse_path, "the host's own directory, on this machine", "/srv/fairshares")
    security = optional(
        parse_models,
        "the models that a new policy accepts, separated by commas; default: ring if available, else mpyc",
    )
    parties = Trust.parties.but(help=PARTIES_OF_MODELS)
    prints = "JSON"


class HostsLogOptions(Options):
    """Show what was asked of a host, what it did, and how runs ended there."""

    directory = required(parse_path, "the host's own directory, on this machine", "/srv/fairshares")
    last = usual("20", Whole(1, 10**6), "how many of the last events are shown; in JSON, all are")
    prints = "JSON"


class VerifyOptions(Options):
    """Check the results of a run on hosts, or a model trained over hosts, against what each host signed."""

    first = "results"
    results = required(
        parse_path, "the directory that a run on hosts, or `train --hosts`, wrote", "runs/weights"
    )
    fingerprints = optional(
        parse_path, "a file with the SHA-256 of each host's certificate, a line each, from the hosts' owners"
    )
    prints = "JSON"


class HostsRestoredOptions(
    Spending,
    epsilon={"help": "the ε that the lost runs on this population spent, as other hosts' ledgers say"},
    delta={"default": "2^-40", "help": "the δ that they spent, likewise"},
):
    """Say what a host's ledger lost that was restored from a backup, so that other hosts go on with it."""

    directory = required(parse_path, "the host's own directory, on this machine", "/srv/fairshares")
    population = required(parse_population, "the one that the lost runs were on", "loans")
    seen = required(parse_heads, "the heads that others have seen of it, as the refusal says", f"{0:064x}")
    privacy_unit = usual("record", parse_unit, "what the lost runs protected: record (default) or client")
    neighboring_relation = Protect.neighboring_relation.but(
        help="under which relation; default: that of runs that are there"
    )


class HostsCollectOptions(Options):
    """Fetch results of runs whose coordinator lost contact before it could read them."""

    hosts = HOSTS
    out = OUT.but(help="a new directory for a file per run; default: runs/hosts.collect-<time>")


class HostsCleanOptions(Options):
    """End processes that runs left behind on the hosts, and remove their files."""

    hosts = HOSTS


class OverHosts(Options):
    """A training over hosts, whose clients seal their updates for a task of vectors."""

    hosts = optional(
        parse_path,
        "instead of --records: a file that describes hosts, which reveal the sums of what clients have "
        "sealed by `share --round`; goes on where it was, in --out",
    )
    task = optional(parse_path, "with --hosts: the file of the task of vectors")
    clients = optional(
        Whole(1, 10**9), "with --hosts: the number by which sums are divided, fixed beforehand"
    )
    wait = optional(
        parse_seconds,
        "with --hosts: seconds that clients have in each round; default: each command reveals a round, and "
        "tells of the next one",
    )
    weights = optional(
        parse_path,
        "with --hosts: the directory of weights that hosts have released to the same population, by which "
        "clients weigh their records",
    )
    participations = optional(
        Whole(1, 10_000),
        "with --vectors: in how many rounds a client takes part at most, for which ε then is, with less "
        "noise; only each client's own program keeps it to that; default: all rounds",
    )
    vectors = optional(
        parse_path,
        "instead of --records: writes what a task declares for such a training over hosts, for its --domain, "
        "and trains nothing",
    )


class TrainOptions(Options):
    """The options of `train`."""

    also = "--records my.csv"
    training = OptionGroup(TrainRequest, records={"example": ""})  # hosts have no records
    over = OptionGroup(OverHosts)
    prints = "model.json"
    preprocess = PREPROCESS
    plot = PLOT

    @classmethod
    def summary(cls) -> str:
        return cls.training.kind.summary()
