"""Reads envelopes out of files that anybody may have put there, and remembers what is left out of them."""

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairshares.harness.errors import ShareError, cannot
from fairshares.harness.system.stores import File, files_in
from fairshares.harness.uploads.envelope import HEAD_BYTES, identity_in
from fairshares.harness.uploads.files import SUFFIX
from fairshares.harness.uploads.identities import Digests, Identities, digests_in
from fairshares.harness.uploads.opening import head_fault
from fairshares.harness.uploads.reasons import TOO_LARGE, UNCOVERED, UNREADABLE, WRONG_SIZE
from fairshares.harness.uploads.task import Task

_IDENTITY = re.compile("[0-9a-f]{64}")


class Envelope(NamedTuple):
    """An envelope whose head is one of the task's.

    Attributes:
        identity: The identity that it claims.
        file: The digest of its file's name.
        content: The envelope.
    """

    identity: bytes
    file: bytes
    content: bytes


class LeftOut:
    """The envelopes and files that are left out, by reason, and the identities that the envelopes claim.

    Each envelope or file takes 64 bytes of memory, whatever its size.
    """

    def __init__(self) -> None:
        # By reason: pairs of a claimed identity and the digest of a file's name, end to end. For a whole file
        # both are `_name_of` it.
        self._claims: dict[str, bytearray] = defaultdict(bytearray)

    def add_envelope(self, reason: str, identity: bytes, file: bytes) -> None:
        """Leave out an envelope that claims an identity."""
        # Envelopes of one identity that a client's policy excludes are one upload, in whatever files.
        name = identity if reason == UNCOVERED else file
        self._claims[reason] += identity + name

    def add_file(self, reason: str, name: str) -> None:
        """Leave out a file, or the bytes in it that are no envelope."""
        self.add_envelope(reason, _name_of(name), _name_of(name))

    def listed(self, counted: Identities) -> dict[str, Identities]:
        """Return by reason the names of what is left out, without envelopes that claim uploads that count.

        The first file that claims an identity is listed under that identity, so that parties' lists name an
        upload alike. Each further file is listed by the SHA-256 of its own name, so that files are counted.
        A file with several faults is listed for one of them.

        Guarantees: the result does not depend on the order of the envelopes.
        [test: tests/harness/uploads/test_garbage.py]

        Args:
            counted: The uploads that count.
        """
        listed: dict[str, Identities] = {}
        seen = Identities(digests_in(b""))  # the identities of earlier reasons
        # `UNCOVERED` first: of several faults it is the one that is listed.
        for reason in sorted(self._claims, key=lambda reason: (reason != UNCOVERED, reason)):
            identities, files = _split(np.unique(np.frombuffer(self._claims[reason], dtype="S64")))
            known = seen.has(identities)
            is_whole_file = identities == files
            is_listed = np.where(is_whole_file, ~known, ~counted.has(identities))
            identities = identities[is_listed]
            files = files[is_listed]
            first = np.ones(len(identities), dtype=bool)  # equal identities stand together
            first[1:] = identities[1:] != identities[:-1]
            first &= ~known[is_listed]
            names = np.unique(np.where(first, identities, files))
            if len(names):
                listed[reason] = Identities(names)
            seen = seen | Identities(np.unique(identities))
        return listed

    @property
    def identities(self) -> Identities:
        """All identities that are claimed, and the names of all files that are left out as a whole."""
        claimed = [_split(claims)[0] for claims in self._claims.values()]
        return Identities(np.unique(np.concatenate([digests_in(b""), *claimed])))

    def claims_of(self, counted: Identities) -> int:
        """Return how many envelopes that claim counted uploads were left out."""
        number = 0
        for claims in self._claims.values():
            identities, files = _split(claims)
            number += int((counted.has(identities) & (identities != files)).sum())
        return number


