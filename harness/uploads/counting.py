"""Opens, checks and adds up a party's envelopes as they come, in little memory.

All parties' lists decide which uploads a run counts.
"""

import hashlib
import json
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairshares.harness.errors import OptionError, ShareError, cannot, named, named_command
from fairshares.harness.system.documents import Refusal, as_type, parse_json
from fairshares.harness.system.files import append
from fairshares.harness.system.progress import tell
from fairshares.harness.uploads.aggregates import Header
from fairshares.harness.uploads.envelope import identity_in
from fairshares.harness.uploads.envelope_files import Envelope, LeftOut, envelopes_at_most, envelopes_in
from fairshares.harness.uploads.files import write_file
from fairshares.harness.uploads.identities import Digests, Identities, digests_in
from fairshares.harness.uploads.keys import SealingKey, unseal
from fairshares.harness.uploads.lists import UploadReport
from fairshares.harness.uploads.opening import open_envelope
from fairshares.harness.uploads.policy import ClientPolicy, client_policy_from_json
from fairshares.harness.uploads.reasons import UNCOVERED, UNSOUND
from fairshares.harness.uploads.task import Task, task_from_bytes
from fairshares.protocols.arrays import Words
from fairshares.protocols.json_values import JsonFields, JsonObject, JsonValue
from fairshares.protocols.spec import SPLIT

_AT_ONCE = 512  # envelopes per batch
_BYTES_AT_ONCE = 2**25  # of a batch, unless one envelope is longer
_CHECKPOINT_S = 30.0
_AGAIN = "again"  # in place of a reason: its upload was opened before it, in the same batch
Batch = tuple[list[str | ClientPolicy | None], Words]
Start = Callable[[bytes, bool], Callable[[], Batch]]  # starts opening envelopes; its result waits for them


@dataclass(frozen=True)
class _DescribedOpener:
    task: str
    party: int
    keys: dict[str, str] = field(repr=False)
    policy: str  # as JSON


def opener_from_json(fields: JsonValue) -> "Opener":
    """Return the opener that a process of the party's described. Raises ShareError for anything else."""
    where = "What the process that aggregates says"
    refusal = Refusal(ShareError, where, "an opener of this version", "run the command again")
    said = as_type(_DescribedOpener, fields, refusal)
    stated = parse_json(said.policy.encode(), refusal)
    policy = client_policy_from_json(stated, refusal) if isinstance(stated, dict) else None
    keys = {bytes.fromhex(name): bytes.fromhex(key) for name, key in said.keys.items()}
    return Opener(task_from_bytes(said.task.encode(), where), said.party, keys, policy)


Opening = tuple[Start, int]  # and how many results may wait


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

    def to_json(self) -> JsonObject:
        """Return what `opener_from_json` reads, for a process of the party's: secret keys are in it."""
        return {
            "task": self.task.text.decode(),
            "party": self.party,
            "keys": {name.hex(): key.hex() for name, key in self.keys.items()},
            "policy": json.dumps(None if self.policy is None else self.policy.to_json()),
        }

    @property
    def summed(self) -> bool:
        """Whether values are added up, or else listed."""
        return self.task.form == SPLIT.name

    def __call__(self, envelopes: bytes, apart: bool = False) -> Batch:
        """Open envelopes, of each identity only up to the first sound one.

        Args:
            envelopes: Envelopes of the right length, end to end.
            apart: Whether each upload's values are returned apart, also if values are added up.

        Returns:
            For each envelope the reason to leave it out, or its bounds or None; and the others' values.
        """
        answers: list[str | ClientPolicy | None] = []
        shares, size, sound = [], self.task.envelope_bytes(self.party), set[bytes]()
        for start in range(0, len(envelopes), size):
            envelope = envelopes[start : start + size]
            identity = identity_in(envelope)
            if identity in sound:
                answers.append(_AGAIN)
                continue
            opened = open_envelope(self.task, self.party, self.keys, envelope)
            if isinstance(opened, str):
                answers.append(opened)
            elif self.policy and opened.bounds and not opened.bounds.covers_all(self.policy):
                answers.append(UNCOVERED)
            else:
                sound.add(identity)
                answers.append(opened.bounds)
                shares.append(opened.shares[:, np.newaxis])
        if apart:
            return answers, np.concatenate([self.nothing.values[:, :0], *shares], axis=1)
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


