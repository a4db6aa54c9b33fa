"""A client's half of sharing: values split into additive shares, and the share files that hold them.

A share batch is one client's upload (or a simulation's, of many clients): one file per party, each
with a public header and either values or a 32-byte seed that stretches to them. Any r - 1 of a
client's r files are uniform, whatever the client has. Of replicated shares a party's file holds all but the
one that has its number: each share is at r - 1 parties, so that one of them cannot change it, and any two
parties have all of them. From here on, no message holds a value.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from harness.errors import ShareError
from harness.inputs.client_policy import ClientPolicy
from harness.inputs.encoding import columns_of, count_columns, count_rows, is_per_record
from harness.inputs.record_schema import domain_from_json
from harness.inputs.records import ClientRecords
from harness.inputs.rings import RINGS, Ring, Words
from harness.system.files import create_file, scratch_directory, writable_by_others
from harness.system.progress import tell
from harness.system.signals import uninterrupted
from protocols.spec import REPLICATED, SPLIT, InputForm

SCHEMA = 2
SUFFIX = ".share"
SEED_BYTES = 32
SALT_BYTES = 16
_IDENTITY, _COMMITMENT = b"fairshares:share:2:identity\n", b"fairshares:share:2:commitment\n"
_BOUND = ("form", "arithmetic", "parties", "clients", "records", "record_domain", "policy", "commitments")
MAX_VALUES = 2**24  # of one upload: what a header may make a party expand


@dataclass(frozen=True)
class Header:
    """What a share file says of itself in its first line: docs/reference/share-files.md. All of it is public.

    Attributes: kind: "batch" (one upload) or "aggregate" (what a party feeds into a run); content:
    "seed" or "values"; batch: identity of the upload, the same at every party; for an aggregate a hash of
    all identities in it, which its second line lists; records: how many there are in a form that shares a
    row for each, else 0, as that is secret; commitments: to the salt and payload of each of the r shares,
    none of an aggregate; policy: what the client allows, None for every run; of an aggregate, what all
    clients allow; copies: how many parties hold each share, 1 of additive ones, and how many a file holds.
    """

    kind: str
    batch: str
    form: str
    arithmetic: str
    party: int
    parties: int
    clients: int
    content: str
    record_domain: dict[str, Any]
    records: int = 0
    batches: int = 1
    commitments: tuple[str, ...] = ()
    policy: ClientPolicy | None = None
    schema: int = SCHEMA
    copies: int = 1

    @property
    def domain(self) -> Ring:
        """The ring or field of the values."""
        return RINGS[self.arithmetic]

    @property
    def columns(self) -> int:
        """How many values a row has, see `count_columns`."""
        return self._shape[0]

    @property
    def rows(self) -> int:
        """How many rows the columns have: clients, or records where each has one."""
        return self.records if self._shape[1] else self.clients

    @cached_property
    def _shape(self) -> tuple[int, bool]:
        return _layout(self.domain_text, self.form)

    @cached_property
    def domain_text(self) -> str:
        """The records' domain, see `domain_text`."""
        return domain_text(self.record_domain)

    @property
    def identity(self) -> str:
        """Which upload it is, and how many rows it claims: the same at all parties, or others would shift."""
        return f"{self.batch}:{self.clients}:{self.records}"

    @cached_property
    def held(self) -> tuple[int, ...]:
        """Which of the upload's shares the party holds, in the order of its file."""
        return held_by(self.party, self.parties, self.copies)

    @cached_property
    def values(self) -> int:
        """How many values each share in the file stands for."""
        summed = self.kind == "aggregate" and self.form == SPLIT.name
        return self.columns * (1 if summed else self.rows)

    @property
    def payload_bytes(self) -> int:
        """How many bytes follow a batch's header: of each share salt, and a seed or values."""
        return sum(size for _, size, _ in self._pieces())

    def _pieces(self) -> Iterator[tuple[int, int, bool]]:
        """Yield of each share its number, how many bytes it takes in a batch, and whether it is a seed."""
        values = self.values * self.domain.value_bytes
        for number in self.held:  # the upload's last share has values
            is_seed = self.content == "seed" or number != max(self.held)
            yield number, SALT_BYTES + (SEED_BYTES if is_seed else values), is_seed

    def pieces(self, following: bytes) -> Iterator[tuple[int, bytes, bool]]:
        """Yield of each share in a batch its number, its salt and payload, and whether that is a seed."""
        start = 0
        for number, size, is_seed in self._pieces():
            yield number, following[start : start + size], is_seed
            start += size

    @property
    def bound(self) -> str:
        """The identity that follows from what the upload is: of a batch, it is `batch`."""
        shared = {name: getattr(self, name) for name in (*_BOUND, *(["copies"] if self.copies > 1 else []))}
        text = json.dumps(shared, sort_keys=True, separators=(",", ":"), default=asdict)
        return hashlib.sha256(_IDENTITY + text.encode()).hexdigest()

    def fits(self, following: bytes) -> bool:
        """Return whether a batch is as it was shared: its identity, and the bytes that follow its header.

        Guarantees: parties whose files fit hold the same shares of an upload, as its identity is a digest of
        a salted digest of each share, whose salt is for those that hold it.
        [test: tests/harness/inputs/test_share_files.py]
        """
        # Which of both `content` is, no commitment tells: 32 bytes may be a seed, or values.
        right = self.batch == self.bound and self.content == content_of(self)
        return right and all(
            self.commitments[number : number + 1] == (commitment(salted),)
            for number, salted, _ in self.pieces(following)
        )

    def line(self) -> bytes:
        """Return the first line of a file with this header."""
        without = [] if self.copies > 1 else ["copies"]
        said = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in without}
        return json.dumps(said, sort_keys=True, default=asdict).encode() + b"\n"


