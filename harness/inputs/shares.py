"""Splits clients' values into additive shares, and adds up what one party received.

A share batch is one client's upload (or a simulation's, of many clients): one file per party, each
with a public header and either values or a 32-byte seed that stretches to them. Any r - 1 of a
client's r files are uniform, whatever the client has. From here on, no message holds a value.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import RecordDomainError, ShareError, ThresholdGridError
from harness.inputs.encoding import columns_of, count_columns, count_rows, is_per_record
from harness.inputs.record_schema import MAX_TOTAL, domain_from_json
from harness.inputs.records import ClientRecords
from harness.inputs.rings import RINGS, Ring, Words
from harness.system.files import create_file, scratch_directory, writable_by_others, write_whole
from harness.system.signals import uninterrupted
from protocols.spec import ENFORCED, INPUT_FORMS, SPLIT, InputForm

SCHEMA = 1
SUFFIX = ".share"
SEED_BYTES = 32
MAX_VALUES = 2**24  # of one upload: what a header may make a party expand
_WAYS_OUT = "have it sent again, remove it at every party, or leave such uploads out by ./inv uploads"


@dataclass(frozen=True)
class Header:
    """What a share file says of itself in its first line; all of it is public.

    Attributes: kind: "batch" (one upload) or "aggregate" (what a party feeds into a run); content:
    "seed" or "values"; batch: identity of the upload, random, the same at every party; for an aggregate
    a hash of all identities in it, which its second line lists; records: how many there are in a form
    that shares a row for each, else 0, as that is secret.
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
    schema: int = SCHEMA

    @property
    def domain(self) -> Ring:
        return RINGS[self.arithmetic]

    @property
    def columns(self) -> int:
        return _layout(json.dumps(self.record_domain), self.form)[0]

    @property
    def rows(self) -> int:
        """How many rows the columns have: clients, or records where each has one."""
        return self.records if _layout(json.dumps(self.record_domain), self.form)[1] else self.clients

    @property
    def identity(self) -> str:
        """Which upload it is, and how many rows it claims: the same at all parties, or others would shift."""
        return f"{self.batch}:{self.clients}:{self.records}"

    @property
    def values(self) -> int:
        """How many values the file stands for."""
        summed = self.kind == "aggregate" and self.form == SPLIT.name
        return self.columns * (1 if summed else self.rows)


def split_into_shares(values: Words, domain: Ring, parties: int) -> tuple[list[bytes], Words]:
    """Return a seed for each party but the last, and the last one's values.

    Guarantees: any r - 1 of the r shares are uniform and independent of the values (the seeds'
    expansion taken as random); all r add up to them.  [test: tests/harness/inputs/test_shares_properties.py]
    """
    seeds = [secrets.token_bytes(SEED_BYTES) for _ in range(parties - 1)]
    rest = values.reshape(-1, domain.words)
    for seed in seeds:
        rest = domain.subtract(rest, domain.expand(seed, len(rest)))
    return seeds, rest


def in_uploads(records: ClientRecords, form: InputForm) -> Iterator[ClientRecords]:
    """Yield all clients' records in parts that an upload can hold, if their clients are about equal.

    Raises: ShareError: not even one client fits.
    """
    values = count_columns(records.domain, form.name) * count_rows(records, form.name)
    at_once = records.clients * MAX_VALUES // max(1, values)
    if not at_once:
        raise ShareError(f"A client would share more than {MAX_VALUES} values; declare fewer thresholds.")
    yield from records.in_parts(at_once)


def share(records: ClientRecords, form: InputForm, domain: Ring, parties: int, out: Path) -> str:
    """Write one share file per party to `out/party-<i>/`; return the batch's identity.

    Guarantees: all files appear, or none.  [test: tests/harness/inputs/test_shares.py]
    Raises: RecordsError; ShareError: the files cannot be written, or the upload is too large for one.
    """
    return _share([records], form, domain, parties, out)[0]


def share_in_parts(
    records: ClientRecords, form: InputForm, domain: Ring, parties: int, out: Path
) -> list[str]:
    """Like `share`, in as many uploads as it takes; return their identities.

    Guarantees: all files of all uploads appear, or none.  [test: tests/harness/inputs/test_shares_places.py]
    """
    return _share(in_uploads(records, form), form, domain, parties, out)


def _share(
    uploads: Iterable[ClientRecords], form: InputForm, domain: Ring, parties: int, out: Path
) -> list[str]:
    names = [f"party-{i}" for i in range(parties)]
    made = [path for path in (*(out / name for name in names), out, *out.parents) if not path.exists()]
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
                batches.append(secrets.token_hex(16))
                _write_upload(records, batches[-1], form, domain, parties, partial)
            for file in sorted(partial.glob("party-*/*")):
                arrived.append(out / file.relative_to(partial))
                file.rename(arrived[-1])
    except BaseException as error:
        with uninterrupted():
            for path in arrived:
                path.unlink(missing_ok=True)
            for directory in made:
                with suppress(OSError):  # it holds another upload, or was not made
                    directory.rmdir()
        if isinstance(error, OSError):
            raise ShareError(
                f"Cannot write shares to {out}: {error.strerror}; nothing was left there."
            ) from None
        raise
    return batches