OpenedBy = Callable[[Opener], AbstractContextManager[Opening]]


def opener_of(task: Task, party: int, keys: Path, policy: ClientPolicy | None) -> Opener:
    """Return what opens a party's envelopes, for runs that a policy states.

    Args:
        task: The task that clients shared for.
        party: The party's number, from 0.
        keys: Its directory of keys.
        policy: The releases and the most that they spend; None for all that the task allows. Uploads whose
            clients allow less are left out.

    Raises:
        OptionError: The task does not allow that, or has no such party.
        ShareError: The directory has no key of the party.
    """
    stated = policy or task.allowed
    for release in stated.tasks:
        if not task.allowed.covers(release, stated.unit, stated.total):
            raise OptionError(
                f"The task does not allow runs of {release} that spend that much; ask for less."
            )
    if party >= len(task.parties):
        raise OptionError(f"The task has {len(task.parties)} parties; name one of them by {named('party')}.")
    return Opener(task, party, task.secrets(party, keys), stated)


class _Opening(NamedTuple):
    """Envelopes that are being opened.

    Attributes:
        identities: The identities that they claim.
        files: Digests of their files' names.
        apart: Whether their values come apart.
        result: Waits for the result.
    """

    identities: Sequence[bytes]
    files: Sequence[bytes]
    apart: bool
    result: Callable[[], Batch]