def domain_text(record_domain: Mapping[str, Any]) -> str:
    """Return a records' domain as text: the same text for the same domain."""
    return json.dumps(record_domain, sort_keys=True)


def copies_of(form: InputForm, parties: int) -> int:
    """Return how many parties hold each share of what comes in this form, by its path."""
    return parties - 1 if form.path is REPLICATED else 1


def held_by(party: int, parties: int, copies: int) -> tuple[int, ...]:
    """Return which shares a party holds: its own; of replicated ones all but its own, from the next on."""
    return (party,) if copies == 1 else tuple((party + i) % parties for i in range(1, parties))


def content_of(header: Header) -> str:
    """Return what a batch's file has to hold for its party: values, if it holds the last share."""
    return "values" if header.parties - 1 in header.held else "seed"


def commitment(salted: bytes) -> str:
    """Return what commits to a salt and the payload after it. Guarantees: tells nothing without the salt."""
    return hashlib.sha256(_COMMITMENT + salted).hexdigest()


def split_into_shares(values: Words, domain: Ring, parties: int) -> tuple[list[bytes], Words]:
    """Return a seed for each party but the last, and the last one's values, shape (n, words).

    Each is for its party alone.
    Guarantees: any r - 1 of the r shares are uniform and independent of the values (the seeds'
    expansion taken as random); all r add up to them.  [test: tests/harness/inputs/test_shares_properties.py]
    """
    seeds = [secrets.token_bytes(SEED_BYTES) for _ in range(parties - 1)]
    rest = values.reshape(-1, domain.words)
    for seed in seeds:
        rest = domain.subtract(rest, domain.expand(seed, len(rest)))
    return seeds, rest


def expanded_shares(values: Words, domain: Ring, parties: int) -> Iterator[Words]:
    """Yield each party's share, as `split_into_shares` makes them, with the seeds stretched."""
    rest = values.reshape(-1, domain.words)
    for _ in range(parties - 1):
        one = domain.expand(secrets.token_bytes(SEED_BYTES), len(rest))
        rest = domain.subtract(rest, one)
        yield one
    yield rest


