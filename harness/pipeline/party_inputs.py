"""The inputs of a run as everybody sees them, and which clients' uploads they are of."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.clients.session import ClientInputs
from harness.errors import ShareError, UsedUploadsError, named
from harness.inputs.encoding import is_per_record, shared_over
from harness.inputs.record_schema import RecordDomain, domain_from_json
from harness.inputs.shares.file_format import (
    SUFFIX,
    ClientPolicy,
    Header,
    UploadKind,
    check_aggregates,
    copies_of,
    hash_of,
    read_header,
    read_uploads,
)
from harness.inputs.shares.party import (
    ANY,
    COUNTED,
    HINT,
    UNCOVERED,
    Agreement,
    UploadPolicy,
    UploadReport,
    common_uploads,
    described,
    paths_of,
    uploads_at,
)
from harness.security_models import SecurityModel
from protocols.spec import REPLICATED, InputForm

# Of uploads of a domain, by `batch`: those whose clients' policies do not cover the run.
Uncovered = Callable[[RecordDomain, Mapping[str, ClientPolicy]], Collection[str]]

CountedUploads = Callable[[Iterable[str]], Collection[str]]  # those that the run's chain counted before

Uploads = Sequence[Sequence[Path] | None]  # each party's, None for all that there are


@dataclass(frozen=True)
class PartyInputs:
    """The inputs of a run, and what is public of them.

    Attributes:
        domain: What is public about records.
        clients: How many clients there are.
        uploads: How many uploads or connections they come by.
        rows: How many rows there are: clients, or records where each has a row.
        values: A file per party. None where a party has its values by itself, or is sent them.
        sending: The clients that send, if they do.
        batches: The identities of shares' uploads, if they stay.
        uploaded: How many bytes these shares' files have, per party; empty if that is not known.
        share_s: How many seconds sharing took here.
        excluded: How many uploads were left out at every party alike, by why.
        policies: Those of the clients of these batches who have one.
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
        numbers: dict[str, Any] = {
            "clients": self.clients,
            "uploads": self.uploads,
            "max_count": self.domain.max_count,
        }
        if self.batches:
            numbers["uploads_sha256"] = hash_of(self.batches)
        if is_per_record(self.domain, form.name):
            numbers["records"] = self.rows
        if self.domain.cap:
            numbers["cap"] = self.domain.cap.slots
        return with_excluded(numbers, self.excluded)


def with_excluded(public: Mapping[str, Any], excluded: Mapping[str, int]) -> dict[str, Any]:
    """Return the public numbers of a run's inputs, with more uploads that were left out, by why."""
    because = {**public.get("excluded_because", {}), **excluded}
    counts = {"excluded_uploads": sum(because.values()), "excluded_because": because}
    return {**public, **(counts if because else {})}


def sound_uploads(
    shares: Path,
    form: InputForm,
    model: SecurityModel,
    policy: UploadPolicy,
    uncovered: Uncovered,
    counted: CountedUploads = lambda _: (),
) -> tuple[Uploads, Mapping[str, int], Mapping[str, ClientPolicy]]:
    """Choose the uploads that all parties take of what `share` wrote.

    Those that are not sound at every party, or of another kind than most, are left out, or an error, by
    their form. In all forms those are left out whose clients' policies do not cover the run, or that its
    chain counted before.
    Args: policy: what uploads have to be; uncovered, counted: as for a `RunContext`.
    Returns: each party's, None for all that there are; how many are left out, by why; the clients' policies.
    Raises: ShareError: none is left; UsedUploadsError: as `new_uploads`.
    """
    own = [shares / f"party-{i}" for i in range(model.parties)]
    reports = [new_uploads(uploads_at(i, each, policy), counted) for i, each in enumerate(own)]
    policies = {batch: policy for report in reports for batch, policy in report.policies.items()}
    kinds = set(reports[0].sound.values())
    agreement = agreed(reports, form, model)
    if agreement:
        policies = {batch: policies[batch] for batch in agreement.batches & policies.keys()}
        kinds = {reports[0].sound[identity] for identity in agreement.taken}
    bad: Collection[str] = ()
    if policies and kinds:  # else there is nothing to judge, or an error that says why not
        declared = reports[0].domains[min(kinds).domain]
        bad = uncovered(domain_from_json(declared, "the shares' header"), policies)
    kept = {batch: policy for batch, policy in policies.items() if batch not in bad}
    paths: list[list[Path] | None] = [None] * model.parties
    left_out: Mapping[str, int] = {UNCOVERED: len(bad)} if bad else {}
    if agreement:
        agreement = agreement.without(bad)
        left_out = agreement.left_out
        paths = [paths_of(agreement.taken, report, own[report.party]) for report in reports]
    elif bad:
        every = [sorted(directory.glob(f"*{SUFFIX}")) for directory in own]
        paths = [[path for path in some if read_header(path).batch not in bad] for some in every]
    if [] in paths:
        raise ShareError(f"No upload is left for this run: {described(left_out)}.")
    return paths, left_out, kept


