"""Sources of a run's inputs: records, share files, or clients that send."""

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType, structs

from fairshares.harness.bounds import Size
from fairshares.harness.engines.execution import VALUES_ELSEWHERE, ClientValues, Progress, ValueFiles
from fairshares.harness.errors import OptionError, ShareError, named
from fairshares.harness.inputs.encoding import (
    columns_of,
    count_columns,
    count_rows,
    is_per_record,
    shared_over,
)
from fairshares.harness.inputs.record_schema import RecordDomain, domain_from_json
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.inputs.shares import copies_of, held_by, in_parts_to_share, split_into_shares
from fairshares.harness.online.client import Invitations, LocalClients, Sender
from fairshares.harness.online.session import ELSEWHERE, MAX_CONNECTIONS, ClientInputs, Clients, Upload
from fairshares.harness.privacy.manifest import StatedInputs
from fairshares.harness.privacy.stock import Piece
from fairshares.harness.releases.registry import request_from_json
from fairshares.harness.request.request import Protect, Request
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.system.documents import Refusal, as_json, as_type
from fairshares.harness.system.files import create_file
from fairshares.harness.system.progress import part_of_step
from fairshares.harness.uploads.aggregates import Header, check_aggregates, extract_values, read_uploads
from fairshares.harness.uploads.counting import Opener, UploadCount
from fairshares.harness.uploads.envelope import pieces_of
from fairshares.harness.uploads.files import AGGREGATE_SUFFIX, TASK_FILE
from fairshares.harness.uploads.identities import Identities
from fairshares.harness.uploads.lists import Agreement, UploadReport, common_uploads, new_uploads
from fairshares.harness.uploads.policy import ClientPolicies
from fairshares.harness.uploads.task import Task, read_task
from fairshares.protocols.accounting.calibration import NeighboringRelation
from fairshares.protocols.arrays import Integers, Words
from fairshares.protocols.json_values import JsonFields, JsonValue
from fairshares.protocols.spec import CLIENTS, InputForm


class CountableUploads(ABC):
    """Tells which uploads a run may count."""

    @abstractmethod
    def uncovered(self, domain: RecordDomain, policies: ClientPolicies) -> Collection[str]:
        """Return the uploads whose clients' policies do not cover a run on the domain."""

    @abstractmethod
    def counted(self, uploads: Iterable[str]) -> Collection[str]:
        """Return the uploads among these that earlier runs counted."""


@dataclass(frozen=True)
class PartyInputs:
    """A run's inputs and their public facts.

    Attributes:
        domain: The facts about the records.
        clients: The number of clients.
        uploads: The number of uploads or connections.
        rows: The number of clients or records, each with a value in each column.
        values: The place of the values. A source that has not delivered them yet says that they are
            elsewhere.
        batches: The identities of uploads that parties keep.
        upload_task: The digest of these uploads' task; None without uploads.
        uploaded: The bytes that clients sent to each party; empty if unknown.
        share_s: The seconds in which this machine shared the values.
        excluded: The number of left-out uploads, by reason.
        policies: The policies of these uploads' clients; None without uploads, or where hosts apply them.
        admission: The clients that the task's servers let upload, a name in `uploads.task.ADMISSIONS`; None
            for inputs without a task.
        columns: The dtypes of the records' columns, by name, as far as they are known.
        piece_at_hosts: The name of the piece of noise made ahead that all hosts have, None for none.
    """

    domain: RecordDomain
    clients: int
    uploads: int
    rows: int
    values: ClientValues = VALUES_ELSEWHERE
    batches: Collection[str] = ()
    upload_task: str | None = None
    uploaded: tuple[int, ...] = ()
    share_s: float = 0.0
    excluded: Mapping[str, int] = field(default_factory=dict)
    policies: ClientPolicies | None = None
    admission: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    piece_at_hosts: str | None = None

    @property
    def entries(self) -> int:
        """The number of keys or slots in all."""
        return self.rows * (self.domain.cap.slots if self.domain.cap else 1)

    def public(self, form: InputForm) -> StatedInputs:
        """Return the revealed numbers."""
        numbers = StatedInputs(
            clients=self.clients,
            uploads=self.uploads,
            max_count=self.domain.max_count,
            uploads_sha256=Identities.from_names(self.batches).fingerprint() if self.batches else UNSET,
            admission=self.admission if self.batches and self.admission is not None else UNSET,
            records=self.rows if is_per_record(self.domain, form.name) else UNSET,
            cap=self.domain.cap.slots if self.domain.cap else UNSET,
        )
        return with_excluded(numbers, self.excluded)


