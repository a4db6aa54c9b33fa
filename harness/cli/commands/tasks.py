"""`task`, `keys`, `share`, `uploads` and `aggregate`."""

from functools import partial
from pathlib import Path

from fairshares.harness.cli.options import (
    ACCEPTED_DELTA,
    AggregateOptions,
    KeysOptions,
    OfTask,
    ShareOptions,
    TaskOptions,
    UploadsOptions,
)
from fairshares.harness.cli.terminal import announce, plain, say, show, steps
from fairshares.harness.engines.registry import choose_model
from fairshares.harness.errors import OptionError, ShareError, UnsupportedError, cannot, named, refuse
from fairshares.harness.forecast.uploads import costs_of, recorded
from fairshares.harness.inputs.encoding import as_upload, shared_over
from fairshares.harness.inputs.record_schema import RecordKind
from fairshares.harness.inputs.records import read_records
from fairshares.harness.inputs.shares import copies_of
from fairshares.harness.pipeline.cluster import on_cluster, unprotected
from fairshares.harness.pipeline.release import declared_domain, with_cap
from fairshares.harness.pipeline.sources import check_task
from fairshares.harness.privacy.ledger.charge import UNCHARGED, chosen_ledger
from fairshares.harness.privacy.ledger.populations import spent_text
from fairshares.harness.releases.base import kind_of
from fairshares.harness.releases.registry import REQUESTS
from fairshares.harness.request.base import chosen_form
from fairshares.harness.request.readers import parse_choice, parse_delta
from fairshares.harness.security_models import get_model
from fairshares.harness.uploads.client import share as share_records
from fairshares.harness.uploads.counted_records import records_left
from fairshares.harness.uploads.counting import Count, Opener
from fairshares.harness.uploads.files import SUFFIX, check_place, write_file
from fairshares.harness.uploads.keys import (
    FILE,
    SealingParty,
    check_place_of_keys,
    make_place_of_keys,
    read_party,
    today,
)
from fairshares.harness.uploads.lists import described, new_uploads, read_lists, write_uploads
from fairshares.harness.uploads.policy import ClientPolicy
from fairshares.harness.uploads.sending import Outcome, send
from fairshares.harness.uploads.task import ADMISSIONS, CERTIFICATE, URLS, Task, read_task
from fairshares.harness.views.run import STEPS
from fairshares.harness.views.uploads import planned
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.spec import INPUT_FORMS, PATHS, SLOTS


def keys(options: KeysOptions) -> None:
    """Make a sealing key if a day is given; show all."""
    directory, file = options.directory, options.directory / FILE
    if directory.is_dir():
        check_place_of_keys(directory)
    party = read_party(file) if file.exists() else SealingParty(options.name, options.address or "", [])
    if options.until:
        make_place_of_keys(directory)
        with cannot(f"write a key to {directory}", ShareError):
            party = party.with_new_key(directory, options.until, options.sealing == "hybrid")
    if not party.keys:
        raise OptionError(f"{directory} holds no keys; make one with --until, the day on which it expires.")
    for key, state in party.states().items():
        say(
            f"{state}: key {key.id.hex()}, for uploads until {key.until}, {'hybrid' * key.hybrid or 'x25519'}"
        )
    say(f"Give {plain(str(file))} to whoever makes a task. Everything else there is secret.")


def task(options: TaskOptions) -> None:
    """Show a task's meaning, or make it first."""
    if options.file.exists():
        if options.parties or options.until:
            raise OptionError(f"{options.file} is there, and a task never changes; name another file.")
    else:
        made = _made(options)
        check_place(options.file)
        write_file(options.file, made.text)
    made = read_task(options.file)
    say(_meaning(made))
    if options.plan:
        last = len(made.parties) - 1  # this party's envelopes hold values
        show(planned(costs_of(options.plan, made, last, recorded()), options.plan))


def _made(options: TaskOptions) -> Task:
    tasks = options.for_tasks or ["weights"]
    request = REQUESTS.get(tasks[0])
    kind = kind_of(tasks[0]) if request else RecordKind.NONE
    domain = declared_domain(options.declares, of_values=kind is RecordKind.VALUE)
    if not (request and domain and options.parties and options.until):
        raise OptionError(
            f"A task needs {named('parties')}, {named('until')}, {named('for_tasks')} that there are, and "
            f"{named('domain')}, or {named('groups')} and {named('labels')}."
        )
    domain = with_cap(domain.with_kind(kind), options.cap, PrivacyUnit.RECORD)
    model, forms = options.security or choose_model(None), request.input_forms()
    slots = SLOTS.name if domain.cap and SLOTS.name in forms else None
    form = chosen_form(forms, options.input_form or slots, options.input_path)
    if (reason := model.refusal(form.path)) is not None:
        raise UnsupportedError(reason)
    policy = policy_in(options.but(for_tasks=tasks), kind)
    assert policy is not None
    parties = [read_party(Path(name)) for name in options.parties]
    if len(parties) != model.parties:
        raise OptionError(
            f"Model {model.name} has {model.parties} parties; {named('parties')} names {len(parties)}."
        )
    for party in parties:
        last = max((key.until for key in party.keys), default="never")
        if last < options.until:
            raise OptionError(
                f"The last key of {party.name} expires on {last}, before the task ends on {options.until}. "
                f"Ask the party for a later key (./inv keys {named('until')}), or end the task earlier."
            )
    return Task(
        model.name,
        form.name,
        shared_over(form, model.domain).name,
        copies_of(form, model.parties),
        domain.to_json(),
        policy.to_json(),
        parties,
        options.least_uploads,
        options.until,
        options.admission,
    )