class Count:
    """A party's count of its uploads.

    A sound upload takes 32 bytes of memory, plus its row where rows are not summed. Whatever else is there
    takes 64 bytes at most.

    Guarantees:
        An identity is in `identities` if and only if its values are in `values`, once, even after the process
        was killed at any point.  [test: tests/harness/uploads/test_exactly_once.py]
        An identity counts if any envelope that claims it is sound, however many others claim it, in whatever
        order and files. An envelope that claims an identity is opened at most once, and takes as long as one
        that claims an identity of its own.  [test: tests/harness/uploads/test_garbage.py]

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
        self._saved = 0  # bytes of the checkpoint
        self._left_out = LeftOut()
        self._not_opened = 0  # envelopes whose uploads counted before they came
        self.bounds: dict[str, ClientPolicy] = {}  # policies that allow less than the task, by identity
        self._batch: list[Envelope] = []  # to open, each of an identity that no other in work claims
        self._suspects: list[Envelope] = []  # to open, of identities that others in work claim
        self._waiting: deque[_Opening] = deque()
        self._claims: dict[bytes, int] = {}  # how many envelopes in work claim an identity
        self._kept = time.monotonic()
        chosen = b"" if self._accepted is None else hashlib.sha256(self._accepted.digests.data).digest()
        bound = opener.task.digest + bytes([opener.party]) + chosen
        bound += json.dumps(opener.policy and opener.policy.to_json()).encode()
        # With the secret key, as anybody can seal for its public one.
        bound += self._own_key()[1]
        self._info = hashlib.sha256(b"fairshares:share:5:checkpoint\n" + bound).digest()
        if checkpoint and checkpoint.exists():
            self._resume(checkpoint)
        self._resumed = self.identities
        self._found = np.zeros(len(self._resumed), dtype=bool)  # which of these are in the files

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

    def add(self, place: Path | str, processes: int | None = None, opened_by: OpenedBy | None = None) -> None:
        """Count the uploads in a directory's or an object store's files that end in .share.

        Args:
            place: The directory, or the store's address.
            processes: How many processes open them: by default one for each processor; 0 uses this one.
            opened_by: What opens them in place of processes here.
        Raises:
            ShareError: The place, the checkpoint or what opens them failed, or a worker process died.
        """
        task, party = self.opener.task, self.opener.party
        total = envelopes_at_most(place, task, party)
        batch = self._at_once
        processes = (os.cpu_count() or 1) * (total > _AT_ONCE) if processes is None else processes
        with _pool(self.opener, processes, opened_by) as (start, most):
            for number, envelope in enumerate(
                envelopes_in(place, task, party, self.opener.keys, self._left_out)
            ):
                identity = envelope.identity
                others = self._claims.get(identity, 0)
                (self._suspects if others else self._batch).append(envelope)
                self._claims[identity] = others + 1
                if len(self._batch) == batch or len(self._suspects) == batch:
                    self._open(start)
                    self._collect(most)
                    tell(min(number, total), total)
            self._open(start)
            self._collect(0)

    def _open(self, start: Start) -> None:
        """Start to open both batches, the suspects after the envelopes that they may repeat.

        Openings are collected in the order in which they started. So when a batch is collected, no other
        opening has taken one of its identities, and when suspects are, all earlier ones are known.
        """
        for envelopes, apart in ((self._batch, False), (self._suspects, True)):
            digests = digests_in(b"".join(envelope.identity for envelope in envelopes))
            self._mark_found(digests)
            counted = self._counted(digests)
            self._not_opened += int(counted.sum())
            wanted = ~counted if self._accepted is None else ~counted & self._accepted.has(digests)
            chosen = [envelope for envelope, one in zip(envelopes, wanted, strict=True) if one]
            self._release(
                envelope.identity for envelope, one in zip(envelopes, wanted, strict=True) if not one
            )
            if chosen:
                identities, files, contents = zip(*chosen, strict=True)
                self._waiting.append(_Opening(identities, files, apart, start(b"".join(contents), apart)))
            envelopes.clear()

    def _collect(self, most: int) -> None:
        """Take the results of openings, until at most so many are left."""
        while len(self._waiting) > most:
            opening = self._waiting.popleft()
            answers, values = opening.result()
            sound = []
            for identity, file, answer in zip(opening.identities, opening.files, answers, strict=True):
                if answer == _AGAIN:
                    self._not_opened += 1
                elif isinstance(answer, str):
                    self._left_out.add_envelope(answer, identity, file)
                else:
                    sound.append(identity)
                    if answer:
                        self.bounds[identity.hex()] = answer
            self._release(opening.identities)
            digests = digests_in(b"".join(sound))
            if opening.apart:
                new = ~self._counted(digests)
                self._not_opened += int((~new).sum())
                digests, values = digests[new], values[:, new]
            if len(digests):
                self._take(self.opener.together(Part(digests, values)))
            if time.monotonic() - self._kept > _CHECKPOINT_S:
                self._save()

    @property
    def _at_once(self) -> int:
        """How many envelopes are opened at once: few if they, or the values in them, are large."""
        task, party = self.opener.task, self.opener.party
        values = len(self.opener.nothing.values) * task.ring.value_bytes
        return max(1, min(_AT_ONCE, _BYTES_AT_ONCE // max(values, task.envelope_bytes(party))))

    def _release(self, identities: Iterable[bytes]) -> None:
        """Forget claims of envelopes that are no longer in work."""
        for identity in identities:
            left = self._claims.pop(identity) - 1
            if left:
                self._claims[identity] = left

    def _counted(self, digests: Digests) -> NDArray[np.bool_]:
        counted: NDArray[np.bool_] = np.logical_or.reduce(
            [Identities(part.digests).has(digests) for part in self._parts]
        )
        return counted

    def _mark_found(self, digests: Digests) -> None:
        """Remember which uploads of the checkpoint are in the files."""
        if len(self._resumed):
            here = digests[self._resumed.has(digests)]
            self._found[np.searchsorted(self._resumed.digests, here)] = True

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
        """Restore a checkpoint up to the first seal of another count, or raise ShareError."""
        with checkpoint.open("rb") as file:
            left = os.fstat(file.fileno()).st_size
            while True:
                sealed = file.read(min(int.from_bytes(file.read(8), "big"), left))
                plain = unseal(self._own_key()[1], sealed, self._info)
                if plain is None:
                    return
                self._take_saved(
                    plain, Refusal(ShareError, str(checkpoint), "this party's count", "remove it")
                )
                self._unsaved.clear()
                self._went_on(sealed)

    def _take_saved(self, plain: bytes, refusal: Refusal) -> None:
        ring, columns = self.opener.task.ring, len(self.opener.nothing.values)
        number = int.from_bytes(plain[:8], "big")
        rows = 1 if self.opener.summed else number
        end = 8 + 32 * number
        size = rows * columns * ring.value_bytes
        if len(plain) < end + size:
            refusal.say("it is shorter than it says")
        digests = digests_in(plain[8:end])
        if (digests[1:] <= digests[:-1]).any() or self._counted(digests).any():
            refusal.say("its uploads are not in order, or there twice")
        bounds = as_type(dict[str, JsonFields], parse_json(plain[end + size :], refusal), refusal)
        values = ring.from_bytes(plain[end : end + size]).reshape(columns, rows, ring.words)
        self._take(Part(digests, values))
        for name, bound in bounds.items():
            self.bounds[name] = client_policy_from_json(bound, refusal)

    @property
    def gone(self) -> Identities:
        """Uploads in the checkpoint but in none of the files."""
        missing = Identities(self._resumed.digests[~self._found])
        return missing - self._left_out.identities if missing else missing

    @property
    def unsound(self) -> dict[str, Identities]:
        """Names of what is left out, by reason, as `LeftOut.listed` has it."""
        return self._left_out.listed(self.identities)

    @property
    def repeated(self) -> int:
        """How many envelopes repeat an upload that counts, or claim to be it."""
        return self._not_opened - int(self._found.sum()) + self._left_out.claims_of(self.identities)

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
                f"Party {self.opener.party} no longer has all uploads of the lists; run "
                f"{named_command('uploads')} again at every party."
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
def _pool(opener: Opener, processes: int, opened_by: OpenedBy | None) -> Iterator[Opening]:
    if opened_by is not None:
        with opened_by(opener) as opening:
            yield opening
    elif processes:
        context, quiet = get_context("forkserver"), (signal.SIGINT, signal.SIG_IGN)
        try:  # workers ignore interrupts, as this process ends them
            with ProcessPoolExecutor(processes, context, signal.signal, quiet) as pool:
                yield lambda envelopes, apart: pool.submit(opener, envelopes, apart).result, 2 * processes
        except BrokenExecutor:
            raise ShareError(
                "A process that opened uploads was ended by something else, as where memory ends; make room, "
                "and go on by the same command."
            ) from None
    else:
        yield lambda envelopes, apart: partial(opener, envelopes, apart), 0


def packed(opener: Opener, envelopes: bytes, apart: bool) -> bytes:
    """Return what an opener finds, in a cluster's worker: a length, answers in JSON, and values."""
    answers, values = opener(envelopes, apart)
    stated = [answer.to_json() if isinstance(answer, ClientPolicy) else answer for answer in answers]
    text = json.dumps(stated).encode()
    return len(text).to_bytes(8, "big") + text + values.astype("<u8").tobytes()


