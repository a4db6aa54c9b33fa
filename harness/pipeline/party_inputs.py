"""Where the parties' inputs come from: clients' records, their share files, or clients that send."""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.clients.invitations import invitations
from harness.clients.sender import Sender, sending
from harness.clients.session import MAX_CONNECTIONS, Begin, ClientInputs, Upload, elsewhere
from harness.engines.base import Progress
from harness.errors import ShareError
from harness.inputs.aggregation import (
    ANY,
    HINT,
    UNCOVERED,
    Agreement,
    UploadPolicy,
    UploadReport,
    aggregate,
    check_aggregates,
    common_uploads,
    described,
    extract_values,
    kind_in,
    paths_of,
    read_header,
    read_uploads,
    uploads_at,
)
from harness.inputs.client_policy import ClientPolicy
from harness.inputs.encoding import columns_of, count_columns, count_rows, is_per_record, shared_over
from harness.inputs.record_schema import RecordDomain, domain_from_json
from harness.inputs.records import ClientRecords
from harness.inputs.rings import Words
from harness.inputs.shares import (
    SUFFIX,
    Header,
    copies_of,
    expanded_shares,
    file_sizes,
    held_by,
    in_uploads,
    told,
)
from harness.inputs.synthetic import Federation
from harness.releases.base import Release
from harness.security_models import Model
from harness.system.files import create_file
from harness.system.progress import part as one_of
from protocols.spec import CLIENTS, REPLICATED, SPLIT, InputForm

# Of uploads of a domain, by `batch`: those whose clients' policies do not cover the run.
Uncovered = Callable[[RecordDomain, Mapping[str, ClientPolicy]], Collection[str]]

Uploads = Sequence[Sequence[Path] | None]  # each party's, None for all that there are

BENCHMARK_TERMS = {"task": "benchmark"}  # which no client that has anything to protect takes for a release
_OF_AN_UPLOAD = 64  # a part: so many values are shared at a time that they stay in a processor's cache
MAX_SENT = 2**18  # values that clients may send to a run: about 1 GB for each party in sy-rep-ring


@dataclass(frozen=True)
class PartyInputs:
    """The inputs of a run, and what is public of them.

    Attributes: rows: clients, or records where each has a row; values: a file per party, or None; sending:
    the clients that send, if they do; batches: of shares, their identities, if they stay; uploaded: bytes
    of these shares' files, per party, empty if they are not known; share_s: how long sharing took here;
    excluded: how many uploads were left out at every party alike, by why; policies: of the clients of these
    batches who have one.
    """

    domain: RecordDomain
    clients: int
    uploads: int
    rows: int
    values: Sequence[Path | None]
    sending: ClientInputs | None = None
    batches: tuple[str, ...] = ()
    uploaded: tuple[int, ...] = ()
    share_s: float = 0.0
    excluded: Mapping[str, int] = field(default_factory=dict)
    policies: Mapping[str, ClientPolicy] = field(default_factory=dict)

    @property
    def entries(self) -> int:
        """How many keys or slots there are in all."""
        return self.rows * (self.domain.cap.slots if self.domain.cap else 1)

    def public(self, form: InputForm) -> dict[str, Any]:
        """Return the numbers that the execution shows."""
        found: dict[str, Any] = {
            "clients": self.clients,
            "uploads": self.uploads,
            "max_count": self.domain.max_count,
        }
        if is_per_record(self.domain, form.name):
            found["records"] = self.rows
        if self.domain.cap:
            found["cap"] = self.domain.cap.slots
        return with_excluded(found, self.excluded)


def with_excluded(public: Mapping[str, Any], excluded: Mapping[str, int]) -> dict[str, Any]:
    """Return the public numbers of a run's inputs, with more uploads that were left out, by why."""
    because = {**public.get("excluded_because", {}), **excluded}
    counts = {"excluded_uploads": sum(because.values()), "excluded_because": because}
    return {**public, **(counts if because else {})}


def all_covered(_domain: RecordDomain, _policies: Mapping[str, ClientPolicy]) -> Collection[str]:
    """Return none: what is charged finds out whether clients allow it."""
    return ()


