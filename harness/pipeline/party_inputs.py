"""What the parties are fed: each its aggregate of share files, or what clients send while they run."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from harness.clients.invitations import invitations
from harness.clients.session import MAX_CONNECTIONS, Begin, ClientInputs, Upload, elsewhere
from harness.engines.base import Progress
from harness.engines.parties.certificates import make_key
from harness.errors import ShareError
from harness.inputs.aggregation import (
    ANY,
    HINT,
    Aggregator,
    UploadPolicy,
    aggregate,
    check_aggregates,
    common_uploads,
    extract_values,
    paths_of,
    read_uploads,
    uploads_at,
)
from harness.inputs.encoding import columns_of, count_columns, is_per_record, shared_over
from harness.inputs.record_schema import RecordDomain, domain_from_json
from harness.inputs.records import ClientRecords
from harness.inputs.shares import SUFFIX, in_uploads, share
from harness.pipeline.local_clients import local_clients
from harness.security_models import Model
from protocols.spec import ENFORCED, InputForm

MAX_SENT = 2**18  # values that clients may send to a run: about 1 GB for each party in sy-rep-ring


@dataclass(frozen=True)
class PartyInputs:
    """The inputs of a run, and what is public of them.

    Attributes: rows: clients, or records where each has a row; values: a file per party, or None; sending:
    the clients that send, if they do; batches: of shares, their identities, if they stay; uploaded: bytes
    of these shares' files, per party, empty if they are not known; share_s: how long sharing took here;
    excluded: how many uploads were left out at every party alike, by why.
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
        if self.excluded:
            found["excluded_uploads"] = sum(self.excluded.values())
            found["excluded_because"] = dict(self.excluded)
        return found


def feed_shares(
    aggregates: Sequence[Path],
    form: InputForm,
    model: Model,
    scratch: Path,
    lasting: bool,
    uploaded: tuple[int, ...] = (),
    rules: UploadPolicy = ANY,
) -> PartyInputs:
    """Check the parties' aggregates, and take the values out of them into `scratch`.

    Args: lasting: whether the uploads stay, so that they could go into another run; rules: what uploads
    have to be.
    Raises: ShareError: they do not go together, or are for another model, input form or domain.
    """
    fed = feed_heads(aggregates, form, model, uploaded, rules)
    values = [extract_values(path, scratch / f"party-{i}.values") for i, path in enumerate(aggregates)]
    return replace(fed, values=values, batches=fed.batches if lasting else ())


def feed_directory(
    shares: Path, form: InputForm, model: Model, scratch: Path, rules: UploadPolicy = ANY
) -> PartyInputs:
    """Take all parties' steps on what `share` wrote, which stays.

    Args: rules: as for `sound_uploads`.
    """
    aggregates = [scratch / f"party-{i}.aggregate" for i in range(model.parties)]
    uploads, excluded = sound_uploads(shares, form, model, rules)
    for i, (path, taken) in enumerate(zip(aggregates, uploads, strict=True)):
        aggregate(i, shares / f"party-{i}", path, taken)
    fed = feed_shares(aggregates, form, model, scratch, lasting=True, rules=rules)
    return replace(fed, excluded=excluded)


def sound_uploads(
    shares: Path, form: InputForm, model: Model, rules: UploadPolicy = ANY
) -> tuple[Sequence[Sequence[Path] | None], Mapping[str, int]]:
    """Choose the uploads that all parties take of what `share` wrote.

    Where an upload's form keeps its client to a cap, those that are not sound at every party, or of another
    kind than most, are left out. In other forms clients are trusted, so what is not right is an error.
    Args: rules: what uploads have to be.
    Returns: each party's, None for all that there are; how many are left out, by why.
    """
    if form.capped != ENFORCED:
        return [None] * model.parties, {}
    own = [shares / f"party-{i}" for i in range(model.parties)]
    found = [uploads_at(i, directory, rules) for i, directory in enumerate(own)]
    agreement = common_uploads(found, kind_of_run(form, model))
    paths = [paths_of(agreement.taken, each, own[each.party]) for each in found]
    return paths, agreement.left_out


def kind_of_run(form: InputForm, model: Model) -> tuple[str, str, int]:
    """Return what uploads for a run are of: input form, arithmetic and parties."""
    return form.name, shared_over(form, model.domain).name, model.parties


