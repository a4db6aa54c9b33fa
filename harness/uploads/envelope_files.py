"""Reads envelopes out of files that anybody may have put there, and remembers what is left out of them."""

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterator
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
    """What is left out, by reason: envelopes with the identities that they claim, and whole files.

    Each takes 64 bytes of memory, whatever its size.
    """

    def __init__(self) -> None:
        # By reason: a claimed identity and the digest of a file's name, end to end. A whole file is named by
        # `_name_of` in place of both.
        self._claims: dict[str, bytearray] = defaultdict(bytearray)

    def add_envelope(self, reason: str, identity: bytes, file: bytes) -> None:
        """Leave out an envelope that claims an identity."""
        # Many equal files that a client's policy excludes are one upload that was sent again.
        self._claims[reason] += identity + (identity if reason == UNCOVERED else file)

    def add_file(self, reason: str, name: str) -> None:
        """Leave out a file, or the bytes in it that are no envelope."""
        self.add_envelope(reason, _name_of(name), _name_of(name))

    def listed(self, counted: Identities) -> dict[str, Identities]:
        """Return by reason the names of what is left out, without envelopes that claim uploads that count.

        The first file that claims an identity is listed under it, so parties' lists name an upload alike.
        Every further one is listed by the SHA-256 of its own name, so files are counted. The result
        does not depend on the order of envelopes. A file with several faults is listed for one of them.
        [test: tests/harness/uploads/test_garbage.py]
        """
        listed, seen = dict[str, Identities](), Identities(digests_in(b""))
        for reason in sorted(self._claims, key=lambda reason: (reason != UNCOVERED, reason)):
            identities, files = _split(np.unique(np.frombuffer(self._claims[reason], dtype="S64")))
            known = seen.has(identities)
            whole = identities == files
            left = np.where(whole, ~known, ~counted.has(identities))
            identities, files = identities[left], files[left]
            first = np.ones(len(identities), dtype=bool)
            first[1:] = identities[1:] != identities[:-1]
            first &= ~known[left]
            names = np.unique(np.where(first, identities, files))
            if len(names):
                listed[reason] = Identities(names)
            seen = seen | Identities(np.unique(identities))
        return listed

    @property
    def identities(self) -> Identities:
        """All identities that are claimed, and names of whole files."""
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
    """Yield the envelopes for a party of a task in a place's files; add all else to what is left out.

    Of an envelope with another head nothing but the head is read, and nothing of a file that is larger than
    the task allows. A file is read as far as it went when it was listed. [test:
    tests/harness/uploads/test_garbage.py]

    Args:
        place: A directory, or an object store's URL.
        task: The task that the envelopes are of.
        party: The number of the party that they are for.
        keys: The IDs of the party's keys.
        left_out: Takes what is not yielded.

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
    """Return the greatest number of envelopes that a place's files can hold, by their sizes."""
    most, size = task.most_file_bytes(party), task.envelope_bytes(party)
    return sum(file.size // size for file in files_at(place, fetch=False) if file.size <= most)


def files_at(place: Path | str, *, fetch: bool = True) -> Iterator[File]:
    """Yield the files with uploads, or raise ShareError."""
    with cannot(f"read {place}", ShareError, "name what has the uploads"):
        yield from files_in(place, SUFFIX, fetch=fetch)


def _split(claims: bytes | bytearray | NDArray[np.bytes_]) -> tuple[Digests, Digests]:
    """Return claims' identities, and the digests of their files' names."""
    pairs = np.frombuffer(claims, dtype="S32").reshape(-1, 2)
    return np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])


def _name_of(name: str) -> bytes:
    """Return the identity that a file's name is, or the name's SHA-256."""
    return bytes.fromhex(name) if _IDENTITY.fullmatch(name) else hashlib.sha256(os.fsencode(name)).digest()
