"""One function per command: reads the options' text, calls the pipeline, shows what came out."""

from __future__ import annotations

from pathlib import Path

from harness import cli, sharing, show
from harness.cli import command, plain, say
from harness.errors import OptionError
from harness.models import Model
from harness.options import (
    parse_choice,
    parse_delta,
    parse_epsilon,
    parse_max_count,
    parse_names,
    parse_party,
    parse_relation,
    parse_seconds,
    require,
)
from harness.pipeline import (
    DEFAULT_DELTA,
    Settings,
    check_supported,
    default_out,
    weights_from_records,
    weights_from_shares,
)
from harness.postprocess import REWEIGHINGS
from harness.records import DEFAULT_MAX_COUNT, RecordDomain, read_domain, read_records
from harness.schemes import choose_model
from protocols.spec import PI_RW, SPLIT, InputForm


@command
def share(
    records: str, out: str, domain: str, groups: str, labels: str, max_count: str, model: str, input_form: str
) -> None:
    """Write one share file per party for the clients of a records file."""
    require({"--records": records, "--out": out})
    declared = _declared(domain, groups, labels, max_count)
    if declared is None:
        raise OptionError(
            "share needs --domain, or --groups and --labels: one client's file cannot tell what others have."
        )
    chosen = choose_model(model or None)
    found = read_records(Path(records), declared, may_be_empty=True)
    batch = sharing.share(found, _form(input_form), chosen.domain, chosen.parties, Path(out))
    clients = "1 client" if found.clients == 1 else f"{found.clients:,} clients"
    say(
        f"Shared {clients} for the {chosen.parties} parties of model {chosen.name}: "
        f"{plain(str(Path(out) / 'party-<i>' / (batch + sharing.SUFFIX)))}. Send each "
        "party its own file only, "
        "and share once: a second upload counts as another client's."
    )


@command
def aggregate(party: str, shares: str, out: str) -> None:
    """Write what one party feeds into a run."""
    require({"--party": party, "--shares": shares, "--out": out})
    number, directory = parse_party(party), Path(shares)
    own = directory / f"party-{number}"
    header = sharing.aggregate(number, own if own.is_dir() else directory, Path(out))
    say(
        f"Party {number}: {header.batches} uploads of {header.clients} clients in {plain(out)}. "
        f"Uploads' fingerprint, the same at every party: {header.batch[:16]}."
    )


@command
def weights(
    epsilon: str,
    records: str,
    shares: str,
    declared: tuple[str, str, str, str],
    model: str,
    input_form: str,
    delta: str,
    relation: str,
    reweighing: str,
    only: dict[str, tuple[str, str]],
    out: str,
    timeout: str,
    as_json: bool,
) -> None:
    """Run π_RW on a records file or on shares, all parties on this machine."""
    require({"--epsilon": epsilon})
    for option, (given, offered) in only.items():
        parse_choice(option, given, [offered])
    if as_json:
        cli.out.stderr = True  # nothing but JSON on stdout
    if bool(records) == bool(shares):
        raise OptionError(
            "Give either --records (a file of clients' records) or --shares (what `share` wrote)."
        )
    settings = Settings(
        model=_model(model),
        form=_form(input_form),
        epsilon=parse_epsilon(epsilon),
        delta=parse_delta(delta),
        relation=parse_relation(relation),
        timeout_s=parse_seconds(timeout),
        reweighing=parse_choice("--reweighing", reweighing, list(REWEIGHINGS)),
    )
    check_supported(settings)
    target = Path(out) if out else default_out("weights")
    with cli.steps(show.WEIGHT_STEPS) as begin:
        if records:
            begin("read")
            domain = _declared(*declared)
            most = parse_max_count(declared[3]) if declared[3] else DEFAULT_MAX_COUNT
            found = read_records(Path(records), domain, most)
            run = weights_from_records(found, settings, target, begin)
        else:
            if any(declared):
                raise OptionError(
                    "With --shares the domain is the one that was shared; leave out the options for it."
                )
            run = weights_from_shares(Path(shares), settings, target, begin)
    show.weights(run)
    show.one_machine(bool(records))
    show.results(target)
    if as_json:
        print((target / "weights.json").read_text(encoding="utf-8"), end="")


def _model(name: str) -> Model:
    chosen = choose_model(name or None)
    if not name:
        say(f"Model: {chosen.name} (choose another with --model; ./inv schemes lists them)", cli.err)
    return chosen


def _form(name: str) -> InputForm:
    return PI_RW.input_forms[parse_choice("--input-form", name, list(PI_RW.input_forms))]


def _declared(domain: str, groups: str, labels: str, max_count: str) -> RecordDomain | None:
    """Return the domain that the options declare, None if they leave it to be inferred."""
    if domain:
        if groups or labels or max_count:
            raise OptionError(
                "Declare the domain either by --domain or by --groups, --labels and --max-count."
            )
        return read_domain(Path(domain))
    if bool(groups) != bool(labels):
        raise OptionError("--groups and --labels go together: declare both.")
    if not groups:
        return None
    return RecordDomain(
        tuple(sorted(parse_names("--groups", groups))),
        tuple(sorted(parse_names("--labels", labels))),
        parse_max_count(max_count) if max_count else DEFAULT_MAX_COUNT,
    )


@command
def quickstart(model: str, epsilon: str, out: str) -> None:
    """Run the main job on the mortgage applications and show what the weights do."""
    from harness.quickstart import quickstart as run_quickstart  # scikit-learn is slow to import

    settings = Settings(_model(model), SPLIT, parse_epsilon(epsilon), parse_delta(DEFAULT_DELTA))
    target = Path(out) if out else default_out("quickstart")
    with cli.steps(show.QUICKSTART_STEPS) as begin:
        shown = run_quickstart(settings, target, begin)
    show.quickstart(shown)
    show.results(target)
