"""A client seals its values, an envelope for each party of a task, and writes all envelopes or none."""

import json
import secrets
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from fairshares.harness.errors import ShareError, named
from fairshares.harness.inputs.encoding import columns_of
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.inputs.shares import in_parts_to_share, split_into_shares
from fairshares.harness.system.files import create_file, scratch_directory
from fairshares.harness.system.places import directory_fault, way_fault
from fairshares.harness.system.signals import uninterrupted
from fairshares.harness.uploads.envelope import (
    BOUNDS_BYTES,
    SALT_BYTES,
    VERSION,
    commitment_of,
    identity_of,
    info_of,
)
from fairshares.harness.uploads.files import SUFFIX
from fairshares.harness.uploads.policy import ClientPolicy
from fairshares.harness.uploads.task import Task
from fairshares.protocols.arrays import Integers
from fairshares.protocols.spec import INPUT_FORMS

_PARTS = 64  # divides the values that are encoded at once, to bound memory


def seal_upload(task: Task, values: Integers, bounds: ClientPolicy | None) -> tuple[str, list[bytes]]:
    """Split and seal one client's values; return the upload's identity, and an envelope for each party.

    Guarantees: all parties' envelopes but one, even opened, are independent of the values. The task fixes
    their lengths.
    [test: tests/harness/uploads/test_envelopes.py]

    Args:
        task: The task of the upload.
        values: The client's values.
        bounds: The client's own policy, which allows less than the task's. None states no such policy.

    Raises:
        ShareError: The keys of a party have expired, or the bounds are too long.
    """
    salts: list[bytes] = []
    payloads: list[bytes | memoryview] = []
    for payload, _ in split_into_shares(task.ring.encode(values), task.ring, len(task.parties)):
        salts.append(secrets.token_bytes(SALT_BYTES))
        payloads.append(payload)
    stated = json.dumps(bounds.to_json() if bounds else None).encode().ljust(BOUNDS_BYTES)
    if len(stated) > BOUNDS_BYTES:
        raise ShareError("These bounds take too much room in an envelope; state ε and δ by fewer digits.")
    bound = stated + b"".join(map(commitment_of, salts, payloads))
    identity = identity_of(task.digest, bound)
    envelopes: list[bytes] = []
    for party, published in enumerate(task.parties):
        key = published.active
        head = VERSION + task.digest + identity + key.id
        parts: list[bytes | memoryview] = [bound]
        for number, _ in task.pieces(party):
            parts.append(salts[number])
            parts.append(payloads[number])
        envelopes.append(head + key.seal(b"".join(parts), info_of(head, party)))
    return identity.hex(), envelopes


def share(task: Task, records: ClientRecords, out: Path, bounds: ClientPolicy | None = None) -> list[str]:
    """Write the envelopes of all clients to `out/party-<i>/`; return the uploads' identities.

    Guarantees: either all envelopes are written or none is.  [test: tests/harness/uploads/test_client.py]
    Nobody but this user and root can replace an envelope, nor any directory above it.
    [test: tests/harness/uploads/test_places_of_others.py]

    Args:
        task: The task of the uploads.
        records: The clients' records.
        out: The directory in which each party gets a directory.
        bounds: A policy that allows less than the policy of the task, for all these clients, if there is one.

    Raises RecordsError or ShareError.
    """
    names = [f"party-{party}" for party in range(len(task.parties))]
    directories = [out / name for name in names]
    directories.append(out)
    directories.extend(out.parents)
    new = [directory for directory in directories if not directory.exists()]  # the deepest first
    arrived: list[Path] = []
    try:
        _make_places(out, names)
        with scratch_directory(out) as partial:
            identities = _seal_into(partial, names, task, records, bounds)
            for file in sorted(partial.glob("party-*/*")):
                place = out / file.relative_to(partial)
                arrived.append(place)  # first, so that an interrupt leaves no file that is not listed
                file.rename(place)
        return identities
    except BaseException as error:
        with uninterrupted():
            _take_back(arrived, new)
        if isinstance(error, OSError):
            raise ShareError(
                f"Cannot write shares to {out}: {error.strerror}; nothing was left there."
            ) from None
        raise


def count_earlier(out: Path, sealed: Collection[str]) -> int:
    """Return how many uploads a directory holds beside those that were just sealed there."""
    return len(list(out.glob(f"party-0/*{SUFFIX}"))) - len(sealed)


def _make_places(out: Path, names: Sequence[str]) -> None:
    """Make each party's directory; raise ShareError if others can change or replace one."""
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_place(way_fault(out))
    for name in names:
        (out / name).mkdir(mode=0o700, exist_ok=True)
        _check_place(directory_fault(out / name))


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
    for part in in_parts_to_share(records, form, _PARTS):
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