def _meaning(task: Task) -> str:
    model, domain, allowed = get_model(task.security), task.domain, task.allowed
    check_task(task, INPUT_FORMS[task.form].by(PATHS["shares" if task.copies == 1 else "replicated"]), model)
    known = [REQUESTS[name] for name in allowed.tasks if name in REQUESTS]
    revealed = {output for one in known for spec in one.specs().values() for output in spec.revealed}
    per_party = [
        f"Party {number}: {party.name}, {party.address or 'no address'}; "
        f"{task.envelope_bytes(number)} bytes of an envelope; "
        + ", ".join(f"key {key.id.hex()} {state} until {key.until}" for key, state in party.states().items())
        for number, party in enumerate(task.parties)
    ]
    lines = [
        f"Task {task.name}: clients share until {task.until}"
        f"{f', which is over, as this machine has {today()}' * (today() > task.until)}; "
        f"a run counts at least {task.least_uploads}.",
        f"Records: groups {', '.join(domain.groups)}; labels {', '.join(domain.labels) or 'none'}; "
        f"at most {counted(domain.max_count, 'record')} of a client"
        + (f", of which {domain.cap.slots} count." if domain.cap else "."),
        f"Revealed, by {', '.join(allowed.tasks)}: {'; '.join(sorted(revealed))}.",
        f"Clients: {ADMISSIONS[task.admission]}. The task says so; each server's owner sees to it.",
        f"All runs on an upload spend at most {spent_text(allowed.total)}, per {allowed.unit}.",
        *per_party,
        f"Model {model.name}: {model.corruptions} of the parties may be corrupt ({model.tolerates}). "
        f"{model.corruptions + 1} that collude can read what is computed on; "
        f"{model.corruptions + 1 if task.copies > 1 else model.parties}, single uploads.",
        "Sealed by ML-KEM-768 and X25519 together."
        if task.parties[0].keys[0].hybrid
        else "Sealed by X25519 alone: whoever keeps all envelopes until that is broken can read them.",
    ]
    return "\n".join(map(plain, lines))


def share(options: ShareOptions) -> None:
    """Seal records for a task, or send sealed uploads."""
    task = read_task(options.task)
    meaning = _meaning(task)
    if options.records:
        task.check_open()
        _seal(options, options.records, task, meaning)
    if options.to and not options.check:
        addresses = [party.address for party in task.parties] if options.to == "task" else options.to.split()
        refuse(
            OptionError,
            (
                len(addresses) != len(task.parties),
                f"The task has {len(task.parties)} parties; {named('to')} names {len(addresses)}.",
            ),
            (
                task.admission == CERTIFICATE and not options.certificate,
                "The task's servers want a certificate of each client; show yours by "
                f"{named('certificate')}.",
            ),
            (
                task.admission == URLS and any(address.endswith("/") for address in addresses),
                f"The task has a URL of its own for each upload; name those of yours by {named('to')}.",
            ),
        )
        assert options.out is not None  # it goes without for --check alone
        with steps(STEPS) as begin:
            begin("share")
            ends = send(options.out, addresses, options.certificate)
        for party, end in zip(task.parties, ends, strict=True):
            stored = ", ".join(f"{number:,} {how}" for how, number in end.items())
            say(f"{plain(party.name)}: {stored or 'nothing to send'}.")
        if any(not how.startswith(Outcome.STORED) for end in ends for how in end):
            raise ShareError(
                f"Not every upload is known to be stored; {options.out} keeps them. Send the rest by this "
                f"command without {named('records')}; sharing again would count the records twice."
            )