@dataclass(frozen=True)
class SentInputs(PartyInputs):
    """The inputs of a run to which clients send.

    Attributes:
        values: The clients that send.
    """

    values: ClientInputs = field()  # else the base's default would be one here, too


def with_excluded(public: StatedInputs, excluded: Mapping[str, int]) -> StatedInputs:
    """Add left-out uploads, by reason, to the public numbers of inputs."""
    already = {} if isinstance(public.excluded_because, UnsetType) else public.excluded_because
    because = {**already, **excluded}
    if not because:
        return public
    return structs.replace(public, excluded_uploads=sum(because.values()), excluded_because=because)


def check_task(task: Task, form: InputForm, model: SecurityModel) -> None:
    """Raise ShareError unless a task's uploads fit the model and the encoding."""
    copies = copies_of(form, model.parties)
    if task.security != model.name or task.form != form.name or task.copies != copies:
        shared = _shares_described(task.security, task.form, task.copies)
        wanted = _shares_described(model.name, form.name, copies)
        raise ShareError(
            f"Clients shared for {shared}; this run would be of {wanted}. Choose the former by "
            f"{named('security')}, {named('input_form')} and {named('input_path')}, or have clients share "
            "for another task."
        )
    if len(task.parties) != model.parties:
        raise ShareError(
            f"Clients shared for {len(task.parties)} parties; this run would be of {model.parties}, as model "
            f"{model.name} is here. Choose the former by {named('parties', len(task.parties))}, or have "
            "clients share for another task."
        )
    if task.arithmetic != shared_over(form, model.ring).name:
        raise ShareError(f"The task's arithmetic is not that of model {model.name}.")


def _shares_described(security: str, form: str, copies: int) -> str:
    """Return a description of shares, for messages; each share is held in so many copies."""
    kind = "additive" if copies == 1 else "replicated"
    return f"model {security}, as {form} in {kind} shares"


def feed_heads(
    heads: Sequence[Path], form: InputForm, model: SecurityModel, uploaded: tuple[int, ...] = ()
) -> PartyInputs:
    """Check the parties' aggregates, and return the inputs without values.

    Of party 0's aggregate the first two lines are read, of the others' the first line.

    Raises ShareError if they do not fit each other, the model or the encoding, or are too few.
    """
    return inputs_in(check_aggregates(heads), heads[0], form, model, uploaded)


def inputs_in(
    header: Header, head: Path, form: InputForm, model: SecurityModel, uploaded: tuple[int, ...] = ()
) -> PartyInputs:
    """Return the inputs of one party's aggregate. Raises as `feed_heads`."""
    task = header.task
    uploads = header.uploads
    check_task(task, form, model)
    task.check_count(uploads)
    batches = read_uploads(head)
    return PartyInputs(
        domain=task.domain,
        clients=uploads,
        uploads=uploads,
        rows=uploads,
        batches=batches,
        upload_task=task.declared.name,
        uploaded=uploaded,
        excluded=header.excluded,
        admission=task.admission,
        policies=ClientPolicies(batches, header.allowed, {}),
    )


MAX_SENT = 2**18  # values that clients may send to a run: about 1 GB for each party in sy-rep-ring


@dataclass(frozen=True)
class RunContext:
    """The facts about a run that a source needs.

    Attributes:
        release: The release that is asked for.
        scratch: A directory until the run's end.
        progress: Receives the name of each step.
        seconds: The time limit of the run, which clients in this process have, too.
        countable: Which uploads the run may count.
    """

    release: Request
    scratch: Path
    progress: Progress
    seconds: float
    countable: CountableUploads


class Source(ABC):
    """A source of inputs, in two steps; a run can be refused between them."""

    @abstractmethod
    def describe(self, run: RunContext) -> PartyInputs:
        """Return the public facts about the inputs; ShareError if they do not fit each other or the run."""

    def deliver(self, run: RunContext, described: PartyInputs, piece: Piece | None) -> PartyInputs:  # noqa: ARG002
        """Prepare the inputs, once the run is allowed. `piece` is its noise, if that was made ahead."""
        return described