def in_uploads(records: ClientRecords, form: InputForm, smaller: int = 1) -> Iterator[ClientRecords]:
    """Yield all clients' records in parts that an upload can hold, if their clients are about equal.

    Args: smaller: by how much, down to a client. Raises: ShareError: not even one client fits.
    """
    values = count_columns(records.domain, form.name) * count_rows(records, form.name)
    at_once = records.clients * MAX_VALUES // max(1, values)
    if not at_once:
        raise ShareError(f"A client would share more than {MAX_VALUES} values; declare fewer thresholds.")
    yield from records.in_parts(max(1, at_once // smaller))


def share(
    records: ClientRecords,
    form: InputForm,
    domain: Ring,
    parties: int,
    out: Path,
    policy: ClientPolicy | None = None,
) -> str:
    """Write one share file per party to `out/party-<i>/`; return the batch's identity.

    Guarantees: all files appear, or none.  [test: tests/harness/inputs/test_shares.py]
    Args: policy: what the client allows, None for every run.
    Raises: RecordsError; ShareError: the files cannot be written, or the upload is too large for one.
    """
    return _share([records], form, domain, parties, out, policy)[0]


def share_in_parts(
    records: ClientRecords,
    form: InputForm,
    domain: Ring,
    parties: int,
    out: Path,
    policy: ClientPolicy | None = None,
    smaller: int = 1,
) -> list[str]:
    """Like `share`, in as many uploads as it takes; return their identities.

    Guarantees: all files of all uploads appear, or none.  [test: tests/harness/inputs/test_shares_places.py]
    Args: smaller: see `in_uploads`; with MAX_VALUES each client has an upload of its own.
    """
    uploads = told(in_uploads(records, form, smaller), records.clients)
    return _share(uploads, form, domain, parties, out, policy)


def told(parts: Iterable[ClientRecords], clients: int) -> Iterator[ClientRecords]:
    """Yield parts of records, and tell how many of their clients are done with."""
    done = 0
    for part in parts:
        yield part
        done += part.clients
        tell(done, clients)


def _share(
    uploads: Iterable[ClientRecords],
    form: InputForm,
    domain: Ring,
    parties: int,
    out: Path,
    policy: ClientPolicy | None,
) -> list[str]:
    names = [f"party-{i}" for i in range(parties)]
    new = [path for path in (*(out / name for name in names), out, *out.parents) if not path.exists()]
    batches: list[str] = []
    arrived: list[Path] = []
    try:
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in names:
            _check_private(out / name)
        with scratch_directory(out) as partial:
            for name in names:
                (partial / name).mkdir()
            for records in uploads:
                batches.append(_write_upload(records, form, domain, parties, partial, policy))
            for file in sorted(partial.glob("party-*/*")):
                arrived.append(out / file.relative_to(partial))
                file.rename(arrived[-1])
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
    return batches


def _write_upload(
    records: ClientRecords,
    form: InputForm,
    domain: Ring,
    parties: int,
    out: Path,
    policy: ClientPolicy | None,
) -> str:
    """Write one upload's files; return its identity."""
    columns, rows = count_columns(records.domain, form.name), count_rows(records, form.name)
    if columns * rows > MAX_VALUES:
        raise ShareError(
            f"{records.clients} clients would share {columns * rows} values, too many for one upload; "
            f"share at most {MAX_VALUES} values at a time."
        )
    seeds, rest = split_into_shares(domain.encode(columns_of(records, form)), domain, parties)
    salted = [secrets.token_bytes(SALT_BYTES) + payload for payload in (*seeds, domain.to_bytes(rest))]
    headers = _headers(records, form, domain, list(map(commitment, salted)), policy)
    for own in headers:
        following = (salted[number] for number in own.held)
        create_file(out / f"party-{own.party}" / f"{own.batch}{SUFFIX}", own.line(), *following)
    return headers[0].batch


def file_sizes(records: ClientRecords, form: InputForm, domain: Ring, parties: int) -> tuple[int, ...]:
    """Return how many bytes each party's share file would have, if all these clients had one upload."""
    headers = _headers(records, form, domain, [commitment(b"")] * parties, None)
    return tuple(len(header.line()) + header.payload_bytes for header in headers)


def _headers(
    records: ClientRecords,
    form: InputForm,
    domain: Ring,
    commitments: Sequence[str],
    policy: ClientPolicy | None,
) -> list[Header]:
    """Return the headers of an upload's files, by party. Args: commitments: to each share."""
    header = Header(
        "batch",
        "",
        form.name,
        domain.name,
        0,
        len(commitments),
        records.clients,
        "seed",
        records.domain.to_json(),
        count_rows(records, form.name) if is_per_record(records.domain, form.name) else 0,
        commitments=tuple(commitments),
        policy=policy,
        copies=copies_of(form, len(commitments)),
    )
    own = [replace(header, batch=header.bound, party=i) for i in range(len(commitments))]
    return [replace(each, content=content_of(each)) for each in own]


@lru_cache(maxsize=64)  # a party may read a million headers of one domain
def _layout(record_domain: str, form: str) -> tuple[int, bool]:
    """Return how many columns there are, and whether rows are records."""
    domain = domain_from_json(json.loads(record_domain), "the share's header")
    return count_columns(domain, form), is_per_record(domain, form)


def _check_private(directory: Path) -> None:
    """Make a party's directory; refuse one in which others could put or take files."""
    directory.mkdir(mode=0o700, exist_ok=True)
    if (reason := writable_by_others(directory)) is not None:
        raise ShareError(f"{reason}, so others could replace shares; name another --out, or chmod go-w it.")
