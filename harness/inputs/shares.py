"""A client's half of sharing: values split into additive shares, and the share files that hold them.

A share batch is one client's upload (or a simulation's, of many clients): one file per party, each
with a public header and either values or a 32-byte seed that stretches to them. Any r - 1 of a
client's r files are uniform, whatever the client has. From here on, no message holds a value.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from harness.errors import ShareError
from harness.inputs.encoding import columns_of, count_columns, count_rows, is_per_record
from harness.inputs.record_schema import domain_from_json
from harness.inputs.records import ClientRecords
from harness.inputs.rings import RINGS, Ring, Words
from harness.system.files import create_file, scratch_directory, writable_by_others
from harness.system.progress import tell
from harness.system.signals import uninterrupted
from protocols.spec import SPLIT, InputForm

SCHEMA = 1
SUFFIX = ".share"
SEED_BYTES = 32
MAX_VALUES = 2**24  # of one upload: what a header may make a party expand


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
        """The ring or field of the values."""
        return RINGS[self.arithmetic]

    @property
    def columns(self) -> int:
        """How many values a row has, see `count_columns`."""
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

    @property
    def payload_bytes(self) -> int:
        """How many bytes follow a batch's header."""
        return SEED_BYTES if self.content == "seed" else self.values * self.domain.value_bytes

    def line(self) -> bytes:
        """Return the first line of a file with this header."""
        return json.dumps(asdict(self), sort_keys=True).encode() + b"\n"


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
    return _share(told(in_uploads(records, form), records.clients), form, domain, parties, out)


def told(parts: Iterable[ClientRecords], clients: int) -> Iterator[ClientRecords]:
    """Yield parts of records, and tell how many of their clients are done with."""
    done = 0
    for part in parts:
        yield part
        done += part.clients
        tell(done, clients)


def _share(
    uploads: Iterable[ClientRecords], form: InputForm, domain: Ring, parties: int, out: Path
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
                batches.append(secrets.token_hex(16))
                _write_upload(records, batches[-1], form, domain, parties, partial)
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
        create_file(out / f"party-{i}" / f"{batch}{SUFFIX}", header.line(), payload)


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
