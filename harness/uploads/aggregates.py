"""Aggregates, which are the parties' inputs to runs. Their format is in docs/reference/share-files.md."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from fairshares.harness.errors import ShareError, cannot, refuse
from fairshares.harness.system.documents import DECLARATION, Refusal, as_type, parse_json
from fairshares.harness.system.files import create_file, open_regular
from fairshares.harness.uploads.identities import IDENTITY_TEXT_BYTES, MOST_UPLOADS, Identities
from fairshares.harness.uploads.policy import ClientPolicy, client_policy_from_json
from fairshares.harness.uploads.task import Task
from fairshares.protocols.json_values import JsonFields
from fairshares.protocols.spec import SPLIT

SCHEMA = 3


@dataclass(frozen=True)
class Header:
    """The public first line of an aggregate.

    Attributes:
        party: The party whose shares these are.
        uploads: The number of uploads that count.
        fingerprint: A digest of their identities.
        policy: The runs that all clients allow, as a `ClientPolicy` writes it.
        task: The task of the uploads.
        excluded: The number of uploads that were left out, by reason.
    """

    party: int
    uploads: int
    fingerprint: str
    policy: JsonFields
    task: Task
    excluded: dict[str, int]
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        known_party = self.party in range(len(self.task.parties))
        if self.schema != SCHEMA or not known_party or not 1 <= self.uploads <= MOST_UPLOADS:
            raise ShareError("It is no aggregate that this version knows.")
        _ = self.allowed  # raises ShareError if it is invalid

    @cached_property
    def allowed(self) -> ClientPolicy:
        """The runs that all clients allow. Raises ShareError if they are no policy."""
        return client_policy_from_json(self.policy, _refusal("The aggregate's policy"))

    @property
    def size(self) -> int:
        """The number of bytes of the values, which stand after two lines."""
        rows = 1 if self.task.form == SPLIT.name else self.uploads
        return rows * len(self.task.pieces(self.party)) * self.task.columns * self.task.ring.value_bytes

    def line(self) -> bytes:
        """Return the line itself."""
        return json.dumps(asdict(self), sort_keys=True).encode() + b"\n"


@contextmanager
def opened(path: Path) -> Iterator[tuple[Header, BinaryIO]]:
    """Yield an aggregate's header, and its open file after that header's line. Raises ShareError."""
    refusal = _refusal(str(path))
    with cannot(f"read {path}", ShareError), open_regular(path) as file:
        line = file.readline(DECLARATION.size)
        if not line.endswith(b"\n"):
            refusal.say("its first line has no end")
        yield as_type(Header, parse_json(line, refusal, limits=DECLARATION), refusal), file


def read_header(path: Path) -> Header:
    """Return an aggregate's header, or raise ShareError."""
    with opened(path) as (header, _):
        return header


def read_uploads(path: Path) -> Identities:
    """Return the uploads' identities. Raises ShareError if the header has another fingerprint of them."""
    damaged = ShareError(f"{path} is damaged: its list of uploads is not whole; aggregate again.")
    with opened(path) as (header, file):
        try:
            identities = Identities.read(file, header.uploads)
        except ValueError:
            raise damaged from None
    if identities.fingerprint() != header.fingerprint:
        raise damaged
    return identities


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def check_aggregates(paths: Sequence[Path]) -> Header:
    """Return party 0's header, or raise ShareError unless all aggregates hold the same uploads."""
    headers = [check_own(path, party) for party, path in enumerate(paths)]
    first = headers[0]
    if len(first.task.parties) != len(paths):
        raise ShareError(
            f"These are the aggregates of {len(paths)} parties, of a task for {len(first.task.parties)}; "
            "bring those of all parties together."
        )
    for party, header in enumerate(headers):
        refuse(
            ShareError,
            (
                header.task != first.task,
                f"Party {party} counted uploads of another task than party 0; aggregate again.",
            ),
            (
                replace(header, party=0) != first,
                f"Party {party} has {header.uploads} uploads, party 0 has {first.uploads}, and they are not "
                "the same; aggregate again, at every party by the same lists of uploads.",
            ),
        )
    return first


def check_own(path: Path, party: int) -> Header:
    """Return this party's aggregate's header, or raise ShareError."""
    header = read_header(path)
    if header.party != party:
        raise ShareError(f"{path} is not the aggregate of party {party}; run `aggregate` again.")
    return header


def extract_values(aggregate_file: Path, out: Path) -> Path:
    """Write an aggregate's values alone to a file, as engines take them, and return that file.

    Raises:
        ShareError: The aggregate does not have as many bytes of values as its header says.
    """
    with opened(aggregate_file) as (header, file):
        _identities_line(file, header)
        values = file.read(min(header.size, _size(file)) + 1)
    if len(values) != header.size:
        raise ShareError(f"{aggregate_file} is damaged: it does not have {header.size} bytes of values.")
    create_file(out, values)
    return out


def _identities_line(file: BinaryIO, header: Header) -> bytes:
    """Read the second line, but no more bytes than the number of identities in the header takes."""
    return file.readline(max(1, IDENTITY_TEXT_BYTES * header.uploads))


def _refusal(where: str) -> Refusal:
    return Refusal(ShareError, where, "an aggregate of this version", "run `aggregate` again")
