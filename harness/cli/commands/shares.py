"""`share`, `uploads` and `aggregate`: a client's step, and a party's."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from harness.cli.options import (
    ACCEPTED_DELTA,
    AggregateOptions,
    OfTask,
    ShareOptions,
    TaskOptions,
    UploadsOptions,
)
from harness.cli.terminal import announce, plain, say, steps
from harness.engines.registry import choose_model
from harness.errors import OptionError, UnsupportedError, named
from harness.inputs.encoding import as_upload, shared_over
from harness.inputs.record_schema import RecordDomain, RecordKind, read_domain
from harness.inputs.records import ClientRecords, read_records
from harness.inputs.shares import party as parties
from harness.inputs.shares.client import Client, of_what_is_left
from harness.inputs.shares.file_format import MAX_VALUES, SUFFIX, ClientPolicy, Header
from harness.inputs.shares.party import (
    HINT,
    UNDECLARED,
    UploadPolicy,
    UploadReport,
    described,
    paths_of,
    read_lists,
    uploads_at,
    write_uploads,
)
from harness.pipeline.release import declared_domain, score_cut, with_cap
from harness.privacy.ledger.populations import spent_text
from harness.releases.registry import STATISTICS
from harness.request.base import chosen_form
from harness.request.readers import parse_choice, parse_delta
from harness.request.releases import REQUESTS
from harness.security_models import SecurityModel
from harness.views.releases import confusion as cut_view
from harness.views.run import STEPS
from protocols.accounting.calibration import PrivacyUnit
from protocols.guarantee import Guarantee
from protocols.spec import REPLICATED, SLOTS, InputForm

# What shares can be for; counts with a relative error take those of weights.
TASKS = {name: statistic for name, statistic in STATISTICS.items() if name != "count"}


def share(options: ShareOptions) -> None:
    """Write one share file per party for the clients of a records file."""
    if options.to or not options.records:
        raise OptionError("--to sends what was shared for a task; name its file by --task task.json.")
    statistic = TASKS[options.task]
    forms, kind = REQUESTS[options.task].input_forms(), statistic.kind
    if (options.range or options.steps) and kind is not RecordKind.VALUE:
        raise OptionError("--range and --steps go with --task gap only.")
    domain = declared_domain(options, of_values=kind is RecordKind.VALUE)
    if domain is None:
        raise OptionError(
            "share needs --domain, or --groups and --labels: one client's file cannot tell what others have."
        )
    domain, form, model = encoding(domain, options, forms)
    if options.positive_label and options.threshold is None:
        raise OptionError("--positive-label is the label that --threshold predicts; give both, or neither.")
    cut = score_cut(options)
    if cut is not None and kind is not RecordKind.PREDICTION:
        raise OptionError("--threshold makes predictions from scores; it goes with --task confusion only.")
    if options.counted and domain.cap and domain.cap.weight_one:
        raise OptionError("--counted keeps all uploads of a client to one cap: give --cap a number.")
    policy = policy_in(options, kind)
    with steps(STEPS) as begin:
        begin("records")
        records = read_records(options.records, domain, may_be_empty=True, kind=kind, cut=cut, say=announce)
        records = as_upload(records, form, announce)
        clients = counted(records.clients, "client")
        if options.check:
            tell_check(records)
            return
        begin("share")
        if options.counted:
            records = of_what_is_left(records, options.records, options.counted)
        over = shared_over(form, model.domain)
        batches = Client(form, over, model.parties, policy).share(records, options.out)
    earlier = len([*options.out.glob(f"party-0/*{SUFFIX}")]) - len(batches)
    uploads = batches[0] if len(batches) == 1 else f"<{len(batches)} uploads>"
    if cut is not None:
        say(cut_view.direction(cut, domain))
    say(
        f"Shared {clients} for the {model.parties} parties of model {model.name}: "
        f"{plain(str(options.out / 'party-<i>' / (uploads + SUFFIX)))}. "
        "Send each party its own file only, and share once: a second upload counts as another client's."
    )
    if earlier:
        before = counted(earlier, "earlier upload")
        announce(f"{options.out} holds {before}, too; if the same records are in both, remove one of them.")
    if form.path is REPLICATED:
        say(
            f"Any {model.corruptions + 1} of these parties together can read what was shared; of additive "
            f"shares, the default, it takes all {model.parties}. In turn no party can change it unnoticed."
        )
    if policy:
        say(
            f"Who has a file can read your policy in it: {', '.join(policy.tasks)}; in all at most "
            f"{spent_text(policy.total)}, per {policy.unit}."
        )


def tell_check(records: ClientRecords) -> None:
    """Say how much `share` would share."""
    clients = counted(records.clients, "client")
    say(f"{records.sizes.sum():,} records of {clients} would be shared; nothing was.")


def encoding(
    domain: RecordDomain, options: ShareOptions | TaskOptions, forms: Mapping[str, InputForm]
) -> tuple[RecordDomain, InputForm, SecurityModel]:
    """Return what clients declare, how they share, and for which model. Raises: as `with_cap`."""
    domain = with_cap(domain, options.cap, PrivacyUnit.RECORD)
    model = options.security or choose_model(None)
    slots = SLOTS.name if domain.cap and SLOTS.name in forms else None
    form = chosen_form(forms, options.input_form or slots, options.input_path)
    if (reason := model.refusal(form.path)) is not None:
        raise UnsupportedError(reason)
    return domain, form, model


def policy_in(options: ShareOptions | TaskOptions | OfTask, kind: RecordKind) -> ClientPolicy | None:
    """Return what the client allows, None for every run. Raises: OptionError: options do not go together."""
    if not options.epsilon:
        for name in ("delta", "for_tasks", "privacy_unit"):
            if getattr(options, name):
                raise OptionError(
                    f"{named(name)} goes with --epsilon, the most ε that runs on the upload may spend."
                )
        return None
    fitting = [name for name, statistic in STATISTICS.items() if statistic.kind is kind]
    tasks = [parse_choice("for_tasks", task, fitting) for task in options.for_tasks or fitting]
    unit = options.privacy_unit or PrivacyUnit.RECORD
    delta = options.delta or parse_delta(ACCEPTED_DELTA, "delta")
    return ClientPolicy(tuple(tasks), Guarantee(options.epsilon, delta), unit)


def uploads(options: UploadsOptions) -> None:
    """Write which uploads one party has and takes, for all parties to see."""
    party = options.party
    policy = UploadPolicy(
        read_domain(options.domain) if options.domain else None,
        options.clients_per_upload or MAX_VALUES,
    )
    tell_uploads(uploads_at(party, own(options.shares, party), policy), options.out)


def tell_uploads(listed: UploadReport, out: Path) -> None:
    """Write a party's list, and say what is in it."""
    write_uploads(listed, out)
    why = Counter(sorted(listed.unsound.values()))
    others = f" Others: {described(why)}." if why else ""
    say(f"Party {listed.party}: {len(listed.sound)} uploads are sound here.{others} List: {plain(str(out))}.")
    if UNDECLARED in why:
        say(HINT)