def feed_heads(
    heads: Sequence[Path],
    form: InputForm,
    model: Model,
    uploaded: tuple[int, ...] = (),
    rules: UploadPolicy = ANY,
) -> PartyInputs:
    """Check what the parties' aggregates say of themselves; their values are elsewhere, or not needed yet.

    Args: heads: aggregates, or their first two lines. Raises: ShareError, as `feed_shares`.
    """
    header = check_aggregates(heads)
    _, shared, _ = kind_of_run(form, model)
    if (header.form, header.arithmetic) != (form.name, shared):
        raise ShareError(
            f"These shares are {header.form} over {header.arithmetic}; model {model.name} with --input-form "
            f"{form.name} takes {form.name} over {shared}."
        )
    if rules.domain is not None and header.record_domain != rules.domain.to_json():
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
        batches=_batches(heads[0], rules),
        uploaded=uploaded,
    )


def _batches(head: Path, rules: UploadPolicy) -> tuple[str, ...]:
    """Return which uploads are in an aggregate. Raises: ShareError: one is of more clients than may be."""
    found = [re.fullmatch("(.+):([0-9]{1,18}):[0-9]+", each) for each in read_uploads(head)]
    batches = tuple(each[1] for each in found if each)
    if len(batches) < len(found):
        raise ShareError(f"{head} is damaged: its list of uploads is not one; aggregate again.")
    most = max(int(each[2]) for each in found if each)
    if most > rules.clients:
        raise ShareError(
            f"One of these uploads is of {most} clients and --clients-per-upload {rules.clients} the most; "
            "leave it out by ./inv uploads."
        )
    return batches


def feed_from_clients(
    records: ClientRecords,
    form: InputForm,
    model: Model,
    terms: dict[str, Any],
    scratch: Path,
    seconds: float,
) -> PartyInputs:
    """Have the clients of a records file send from this process, with keys in `scratch`.

    Args: terms: what they are to agree with; seconds: that the parties may take.
    Raises: RecordsError: the input form does not fit a client; ShareError: too many values.
    """
    rows = columns_of(records, form).T  # a client's values in each
    check_sent(rows.size)
    each = rows if len(rows) <= MAX_CONNECTIONS else [rows.ravel()]  # or all share one connection
    keys = scratch / "clients"
    keys.mkdir(mode=0o700)
    sending = local_clients(list(each), terms, keys, seconds)
    nothing = [None] * model.parties
    return PartyInputs(records.domain, records.clients, len(each), records.clients, nothing, sending)


def feed_invited(
    domain: RecordDomain,
    clients: int,
    form: InputForm,
    model: Model,
    terms: dict[str, Any],
    scratch: Path,
    directory: Path,
) -> PartyInputs:
    """Have invited clients send, one each, from wherever their invitations in `directory` are taken."""
    keys = scratch / "clients"
    keys.mkdir(mode=0o700)
    certificates = [make_key(keys, f"C{k}", f"C{k}") for k in range(clients)]
    pairs = [(path.read_text(), path.with_suffix(".key").read_text()) for path in certificates]
    begin = partial(invitations, pairs, terms, directory)
    return feed_sent(domain, [certificate for certificate, _ in pairs], form, model, terms, begin)


def feed_sent(
    domain: RecordDomain,
    certificates: Sequence[str],
    form: InputForm,
    model: Model,
    terms: dict[str, Any],
    begin: Begin = elsewhere,
) -> PartyInputs:
    """Have clients with these certificates send, one each. Args: begin: see `ClientInputs`."""
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


def share_and_aggregate(
    records: ClientRecords, form: InputForm, model: Model, scratch: Path, progress: Progress
) -> tuple[list[Path], float, tuple[int, ...]]:
    """Take all clients' steps and the parties', an upload at a time, so that many clients take little room.

    Returns: what the parties feed into the run, how many seconds sharing took, and how many bytes were
    uploaded to each party: clients of one file have uploads in common.
    """
    share_s, uploaded = 0.0, [0] * model.parties
    aggregators = [Aggregator(i) for i in range(model.parties)]
    for part in in_uploads(records, form):
        before = time.monotonic()
        over = shared_over(form, model.domain)
        batch = share(part, form, over, model.parties, scratch / "shares")
        share_s += time.monotonic() - before
        for i, aggregator in enumerate(aggregators):
            upload = scratch / "shares" / f"party-{i}" / f"{batch}{SUFFIX}"
            uploaded[i] += upload.stat().st_size
            aggregator.add(upload)
        shutil.rmtree(scratch / "shares")
    progress("aggregate")
    aggregates = [scratch / f"party-{i}.aggregate" for i in range(model.parties)]
    for aggregator, path in zip(aggregators, aggregates, strict=True):
        aggregator.write(path)
    return aggregates, share_s, tuple(uploaded)