def envelopes_in(
    place: Path | str, task: Task, party: int, keys: Collection[bytes], left_out: LeftOut
) -> Iterator[Envelope]:
    """Yield the envelopes for a party of a task in a place's files, and note all else as left out.

    Guarantees: of an envelope with another head nothing but the head is read, and nothing of a file that is
    larger than the task allows. A file is read as far as it went when it was listed.
    [test: tests/harness/uploads/test_garbage.py]

    Args:
        place: A directory, or an object store's URL.
        task: The task of the envelopes.
        party: The party for which they are.
        keys: The IDs of the party's keys.
        left_out: The record of envelopes and files that are not yielded.

    Raises:
        ShareError: The place cannot be read.
    """
    size = task.envelope_bytes(party)
    for stored in files_at(place):
        name = stored.name.removesuffix(SUFFIX)
        file_digest = hashlib.sha256(os.fsencode(name)).digest()
        try:
            with stored.read() as file:
                unreadable = False
                if stored.size > task.most_file_bytes(party):
                    left_out.add_file(TOO_LARGE, name)
                    continue
                number, rest = divmod(stored.size, size)
                for _ in range(number):
                    head = file.read(HEAD_BYTES)
                    fault = head_fault(task, keys, head)
                    content = head if fault else head + file.read(size - HEAD_BYTES)
                    if len(content) < (HEAD_BYTES if fault else size):  # it was cut since it was listed
                        rest = 1
                        break
                    if fault is None:
                        yield Envelope(identity_in(head), file_digest, content)
                        continue
                    if fault == UNREADABLE:  # where an identity would stand may be anything
                        unreadable = True
                    else:
                        left_out.add_envelope(fault, identity_in(head), file_digest)
                    file.seek(size - HEAD_BYTES, os.SEEK_CUR)
                if unreadable:
                    left_out.add_file(UNREADABLE, name)
                if rest or not number:
                    left_out.add_file(WRONG_SIZE, name)
        except OSError:
            left_out.add_file(UNREADABLE, name)


def envelopes_at_most(place: Path | str, task: Task, party: int) -> int:
    """Return the greatest number of envelopes that a place's files can hold, by the sizes of the files."""
    most_bytes = task.most_file_bytes(party)
    envelope_bytes = task.envelope_bytes(party)
    files = files_at(place, fetch=False)
    return sum(file.size // envelope_bytes for file in files if file.size <= most_bytes)


@dataclass(frozen=True)
class StoredFiles:
    """The files that a place has, by their sizes alone.

    Attributes:
        files: The number of files that whole envelopes fit into.
        envelopes: The number of these envelopes.
        size_bytes: The bytes of these files.
        garbage_files: The number of other files: empty, too large, or no whole number of envelopes.
    """

    files: int
    envelopes: int
    size_bytes: int
    garbage_files: int


def stored_at(place: Path | str, task: Task, party: int) -> StoredFiles:
    """Return the files that a place has for a party of a task; nothing is opened. Raises ShareError."""
    most_bytes = task.most_file_bytes(party)
    envelope_bytes = task.envelope_bytes(party)
    number = 0
    size_bytes = 0
    garbage = 0
    for file in files_at(place, fetch=False):
        if 0 < file.size <= most_bytes and file.size % envelope_bytes == 0:
            number += 1
            size_bytes += file.size
        else:
            garbage += 1
    return StoredFiles(number, size_bytes // envelope_bytes, size_bytes, garbage)


def files_at(place: Path | str, *, fetch: bool = True) -> Iterator[File]:
    """Yield the files of a directory or an object store that have uploads. Raises ShareError."""
    with cannot(f"read {place}", ShareError, "name what has the uploads"):
        yield from files_in(place, SUFFIX, fetch=fetch)


def _split(claims: bytes | bytearray | NDArray[np.bytes_]) -> tuple[Digests, Digests]:
    """Return claims' identities, and the digests of their files' names."""
    pairs = np.frombuffer(claims, dtype="S32").reshape(-1, 2)
    return np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])


def _name_of(name: str) -> bytes:
    """Return the identity that a file has as its name, or else the SHA-256 of the name."""
    if _IDENTITY.fullmatch(name):
        return bytes.fromhex(name)
    return hashlib.sha256(os.fsencode(name)).digest()