class Source(ABC):
    """Where the inputs of a run come from; asked twice, so that what cannot run is refused in between."""

    @abstractmethod
    def describe(
        self, release: Release, scratch: Path, progress: Progress, uncovered: Uncovered = all_covered
    ) -> PartyInputs:
        """Return what is public of the inputs, without values.

        Args: uncovered: says which uploads to leave out, as their clients do not allow the run.
        Raises: ShareError: they do not go together, or are for another model, input form or domain.
        """

    def deliver(
        self,
        described: PartyInputs,
        release: Release,  # noqa: ARG002
        terms: dict[str, Any],  # noqa: ARG002
        scratch: Path,  # noqa: ARG002
        progress: Progress,  # noqa: ARG002
        seconds: float,  # noqa: ARG002
    ) -> PartyInputs:
        """Have the inputs ready, in `scratch` what is needed meanwhile; nothing, where they are already.

        Args: terms: what clients who send have to agree with; seconds: that the parties may take.
        """
        return described


@dataclass(frozen=True)
class RecordsSource(Source):
    """Clients' records in one place: one process plays all clients, and takes the parties' steps."""

    records: ClientRecords

    def describe(
        self,
        release: Release,
        scratch: Path,  # noqa: ARG002
        progress: Progress,  # noqa: ARG002
        uncovered: Uncovered = all_covered,  # noqa: ARG002
    ) -> PartyInputs:
        nothing, rows = [None] * release.model.parties, count_rows(self.records, release.form.name)
        return PartyInputs(self.records.domain, self.records.clients, 1, rows, nothing)

    def deliver(
        self,
        described: PartyInputs,
        release: Release,
        terms: dict[str, Any],
        scratch: Path,
        progress: Progress,
        seconds: float,
    ) -> PartyInputs:
        if release.form.path is CLIENTS:
            return self._sending(described, release.form, terms, scratch, seconds)
        progress("share")
        form, model = release.form, release.model
        values, share_s = share_and_add_up(self.records, form, model, scratch, progress)
        uploaded = file_sizes(self.records, form, shared_over(form, model.domain), model.parties)
        rows = count_rows(self.records, form.name)
        if not rows:
            raise ShareError("No client has a record; there is nothing to compute.")
        return replace(described, rows=rows, values=values, uploaded=uploaded, share_s=share_s)

    def _sending(
        self,
        described: PartyInputs,
        form: InputForm,
        terms: dict[str, Any],
        scratch: Path,
        seconds: float,
    ) -> PartyInputs:
        """Have the clients send from this process, with keys in `scratch`.

        Raises: RecordsError: the input form does not fit a client; ShareError: too many values.
        """
        rows = columns_of(self.records, form).T  # a client's values in each, or a record's
        check_sent(rows.size)
        each = rows if len(rows) <= MAX_CONNECTIONS else [rows.ravel()]  # or all share one connection
        keys = scratch / "clients"
        keys.mkdir(mode=0o700)
        return replace(described, uploads=len(each), sending=local_clients(list(each), terms, keys, seconds))


@dataclass(frozen=True)
class SharesSource(Source):
    """What `share` or `aggregate` wrote, all parties on this machine.

    Args: directory: with a directory `party-<i>` of share files per party, or a file `party-<i>.aggregate`
    per party; it stays as it is; policy: what uploads have to be.
    """

    directory: Path
    policy: UploadPolicy = ANY

    def taken(self, uploads: Uploads) -> Uploads:
        """Return which of these the run takes: all, unless it is about some of them."""
        return uploads

    def describe(
        self, release: Release, scratch: Path, progress: Progress, uncovered: Uncovered = all_covered
    ) -> PartyInputs:
        form, model = release.form, release.model
        aggregates = sorted(self.directory.glob("party-*.aggregate"))
        parties = len(aggregates or [path for path in self.directory.glob("party-*") if path.is_dir()])
        if not parties:
            raise ShareError(
                f"{self.directory} holds no shares: there is neither a directory party-0, as `share` makes, "
                "nor a file party-0.aggregate, as `aggregate` does; name the directory that has all parties'."
            )
        if parties != model.parties:
            raise ShareError(
                f"{self.directory} holds shares for {parties} parties, model {model.name} has "
                f"{model.parties}; bring what is missing, share for this model, or choose the one it was "
                "shared for."
            )
        progress("aggregate")
        if aggregates:
            return replace(feed_heads(aggregates, form, model, policy=self.policy), values=aggregates)
        uploads, excluded, policies = sound_uploads(self.directory, form, model, self.policy, uncovered)
        written = [scratch / f"party-{i}.aggregate" for i in range(parties)]
        for i, (path, taken) in enumerate(zip(written, self.taken(uploads), strict=True)):
            with one_of(i, parties):
                aggregate(i, self.directory / f"party-{i}", path, taken)
        heads = feed_heads(written, form, model, policy=self.policy)
        return replace(heads, values=written, excluded=excluded, policies=policies)

    def deliver(
        self,
        described: PartyInputs,
        release: Release,  # noqa: ARG002
        terms: dict[str, Any],  # noqa: ARG002
        scratch: Path,
        progress: Progress,  # noqa: ARG002
        seconds: float,  # noqa: ARG002
    ) -> PartyInputs:
        aggregates = [path for path in described.values if path is not None]
        return replace(described, values=_extracted(aggregates, scratch))