def unpacked(content: object, opener: Opener, number: int, apart: bool) -> Batch:
    """Return what `packed` packed of so many envelopes, or raise ShareError if it has another form.

    Guarantees: nothing of it is unpickled. A worker that lies in this form is not found out.
    [test: tests/harness/uploads/test_counting.py]
    """
    refusal = Refusal(ShareError, "What a worker of the cluster returned", "a count", "see to its version")
    if not isinstance(content, bytes):
        refusal.say("it is not bytes")
    end = 8 + int.from_bytes(content[:8], "big")
    stated = as_type(list[str | dict[str, Any] | None], parse_json(content[8:end], refusal), refusal)
    answers = [client_policy_from_json(one, refusal) if isinstance(one, dict) else one for one in stated]
    columns, _, words = opener.nothing.values.shape
    sound = sum(not isinstance(answer, str) for answer in answers)
    rows = 1 if opener.summed and not apart else sound
    if len(answers) != number or len(content) - end != 8 * columns * rows * words:
        refusal.say("it is longer or shorter than a count of these envelopes")
    if not {answer for answer in answers if isinstance(answer, str)} <= {*UNSOUND, _AGAIN}:
        refusal.say("it has a reason that this version does not know")
    values = np.frombuffer(content, "<u8", offset=end).astype(np.uint64)
    return answers, values.reshape(columns, rows, words)