@dataclass(frozen=True)
class RecordsSource(Source):
    """Clients' records in one place: one process plays all clients, which agree to `terms`, if they send."""

    records: ClientRecords
    terms: dict[str, JsonValue] | None = None

    def describe(self, run: RunContext) -> PartyInputs:
        records = self.records
        form = run.release.form
        rows = count_rows(records, form.name)
        if form.path is CLIENTS:
            check_sent(count_columns(records.domain, form.name) * rows)
        elif not rows:
            raise ShareError("No client has a record; there is nothing to compute.")
        return PartyInputs(
            domain=records.domain,
            clients=records.clients,
            uploads=1,
            rows=rows,
            columns=records.columns,
        )

    def deliver(self, run: RunContext, described: PartyInputs, piece: Piece | None) -> PartyInputs:
        form = run.release.form
        model = run.release.model
        if form.path is CLIENTS:
            rows = columns_of(self.records, form).T  # a row per client, or per record
            sent = list(rows)
            if len(rows) > MAX_CONNECTIONS:
                sent = [rows.ravel()]  # all through a single connection
            terms = self.terms or terms_of(run.release, described.domain, piece)
            clients = local_clients(sent, terms, run.scratch / "clients", run.seconds)
            return replace(described, uploads=len(sent), values=clients)
        run.progress("share")
        values, share_s = share_and_add_up(self.records, form, model, run.scratch, run.progress)
        shared = described.rows * count_columns(self.records.domain, form.name)
        share_bytes = shared * shared_over(form, model.ring).value_bytes
        copies = copies_of(form, model.parties)
        uploaded = []  # bytes to each party
        for party in range(model.parties):
            pieces = pieces_of(party, model.parties, copies, share_bytes, self.records.clients)
            uploaded.append(sum(size for _, size in pieces))
        files = ValueFiles(tuple(values))
        return replace(described, values=files, uploaded=tuple(uploaded), share_s=share_s)


@dataclass(frozen=True)
class SharesSource(Source):
    """Aggregates of all parties or, for trials, uploads with all parties' keys (docs/reference/files.md)."""

    directory: Path

    def describe(self, run: RunContext) -> PartyInputs:
        form = run.release.form
        model = run.release.model
        aggregates = self._aggregates()
        run.progress("aggregate")
        if aggregates:
            return feed_heads(aggregates, form, model)
        task = self._task(form, model)
        openers = [
            Opener(task, party, task.secrets(party, self.directory / f"keys-{party}"))
            for party in range(model.parties)
        ]
        counts = self._counts(openers)
        agreed = _agreed_uploads(counts, task.domain, run.countable)
        accepted = agreed.agreement.accepted
        if any(count.identities != accepted for count in counts):
            counts = self._counts(openers, accepted)
        heads: list[Path] = []
        for party, count in enumerate(counts):
            heads.append(run.scratch / f"party-{party}.head")
            count.write_apart(heads[-1], _values_in(run.scratch, party), agreed.agreement.left_out)
        return replace(feed_heads(heads, form, model), policies=agreed.policies)

    def _aggregates(self) -> list[Path]:
        """Return the parties' aggregates, in order; there are none if there are uploads."""
        return sorted(self.directory.glob(f"party-*{AGGREGATE_SUFFIX}"))

    def _task(self, form: InputForm, model: SecurityModel) -> Task:
        """Return the task of the uploads, or raise ShareError without one that fits."""
        if not os.path.lexists(self.directory / TASK_FILE):
            raise ShareError(
                f"{self.directory} holds no shares: there is neither party-0.aggregate, which `aggregate` "
                f"makes, nor {TASK_FILE}, which clients shared for; name the directory that has all parties'."
            )
        task = read_task(self.directory / TASK_FILE)
        check_task(task, form, model)
        return task

    def _counts(self, openers: Sequence[Opener], accepted: Iterable[str] | None = None) -> list[UploadCount]:
        """Count each party's uploads, or the accepted ones alone."""
        counts = [UploadCount(opener, accepted) for opener in openers]
        for party, count in enumerate(counts):
            with part_of_step(party, len(counts)):
                count.add(self.directory / f"party-{party}")
        return counts

    def deliver(self, run: RunContext, described: PartyInputs, piece: Piece | None) -> PartyInputs:  # noqa: ARG002
        for party, aggregate in enumerate(self._aggregates()):
            extract_values(aggregate, _values_in(run.scratch, party))
        # Of uploads, counting has written the values by themselves.
        files = [_values_in(run.scratch, party) for party in range(run.release.model.parties)]
        return replace(described, values=ValueFiles(tuple(files)))