@dataclass(frozen=True)
class InvitedSource(Source):
    """Invited clients that send, one each, while the parties run.

    Args: domain: what they may have; directory: for the invitations, which are gone when the run is over;
    clients: how many.
    """

    domain: RecordDomain
    directory: Path
    clients: int

    def describe(
        self,
        release: Release,
        scratch: Path,  # noqa: ARG002
        progress: Progress,  # noqa: ARG002
        uncovered: Uncovered = all_covered,  # noqa: ARG002
    ) -> PartyInputs:
        nothing = [None] * release.model.parties
        return PartyInputs(self.domain, self.clients, self.clients, self.clients, nothing)

    def deliver(
        self,
        described: PartyInputs,  # noqa: ARG002
        release: Release,
        terms: dict[str, Any],
        scratch: Path,
        progress: Progress,  # noqa: ARG002
        seconds: float,  # noqa: ARG002
    ) -> PartyInputs:
        from harness.engines.parties.certificates import make_key  # what signs takes long to load

        keys = scratch / "clients"
        keys.mkdir(mode=0o700)
        paths = [make_key(keys, f"C{number}", f"C{number}") for number in range(self.clients)]
        pairs = [(path.read_text(), path.with_suffix(".key").read_text()) for path in paths]
        begin = partial(invitations, pairs, terms, self.directory)
        certificates = [certificate for certificate, _ in pairs]
        return sent_inputs(self.domain, certificates, release.form, release.model, terms, begin)


@dataclass(frozen=True)
class SyntheticSource(Source):
    """Made-up records, of which each party makes its values itself; clients that send are of this process."""

    federation: Federation

    def describe(
        self,
        release: Release,
        scratch: Path,  # noqa: ARG002
        progress: Progress,  # noqa: ARG002
        uncovered: Uncovered = all_covered,  # noqa: ARG002
    ) -> PartyInputs:
        return synthetic_inputs(self.federation, release.form, release.model)

    def deliver(
        self,
        described: PartyInputs,
        release: Release,
        terms: dict[str, Any],  # noqa: ARG002
        scratch: Path,
        progress: Progress,
        seconds: float,
    ) -> PartyInputs:
        if release.form.path is not CLIENTS:
            return described
        clients = RecordsSource(self.federation.made_up())
        return clients.deliver(described, release, BENCHMARK_TERMS, scratch, progress, seconds)


def synthetic_inputs(
    federation: Federation, form: InputForm, model: Model, certificates: Sequence[str] = ()
) -> PartyInputs:
    """Return what is public of made-up records. Args: certificates: of clients that send, if these are known.

    [test: tests/commands/test_bench_measured.py]
    """
    domain, clients, sending = federation.domain, federation.clients, None
    rows = federation.records if is_per_record(domain, form.name) else clients
    if form.path is CLIENTS:
        each = count_columns(domain, form.name)
        sizes = [each] * rows if rows <= MAX_CONNECTIONS else [each * rows]
        pairs = zip(sizes, certificates or [""] * len(sizes), strict=True)
        sending = ClientInputs(tuple(Upload(*pair) for pair in pairs), BENCHMARK_TERMS)
    return PartyInputs(domain, clients, 1, rows, [None] * model.parties, sending)


def local_clients(
    sent: Sequence[npt.NDArray[np.int64]], terms: dict[str, Any], directory: Path, seconds: float
) -> ClientInputs:
    """Return clients that send from this process, with a key and one connection each.

    Args: sent: what each sends, client by client, flat; directory: for their keys, made and to be removed by
    the caller; seconds: that the parties may take.
    """
    from harness.engines.parties.certificates import make_key  # as above

    senders, uploads = [], []
    for number, values in enumerate(sent):
        certificate = make_key(directory, f"C{number}", f"C{number}")
        senders.append(Sender(number, certificate, certificate.with_suffix(".key"), values))
        uploads.append(Upload(len(values), certificate.read_text()))
    begin = partial(sending, senders, expected=terms, seconds=seconds)
    return ClientInputs(tuple(uploads), terms, begin)


