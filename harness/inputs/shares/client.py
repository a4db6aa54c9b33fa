"""A client's half of sharing: values split into additive shares, and a file of them for each party.

Any r - 1 of a client's r files are uniform, whatever the client has. Of replicated shares a party's file
holds all but the one that has its number: each share is at r - 1 parties, so that one of them cannot change
it, and any two parties have all of them. From here on, no message holds a value.
"""

import hashlib
import json
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from harness.errors import RecordsError, ShareError, named
from harness.inputs.encoding import columns_of, count_columns, count_rows, is_per_record
from harness.inputs.records import ClientRecords
from harness.inputs.rings import Ring
from harness.inputs.shares.file_format import (
    MAX_VALUES,
    SALT_BYTES,
    SEED_BYTES,
    SUFFIX,
    ClientPolicy,
    Header,
    commitment,
    copies_of,
)
from harness.system.documents import Refusal, as_type, read_json
from harness.system.files import create_file, in_turn, scratch_directory, writable_by_others, write_whole
from harness.system.progress import tell
from harness.system.signals import uninterrupted
from protocols.arrays import Words
from protocols.spec import InputForm

COUNTED_SCHEMA = 2  # of the file that says what earlier uploads hold


def split_into_shares(values: Words, ring: Ring, parties: int) -> Iterator[tuple[bytes, Words]]:
    """Yield each party's share, which is for that party alone: its payload in a file, and its elements.

    The last party's payload is elements, shape (n, words). Another's is a seed, which stretches to as many.
    Guarantees: any r - 1 of the r shares are uniform and independent of the values (the seeds'
    expansion taken as random); all r add up to them.  [test: tests/harness/inputs/test_shares_properties.py]
    """
    rest = values.reshape(-1, ring.words)
    for _ in range(parties - 1):
        seed = secrets.token_bytes(SEED_BYTES)
        share = ring.expand(seed, len(rest))
        rest = ring.subtract(rest, share)
        yield seed, share
    yield ring.to_bytes(rest), rest