def aggregate(options: AggregateOptions) -> None:
    """Write what one party feeds into a run."""
    party = options.party
    directory = own(options.shares, party)
    accepted, left_out = None, ""
    if options.uploads:
        agreement = read_lists(options.uploads)
        accepted = paths_of(agreement.taken, uploads_at(party, directory), directory)
        left_out = described(agreement.left_out)
    with steps(STEPS) as begin:
        begin("aggregate")
        header = parties.aggregate(party, directory, options.out, accepted)
    tell_aggregate(header, options.out, left_out)


def tell_aggregate(header: Header, out: Path, left_out: str) -> None:
    """Say what a party feeds into a run. Args: left_out: what all parties leave out, and why."""
    if left_out:
        say(f"Uploads left out, by all parties alike: {left_out}.")
    say(
        f"Party {header.party}: {counted(header.batches, 'upload')} of {counted(header.clients, 'client')} "
        f"in {plain(str(out))}. "
        f"Uploads' fingerprint, the same at every party: {header.batch[:16]}."
    )


def counted(number: int, what: str) -> str:
    """Return a number of things in words."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def own(directory: Path, party: int) -> Path:
    """Return where a party's files are: in a directory with all parties', or in one of its own."""
    of_party = directory / f"party-{party}"
    return of_party if of_party.is_dir() else directory