def _values_in(scratch: Path, party: int) -> Path:
    """Return the file of a party's values in a run's directory."""
    return scratch / f"party-{party}.values"


@dataclass(frozen=True)
class _AgreedUploads:
    """The uploads that all parties have, and that the run may count.

    Attributes:
        agreement: The agreed uploads, and how many others there are, by the reason to leave them out.
        policies: The policies of their clients.
    """

    agreement: Agreement
    policies: ClientPolicies


def _agreed_uploads(
    counts: Sequence[UploadCount], domain: RecordDomain, countable: CountableUploads
) -> _AgreedUploads:
    """Compare all parties' counts of the uploads of records of a domain.

    An upload has the same policy at all parties, as its identity is a digest of the policy, too.
    """
    reports: list[UploadReport] = []
    for count in counts:
        report = count.report()
        reports.append(new_uploads(report, countable.counted(report.sound)))
    policies = counts[0].policies
    uncovered = countable.uncovered(domain, policies.among(reports[0].sound))
    agreement = common_uploads([report.without(uncovered) for report in reports])
    return _AgreedUploads(agreement, policies.among(agreement.accepted))


@dataclass(frozen=True)
class InvitedSource(Source):
    """Invited clients, which send during the run."""

    domain: RecordDomain
    directory: Path
    clients: int

    def describe(self, run: RunContext) -> PartyInputs:
        check_sent(count_columns(self.domain, run.release.form.name) * self.clients)
        return PartyInputs(
            domain=self.domain,
            clients=self.clients,
            uploads=self.clients,
            rows=self.clients,
        )

    def deliver(self, run: RunContext, described: PartyInputs, piece: Piece | None) -> PartyInputs:
        release = run.release
        paths = _client_keys(run.scratch / "clients", self.clients)
        pairs = [(path.read_text(), path.with_suffix(".key").read_text()) for path in paths]
        terms = terms_of(release, described.domain, piece)
        return sent_inputs(
            self.domain,
            [certificate for certificate, _ in pairs],
            release.form,
            terms,
            clients=Invitations(pairs, terms, self.directory),
        )


def sent_inputs(
    domain: RecordDomain,
    certificates: Sequence[str],
    form: InputForm,
    terms: dict[str, JsonValue],
    *,
    clients: Clients = ELSEWHERE,
) -> SentInputs:
    """Return the inputs of a run to which clients send."""
    columns = count_columns(domain, form.name)
    number = len(certificates)
    check_sent(columns * number)
    uploads = tuple(Upload(columns, certificate) for certificate in certificates)
    return SentInputs(
        domain=domain,
        clients=number,
        uploads=number,
        rows=number,
        values=ClientInputs(uploads, terms, clients),
    )


class _TermsFields(Struct, frozen=True, kw_only=True):
    """The terms for clients, as invitations and hosts' messages have them.

    Attributes:
        request: The texts of the request's options, by name.
        domain: The groups and labels of clients' records.
        attempts: How often making the run's noise ahead was begun; 0 if parties make it in the run.
    """

    request: dict[str, Annotated[str, Meta(min_length=1)]]
    domain: JsonFields
    attempts: Size


@dataclass(frozen=True)
class ClientTerms:
    """The terms that a client is to agree with.

    Attributes:
        request: The run's request.
        domain: The groups and labels of the client's records.
        relation: The neighboring relation of the run's guarantee.
        attempts: How often making the run's noise ahead was begun; 0 if parties make it in the run.
    """

    request: Request
    domain: RecordDomain
    relation: NeighboringRelation
    attempts: int


