"""Opens, checks and adds up a party's envelopes as they come, in little memory.

All parties' lists decide which uploads a run counts.
"""

import hashlib
import json
import os
import re
import signal
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, CancelledError, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.errors import ShareError, cannot
from harness.inputs.shares.aggregates import Header
from harness.inputs.shares.client import identity_in, open_envelope
from harness.inputs.shares.file_format import SUFFIX, ClientPolicy, client_policy_from_json, write_file
from harness.inputs.shares.identities import Digests, Identities, digests_in
from harness.inputs.shares.keys import SealingKey, unseal
from harness.inputs.shares.party import UNCOVERED, UNREADABLE, WRONG_SIZE, UploadReport
from harness.inputs.shares.task import Task
from harness.system.documents import Refusal
from harness.system.files import append
from harness.system.progress import tell
from harness.system.stores import File, files_in
from protocols.arrays import Words
from protocols.spec import SPLIT

_AT_ONCE = 512  # envelopes per batch
_CHECKPOINT_S = 30.0
_IDENTITY = re.compile("[0-9a-f]{64}")
_Batch = tuple[list[str | ClientPolicy | None], Words]
_Start = Callable[[bytes], Callable[[], _Batch]]  # starts opening envelopes; its result waits for them


class Part(NamedTuple):
    """Counted uploads: sorted identities, and values, shape (columns held, clients or 1, words)."""

    digests: Digests
    values: Words


@dataclass(frozen=True)
class Opener:
    """Opens a party's envelopes, also in other processes; a policy leaves out uploads that forbid the run."""

    task: Task
    party: int
    keys: dict[bytes, bytes] = field(repr=False)
    policy: ClientPolicy | None = None

    @property
    def summed(self) -> bool:
        """Whether values are added up, or else listed."""
        return self.task.form == SPLIT.name

    def __call__(self, envelopes: bytes) -> _Batch:
        """Return the reason to leave each envelope out, or its bounds or None; and the others' values."""
        answers: list[str | ClientPolicy | None] = []
        shares, size = [], self.task.envelope_bytes(self.party)
        for start in range(0, len(envelopes), size):
            opened = open_envelope(self.task, self.party, self.keys, envelopes[start : start + size])
            if isinstance(opened, str):
                answers.append(opened)
            elif self.policy and opened.bounds and not opened.bounds.covers_all(self.policy):
                answers.append(UNCOVERED)
            else:
                answers.append(opened.bounds)
                shares.append(opened.shares[:, np.newaxis])
        return answers, self._joined(self.nothing.values, *shares)

    @property
    def nothing(self) -> Part:
        """An empty part."""
        held = len(self.task.pieces(self.party)) * self.task.columns
        values = np.zeros((held, int(self.summed), self.task.ring.words), dtype=np.uint64)
        return Part(digests_in(b""), values)

    def together(self, *parts: Part) -> Part:
        """Merge parts without common uploads; one may be unsorted."""
        digests = np.concatenate([part.digests for part in parts])
        values = self._joined(*(part.values for part in parts))
        if not self.summed:
            values = values[:, np.argsort(digests)]
        digests.sort(kind="stable")  # fast, as parts are sorted
        return Part(digests, values)

    def _joined(self, *values: Words) -> Words:
        joined = np.concatenate(values, axis=1)
        return self.task.ring.total(joined)[:, np.newaxis] if self.summed else joined