def _seal(options: ShareOptions, file: Path, task: Task, meaning: str) -> None:
    domain, bounds = task.domain, _stricter(options, task)
    if options.counted and domain.cap and domain.cap.weight_one:
        raise OptionError(
            "--counted keeps all uploads of a client to one cap, and that of this task is no number."
        )
    with steps(STEPS) as begin:
        begin("records")
        records = read_records(file, domain, kind=domain.kind, say=announce)
        records = as_upload(records, INPUT_FORMS[task.form], announce)
        clients = counted(records.clients, "client")
        if options.check:
            say(meaning)
            say(f"{records.sizes.sum():,} records of {clients} would be shared; nothing was.")
            return
        assert options.out is not None  # it goes without for --check alone
        begin("share")
        if options.counted:
            records = records_left(records, file, options.counted)
        sealed = share_records(task, records, options.out, bounds)
    say(
        f"Sealed {clients} for task {task.name[:16]}: {plain(str(options.out))}/party-<i>/<upload>{SUFFIX}. "
        "Share once: a second upload counts as another client's."
    )
    if earlier := len([*options.out.glob(f"party-0/*{SUFFIX}")]) - len(sealed):
        announce(
            f"{options.out} holds {counted(earlier, 'earlier upload')}, too; if the same records are in "
            "both, remove one of them."
        )


def uploads(options: UploadsOptions) -> None:
    """Write a party's list of uploads."""
    opener, ledger = _opener(options), chosen_ledger(options.ledger)
    key = opener.task.signer(options.party, options.keys)
    with steps(STEPS) as begin:
        begin("aggregate")
        count = Count(opener)
        count.add(own(options.shares, options.party))
    population = None if options.population == UNCHARGED else options.population
    listed = new_uploads(count.report(), partial(ledger.counted, population, options.chain or ""))
    write_uploads(listed, options.out, key)
    why = described({reason: len(names) for reason, names in sorted(listed.unsound.items())})
    say(
        f"Party {listed.party}: {len(listed.sound)} uploads are sound here."
        f"{f' Others: {why}.' if why else ''}"
        f"{f' {count.repeated:,} more repeat these, or claim to be one.' if count.repeated else ''}"
        f" List, signed: {plain(str(options.out))}."
    )


def aggregate(options: AggregateOptions) -> None:
    """Write a party's input for a run."""
    opener = _opener(options)
    check_place(options.out)
    agreement = read_lists(options.uploads, opener.task)
    if options.cluster is not None and (warning := unprotected()) is not None:
        announce(warning)
    with steps(STEPS) as begin:
        begin("aggregate")
        count = Count(opener, agreement.accepted, options.out.with_name(f"{options.out.name}.partial"))
        opened_by = None if options.cluster is None else on_cluster(options.cluster)
        count.add(own(options.shares, options.party), opened_by=opened_by)
        header = count.write(options.out, agreement.left_out)
    if header.excluded:
        say(f"Uploads left out, by all parties alike: {described(header.excluded)}.")
    say(
        f"Party {header.party}: {counted(header.uploads, 'upload')} in {plain(str(options.out))}. "
        f"Uploads' fingerprint, the same at every party: {header.fingerprint[:16]}."
    )


def counted(number: int, what: str) -> str:
    """Return a number of things in words."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def own(place: Path | str, party: int) -> Path | str:
    """Return a party's directory, also within all parties'."""
    if isinstance(place, str):
        return place
    of_party = place / f"party-{party}"
    return of_party if of_party.is_dir() else place


def policy_in(options: ShareOptions | TaskOptions | OfTask, kind: RecordKind) -> ClientPolicy | None:
    """Return the runs that the client allows, None for all, or raise OptionError."""
    if not options.epsilon:
        for name in ("delta", "for_tasks", "privacy_unit"):
            if getattr(options, name):
                raise OptionError(
                    f"{named(name)} goes with --epsilon, the most ε that runs on the upload may spend."
                )
        return None
    fitting = [name for name in REQUESTS if kind_of(name) is kind]
    tasks = [parse_choice("for_tasks", task, fitting) for task in options.for_tasks or fitting]
    delta = options.delta or parse_delta(ACCEPTED_DELTA, "delta")
    return ClientPolicy(
        tuple(tasks), Guarantee(options.epsilon, delta), options.privacy_unit or PrivacyUnit.RECORD
    )


def _stricter(options: ShareOptions | OfTask, task: Task) -> ClientPolicy | None:
    named_tasks = options.for_tasks or ([*task.allowed.tasks] if options.epsilon else None)
    return policy_in(options.but(for_tasks=named_tasks), task.domain.kind)


def _opener(options: OfTask) -> Opener:
    task = read_task(options.task)
    policy = _stricter(options, task) or task.allowed
    beyond = [
        task_name
        for task_name in policy.tasks
        if not task.allowed.covers(task_name, policy.unit, policy.total)
    ]
    if beyond:
        raise OptionError(f"The task does not allow runs of {beyond[0]} that spend that much; ask for less.")
    if options.party >= len(task.parties):
        raise OptionError(f"The task has {len(task.parties)} parties; name one of them by {named('party')}.")
    return Opener(task, options.party, task.secrets(options.party, options.keys), policy)
