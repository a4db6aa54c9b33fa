"""Splits clients' values into additive shares, and counts records that were shared.

Replicated shares give party i all but share i, so no party can change one, but any two together know the
values. From here on, no message holds a value.
"""

import hashlib
import json
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from harness.errors import RecordsError, ShareError, cannot, named, named_command
from harness.inputs.encoding import columns_of, count_columns, count_rows
from harness.inputs.records import ClientRecords
from harness.inputs.rings import Ring
from harness.inputs.shares.file_format import (
    MAX_VALUES,
    SALT_BYTES,
    SEED_BYTES,
    SUFFIX,
    ClientPolicy,
    client_policy_from_json,
)
from harness.inputs.shares.keys import unseal
from harness.inputs.shares.party import CHANGED, OTHER_KEY, OTHER_TASK, UNOPENED, UNREADABLE
from harness.inputs.shares.task import BOUNDS_BYTES, HEAD_BYTES, Task
from harness.system.documents import Refusal, as_type, parse_json, read_json
from harness.system.files import (
    create_file,
    entries_replaceable_by_others,
    in_turn,
    scratch_directory,
    writable_by_others,
    write_whole,
)
from harness.system.progress import tell
from harness.system.signals import uninterrupted
from protocols.arrays import Integers, Words
from protocols.json_values import JsonFields
from protocols.spec import INPUT_FORMS, InputForm

COUNTED_SCHEMA = 2  # version of the file that counts earlier uploads


def split_into_shares(values: Words, ring: Ring, parties: int) -> Iterator[tuple[bytes, Words]]:
    """Yield each party's share: its payload in a file, and its elements, shape (n, words).

    The last payload is the elements; the others are seeds.
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
    """Yield records in parts of about MAX_VALUES / `smaller` values, report progress, or raise ShareError."""
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
    """Return the records that a client's bound leaves after earlier uploads, or raise RecordsError.

    The file is written first, so records of an upload that fails count as shared.
    Guarantees: all uploads made with this file, even concurrent ones, together hold at most the domain's
    bound of a client's records, if there is one, and come from different sources. Nobody else can put
    another file in its place.
    [test: tests/harness/inputs/test_counted.py, tests/harness/inputs/test_places_of_others.py]
    """
    refusal = Refusal(
        RecordsError,
        str(file),
        f"what {named_command('share')} {named('counted')} writes",
        "restore it, or name another",
    )
    names = list(map(str, records.client_ids))
    before, cap = _Counted(), records.domain.cap
    if not source.is_file():
        raise RecordsError(f"{named('counted')} knows records by their file, and {source} is none; name one.")
    with cannot(f"write {file}", RecordsError, "nothing was shared"):
        reason = entries_replaceable_by_others(file.parent)
        if reason is not None:
            raise RecordsError(
                f"{reason}, so others could replace {file}, which tells what was shared; nothing was shared. "
                f"Name another {named('counted')}, or take that right away (chmod go-w)."
            )
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
            write_whole(file, json.dumps({"schema": COUNTED_SCHEMA, **vars(after)}).encode() + b"\n")
    return shared


_MAGIC = b"FSE\x03"
_TAG = b"fairshares:share:3:%s\n"
_PARTS = 64  # divides the values that are encoded at once, to bound memory


@dataclass(frozen=True)
class Opened:
    """An envelope's shares, (columns held, words), and its client's policy unless that is the task's."""

    bounds: ClientPolicy | None
    shares: Words


def identity_in(envelope: bytes) -> bytes:
    """Return the 32-byte identity that an envelope claims."""
    return envelope[36:68]


def seal_upload(task: Task, values: Integers, bounds: ClientPolicy | None) -> tuple[str, list[bytes]]:
    """Split and seal one client's values; return the upload's identity, and an envelope per party.

    `bounds` is a policy tighter than the task's, if any.
    Guarantees: all parties' envelopes but one, even opened, are independent of the values; the task fixes
    their lengths.

    Raises ShareError if keys have expired or bounds are too long.
    [test: tests/harness/inputs/test_envelopes.py]
    """
    salted = [
        secrets.token_bytes(SALT_BYTES) + payload
        for payload, _ in split_into_shares(task.ring.encode(values), task.ring, len(task.parties))
    ]
    stated = json.dumps(bounds and bounds.to_json()).encode().ljust(BOUNDS_BYTES)
    if len(stated) > BOUNDS_BYTES:
        raise ShareError("These bounds take too much room in an envelope; state ε and δ by fewer digits.")
    bound = stated + b"".join(hashlib.sha256(_TAG % b"commitment" + piece).digest() for piece in salted)
    identity = _identity(task, bound)
    envelopes = []
    for party, published in enumerate(task.parties):
        key = published.active
        head = _MAGIC + task.digest + identity + key.id
        plain = bound + b"".join(salted[number] for number, _ in task.pieces(party))
        envelopes.append(head + key.seal(plain, _info(head, party)))
    return identity.hex(), envelopes