class Count:
    """A party's count of its uploads.

    Each upload, sound or not, takes 32 bytes of memory, plus its row where rows are not summed.
    Guarantees: an identity is in `identities` if and only if its values are in `values`, once, even after the
    process was killed at any point.  [test: tests/harness/inputs/test_exactly_once.py]

    Args:
        opener: Opens envelopes.
        accepted: The identities that all parties accept; by default all that can be opened.
        checkpoint: A file, sealed for the party, that keeps the count across restarts.
    """

    def __init__(
        self, opener: Opener, accepted: Iterable[str] | None = None, checkpoint: Path | None = None
    ) -> None:
        self.opener, self._checkpoint = opener, checkpoint
        self._accepted = None if accepted is None else Identities.of(accepted)
        self._parts = [opener.nothing]  # each at least twice as large as the next
        self._unsaved: list[Part] = []
        self._there = bytearray()  # identities in the files, if there was a checkpoint
        self._saved = 0  # bytes of the checkpoint
        self._unsound: dict[str, bytearray] = defaultdict(bytearray)  # claimed identities by reason
        self.bounds: dict[str, ClientPolicy] = {}  # policies that allow less than the task, by identity
        self._batch: dict[bytes, bytes] = {}  # by identity
        self._waiting: deque[tuple[list[bytes], Callable[[], _Batch]]] = deque()
        self._pending: set[bytes] = set()
        self._kept = time.monotonic()
        chosen = b"" if self._accepted is None else hashlib.sha256(self._accepted.digests.data).digest()
        bound = opener.task.digest + bytes([opener.party]) + chosen
        bound += json.dumps(opener.policy and opener.policy.to_json()).encode()
        self._info = hashlib.sha256(b"fairshares:share:4:checkpoint\n" + bound).digest()
        if checkpoint and checkpoint.exists():
            self._resume(checkpoint)
        self._resumed = self.identities

    @property
    def identities(self) -> Identities:
        """The uploads that count."""
        return Identities(self._whole.digests)

    @property
    def values(self) -> Words:
        """The uploads' values in the order of identities."""
        return self._whole.values

    @property
    def _whole(self) -> Part:
        if len(self._parts) > 1:
            self._parts = [self.opener.together(*self._parts)]
        return self._parts[0]

    def add(self, place: Path | str, processes: int | None = None, cluster: str | None = None) -> None:
        """Count the uploads in a directory's or an object store's files that end in .share.

        By default a process per processor opens them; 0 uses this one. Workers of a Dask `cluster`, given by
        its scheduler's address, see the party's keys.

        Raises:
            ShareError: The place, the checkpoint or the cluster failed, or a worker process died.
        """
        size = self.opener.task.envelope_bytes(self.opener.party)
        total = sum(file.size for file in _files(place, fetch=False)) // size
        processes = (os.cpu_count() or 1) * (total > _AT_ONCE) if processes is None else processes
        with _pool(self.opener, processes, cluster) as (start, most):
            for number, envelope in enumerate(self._envelopes(place, size)):
                identity = identity_in(envelope)
                self._there += identity if self._resumed else b""
                if identity in self._pending:  # the earlier one may be invalid, and this one the upload
                    self._finish(start, 0)
                self._pending.add(identity)
                self._batch[identity] = envelope
                if len(self._batch) == _AT_ONCE:
                    self._finish(start, most)
                    tell(min(number, total), total)
            self._finish(start, 0)

    def _finish(self, start: _Start, most: int) -> None:
        names = [*self._batch]
        for identity, wanted in zip(names, self._wanted(digests_in(b"".join(names))), strict=True):
            if not wanted:
                del self._batch[identity]
                self._pending.remove(identity)
        if self._batch:
            self._waiting.append(([*self._batch], start(b"".join(self._batch.values()))))
            self._batch.clear()
        while len(self._waiting) > most:
            identities, result = self._waiting.popleft()
            answers, values = result()
            sound = []
            for identity, answer in zip(identities, answers, strict=True):
                if isinstance(answer, str):
                    self._unsound[answer] += identity
                    continue
                sound.append(identity)
                if answer:
                    self.bounds[identity.hex()] = answer
            self._take(self.opener.together(Part(digests_in(b"".join(sound)), values)))
            self._pending.difference_update(identities)
            if time.monotonic() - self._kept > _CHECKPOINT_S:
                self._save()

    def _wanted(self, digests: Digests) -> NDArray[np.bool_]:
        wanted: NDArray[np.bool_] = ~np.logical_or.reduce(
            [Identities(part.digests).has(digests) for part in self._parts]
        )
        return wanted if self._accepted is None else wanted & self._accepted.has(digests)

    def _take(self, part: Part) -> None:
        self._parts.append(part)
        while len(self._parts) > 1 and len(self._parts[-2].digests) < 2 * len(self._parts[-1].digests):
            self._parts[-2:] = [self.opener.together(*self._parts[-2:])]
        if self._checkpoint:
            self._unsaved.append(part)

    def _save(self) -> None:
        """Append to the checkpoint; each seal depends on all earlier ones."""
        self._kept = time.monotonic()
        if self._checkpoint is None or not self._unsaved:
            return
        digests, values = self.opener.together(*self._unsaved)
        plain = len(digests).to_bytes(8, "big") + digests.tobytes() + self.opener.task.ring.to_bytes(values)
        bounded = [name for name in Identities(digests) if name in self.bounds] if self.bounds else []
        plain += json.dumps({name: self.bounds[name].to_json() for name in bounded}).encode()
        sealed = self._own_key()[0].seal(plain, self._info)
        with cannot(f"write {self._checkpoint}", ShareError):
            self._checkpoint.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            append(self._checkpoint, self._saved, len(sealed).to_bytes(8, "big"), sealed)
        self._unsaved.clear()
        self._went_on(sealed)

    def _went_on(self, sealed: bytes) -> None:
        self._saved += 8 + len(sealed)
        self._info = hashlib.sha256(self._info + sealed).digest()

    def _own_key(self) -> tuple[SealingKey, bytes]:
        task, keys = self.opener.task, self.opener.keys
        return next((key, keys[key.id]) for key in task.parties[self.opener.party].keys if key.id in keys)

    def _resume(self, checkpoint: Path) -> None:
        """Restore a checkpoint up to the first seal of another count."""
        ring, columns = self.opener.task.ring, len(self.opener.nothing.values)
        with checkpoint.open("rb") as file:
            left = os.fstat(file.fileno()).st_size
            while True:
                sealed = file.read(min(int.from_bytes(file.read(8), "big"), left))
                plain = unseal(self._own_key()[1], sealed, self._info)
                if plain is None:
                    return
                number = int.from_bytes(plain[:8], "big")
                end = 8 + 32 * number
                size = columns * (1 if self.opener.summed else number) * ring.value_bytes
                values = ring.from_bytes(plain[end : end + size]).reshape(columns, -1, ring.words)
                self._take(Part(digests_in(plain[8:end]), values))
                for name, bound in json.loads(plain[end + size :]).items():
                    self.bounds[name] = client_policy_from_json(
                        bound, Refusal(ShareError, str(checkpoint), "this party's count", "remove it")
                    )
                self._unsaved.clear()
                self._went_on(sealed)

    def _envelopes(self, place: Path | str, size: int) -> Iterator[bytes]:
        for stored in _files(place):
            name = stored.name.removesuffix(SUFFIX)
            try:
                with stored.read() as file:
                    while envelope := file.read(size):
                        if len(envelope) == size:
                            yield envelope
                        else:
                            self._leave_out(name, WRONG_SIZE)
            except OSError:
                self._leave_out(name, UNREADABLE)

    def _leave_out(self, name: str, reason: str) -> None:
        self._unsound[reason] += (
            bytes.fromhex(name) if _IDENTITY.fullmatch(name) else hashlib.sha256(os.fsencode(name)).digest()
        )

    @property
    def gone(self) -> Identities:
        """Uploads in the checkpoint but in none of the files."""
        return self._resumed - Identities(np.unique(digests_in(self._there)))

    @property
    def unsound(self) -> dict[str, Identities]:
        """Claimed identities of left-out envelopes, or hashes of files' names, by reason."""
        return {why: Identities(np.unique(digests_in(raw))) for why, raw in self._unsound.items()}

    def report(self) -> UploadReport:
        """Return the party's list of uploads."""
        return UploadReport(self.opener.party, self.opener.task.name, self.identities, self.unsound)

    @property
    def policies(self) -> dict[str, ClientPolicy]:
        """The runs that client and task allow, by counted identity."""
        allowed = self.opener.task.allowed
        bounds = {name: policy.and_also(allowed) for name, policy in self.bounds.items()}
        return {name: bounds.get(name, allowed) for name in self.identities}

    def write(self, out: Path, left_out: Mapping[str, int]) -> Header:
        """Write the aggregate, with numbers of others, and remove the checkpoint; or raise ShareError."""
        task = self.opener.task
        identities, digest = self.identities, hashlib.sha256()
        clients = len(identities)
        if self._accepted is not None and clients < len(self._accepted):
            raise ShareError(
                f"Party {self.opener.party} no longer has all uploads of the lists; run ./inv uploads again "
                "at every party."
            )
        task.check_count(clients)
        for text in identities.texts():  # equals `hash_of`, in little memory
            digest.update(text.replace(" ", "\n").encode())
        header = Header(
            self.opener.party,
            clients,
            digest.hexdigest(),
            (self.opener.policy or task.allowed).to_json(),
            task,
            dict(left_out),
        )
        write_file(
            out, header.line(), map(str.encode, identities.texts()), b"\n", task.ring.to_bytes(self.values)
        )
        if self._checkpoint:
            self._checkpoint.unlink(missing_ok=True)
        return header


