"""A party counts envelopes: it opens, checks and adds them up as they come, in little memory.

A file of envelopes has one or more, end to end. A party leaves out alone what it cannot open, and counts an
identity once; which uploads a run takes, all parties' lists decide.
"""

import hashlib
import json
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from harness.errors import ShareError
from harness.inputs.shares.aggregates import Header
from harness.inputs.shares.envelope import identity_in, open_envelope
from harness.inputs.shares.file_format import SUFFIX, ClientPolicy, write_file
from harness.inputs.shares.keys import SealingKey, unseal
from harness.inputs.shares.party import UNCOVERED, UNREADABLE, WRONG_SIZE, UploadReport
from harness.inputs.shares.task import Task
from harness.system.files import open_regular
from harness.system.progress import tell
from protocols.arrays import Words
from protocols.spec import SPLIT

_AT_ONCE = 512  # envelopes that a process opens before it is given more
_CHECKPOINT_S = 30.0
_Batch = tuple[list[str | ClientPolicy | None], Words]


@dataclass(frozen=True)
class Opener:
    """What it takes to open a party's envelopes, in another process, too.

    Attributes:
        task, party: Of which task, at which party.
        keys: The party's secret keys, by ID.
        policy: What runs may do with uploads; envelopes whose clients allow less are left out. None: `bounds`
            of a count say what clients allow, and whoever counts judges it.
    """

    task: Task
    party: int
    keys: dict[bytes, bytes] = field(repr=False)
    policy: ClientPolicy | None = None

    @property
    def summed(self) -> bool:
        """Whether clients' values are added up, not put one after the other."""
        return self.task.form == SPLIT.name

    def __call__(self, envelopes: Sequence[bytes]) -> _Batch:
        """Open envelopes.

        Returns: for each, why it is left out, or its client's bounds, None where there are none; of those
        that are not left out the values, shape (columns held, clients or 1, words).
        """
        answers: list[str | ClientPolicy | None] = []
        shares = []
        for envelope in envelopes:
            opened = open_envelope(self.task, self.party, self.keys, envelope)
            if isinstance(opened, str):
                answers.append(opened)
            elif self.policy and opened.bounds and not opened.bounds.covers_all(self.policy):
                answers.append(UNCOVERED)
            else:
                answers.append(opened.bounds)
                shares.append(opened.shares[:, np.newaxis])
        return answers, self.joined(self.nothing, *shares)

    @property
    def nothing(self) -> Words:
        """The values of no client."""
        held = len(self.task.pieces(self.party)) * self.task.columns
        return np.zeros((held, int(self.summed), self.task.ring.words), dtype=np.uint64)

    def joined(self, *parts: Words) -> Words:
        """Return the values of several calls as of one."""
        values = np.concatenate(parts, axis=1)
        return self.task.ring.total(values)[:, np.newaxis] if self.summed else values


