"""`task` and `keys`; and `share`, `uploads` and `aggregate` where clients share for a task and leave."""

from pathlib import Path

from harness.cli.commands import shares
from harness.cli.commands.shares import counted, own, policy_in, tell_aggregate, tell_check, tell_uploads
from harness.cli.options import (
    AggregateOptions,
    KeysOptions,
    OfTask,
    ShareOptions,
    TaskOptions,
    UploadsOptions,
)
from harness.cli.terminal import announce, plain, say, steps
from harness.clients.uploading import Outcome, send
from harness.errors import OptionError, ShareError, named
from harness.inputs.encoding import as_upload, shared_over
from harness.inputs.records import read_records
from harness.inputs.shares.client import of_what_is_left
from harness.inputs.shares.counting import Count, Opener
from harness.inputs.shares.envelope import client_of
from harness.inputs.shares.file_format import MAX_VALUES, SUFFIX, ClientPolicy, copies_of, write_file
from harness.inputs.shares.keys import FILE, SealingParty, read_party, secrets_in
from harness.inputs.shares.party import described, read_lists
from harness.inputs.shares.task import Task, read_task
from harness.pipeline.release import declared_domain
from harness.privacy.ledger.populations import spent_text
from harness.releases.registry import STATISTICS
from harness.request.releases import REQUESTS
from harness.security_models import get_model
from harness.views.run import STEPS
from protocols.spec import INPUT_FORMS

# What a task says for all clients, or has no place for.
_NOT_OF_ONE_CLIENT = (
    *("domain", "groups", "labels", "max_count", "range", "steps", "cap"),
    *("security", "input_form", "input_path", "threshold", "positive_label"),
)


def keys(options: KeysOptions) -> None:
    """Make a sealing key if a day is given; show which keys there are."""
    directory, file = options.directory, options.directory / FILE
    party = read_party(file) if file.exists() else SealingParty(options.name, options.address or "", [])
    if options.until:
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            party = party.with_new_key(directory, options.until, options.sealing == "hybrid")
        except OSError as error:
            raise ShareError(f"Cannot write a key to {directory}: {error.strerror}.") from None
    if not party.keys:
        raise OptionError(f"{directory} holds no keys; make one with --until, the day on which it expires.")
    for key, state in party.states().items():
        say(
            f"{state}: key {key.id.hex()}, for uploads until {key.until}, {'hybrid' * key.hybrid or 'x25519'}"
        )
    say(f"Give {plain(str(file))} to whoever makes a task. Everything else there is secret.")


def task(options: TaskOptions) -> None:
    """Make a task if its file is not there; check it, and say what it means."""
    if options.file.exists():
        if options.parties or options.until:
            raise OptionError(f"{options.file} is there, and a task never changes; name another file.")
    else:
        write_file(options.file, _made(options).text)
    say(_meaning(read_task(options.file)))


def _made(options: TaskOptions) -> Task:
    tasks = options.for_tasks or ["weights"]
    request, statistic = REQUESTS.get(tasks[0]), STATISTICS.get(tasks[0])
    domain = declared_domain(options, of_values=tasks[0] == "gap")
    if not (request and statistic and domain and options.parties and options.until):
        raise OptionError(
            f"A task needs {named('parties')}, {named('until')}, {named('for_tasks')} that there are, and "
            f"{named('domain')}, or {named('groups')} and {named('labels')}."
        )
    domain, form, model = shares.encoding(domain.with_kind(statistic.kind), options, request.input_forms())
    policy = policy_in(options.but(for_tasks=tasks), statistic.kind)
    assert policy is not None
    parties = [read_party(Path(name)) for name in options.parties]
    if len(parties) != model.parties:
        raise OptionError(
            f"Model {model.name} has {model.parties} parties; {named('parties')} names {len(parties)}."
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
    )


def _meaning(task: Task) -> str:
    """Return what a task means to a client, in sentences. Raises: OptionError: no such model is known."""
    model, domain, allowed = get_model(task.security), task.domain, task.allowed
    wanted = shared_over(INPUT_FORMS[task.form], model.domain) if task.copies == 1 else model.domain
    if model.parties != len(task.parties) or wanted is not task.ring:
        raise ShareError(f"The task's arithmetic or number of parties is not that of model {model.name}.")
    known = [name for name in allowed.tasks if name in REQUESTS]
    revealed = {each for name in known for spec in REQUESTS[name].specs().values() for each in spec.revealed}
    hybrid = task.parties[0].keys[0].hybrid
    per_party = [
        f"Party {number}: {party.name}, {party.address or 'no address'}; "
        f"{task.envelope_bytes(number)} bytes of an envelope; "
        + ", ".join(f"key {key.id.hex()} {state} until {key.until}" for key, state in party.states().items())
        for number, party in enumerate(task.parties)
    ]
    lines = [
        f"Task {task.name}: clients share until {task.until}; a run counts at least {task.least_uploads}.",
        f"Records: groups {', '.join(domain.groups)}; labels {', '.join(domain.labels) or 'none'}; "
        f"at most {counted(domain.max_count, 'record')} of a client"
        + (f", of which {domain.cap.slots} count." if domain.cap else "."),
        f"Revealed, by {', '.join(allowed.tasks)}: {'; '.join(sorted(revealed))}.",
        f"All runs on an upload spend at most {spent_text(allowed.total)}, per {allowed.unit}.",
        *per_party,
        f"Model {model.name}: {model.corruptions} of the parties may be corrupt ({model.tolerates}). "
        f"{model.corruptions + 1} that collude can read what is computed on; "
        f"{model.corruptions + 1 if task.copies > 1 else model.parties}, single uploads.",
        "Sealed by ML-KEM-768 and X25519 together."
        if hybrid
        else "Sealed by X25519 alone: whoever keeps all envelopes until that is broken can read them.",
    ]
    return "\n".join(map(plain, lines))


