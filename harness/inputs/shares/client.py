"""Splits clients' values into additive shares, and counts records that were shared.

Any r - 1 of a client's r files are uniform. With replicated shares, party i's file holds all shares but
number i: no single party can change a share, but any two together know the values. From here on, no message
holds a value.
"""

import hashlib
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from harness.errors import RecordsError, ShareError, named
from harness.inputs.encoding import count_columns, count_rows
from harness.inputs.records import ClientRecords
from harness.inputs.rings import Ring
from harness.inputs.shares.file_format import MAX_VALUES, SEED_BYTES
from harness.system.documents import Refusal, as_type, read_json
from harness.system.files import in_turn, write_whole
from harness.system.progress import tell
from protocols.arrays import Words
from protocols.spec import InputForm

COUNTED_SCHEMA = 2  # version of the file that counts earlier uploads


def split_into_shares(values: Words, ring: Ring, parties: int) -> Iterator[tuple[bytes, Words]]:
    """Yield each party's share: its payload in a file, and its elements, shape (n, words).

    The last payload is the elements; the others are seeds, which expand to them.
    Guarantees: any r - 1 of the r shares are uniform and independent of the values, if expanded seeds count
    as random; all r add up to the values.
    [test: tests/harness/inputs/test_shares_properties.py]
    """
    rest = values.reshape(-1, ring.words)
    for _ in range(parties - 1):
        seed = secrets.token_bytes(SEED_BYTES)
        share = ring.expand(seed, len(rest))
        rest = ring.subtract(rest, share)
        yield seed, share
    yield ring.to_bytes(rest), rest


def in_uploads(records: ClientRecords, form: InputForm, smaller: int = 1) -> Iterator[ClientRecords]:
    """Yield records in parts of about MAX_VALUES / `smaller` values, at least a client; report progress.

    Raises:
        ShareError: A client exceeds MAX_VALUES.
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
class _Counted:
    records: dict[str, int] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)


def of_what_is_left(records: ClientRecords, source: Path, file: Path) -> ClientRecords:
    """Return records that may be shared: at most what a client's bound leaves after earlier uploads.

    The file is written before anything is shared, so records of an upload that then fails count as shared.
    Guarantees: all uploads made with this file, even concurrent ones, hold at most the domain's bound of a
    client's records, if there is one, and no two come from the same source.

    Raises:
        RecordsError: The file cannot be read or written, or the source was shared before.
    [test: tests/harness/inputs/test_counted.py]
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