def _write_upload(
    records: ClientRecords, batch: str, form: InputForm, domain: Ring, parties: int, out: Path
) -> None:
    columns, rows = count_columns(records.domain, form.name), count_rows(records, form.name)
    if columns * rows > MAX_VALUES:
        raise ShareError(
            f"{records.clients} clients would share {columns * rows} values, too many for one upload; "
            f"share at most {MAX_VALUES} values at a time."
        )
    seeds, rest = split_into_shares(domain.encode(columns_of(records, form)), domain, parties)
    for i, payload in enumerate([*seeds, domain.to_bytes(rest)]):
        header = Header(
            "batch",
            batch,
            form.name,
            domain.name,
            i,
            parties,
            records.clients,
            "values" if i == parties - 1 else "seed",
            records.domain.to_json(),
            rows if is_per_record(records.domain, form.name) else 0,
        )
        create_file(out / f"party-{i}" / f"{batch}{SUFFIX}", _line(header), payload)


class Aggregator:
    """Turns uploads, one at a time, into the one file that a party feeds into a run.

    Computes: split form: the sum over all clients, per column, in the memory of one upload; other
    forms: all uploads' columns, one after the other, in the order in which they were added.
    """

    def __init__(self, party: int) -> None:
        self._party = party
        self._first: tuple[Header, Path] | None = None
        self._identities: dict[str, str] = {}  # by batch, in order
        self._clients = self._records = 0
        self._blocks: list[Words] = []

    def add(self, path: Path) -> None:
        """Add an upload. Raises: ShareError: it is damaged, foreign, was added before, or does not fit."""
        header = read_header(path)
        first, origin = self._first = self._first or (header, path)
        if header.kind != "batch" or header.party != self._party:
            raise ShareError(f"{path} is not a batch for party {self._party}; {_WAYS_OUT}.")
        if header.values > MAX_VALUES:
            raise ShareError(f"{path} claims {header.values} values, too many for one upload; {_WAYS_OUT}.")
        if _common(header) != _common(first):
            raise ShareError(f"{path} and {origin} differ in domain, input form or parties; {_WAYS_OUT}.")
        if header.batch in self._identities:
            raise ShareError(f"{path} is the same upload as another file there; remove one of the copies.")
        self._identities[header.batch] = header.identity
        self._clients += header.clients
        self._records += header.records
        most = domain_from_json(first.record_domain, str(origin)).max_contribution
        if INPUT_FORMS[header.form].capped != ENFORCED and self._clients * most >= MAX_TOTAL:
            raise ShareError(
                f"{path.parent} holds {self._clients} clients with up to {most} records each, whose sum "
                f"could overflow; all clients must declare a --max-count below {MAX_TOTAL // self._clients}."
            )
        block = _read_batch(path, header)
        if header.form != SPLIT.name:
            self._blocks.append(block)
            return
        total = header.domain.total(block)
        self._blocks = [header.domain.add(self._blocks[0], total) if self._blocks else total]

    def write(self, out: Path) -> Header:
        """Write the file. Raises: ShareError: it cannot be written, and is not there then."""
        assert self._first is not None
        first = self._first[0]
        merged = self._blocks[0] if first.form == SPLIT.name else np.concatenate(self._blocks, axis=1)
        summary = replace(
            first,
            kind="aggregate",
            batch=_hash_of(self._identities.values()),
            clients=self._clients,
            records=self._records,
            content="values",
            batches=len(self._identities),
        )
        try:
            out.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            uploads = " ".join(self._identities.values()).encode() + b"\n"
            write_whole(out, _line(summary), uploads, first.domain.to_bytes(merged))
        except OSError as error:
            raise ShareError(f"Cannot write {out}: {error.strerror}.") from None
        return summary


def aggregate(party: int, directory: Path, out: Path, paths: Iterable[Path] | None = None) -> Header:
    """Turn the batches that one party received into the one file that it feeds into a run.

    Args: paths: of those in the directory that all parties take, None for all that there are.
    Raises: ShareError: no batch, a damaged or foreign one, the same upload twice, batches that do not
    go together, or so many clients that the sum could overflow; `out` is not written.
    """
    # In the same order at every party, whatever the files are called there.
    taken = directory.glob(f"*{SUFFIX}") if paths is None else paths
    found = sorted((read_header(path).batch, path) for path in taken)
    if not found:
        raise ShareError(
            f"{directory} holds no share files (*{SUFFIX}); run `share` first, or check --shares."
        )
    aggregator = Aggregator(party)
    for _, path in found:
        aggregator.add(path)
    return aggregator.write(out)