def in_uploads(records: ClientRecords, form: InputForm, smaller: int = 1) -> Iterator[ClientRecords]:
    """Yield all clients' records in parts that an upload can hold, if their clients are about equal.

    It tells how many clients are done with.
    Args: smaller: by how much, down to a client. Raises: ShareError: not even one client fits.
    """
    values = count_columns(records.domain, form.name) * count_rows(records, form.name)
    at_once = records.clients * MAX_VALUES // max(1, values)
    if not at_once:
        raise ShareError(f"A client would share more than {MAX_VALUES} values; declare fewer thresholds.")
    done = 0
    for part in records.in_parts(max(1, at_once // smaller)):
        yield part
        done += part.clients
        tell(done, records.clients)


@dataclass(frozen=True)
class Client:
    """Whoever shares: one client, or many in a simulation.

    Attributes:
        form: How records become values.
        ring: What the values are shared over.
        parties: How many parties there are.
        policy: What the client allows, None for every run.
    """

    form: InputForm
    ring: Ring
    parties: int
    policy: ClientPolicy | None = None

    def share(self, records: ClientRecords, out: Path, smaller: int = 1) -> list[str]:
        """Write a share file per party to `out/party-<i>/`, of as many uploads as it takes.

        Guarantees: all files of all uploads appear, or none.
        [test: tests/harness/inputs/test_shares_places.py]
        Args: smaller: see `in_uploads`; with MAX_VALUES each client has an upload of its own.
        Returns: the uploads' identities.
        Raises: RecordsError; ShareError: the files cannot be written, or an upload is too large.
        """
        names = [f"party-{i}" for i in range(self.parties)]
        new = [path for path in (*(out / name for name in names), out, *out.parents) if not path.exists()]
        arrived: list[Path] = []
        try:
            out.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name in names:
                _check_private(out / name)
            with scratch_directory(out) as partial:
                for name in names:
                    (partial / name).mkdir()
                uploads = in_uploads(records, self.form, smaller)
                batches = [self._write_upload(part, partial) for part in uploads]
                for file in sorted(partial.glob("party-*/*")):
                    arrived.append(out / file.relative_to(partial))
                    file.rename(arrived[-1])
            return batches
        except BaseException as error:
            with uninterrupted():
                for path in arrived:
                    path.unlink(missing_ok=True)
                for directory in new:
                    with suppress(OSError):  # it holds another upload, or was not made
                        directory.rmdir()
            if isinstance(error, OSError):
                raise ShareError(
                    f"Cannot write shares to {out}: {error.strerror}; nothing was left there."
                ) from None
            raise

    def _write_upload(self, records: ClientRecords, out: Path) -> str:
        """Write one upload's files; return its identity."""
        table = columns_of(records, self.form)
        if table.size > MAX_VALUES:
            raise ShareError(
                f"{records.clients} clients would share {table.size} values, too many for one upload; "
                f"share at most {MAX_VALUES} values at a time."
            )
        shares = split_into_shares(self.ring.encode(table), self.ring, self.parties)
        salted = [secrets.token_bytes(SALT_BYTES) + payload for payload, _ in shares]
        headers = self._headers(records, [commitment(each) for each in salted])
        for own in headers:
            following = (salted[number] for number in own.held)
            create_file(out / f"party-{own.party}" / f"{own.batch}{SUFFIX}", own.line(), *following)
        return headers[0].batch

    def file_sizes(self, records: ClientRecords) -> tuple[int, ...]:
        """Return how many bytes each party's share file would have, if all these clients had one upload."""
        headers = self._headers(records, [commitment(b"")] * self.parties)
        return tuple(len(header.line()) + sum(header.sizes) for header in headers)

    def _headers(self, records: ClientRecords, commitments: Sequence[str]) -> list[Header]:
        """Return the headers of an upload's files, by party. Args: commitments: to each share."""
        per_record = is_per_record(records.domain, self.form.name)
        header = Header(
            "batch",
            "",
            self.form.name,
            self.ring.name,
            0,
            self.parties,
            records.clients,
            "seed",
            records.domain.to_json(),
            records=count_rows(records, self.form.name) if per_record else 0,
            commitments=tuple(commitments),
            policy=self.policy.to_json() if self.policy else None,
            copies=copies_of(self.form, self.parties),
        )
        own = [replace(header, batch=header.bound, party=party) for party in range(self.parties)]
        return [replace(each, content=each.right_content) for each in own]


def _check_private(directory: Path) -> None:
    """Make a party's directory; refuse one in which others could put or take files."""
    directory.mkdir(mode=0o700, exist_ok=True)
    if (reason := writable_by_others(directory)) is not None:
        raise ShareError(f"{reason}, so others could replace shares; name another --out, or chmod go-w it.")


@dataclass(frozen=True)
class _Counted:
    """What the file holds: by client, how many of its records were shared; hashes of files of records."""

    records: dict[str, int] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)


def of_what_is_left(records: ClientRecords, source: Path, file: Path) -> ClientRecords:
    """Return the records that may be shared: no more of a client than its cap leaves after earlier uploads.

    The file is written before anything is shared: records of an upload that then fails count as shared.
    Guarantees: all uploads of a client that were made with this file, several at once, too, hold as many
    records of it as the domain's cap at most, if it has one; no two are of the same file of records.
    [test: tests/harness/inputs/test_counted.py]
    Args: source: the file that the records are from; file: made if it is not there.
    Raises: RecordsError: it holds something else, or cannot be written, or the records were shared before.
    """
    refusal = Refusal(RecordsError, str(file), "what share --counted writes", "restore it, or name another")
    names = list(map(str, records.client_ids))
    before, cap = _Counted(), records.domain.cap
    if not source.is_file():
        raise RecordsError(f"{named('counted')} knows records by their file, and {source} is none; name one.")
    try:
        with source.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        with in_turn(file.parent):
            if file.exists():
                before = as_type(_Counted, read_json(file, refusal, COUNTED_SCHEMA), refusal)
            if any(count < 0 for count in before.records.values()):
                refusal.say("a client has fewer than no records")
            if digest in before.files:
                raise RecordsError(
                    f"{source} was shared before, by {file}, and each record is shared once. If these are "
                    "other records that happen to be equal, give the file a column that says so, a date say."
                )
            counted = np.array([before.records.get(name, 0) for name in names])
            shared = records.at_most(np.maximum(cap.slots - counted, 0)) if cap else records
            counted = counted + shared.sizes
            now = {name: count for name, count in zip(names, counted.tolist(), strict=True) if count}
            after = _Counted({**before.records, **now}, [*before.files, digest])
            text = json.dumps({"schema": COUNTED_SCHEMA, **vars(after)})
            write_whole(file, text.encode() + b"\n")
    except OSError as error:
        raise RecordsError(f"Cannot write {file}: {error.strerror}; nothing was shared.") from None
    return shared
