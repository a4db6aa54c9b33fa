"""`task`, `keys`, `share`, `uploads` and `aggregate`: they parse, call and show."""

import os
from pathlib import Path

from fairshares.harness.charged import UNCHARGED
from fairshares.harness.cli.commands.pages import say_status, show_page
from fairshares.harness.cli.options import (
    AggregateOptions,
    KeysOptions,
    OfTask,
    ShareOptions,
    TaskOptions,
    UploadsOptions,
)
from fairshares.harness.cli.passphrase import asked_passphrase
from fairshares.harness.cli.terminal import announce, plain, say, show, steps
from fairshares.harness.errors import OptionError, named
from fairshares.harness.forecast.upload_costs import costs_of, recorded
from fairshares.harness.inputs.encoding import as_upload
from fairshares.harness.inputs.records import read_records
from fairshares.harness.pipeline.cluster import on_cluster, unprotected
from fairshares.harness.pipeline.tasks import (
    AskedTask,
    SaidOfRuns,
    allowed_on_upload,
    make_task,
    revealed_by_runs,
)
from fairshares.harness.privacy.ledger.charge import CountedBefore, chosen_ledger
from fairshares.harness.uploads.client import count_earlier, share as share_records
from fairshares.harness.uploads.counted_records import check_cap_is_a_number, records_left
from fairshares.harness.uploads.counting import Opener, opener_of
from fairshares.harness.uploads.files import SUFFIX, check_place, write_file
from fairshares.harness.uploads.keys import PARTY_FILE, party_with_keys
from fairshares.harness.uploads.lists import described
from fairshares.harness.uploads.locked_keys import is_in_memory, lock, unlock
from fairshares.harness.uploads.page_directory import write_page
from fairshares.harness.uploads.party import aggregate as aggregate_uploads, list_uploads
from fairshares.harness.uploads.sending import addresses_for, check_stored, send
from fairshares.harness.uploads.task import Task, read_task
from fairshares.harness.views.run_summary import STEPS
from fairshares.harness.views.upload_tasks import counted, meaning, planned
from fairshares.protocols.spec import INPUT_FORMS

_IF_LOST = (
    "Without these keys no upload of any party can be counted that waits for them: keep a copy elsewhere, by "
    "--lock."
)


def keys(options: KeysOptions) -> None:
    """Make a sealing key if a day is given; show all. Lock a copy of them, or unlock one first."""
    if options.lock and options.unlock:
        raise OptionError("--lock writes a copy and --unlock reads one; give one of them.")
    if options.unlock:
        number = unlock(options.unlock, options.directory, asked_passphrase(twice=False))
        where = "in memory, and gone at the next start" if is_in_memory(options.directory) else "on a disk"
        announce(f"{number} sealing keys are in {options.directory}, {where}.")
    party = party_with_keys(
        options.directory,
        name=options.name,
        address=options.address or "",
        until=options.until,
        hybrid=options.sealing == "hybrid",
    )
    for key, state in party.states().items():
        kind = "hybrid" if key.hybrid else "x25519"
        say(f"{state}: key {key.id.hex()}, for uploads until {key.until}, {kind}")
    file = options.directory / PARTY_FILE
    say(f"Give {plain(str(file))} to whoever makes a task. Everything else there is secret.")
    say(_IF_LOST)
    if options.lock:
        number = lock(options.directory, options.lock, asked_passphrase(twice=True))
        announce(
            f"{options.lock} has {number} sealing keys and needs the passphrase; the keys stay as they are."
        )


def task(options: TaskOptions) -> None:
    """Show a task's meaning, or make it first; write its page, or say who has taken part."""
    _check_goes_together(options)
    if os.path.lexists(options.file):
        if options.parties or options.until:
            raise OptionError(f"{options.file} is there, and a task never changes; name another file.")
    else:
        new = make_task(_asked(options))
        check_place(options.file)
        write_file(options.file, new.text)
    made = read_task(options.file)
    say(_meaning(made))
    if options.plan:
        last = len(made.parties) - 1  # this party's envelopes hold values
        show(planned(costs_of(options.plan, made, last, recorded()), options.plan))
    if options.page is not None and options.site is not None:
        write_page(made, options.page, options.site, wording=options.wording, is_open=options.open_link)
        show_page(made, options.page, options.site)
    if options.uploads is not None:
        say_status(made, options.uploads, options.invitations)