def _extracted(aggregates: Sequence[Path], scratch: Path) -> list[Path]:
    """Take the values out of the parties' aggregates; return a file of them per party."""
    return [extract_values(path, scratch / f"party-{i}.values") for i, path in enumerate(aggregates)]


def sound_uploads(
    shares: Path,
    form: InputForm,
    model: Model,
    policy: UploadPolicy = ANY,
    uncovered: Uncovered = all_covered,
) -> tuple[Uploads, Mapping[str, int], Mapping[str, ClientPolicy]]:
    """Choose the uploads that all parties take of what `share` wrote.

    Those that are not sound at every party, or of another kind than most, are left out, or an error, by
    their form. In all forms those are left out whose clients' policies do not cover the run.
    Args: policy: what uploads have to be; uncovered: as for `Source.describe`.
    Returns: each party's, None for all that there are; how many are left out, by why; the clients' policies.
    Raises: ShareError: none is left.
    """
    own = [shares / f"party-{i}" for i in range(model.parties)]
    found = [uploads_at(i, directory, policy) for i, directory in enumerate(own)]
    policies = {batch: one for each in found for batch, one in each.policies.items()}
    agreement = agreed(found, form, model)
    if agreement:
        policies = {batch: policies[batch] for batch in agreement.batches & policies.keys()}
    kinds = {found[0].sound[each] for each in agreement.taken} if agreement else set(found[0].sound.values())
    bad: Collection[str] = ()
    if policies and kinds:  # else there is nothing to judge, or an error that says why not
        declared = found[0].domains[min(kinds).domain]
        bad = uncovered(domain_from_json(declared, "the shares' header"), policies)
    kept = {batch: one for batch, one in policies.items() if batch not in bad}
    paths: list[list[Path] | None] = [None] * model.parties
    left_out: Mapping[str, int] = {UNCOVERED: len(bad)} if bad else {}
    if agreement:
        agreement = agreement.without(bad)
        left_out = agreement.left_out
        paths = [paths_of(agreement.taken, each, own[each.party]) for each in found]
    elif bad:
        every = [sorted(directory.glob(f"*{SUFFIX}")) for directory in own]
        paths = [[path for path in some if read_header(path).batch not in bad] for some in every]
    if [] in paths:
        raise ShareError(f"No upload is left for this run: {described(left_out)}.")
    return paths, left_out, kept


def agreed(reports: Sequence[UploadReport], form: InputForm, model: Model) -> Agreement | None:
    """Choose the uploads that all parties take; None: all that there are, which all have to be sound.

    Where clients are trusted, see `InputForm.leaves_out`, only those are left out that their own policies
    keep from the run.
    Raises: ShareError: none is left; or others are not sound, where clients are trusted.
    """
    if not form.leaves_out and not any(UNCOVERED in each.unsound.values() for each in reports):
        return None
    agreement = common_uploads(reports, kind_of_run(form, model))
    others = {why: n for why, n in agreement.left_out.items() if not why.startswith(UNCOVERED)}
    if others and not form.leaves_out:
        raise ShareError(
            f"Parties have uploads that are not sound: {described(others)}; remove them at every party, or "
            "have them sent again."
        )
    return agreement


def kind_of_run(form: InputForm, model: Model) -> tuple[str, str, int, int]:
    """Return what uploads for a run are of: input form, arithmetic, parties and copies of each share."""
    copies = copies_of(form, model.parties)
    return form.name, shared_over(form, model.domain).name, model.parties, copies


def feed_heads(
    heads: Sequence[Path],
    form: InputForm,
    model: Model,
    uploaded: tuple[int, ...] = (),
    policy: UploadPolicy = ANY,
) -> PartyInputs:
    """Check what the parties' aggregates say of themselves; their values are elsewhere, or not needed yet.

    Args: heads: aggregates, or their first two lines; uploaded: bytes of the shares' files, per party;
    policy: what uploads have to be.
    Raises: ShareError: they do not go together, or are for another model, input form or domain.
    """
    return inputs_in(check_aggregates(heads), heads[0], form, model, uploaded, policy)