class Count:
    """A party's count of the uploads that it has.

    Guarantees: an identity is in `identities` if and only if its values are in `values`, once, also after
    the process was killed at any point.  [test: tests/harness/inputs/test_counting.py]
    Args:
        opener: What opens envelopes.
        accepted: The identities that all parties take, None for all that can be opened.
        checkpoint: A file that keeps the count, sealed for the party itself, in case the process dies.

    Attributes:
        identities: Of the uploads that count, with the places of their values.
        values: Shape (columns held, clients or 1, words).
        unsound: By claimed identity, or by file, why envelopes were left out.
        bounds: By identity, what clients allow that allow less than the task.
    """

    def __init__(
        self, opener: Opener, accepted: Collection[bytes] | None = None, checkpoint: Path | None = None
    ) -> None:
        self._opener, self._accepted, self._checkpoint = opener, accepted, checkpoint
        self.identities: dict[bytes, int] = {}
        self.values = opener.nothing
        self.unsound: dict[str, str] = {}
        self.bounds: dict[str, ClientPolicy] = {}
        self._batch: dict[bytes, bytes] = {}  # by identity
        self._waiting: deque[tuple[list[bytes], Callable[[], _Batch]]] = deque()
        self._pending: set[bytes] = set()
        self._kept = time.monotonic()
        allowed = json.dumps(opener.policy and opener.policy.to_json()).encode()
        chosen = b"" if accepted is None else hashlib.sha256(b"".join(sorted(accepted))).digest()
        bound = opener.task.digest + bytes([opener.party]) + chosen + allowed
        self._info = hashlib.sha256(b"fairshares:share:3:checkpoint\n" + bound).digest()
        if checkpoint and checkpoint.exists():
            self._resume(checkpoint.read_bytes())

    def add(self, directory: Path, processes: int | None = None) -> None:
        """Count what is in a directory's files.

        Args:
            directory: Of files that end in .share.
            processes: How many open envelopes; 0: this one; default: as many as there are processors.

        Raises: ShareError: the checkpoint cannot be written.
        """
        size = self._opener.task.envelope_bytes(self._opener.party)
        total = sum(entry.stat(follow_symlinks=False).st_size for entry in _files(directory)) // size
        processes = (os.cpu_count() or 1) * (total > _AT_ONCE) if processes is None else processes
        pool = (
            ProcessPoolExecutor(
                processes, get_context("forkserver"), signal.signal, (signal.SIGINT, signal.SIG_IGN)
            )
            if processes  # which this one ends by itself when it is interrupted
            else nullcontext()
        )
        with pool as workers:

            def start(envelopes: list[bytes]) -> Callable[[], _Batch]:
                if workers is None:
                    return partial(self._opener, envelopes)
                return workers.submit(self._opener, envelopes).result

            for number, envelope in enumerate(self._envelopes(directory, size)):
                identity = identity_in(envelope)
                if identity in self._pending:  # the envelope before may be no good, and this one the upload
                    self._finish(start, 0)
                foreign = self._accepted is not None and identity not in self._accepted
                if foreign or identity in self.identities:
                    continue
                self._pending.add(identity)
                self._batch[identity] = envelope
                if len(self._batch) == _AT_ONCE:
                    self._finish(start, 2 * processes)
                    tell(min(number, total), total)
            self._finish(start, 0)

    def _finish(self, start: Callable[[list[bytes]], Callable[[], _Batch]], most: int) -> None:
        """Have the batch opened; take what was opened. Args: most: how many batches may wait."""
        if self._batch:
            self._waiting.append((list(self._batch), start(list(self._batch.values()))))
            self._batch.clear()
        while len(self._waiting) > most:
            identities, result = self._waiting.popleft()
            answers, values = result()
            for identity, answer in zip(identities, answers, strict=True):
                if isinstance(answer, str):
                    self.unsound[identity.hex()] = answer
                    continue
                self.identities[identity] = len(self.identities)
                if answer:
                    self.bounds[identity.hex()] = answer
            self.values = self._opener.joined(self.values, values)
            self._pending.difference_update(identities)
            if self._checkpoint and time.monotonic() - self._kept > _CHECKPOINT_S:
                counted = [len(self.identities).to_bytes(8, "big"), *self.identities]
                values_now = self._opener.task.ring.to_bytes(self.values)
                (key, _) = self._own_key()
                write_file(self._checkpoint, key.seal(b"".join([*counted, values_now]), self._info))
                self._kept = time.monotonic()

    def _own_key(self) -> tuple[SealingKey, bytes]:
        published = self._opener.task.parties[self._opener.party].keys
        return next((key, self._opener.keys[key.id]) for key in published if key.id in self._opener.keys)

    def _resume(self, sealed: bytes) -> None:
        """Go on from a checkpoint, if it is of the same count."""
        plain = unseal(self._own_key()[1], sealed, self._info)
        if plain is None:
            return
        end = 8 + 32 * int.from_bytes(plain[:8], "big")
        self.identities = {plain[at : at + 32]: at // 32 for at in range(8, end, 32)}
        values = self._opener.task.ring.from_bytes(plain[end:])
        self.values = values.reshape(len(self.values), -1, values.shape[-1])

    def _envelopes(self, directory: Path, size: int) -> Iterator[bytes]:
        """Yield the envelopes in a directory's files; what is none of its own is noted."""
        for entry in _files(directory):
            name = entry.name.removesuffix(SUFFIX).encode(errors="backslashreplace").decode()
            try:
                with open_regular(Path(entry.path)) as file:
                    while envelope := file.read(size):
                        if len(envelope) == size:
                            yield envelope
                        else:
                            self.unsound[name] = WRONG_SIZE
            except OSError:
                self.unsound[name] = UNREADABLE

    def report(self) -> UploadReport:
        """Return the party's list of what it can open, for all parties to see."""
        sound = frozenset(identity.hex() for identity in self.identities)
        return UploadReport(self._opener.party, self._opener.task.name, sound, self.unsound)

    @property
    def policies(self) -> dict[str, ClientPolicy]:
        """What clients allow and the task does, by the identities of those that count."""
        allowed = self._opener.task.allowed
        bounds = {name: policy.and_also(allowed) for name, policy in self.bounds.items()}
        return {name: bounds.get(name, allowed) for name in map(bytes.hex, self.identities)}

    def write(self, out: Path) -> Header:
        """Write what the party feeds into a run; the checkpoint goes.

        Raises: ShareError: there are too few uploads, or too many; uploads that all parties take are gone;
        the file cannot be written.
        """
        task = self._opener.task
        if self._accepted is not None and len(self.identities) < len(self._accepted):
            raise ShareError(
                f"Party {self._opener.party} no longer has all uploads of the lists; run ./inv uploads again "
                "at every party."
            )
        task.check_count(len(self.identities))
        clients, names, digest = len(self.identities), sorted(self.identities), hashlib.sha256()
        blocks = [
            "".join(f"{name.hex()} " for name in names[start : start + _AT_ONCE]).encode()
            for start in range(0, clients, _AT_ONCE)
        ]
        blocks[-1] = blocks[-1].rstrip()
        for block in blocks:  # as `hash_of` has it, in little memory
            digest.update(block.replace(b" ", b"\n"))
        policy = (self._opener.policy or task.allowed).to_json()
        header = Header(self._opener.party, clients, digest.hexdigest(), policy, task)
        values = self.values
        if not self._opener.summed:
            values = values[:, [self.identities[name] for name in names]]
        write_file(out, header.line(), *blocks, b"\n", task.ring.to_bytes(values))
        if self._checkpoint:
            self._checkpoint.unlink(missing_ok=True)
        return header


def _files(directory: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the files of envelopes, unread. Raises: ShareError: there is no such directory."""
    try:
        with os.scandir(directory) as entries:
            yield from (entry for entry in entries if entry.name.endswith(SUFFIX))
    except OSError as error:
        raise ShareError(f"Cannot read {directory}: {error.strerror}; name what has the uploads.") from None