def check_aggregates(paths: Sequence[Path]) -> Header:
    """Check that the parties' aggregates are of the same uploads; return what they have in common.

    Raises: ShareError: says which party differs from party 0, and in what.
    """
    headers = [read_header(path) for path in paths]
    first = headers[0]
    for i, header in enumerate(headers):
        if header.kind != "aggregate" or header.party != i or header.parties != len(paths):
            raise ShareError(
                f"{paths[i]} is not the aggregate of party {i} of {len(paths)}; run `aggregate` again."
            )
        if (header.batches, header.clients) != (first.batches, first.clients):
            raise ShareError(
                f"Party {i} has {header.batches} uploads of {header.clients} clients, party 0 has "
                f"{first.batches} of {first.clients}: an upload reached only some parties. "
                "Remove it everywhere, or send it again."
            )
        if (header.batch, _common(header)) != (first.batch, _common(first)):
            raise ShareError(
                f"Party {i} has other uploads than party 0; the same clients must reach every party."
            )
    return first


def extract_values(aggregate_file: Path, out: Path) -> Path:
    """Write an aggregate's values alone, as engines read them; return `out`."""
    header, payload = _read(aggregate_file)
    if len(payload) != header.values * header.domain.value_bytes:
        raise ShareError(f"{aggregate_file} is damaged: it has {len(payload)} bytes of values.")
    create_file(out, payload)
    return out


def read_uploads(aggregate_file: Path) -> tuple[str, ...]:
    """Return the identities of all uploads in an aggregate.

    Raises: ShareError: they are not those that its header stands for.
    """
    header = read_header(aggregate_file)
    with aggregate_file.open("rb") as file:
        file.readline()
        identities = tuple(file.readline().decode(errors="replace").split())
    if (len(identities), _hash_of(identities)) != (header.batches, header.batch):
        raise ShareError(f"{aggregate_file} is damaged: its list of uploads is not whole; aggregate again.")
    return identities


def payload_bytes(header: Header) -> int:
    """Return how many bytes follow a batch's header."""
    return SEED_BYTES if header.content == "seed" else header.values * header.domain.value_bytes


def read_header(path: Path) -> Header:
    """Return a share file's header. Raises: ShareError: it is not a share file of this version."""
    try:
        with path.open("rb") as file:
            found = json.loads(file.readline(1 << 20))
        header = Header(**found)
        numbers = (header.party, header.parties, header.clients, header.records, header.batches)
        known = (
            header.schema == SCHEMA
            and header.arithmetic in RINGS
            and header.form in INPUT_FORMS
            and header.content in ("seed", "values")
            and header.batch.isalnum()
            and all(type(number) is int for number in numbers)
        )
        sound = known and header.clients > 0 <= header.records and header.columns > 0
    except OSError as error:
        raise ShareError(f"Cannot read {path}: {error.strerror}.") from None
    except (ValueError, TypeError, AttributeError, RecursionError, RecordDomainError, ThresholdGridError):
        sound = False
    if not sound:
        raise ShareError(f"{path} is not a share file of this version; {_WAYS_OUT}.")
    return header


@lru_cache(maxsize=64)  # a party may read a million headers of one domain
def _layout(record_domain: str, form: str) -> tuple[int, bool]:
    """Return how many columns there are, and whether rows are records."""
    domain = domain_from_json(json.loads(record_domain), "the share's header")
    return count_columns(domain, form), is_per_record(domain, form)


def _hash_of(identities: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(identities).encode()).hexdigest()


def _common(header: Header) -> tuple[Any, ...]:
    return header.form, header.arithmetic, header.parties, header.record_domain


def _read(path: Path) -> tuple[Header, bytes]:
    header = read_header(path)
    with path.open("rb") as file:
        for _ in range(2 if header.kind == "aggregate" else 1):
            file.readline()
        return header, file.read()


def _read_batch(path: Path, header: Header) -> Words:
    """Return a batch's values, shape (columns, clients, words)."""
    _, payload = _read(path)
    domain = header.domain
    if len(payload) != payload_bytes(header):
        raise ShareError(
            f"{path} is damaged: {len(payload)} bytes where {payload_bytes(header)} belong; {_WAYS_OUT}."
        )
    if header.content == "seed":
        flat = domain.expand(payload, header.values)
    else:
        flat = domain.from_bytes(payload)
    return flat.reshape(header.columns, header.rows, domain.words)


def _check_private(directory: Path) -> None:
    """Make a party's directory; refuse one in which others could put or take files."""
    directory.mkdir(mode=0o700, exist_ok=True)
    if (reason := writable_by_others(directory)) is not None:
        raise ShareError(f"{reason}, so others could exchange shares; name another --out, or chmod go-w it.")


def _line(header: Header) -> bytes:
    return json.dumps(asdict(header), sort_keys=True).encode() + b"\n"