def share(options: ShareOptions) -> None:
    """Write one share file per party, for a task or for runs to come; send those of a task."""
    if not isinstance(options.task, Path):
        shares.share(options)
        return
    task = read_task(options.task)
    given = [name for name in _NOT_OF_ONE_CLIENT if not options.is_usual(name)]
    if given:
        raise OptionError(
            f"A task says that for all clients, or leaves no choice; leave out {named(given[0])}."
        )
    meaning = _meaning(task)
    if options.records:
        task.check_open()
        _seal(options, task, meaning)
    if options.to and not options.check:
        addresses = [party.address for party in task.parties] if options.to == "task" else options.to.split()
        if len(addresses) != len(task.parties):
            raise OptionError(
                f"The task has {len(task.parties)} parties; {named('to')} names {len(addresses)}."
            )
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


def _seal(options: ShareOptions, task: Task, meaning: str) -> None:
    """Seal the records of a file, or say which would be. Raises: RecordsError; ShareError; OptionError."""
    assert options.records is not None
    domain = task.domain
    client = client_of(task, _stricter(options, task))
    with steps(STEPS) as begin:
        begin("records")
        records = read_records(options.records, domain, may_be_empty=True, kind=domain.kind, say=announce)
        records = as_upload(records, client.form, announce)
        clients = counted(records.clients, "client")
        if options.check:
            say(meaning)
            tell_check(records)
            return
        begin("share")
        if options.counted:
            records = of_what_is_left(records, options.records, options.counted)
        client.share(records, options.out, MAX_VALUES)  # an upload for each
    say(
        f"Sealed {clients} for task {task.name[:16]}: {plain(str(options.out))}/party-<i>/<upload>{SUFFIX}. "
        "Share once: a second upload counts as another client's."
    )


def uploads(options: UploadsOptions) -> None:
    """Write which uploads one party has and takes, for all parties to see."""
    if options.task is None:
        shares.uploads(options)
        return
    with steps(STEPS) as begin:
        begin("aggregate")
        count = Count(_opener(options))
        count.add(own(options.shares, options.party))
    tell_uploads(count.report(), options.out)


def aggregate(options: AggregateOptions) -> None:
    """Write what one party feeds into a run."""
    if options.task is None:
        shares.aggregate(options)
        return
    accepted, left_out = None, ""
    if options.uploads:
        agreement = read_lists(options.uploads)
        accepted, left_out = agreement.batches, described(agreement.left_out)
    with steps(STEPS) as begin:
        begin("aggregate")
        count = Count(_opener(options), accepted, options.out.with_name(f"{options.out.name}.partial"))
        count.add(own(options.shares, options.party))
        header = count.write(options.out)
    tell_aggregate(header, options.out, left_out)


def _stricter(options: ShareOptions | OfTask, task: Task) -> ClientPolicy | None:
    """Return what is allowed by options, None for all that the task allows. Raises: OptionError."""
    named_tasks = options.for_tasks or ([*task.allowed.tasks] if options.epsilon else None)
    return policy_in(options.but(for_tasks=named_tasks), task.domain.kind)


def _opener(options: OfTask) -> Opener:
    """Return what opens a party's envelopes. Raises: OptionError; ShareError: it has no key of the task."""
    assert options.task is not None
    task = read_task(options.task)
    policy = _stricter(options, task) or task.allowed
    beyond = [each for each in policy.tasks if not task.allowed.covers(each, policy.unit, policy.total)]
    if beyond:
        raise OptionError(f"The task does not allow runs of {beyond[0]} that spend that much; ask for less.")
    if options.keys is None or options.party >= len(task.parties):
        raise OptionError(
            f"Name the party's {named('keys')}, and one of the task's {len(task.parties)} parties."
        )
    held = secrets_in(options.keys)
    own_keys = {key.id for key in task.parties[options.party].keys} & held.keys()
    if not own_keys:
        raise ShareError(f"{options.keys} holds no key of party {options.party} of this task; name its own.")
    return Opener(task, options.party, {key: held[key] for key in own_keys}, policy)