@contextmanager
def _pool(opener: Opener, processes: int, cluster: str | None) -> Iterator[tuple[_Start, int]]:
    if cluster:
        from distributed import Client, KilledWorker

        try:
            with Client(cluster) as client:
                # Not Client.get_executor: its futures may never end once the scheduler is gone.
                submit = partial(client.submit, opener, pure=False)
                yield lambda envelopes: submit(envelopes).result, 2 * sum(client.nthreads().values())
        except (OSError, ValueError, KilledWorker, CancelledError) as error:
            raise ShareError(
                f"The cluster {cluster} does not answer, or lost its workers: {error}; see that it runs, and "
                "go on by the same command."
            ) from None
    elif processes:
        context, quiet = get_context("forkserver"), (signal.SIGINT, signal.SIG_IGN)
        try:  # workers ignore interrupts, as this process ends them
            with ProcessPoolExecutor(processes, context, signal.signal, quiet) as pool:
                yield lambda envelopes: pool.submit(opener, envelopes).result, 2 * processes
        except BrokenExecutor:
            raise ShareError(
                "A process that opened uploads was ended by something else, as where memory ends; make room, "
                "and go on by the same command."
            ) from None
    else:
        yield lambda envelopes: partial(opener, envelopes), 0


def _files(place: Path | str, *, fetch: bool = True) -> Iterator[File]:
    with cannot(f"read {place}", ShareError, "name what has the uploads"):
        yield from files_in(place, SUFFIX, fetch=fetch)