def share(task: Task, records: ClientRecords, out: Path, bounds: ClientPolicy | None = None) -> list[str]:
    """Write all envelopes to `out/party-<i>/`, or none; return the uploads' identities.

    Guarantees: nobody but this user and root can replace an envelope, nor any directory above it.
    [test: tests/harness/inputs/test_places_of_others.py]

    Raises RecordsError or ShareError.  [test: tests/harness/inputs/test_shares_places.py]
    """
    names = [f"party-{i}" for i in range(len(task.parties))]
    new = [path for path in (*(out / name for name in names), out, *out.parents) if not path.exists()]
    arrived: list[Path] = []
    try:
        _make_places(out, names)
        with scratch_directory(out) as partial:
            identities = _seal_into(partial, names, task, records, bounds)
            for file in sorted(partial.glob("party-*/*")):
                arrived.append(out / file.relative_to(partial))
                file.rename(arrived[-1])
        return identities
    except BaseException as error:
        with uninterrupted():
            _take_back(arrived, new)
        if isinstance(error, OSError):
            raise ShareError(
                f"Cannot write shares to {out}: {error.strerror}; nothing was left there."
            ) from None
        raise


def _make_places(out: Path, names: Sequence[str]) -> None:
    """Make each party's directory; raise ShareError if others can change or replace one."""
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_place(entries_replaceable_by_others(out))
    for name in names:
        (out / name).mkdir(mode=0o700, exist_ok=True)
        _check_place(writable_by_others(out / name))


def _check_place(reason: str | None) -> None:
    """Raise ShareError if there is a reason why others could replace what is written somewhere."""
    if reason is not None:
        raise ShareError(
            f"{reason}, so others could replace shares; name another {named('out')}, or chmod go-w it."
        )


def _seal_into(
    partial: Path, names: Sequence[str], task: Task, records: ClientRecords, bounds: ClientPolicy | None
) -> list[str]:
    """Write all envelopes to new directories of these names; return the uploads' identities."""
    form = INPUT_FORMS[task.form]
    for name in names:
        (partial / name).mkdir()
    identities = []
    for part in in_uploads(records, form, _PARTS):
        for values in columns_of(part, form).T:
            identity, envelopes = seal_upload(task, values, bounds)
            identities.append(identity)
            for name, envelope in zip(names, envelopes, strict=True):
                create_file(partial / name / f"{identity}{SUFFIX}", envelope)
    return identities


def _take_back(arrived: Sequence[Path], new: Sequence[Path]) -> None:
    """Remove files that arrived, and new directories that are empty then."""
    for path in arrived:
        path.unlink(missing_ok=True)
    for directory in new:
        with suppress(OSError):  # it holds other uploads, or was never made
            directory.rmdir()


def head_fault(task: Task, keys: Collection[bytes], head: bytes) -> str | None:
    """Return why an envelope is left out by its head alone, or None. Args: keys: IDs of the party's keys."""
    if not head.startswith(_MAGIC):
        return UNREADABLE
    if head[4:36] != task.digest:
        return OTHER_TASK
    if head[68:] not in keys:
        return OTHER_KEY
    return None


def open_envelope(task: Task, party: int, keys: Mapping[bytes, bytes], envelope: bytes) -> Opened | str:
    """Open and check an envelope of the right length, or return the reason to leave it out.

    Guarantees: parties that open envelopes of one identity, a digest of the bounds and of all shares' salted
    digests, hold shares of one upload with the same bounds.
    [test: tests/harness/inputs/test_envelopes.py]
    """
    head, sealed = envelope[:HEAD_BYTES], envelope[HEAD_BYTES:]
    fault = head_fault(task, keys, head)
    if fault is not None:
        return fault
    plain = unseal(keys[head[68:]], sealed, _info(head, party))
    if plain is None:
        return UNOPENED
    start = BOUNDS_BYTES + 32 * len(task.parties)
    bound, stated = plain[:start], plain[:BOUNDS_BYTES]
    if _identity(task, bound) != identity_in(head):
        return CHANGED
    shares = []
    for number, size in task.pieces(party):
        piece, start = plain[start : start + size], start + size
        place = BOUNDS_BYTES + 32 * number
        if hashlib.sha256(_TAG % b"commitment" + piece).digest() != bound[place : place + 32]:
            return CHANGED
        payload = piece[SALT_BYTES:]
        if number < len(task.parties) - 1:
            shares.append(task.ring.expand(payload, task.columns))
        else:
            shares.append(task.ring.reduce(task.ring.from_bytes(payload)))
    try:
        return Opened(_bounds(stated), np.concatenate(shares))
    except ShareError:
        return UNREADABLE


@lru_cache(maxsize=64)  # most clients state the same
def _bounds(stated: bytes) -> ClientPolicy | None:
    refusal = Refusal(ShareError, "The envelope", "one of this version", "leave it out")
    fields = parse_json(stated, refusal)
    if fields is None:
        return None
    return client_policy_from_json(as_type(JsonFields, fields, refusal), refusal)


def _identity(task: Task, bound: bytes) -> bytes:
    return hashlib.sha256(_TAG % b"identity" + task.digest + bound).digest()


def _info(head: bytes, party: int) -> bytes:
    return hashlib.sha256(_TAG % b"info" + head + bytes([party])).digest()