def new_uploads(report: UploadReport, counted: CountedUploads) -> UploadReport:
    """Return a party's report without what its run's chain counted before.

    Raises: UsedUploadsError: there is nothing else.
    """
    before = counted(report.sound_batches)
    new = report.without(before, COUNTED)
    if before and not new.sound:
        raise UsedUploadsError(
            f"Earlier runs of this chain counted all {len(before)} uploads that are sound at party "
            f"{report.party}, and it counts each once. Go on when others have arrived; {named('add')} adds "
            "up the results so far."
        )
    return new


def agreed(reports: Sequence[UploadReport], form: InputForm, model: SecurityModel) -> Agreement | None:
    """Choose the uploads that all parties take; None: all that there are, which all have to be sound.

    Where clients are trusted, see `InputForm.leaves_out`, only those are left out that their own policies
    keep from the run, or that its chain counted before.
    Raises: ShareError: none is left; or others are not sound, where clients are trusted.
    """
    left_out = (UNCOVERED, COUNTED)
    if not form.leaves_out and not any({*left_out} & {*report.unsound.values()} for report in reports):
        return None
    agreement = common_uploads(reports, kind_of_run(form, model))
    others = {why: n for why, n in agreement.left_out.items() if not why.startswith(left_out)}
    if others and not form.leaves_out:
        raise ShareError(
            f"Parties have uploads that are not sound: {described(others)}; remove them at every party, or "
            "have them sent again."
        )
    return agreement


def kind_of_run(form: InputForm, model: SecurityModel) -> UploadKind:
    """Return of what kind uploads for a run are, whatever their domain is."""
    arithmetic = shared_over(form, model.domain).name
    return UploadKind(form.name, arithmetic, model.parties, "", copies_of(form, model.parties))


def feed_heads(
    heads: Sequence[Path],
    form: InputForm,
    model: SecurityModel,
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
    model: SecurityModel,
    uploaded: tuple[int, ...] = (),
    policy: UploadPolicy = ANY,
) -> PartyInputs:
    """Return what one party's aggregate says of all of them. Args, raises: as `feed_heads`."""
    kind = kind_of_run(form, model)
    if (header.copies > 1) != (form.path is REPLICATED):
        these, wanted = ("replicated", "additive") if header.copies > 1 else ("additive", "replicated")
        raise ShareError(
            f"These shares are {these}, and this run takes {wanted} ones "
            f"({named('input_path', form.path.name)}); "
            "run by the path that they were shared for, or share again."
        )
    if header.upload_kind.of_any_domain != kind:
        raise ShareError(
            f"These shares are {header.form} over {header.arithmetic} for {header.parties} parties; model "
            f"{model.name} with {named('input_form', form.name)} takes {form.name} over {kind.arithmetic} "
            f"for {kind.parties}."
        )
    if policy.domain is not None and header.record_domain != policy.domain.to_json():
        raise ShareError(
            f"These shares are of another domain than {named('domain')} declares; correct it, or share "
            f"again. {HINT}"
        )
    if not header.rows:
        raise ShareError("No client has a record; there is nothing to compute.")
    batches = _batches(head, policy)
    return PartyInputs(
        header.public_domain,
        header.clients,
        header.batches,
        header.rows,
        [None] * model.parties,
        batches=batches,
        uploaded=uploaded,
        policies=dict.fromkeys(batches, header.allowed) if header.allowed else {},
    )


def _batches(head: Path, policy: UploadPolicy) -> tuple[str, ...]:
    """Return which uploads are in an aggregate. Raises: ShareError: one is of more clients than may be."""
    uploads = [re.fullmatch("(.+):([0-9]{1,18}):[0-9]+", each) for each in read_uploads(head)]
    batches = tuple(upload[1] for upload in uploads if upload)
    if len(batches) < len(uploads):
        raise ShareError(f"{head} is damaged: its list of uploads cannot be read; aggregate again.")
    most = max(int(upload[2]) for upload in uploads if upload)
    if most > policy.clients:
        raise ShareError(
            f"One of these uploads holds {most} clients, more than "
            f"{named('clients_per_upload', policy.clients)}; leave it out with ./inv uploads."
        )
    return batches