def terms_of(request: Request, domain: RecordDomain, piece: Piece | None = None) -> dict[str, JsonValue]:
    """Return the terms for clients: the request, the domain, and the attempts to make noise ahead."""
    in_relation = request.but(Protect.neighboring_relation, request.relation_in(domain))
    public_request = in_relation.but(Request.population, None)
    fields = _TermsFields(
        request=public_request.to_json(),
        domain=JsonFields(domain.to_json()),
        attempts=piece.attempts if piece else 0,
    )
    return as_json(fields)


def read_terms(terms: JsonValue, where: str) -> ClientTerms:
    """Return the terms in a text; errors name `where`.

    Guarantees: no default stands in for what terms leave out.
    [test: tests/harness/pipeline/test_run.py::test_terms_that_cannot_be_are_refused]

    Raises ShareError for unknown terms, RecordDomainError for an invalid domain.
    """
    refusal = Refusal(ShareError, where, "for a run that this version can describe", "nothing was sent")
    fields = as_type(_TermsFields, terms, refusal)
    try:
        request = request_from_json(fields.request)
        request.program_of(request.spec)
    except OptionError:
        refusal.say("it names others than are known here")
    if not request.online or request.form.path is not CLIENTS:
        refusal.say("it is for a run to which no client sends")
    relation = request.protect.neighboring_relation
    are_all_told = request.to_json().keys() == fields.request.keys()
    if request.security is None or relation is None or not are_all_told:
        refusal.say("it leaves out what a client is to agree with")
    if (fields.attempts > 0) != request.randomness.offline:
        refusal.say("it does not say how often making its noise was begun")
    return ClientTerms(request, domain_from_json(fields.domain, where), relation, fields.attempts)


def request_of_run(fields: Mapping[str, JsonValue]) -> Request:
    """Return a host's request; OptionError if it is unknown."""
    request = request_from_json(fields)
    if request.security is None:
        raise OptionError(f"The run that is asked for ({request.task}) names no model.")
    return request


def check_sent(values: int) -> None:
    """Raise ShareError if clients would send too many values."""
    if values > MAX_SENT:
        raise ShareError(
            f"Clients would send {values} values to the parties, more than {MAX_SENT}; "
            f"use {named('input_path', 'shares')}."
        )


def local_clients(
    sent: Sequence[Integers], terms: dict[str, JsonValue], directory: Path, seconds: float
) -> ClientInputs:
    """Return clients in this process, each with a key and connection."""
    keys = _client_keys(directory, len(sent))
    senders = [Sender(number, keys[number], values) for number, values in enumerate(sent)]
    uploads = tuple(Upload(len(sender.values), sender.certificate.read_text()) for sender in senders)
    return ClientInputs(uploads, terms, LocalClients(senders, terms, seconds))


def _client_keys(directory: Path, clients: int) -> list[Path]:
    from fairshares.harness.engines.parties.certificates import make_key  # what signs takes long to load

    directory.mkdir(mode=0o700, exist_ok=True)
    return [make_key(directory, f"C{number}", f"C{number}") for number in range(clients)]


def share_and_add_up(
    records: ClientRecords, form: InputForm, model: SecurityModel, scratch: Path, progress: Progress
) -> tuple[list[Path], float]:
    """Take all clients' and parties' steps; return a file per party, and seconds.

    Guarantees: shares are drawn client by client, as by `share`, in memory.
    [test: tests/harness/pipeline/test_sharing.py]
    """
    before = time.monotonic()
    ring = shared_over(form, model.ring)
    columns = count_columns(records.domain, form.name)
    shares: list[list[Words]] = [[] for _ in range(model.parties)]  # blocks of each share
    for part in in_parts_to_share(records, form, 64):  # a 64th of an upload fits a processor's cache
        split = split_into_shares(ring.encode(columns_of(part, form)), ring, model.parties)
        for blocks, (_, share) in zip(shares, split, strict=True):
            blocks.append(share.reshape(columns, -1, ring.words))
            if form.summed_by_party:
                sum_so_far = ring.total(np.concatenate(blocks, axis=1))[:, np.newaxis]
                blocks[:] = [sum_so_far]
    share_s = time.monotonic() - before
    progress("aggregate")
    files = [scratch / f"party-{party}.values" for party in range(model.parties)]
    for party, path in enumerate(files):
        numbers = held_by(party, model.parties, copies_of(form, model.parties))
        create_file(path, *(ring.to_bytes(np.concatenate(shares[number], axis=1)) for number in numbers))
    return files, share_s