def inputs_in(
    header: Header,
    head: Path,
    form: InputForm,
    model: Model,
    uploaded: tuple[int, ...] = (),
    policy: UploadPolicy = ANY,
) -> PartyInputs:
    """Return what one party's aggregate says of all of them. Args, raises: as `feed_heads`."""
    kind = kind_of_run(form, model)
    if (header.copies > 1) != (form.path is REPLICATED):
        these, wanted = ("replicated", "additive") if header.copies > 1 else ("additive", "replicated")
        raise ShareError(
            f"These shares are {these}, and this run takes {wanted} ones (--input-path {form.path.name}); "
            "run by the path that they were shared for, or share again."
        )
    if kind_in(header) != kind:
        raise ShareError(
            f"These shares are {header.form} over {header.arithmetic} for {header.parties} parties; model "
            f"{model.name} with --input-form {form.name} takes {form.name} over {kind[1]} for {kind[2]}."
        )
    if policy.domain is not None and header.record_domain != policy.domain.to_json():
        raise ShareError(
            f"These shares are of another domain than --domain declares; correct it, or share again. {HINT}"
        )
    if not header.rows:
        raise ShareError("No client has a record; there is nothing to compute.")
    return PartyInputs(
        domain_from_json(header.record_domain, "the shares' header"),
        header.clients,
        header.batches,
        header.rows,
        [None] * model.parties,
        batches=(batches := _batches(head, policy)),
        uploaded=uploaded,
        policies=dict.fromkeys(batches, header.policy) if header.policy else {},
    )


def _batches(head: Path, policy: UploadPolicy) -> tuple[str, ...]:
    """Return which uploads are in an aggregate. Raises: ShareError: one is of more clients than may be."""
    found = [re.fullmatch("(.+):([0-9]{1,18}):[0-9]+", each) for each in read_uploads(head)]
    batches = tuple(each[1] for each in found if each)
    if len(batches) < len(found):
        raise ShareError(f"{head} is damaged: its list of uploads cannot be read; aggregate again.")
    most = max(int(each[2]) for each in found if each)
    if most > policy.clients:
        raise ShareError(
            f"One of these uploads holds {most} clients, more than --clients-per-upload {policy.clients}; "
            "leave it out with ./inv uploads."
        )
    return batches


def sent_inputs(
    domain: RecordDomain,
    certificates: Sequence[str],
    form: InputForm,
    model: Model,
    terms: dict[str, Any],
    begin: Begin = elsewhere,
) -> PartyInputs:
    """Return the inputs of a run to which clients with these certificates send, one each.

    Args: begin: see `ClientInputs`. Raises: ShareError: they would send too many values.
    """
    each, clients = count_columns(domain, form.name), len(certificates)
    check_sent(each * clients)
    uploads = tuple(Upload(each, certificate) for certificate in certificates)
    nothing = [None] * model.parties
    return PartyInputs(domain, clients, clients, clients, nothing, ClientInputs(uploads, terms, begin))


def check_sent(values: int) -> None:
    """Raise ShareError if clients would send more values than a run takes."""
    if values > MAX_SENT:
        raise ShareError(
            f"Clients would send {values} values to the parties, more than {MAX_SENT}; "
            "use --input-path shares."
        )


def share_and_add_up(
    records: ClientRecords, form: InputForm, model: Model, scratch: Path, progress: Progress
) -> tuple[list[Path], float]:
    """Take all clients' steps and the parties', some clients at a time, so that many take little room.

    Guarantees: the parties' values are of shares that were drawn and split client by client, as `share`
    does; these are in memory only.  [test: tests/harness/inputs/test_synthetic.py]
    Returns: a file of values per party, and how many seconds sharing took.
    """
    before, over = time.monotonic(), shared_over(form, model.domain)
    columns = count_columns(records.domain, form.name)
    held: list[list[Words]] = [[] for _ in range(model.parties)]
    copies = copies_of(form, model.parties)
    for part in told(in_uploads(records, form, _OF_AN_UPLOAD), records.clients):
        shares = expanded_shares(over.encode(columns_of(part, form)), over, model.parties)
        for kept, own in zip(held, shares, strict=True):
            block = own.reshape(columns, -1, over.words)
            if form.name == SPLIT.name:
                block = over.total(block)[:, np.newaxis]
                kept[:] = [over.add(kept[0], block) if kept else block]
            else:
                kept.append(block)
    share_s = time.monotonic() - before
    progress("aggregate")
    files = [scratch / f"party-{i}.values" for i in range(model.parties)]
    for party, path in enumerate(files):
        numbers = held_by(party, model.parties, copies)
        create_file(path, *(over.to_bytes(np.concatenate(held[each], axis=1)) for each in numbers))
    return files, share_s