def _check_goes_together(options: TaskOptions) -> None:
    """Raise OptionError for an option of pages or of the status without the one that it is for."""
    of_page = options.stated("site", "wording", "open_link")
    of_status = options.stated("uploads", "invitations")
    if of_page and options.page is None:
        raise OptionError(f"{named(of_page[0])} is for {named('page')}; give both, or neither.")
    if options.page is not None and options.site is None:
        raise OptionError(
            f"Say where the page will be served, by {named('site', 'https://take-part.example.org/')}."
        )
    if of_status and not options.status:
        raise OptionError(f"{named(of_status[0])} is for {named('status')}; give both, or neither.")
    if options.status and options.uploads is None:
        raise OptionError(f"Name the directory of the parties' lists by {named('uploads', 'lists')}.")


def _asked(options: TaskOptions) -> AskedTask:
    return AskedTask(
        declares=options.declares,
        runs=_said_of_runs(options),
        parties=[Path(name) for name in options.parties or ()],
        until=options.until,
        admission=options.admission,
        least_uploads=options.least_uploads,
        cap=options.cap,
        security=options.trust.security,
        input_path=options.input_path,
        input_form=options.input_form,
    )


def _said_of_runs(options: ShareOptions | TaskOptions | OfTask) -> SaidOfRuns:
    return SaidOfRuns(options.epsilon, options.delta, options.for_tasks, options.privacy_unit)


def _meaning(task: Task) -> str:
    return "\n".join(plain(line) for line in meaning(task, revealed_by_runs(task)))


def share(options: ShareOptions) -> None:
    """Seal records for a task, or send sealed uploads."""
    task = read_task(options.task)
    if options.round is not None:
        from fairshares.harness.cli.commands.updates import share_update  # slow to load

        share_update(options, task, options.round)
        return
    said = _meaning(task)
    if options.records:
        task.check_open()
        _seal(options, options.records, task, said)
    if options.to and not options.check:
        addresses = addresses_for(task, options.to, options.certificate)
        assert options.out is not None  # it goes without for --check alone
        with steps(STEPS) as begin:
            begin("share")
            ends = send(options.out, addresses, options.certificate, announce)
        for party, end in zip(task.parties, ends, strict=True):
            stored = ", ".join(f"{number:,} {how}" for how, number in end.items())
            say(f"{plain(party.name)}: {stored or 'nothing to send'}.")
        check_stored(ends, options.out)


def _seal(options: ShareOptions, file: Path, task: Task, said: str) -> None:
    domain = task.domain
    if domain.vectors is not None:
        raise OptionError(
            "The task is of vectors: name the file of a training's round by "
            f"{named('round', 'round.json')}, or have your own program seal them, as the page on hosts says."
        )
    bounds = allowed_on_upload(_said_of_runs(options), task)
    if options.counted:
        check_cap_is_a_number(domain)
    with steps(STEPS) as begin:
        begin("records")
        records = read_records(file, domain, kind=domain.kind, say=announce)
        records = as_upload(records, INPUT_FORMS[task.form], announce)
        clients = counted(records.clients, "client")
        if options.check:
            say(said)
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
    earlier = count_earlier(options.out, sealed)
    if earlier:
        announce(
            f"{options.out} holds {counted(earlier, 'earlier upload')}, too; if the same records are in "
            "both, remove one of them."
        )


def uploads(options: UploadsOptions) -> None:
    """Write a party's list of uploads."""
    opener = _opener(options)
    population = None if options.population == UNCHARGED else options.population
    earlier = CountedBefore(chosen_ledger(options.ledger), population, options.chain)
    with steps(STEPS) as begin:
        begin("aggregate")
        listed = list_uploads(opener, options.shares, options.out, options.keys, earlier=earlier)
    report = listed.report
    why = described({reason: len(names) for reason, names in sorted(report.unsound.items())})
    others = f" Others: {why}." if why else ""
    repeated = f" {listed.repeated:,} more repeat these, or claim to be one." if listed.repeated else ""
    say(
        f"Party {report.party}: {len(report.sound)} uploads are sound here.{others}{repeated}"
        f" List, signed: {plain(str(options.out))}."
    )


def aggregate(options: AggregateOptions) -> None:
    """Write a party's input for a run."""
    opener = _opener(options)
    opened_by = None
    if options.cluster is not None:
        opened_by = on_cluster(options.cluster)
        warning = unprotected()
        if warning is not None:
            announce(warning)
    with steps(STEPS) as begin:
        begin("aggregate")
        header = aggregate_uploads(opener, options.shares, options.uploads, options.out, opened_by)
    if header.excluded:
        say(f"Uploads left out, by all parties alike: {described(header.excluded)}.")
    say(
        f"Party {header.party}: {counted(header.uploads, 'upload')} in {plain(str(options.out))}. "
        f"Uploads' fingerprint, the same at every party: {header.fingerprint[:16]}."
    )


def _opener(options: OfTask) -> Opener:
    task = read_task(options.task)
    return opener_of(task, options.party, options.keys, allowed_on_upload(_said_of_runs(options), task))
