"""Opens, checks and adds up a party's envelopes as they come, in little memory.

All parties' lists decide which uploads a run counts.
"""

import hashlib
import json
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fairshares.harness.errors import OptionError, ShareError, cannot, named, named_command
from fairshares.harness.system.documents import Refusal, as_type, parse_json
from fairshares.harness.system.files import append
from fairshares.harness.system.progress import tell
from fairshares.harness.system.worker_pools import worker_pool
from fairshares.harness.uploads.aggregates import Header
from fairshares.harness.uploads.envelope import identity_in
from fairshares.harness.uploads.envelope_files import Envelope, LeftOut, envelopes_at_most, envelopes_in
from fairshares.harness.uploads.files import write_file
from fairshares.harness.uploads.identities import IDENTITY_BYTES, Digests, Identities, digests_in
from fairshares.harness.uploads.keys import SealingKey, unseal
from fairshares.harness.uploads.lists import UploadReport
from fairshares.harness.uploads.opening import open_envelope
from fairshares.harness.uploads.policy import ClientPolicies, ClientPolicy, client_policy_from_json
from fairshares.harness.uploads.reasons import UNCOVERED, UNSOUND
from fairshares.harness.uploads.task import Task, task_from_bytes
from fairshares.protocols.arrays import Words
from fairshares.protocols.json_values import JsonFields, JsonObject, JsonValue
from fairshares.protocols.spec import SPLIT

_AT_ONCE = 512  # envelopes of a batch
_BYTES_AT_ONCE = 2**25  # bytes of a batch, unless a single envelope is longer
# So many are opened within a second or two, which is as long as it takes to start processes for it.
_FEW = 2**13
_BYTES_OF_FEW = 2**28
_CHECKPOINT_S = 30.0  # between two times at which the checkpoint is written
_WORD_BYTES = 8
_LENGTH_BYTES = 8  # bytes of a length or a number in a checkpoint, and before a worker's answers
_AGAIN = "again"  # what a cluster's worker says in place of a reason of an envelope that is repeated


@dataclass(frozen=True)
class SoundEnvelope:
    """An envelope whose upload may count.

    Attributes:
        bounds: The client's own policy, None if the client states none beside the task's.
    """

    bounds: ClientPolicy | None


@dataclass(frozen=True)
class UnsoundEnvelope:
    """An envelope that is left out.

    Attributes:
        reason: Why, one of `UNSOUND`.
    """

    reason: str


@dataclass(frozen=True)
class RepeatedEnvelope:
    """An envelope that was not opened, as a sound one of the same upload came before it in its batch."""


JudgedEnvelope = SoundEnvelope | UnsoundEnvelope | RepeatedEnvelope


@dataclass(frozen=True)
class OpenedBatch:
    """The content of a batch of envelopes.

    Attributes:
        envelopes: The outcome of each envelope, in order.
        values: The values of the sound ones in that order, of shape (columns held, sound envelopes, words);
            or their sum, of shape (columns held, 1, words).
    """

    envelopes: Sequence[JudgedEnvelope]
    values: Words


@dataclass(frozen=True)
class _DescribedOpener:
    task: str
    party: int
    keys: dict[str, str] = field(repr=False)
    policy: str  # the policy as JSON


def opener_from_json(fields: JsonValue) -> "Opener":
    """Return the opener that another process of this party described. Raises ShareError for anything else."""
    where = "What the process that aggregates says"
    refusal = Refusal(ShareError, where, "an opener of this version", "run the command again")
    said = as_type(_DescribedOpener, fields, refusal)
    stated = parse_json(said.policy.encode(), refusal)
    policy = None
    if isinstance(stated, dict):
        policy = client_policy_from_json(stated, refusal)
    keys = {bytes.fromhex(name): bytes.fromhex(key) for name, key in said.keys.items()}
    return Opener(task_from_bytes(said.task.encode(), where), said.party, keys, policy)


class Opening(Protocol):
    """A batch of envelopes that is being opened, as a future of the standard library is."""

    def result(self) -> OpenedBatch:
        """Wait until the batch is open, and return what was found; raises as whatever opens it."""
        ...


class OpeningPool(Protocol):
    """A pool that opens batches of an opener's envelopes, in the order in which they were started."""

    @property
    def most_waiting(self) -> int:
        """The most results that may wait to be taken."""
        ...

    def start(self, envelopes: bytes, apart: bool) -> Opening:
        """Start to open envelopes; the arguments are as in `Opener.__call__`."""
        ...


class OpeningPlace(Protocol):
    """The place where envelopes are opened: this process, others of this machine, or a cluster."""

    def opening(self, opener: "Opener", /) -> AbstractContextManager[OpeningPool]:
        """Yield a pool that opens envelopes there by an opener, and end it afterwards."""
        ...


class CountedPart(NamedTuple):
    """Counted uploads.

    Attributes:
        digests: The identities of the uploads, sorted.
        values: The values of the uploads, of shape (columns held, clients, words). Where values are added up,
            the second axis has one row.
    """

    digests: Digests
    values: Words


@dataclass(frozen=True)
class Opener:
    """Opens a party's envelopes, in this process or another one.

    Attributes:
        task: The task of the envelopes.
        party: The party.
        keys: The party's secret keys, by ID.
        policy: The run's policy. Uploads are left out whose clients do not allow all of it. None leaves out
            no upload for that reason.
    """

    task: Task
    party: int
    keys: dict[bytes, bytes] = field(repr=False)
    policy: ClientPolicy | None = None

    def to_json(self) -> JsonObject:
        """Return what `opener_from_json` reads in another process of this party. It has secret keys."""
        return {
            "task": self.task.text.decode(),
            "party": self.party,
            "keys": {name.hex(): key.hex() for name, key in self.keys.items()},
            "policy": json.dumps(None if self.policy is None else self.policy.to_json()),
        }

    @property
    def summed(self) -> bool:
        """Whether uploads' values are added up. Otherwise they are listed."""
        return self.task.form == SPLIT.name

    def __call__(self, envelopes: bytes, apart: bool = False) -> OpenedBatch:
        """Open envelopes. Of several that claim an identity none is opened after the first sound one.

        Args:
            envelopes: Envelopes of the right length, end to end.
            apart: Whether each upload's values are returned apart, even if values are added up.
        """
        judged: list[JudgedEnvelope] = []
        shares: list[Words] = []
        size = self.task.envelope_bytes(self.party)
        sound: set[bytes] = set()
        for start in range(0, len(envelopes), size):
            envelope = envelopes[start : start + size]
            identity = identity_in(envelope)
            if identity in sound:
                judged.append(RepeatedEnvelope())
                continue
            opened = open_envelope(self.task, self.party, self.keys, envelope)
            if isinstance(opened, str):
                judged.append(UnsoundEnvelope(opened))
            elif self.policy and opened.bounds and not opened.bounds.covers_all(self.policy):
                judged.append(UnsoundEnvelope(UNCOVERED))
            else:
                sound.add(identity)
                judged.append(SoundEnvelope(opened.bounds))
                shares.append(opened.shares[:, np.newaxis])
        if apart:
            return OpenedBatch(judged, np.concatenate([self.nothing.values[:, :0], *shares], axis=1))
        return OpenedBatch(judged, self._joined(self.nothing.values, *shares))

    @property
    def nothing(self) -> CountedPart:
        """A part without uploads."""
        held = len(self.task.pieces(self.party)) * self.task.columns
        values = np.zeros((held, int(self.summed), self.task.ring.words), dtype=np.uint64)
        return CountedPart(digests_in(b""), values)

    def together(self, *parts: CountedPart) -> CountedPart:
        """Return one part, which is sorted, with the uploads of several parts, which have none in common.

        Several parts have to be sorted. A single one may have any order.
        """
        digests = np.concatenate([part.digests for part in parts])
        values = self._joined(*(part.values for part in parts))
        if not self.summed:
            values = values[:, np.argsort(digests)]
        digests.sort(kind="stable")  # fast, as parts are sorted
        return CountedPart(digests, values)

    def _joined(self, *values: Words) -> Words:
        """Return values side by side or, if values are added up, their sum."""
        joined = np.concatenate(values, axis=1)
        if not self.summed:
            return joined
        return self.task.ring.total(joined)[:, np.newaxis]


def opener_of(task: Task, party: int, keys: Path, policy: ClientPolicy | None) -> Opener:
    """Return the opener of a party's envelopes, for runs that a policy states.

    Args:
        task: The task that clients shared for.
        party: The party's number, from 0.
        keys: The party's directory of keys.
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


class _BatchInWork(NamedTuple):
    """Envelopes that are being opened.

    Attributes:
        identities: The identities that they claim.
        files: The digests of their files' names.
        apart: Whether each upload's values come apart.
        opening: The opening of the envelopes, which may still run.
    """

    identities: Sequence[bytes]
    files: Sequence[bytes]
    apart: bool
    opening: Opening


class UploadCount:
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
        self.opener = opener
        self._checkpoint = checkpoint
        self._accepted = None if accepted is None else Identities.from_names(accepted)
        self._parts = [opener.nothing]  # each at least twice as large as the next
        self._unsaved: list[CountedPart] = []  # parts that are not in the checkpoint yet
        self._saved = 0  # bytes of the checkpoint
        self._left_out = LeftOut()
        self._not_opened = 0  # envelopes whose uploads counted before they came
        self.bounds: dict[str, ClientPolicy] = {}  # policies that allow less than the task, by identity
        # Envelopes are in work from the time at which they are read until they have been opened.
        self._batch: list[Envelope] = []  # envelopes to open, of identities that nothing in work claims
        self._suspects: list[Envelope] = []  # envelopes to open, of identities that others in work claim
        self._waiting: deque[_BatchInWork] = deque()
        self._claims: dict[bytes, int] = {}  # how many envelopes in work claim an identity
        self._saved_at = time.monotonic()
        self._info = self._first_info()  # binds the next seal of the checkpoint to all before it
        if checkpoint and checkpoint.exists():
            self._resume(checkpoint)
        self._resumed = self.identities
        self._found = np.zeros(len(self._resumed), dtype=bool)  # whether each of these is in the files

    def _first_info(self) -> bytes:
        """Return the bytes that bind the checkpoint's first seal to this count alone."""
        opener = self.opener
        chosen = b""
        if self._accepted is not None:
            chosen = hashlib.sha256(self._accepted.digests.data).digest()
        policy = None if opener.policy is None else opener.policy.to_json()
        _, secret = self._own_key()  # as anybody can seal for the public key
        bound = opener.task.digest + bytes([opener.party]) + chosen + json.dumps(policy).encode() + secret
        return hashlib.sha256(b"fairshares:share:5:checkpoint\n" + bound).digest()

    @property
    def identities(self) -> Identities:
        """The uploads that count."""
        return Identities(self._whole.digests)

    @property
    def values(self) -> Words:
        """The uploads' values in the order of identities."""
        return self._whole.values

    @property
    def _whole(self) -> CountedPart:
        """All uploads that count, in one part."""
        if len(self._parts) > 1:
            self._parts = [self.opener.together(*self._parts)]
        return self._parts[0]

    def add(
        self, place: Path | str, processes: int | None = None, opened_by: OpeningPlace | None = None
    ) -> None:
        """Count the uploads in the files of a directory, or of an object store, that end in .share.

        Args:
            place: The directory, or the store's address.
            processes: How many processes open them. With 0 this process does. By default there is one for
                each processor, and none for few envelopes.
            opened_by: The machines that open envelopes in place of this machine.

        Raises:
            ShareError: The place, the checkpoint or what opens them failed, or a worker process died.
        """
        task = self.opener.task
        party = self.opener.party
        total = envelopes_at_most(place, task, party)
        batch_size = self._at_once
        if processes is None:
            processes = _processes_for(total, task.envelope_bytes(party))
        where = opened_by or opening_here(processes)
        with where.opening(self.opener) as pool:
            envelopes = envelopes_in(place, task, party, self.opener.keys, self._left_out)
            for number, envelope in enumerate(envelopes):
                others = self._claims.get(envelope.identity, 0)
                if others:
                    self._suspects.append(envelope)
                else:
                    self._batch.append(envelope)
                self._claims[envelope.identity] = others + 1
                if len(self._batch) == batch_size or len(self._suspects) == batch_size:
                    self._open(pool)
                    self._collect(pool.most_waiting)
                    tell(min(number, total), total)
            self._open(pool)
            self._collect(0)

    def _open(self, pool: OpeningPool) -> None:
        """Start to open both batches, the suspects after the envelopes that they may repeat.

        Openings are collected in the order in which they started. So when a batch is collected, no other
        opening has taken one of its identities, and when suspects are, all earlier ones are known.
        """
        self._open_batch(self._batch, pool, apart=False)
        self._open_batch(self._suspects, pool, apart=True)

    def _open_batch(self, envelopes: list[Envelope], pool: OpeningPool, *, apart: bool) -> None:
        """Start to open those envelopes of a batch that may count and do not yet, and empty the batch.

        Args:
            envelopes: The batch.
            pool: The processes or machines that open envelopes.
            apart: Whether each upload's values come apart, so that some uploads can be left out.
        """
        digests = digests_in(b"".join(envelope.identity for envelope in envelopes))
        self._mark_found(digests)
        counted = self._counted(digests)
        self._not_opened += int(counted.sum())
        wanted = ~counted
        if self._accepted is not None:
            wanted &= self._accepted.has(digests)
        chosen: list[Envelope] = []
        for envelope, is_wanted in zip(envelopes, wanted, strict=True):
            if is_wanted:
                chosen.append(envelope)
            else:
                self._release([envelope.identity])
        if chosen:
            opening = pool.start(b"".join(envelope.content for envelope in chosen), apart)
            self._waiting.append(
                _BatchInWork(
                    identities=[envelope.identity for envelope in chosen],
                    files=[envelope.file for envelope in chosen],
                    apart=apart,
                    opening=opening,
                )
            )
        envelopes.clear()

    def _collect(self, most: int) -> None:
        """Take the results of openings, until at most so many are left."""
        while len(self._waiting) > most:
            batch = self._waiting.popleft()
            opened = batch.opening.result()
            values = opened.values
            sound: list[bytes] = []
            for identity, file, judged in zip(batch.identities, batch.files, opened.envelopes, strict=True):
                if isinstance(judged, RepeatedEnvelope):
                    self._not_opened += 1
                elif isinstance(judged, UnsoundEnvelope):
                    self._left_out.add_envelope(judged.reason, identity, file)
                else:
                    sound.append(identity)
                    if judged.bounds is not None:
                        self.bounds[identity.hex()] = judged.bounds
            self._release(batch.identities)
            digests = digests_in(b"".join(sound))
            if batch.apart:
                new = ~self._counted(digests)
                self._not_opened += int((~new).sum())
                digests = digests[new]
                values = values[:, new]
            if len(digests):
                self._take(self.opener.together(CountedPart(digests, values)))
            if time.monotonic() - self._saved_at > _CHECKPOINT_S:
                self._save()

    @property
    def _at_once(self) -> int:
        """The number of envelopes of a batch, which is small if they, or the values in them, are large."""
        task = self.opener.task
        value_bytes = len(self.opener.nothing.values) * task.ring.value_bytes
        largest = max(value_bytes, task.envelope_bytes(self.opener.party))
        return max(1, min(_AT_ONCE, _BYTES_AT_ONCE // largest))

    def _release(self, identities: Iterable[bytes]) -> None:
        """Forget claims of envelopes that are no longer in work."""
        for identity in identities:
            left = self._claims.pop(identity) - 1
            if left:
                self._claims[identity] = left

    def _counted(self, digests: Digests) -> NDArray[np.bool_]:
        """Return the uploads among these that count by now."""
        counted: NDArray[np.bool_] = np.logical_or.reduce(
            [Identities(part.digests).has(digests) for part in self._parts]
        )
        return counted

    def _mark_found(self, digests: Digests) -> None:
        """Remember which uploads of the checkpoint are in the files."""
        if len(self._resumed):
            here = digests[self._resumed.has(digests)]
            self._found[np.searchsorted(self._resumed.digests, here)] = True

    def _take(self, part: CountedPart) -> None:
        """Count the uploads of a part, which do not count yet."""
        self._parts.append(part)
        while len(self._parts) > 1 and len(self._parts[-2].digests) < 2 * len(self._parts[-1].digests):
            self._parts[-2:] = [self.opener.together(*self._parts[-2:])]
        if self._checkpoint:
            self._unsaved.append(part)

    def _save(self) -> None:
        """Append what is not in the checkpoint yet, as a seal that depends on all seals before it."""
        self._saved_at = time.monotonic()
        if self._checkpoint is None or not self._unsaved:
            return
        digests, values = self.opener.together(*self._unsaved)
        plain = len(digests).to_bytes(_LENGTH_BYTES, "big") + digests.tobytes()
        plain += self.opener.task.ring.to_bytes(values)
        bounds: dict[str, JsonFields] = {}
        if self.bounds:  # otherwise no name is looked up
            for name in Identities(digests):
                if name in self.bounds:
                    bounds[name] = self.bounds[name].to_json()
        plain += json.dumps(bounds).encode()
        key, _ = self._own_key()
        sealed = key.seal(plain, self._info)
        with cannot(f"write {self._checkpoint}", ShareError):
            self._checkpoint.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            append(self._checkpoint, self._saved, len(sealed).to_bytes(_LENGTH_BYTES, "big"), sealed)
        self._unsaved.clear()
        self._went_on(sealed)

    def _went_on(self, sealed: bytes) -> None:
        """Note that a seal is in the checkpoint, so that the next one depends on it."""
        self._saved += _LENGTH_BYTES + len(sealed)
        self._info = hashlib.sha256(self._info + sealed).digest()

    def _own_key(self) -> tuple[SealingKey, bytes]:
        """Return the first of the party's keys in the task whose secret key is there, and that secret key."""
        secrets = self.opener.keys
        held = [key for key in self.opener.task.parties[self.opener.party].keys if key.id in secrets]
        return held[0], secrets[held[0].id]

    def _resume(self, checkpoint: Path) -> None:
        """Restore a checkpoint up to the first seal of another count, or raise ShareError."""
        with checkpoint.open("rb") as file:
            size_of_file = os.fstat(file.fileno()).st_size
            _, secret = self._own_key()
            refusal = Refusal(ShareError, str(checkpoint), "this party's count", "remove it")
            while True:
                stated = int.from_bytes(file.read(_LENGTH_BYTES), "big")
                sealed = file.read(min(stated, size_of_file))
                plain = unseal(secret, sealed, self._info)
                if plain is None:
                    return
                self._take_saved(plain, refusal)
                self._unsaved.clear()
                self._went_on(sealed)

    def _take_saved(self, plain: bytes, refusal: Refusal) -> None:
        """Count the uploads in one seal of the checkpoint, or refuse what they cannot be.

        A seal has the number of uploads, their identities, their values, and the bounds of their clients.
        """
        ring = self.opener.task.ring
        columns = len(self.opener.nothing.values)
        number = int.from_bytes(plain[:_LENGTH_BYTES], "big")
        rows = 1 if self.opener.summed else number
        start_of_values = _LENGTH_BYTES + IDENTITY_BYTES * number
        end_of_values = start_of_values + rows * columns * ring.value_bytes
        if len(plain) < end_of_values:
            refusal.say("it is shorter than it says")
        digests = digests_in(plain[_LENGTH_BYTES:start_of_values])
        if (digests[1:] <= digests[:-1]).any() or self._counted(digests).any():
            refusal.say("its uploads are not in order, or there twice")
        bounds = as_type(dict[str, JsonFields], parse_json(plain[end_of_values:], refusal), refusal)
        values = ring.from_bytes(plain[start_of_values:end_of_values]).reshape(columns, rows, ring.words)
        self._take(CountedPart(digests, values))
        for name, bound in bounds.items():
            self.bounds[name] = client_policy_from_json(bound, refusal)

    def keep(self, checkpoint: Path) -> None:
        """Write the finished count into a file, for `kept_count` in another process.

        It is sealed for the party, so that nothing that was opened is written. Rows are not kept, as they
        take as much room as the uploads.

        Raises ShareError if it cannot be written.
        """
        if not self.opener.summed:
            return
        self._checkpoint = checkpoint
        self._saved = 0
        self._info = self._first_info()
        self._unsaved = [self._whole]
        self._save()

    def find_files(self, place: Path | str) -> None:
        """See which uploads of the checkpoint are in the files of a place, as in `add`; open none."""
        opener = self.opener
        identities: list[bytes] = []
        for envelope in envelopes_in(place, opener.task, opener.party, opener.keys, LeftOut()):
            identities.append(envelope.identity)
            if len(identities) == _AT_ONCE:
                self._mark_found(digests_in(b"".join(identities)))
                identities.clear()
        self._mark_found(digests_in(b"".join(identities)))

    def kept(self, accepted: Iterable[str], place: Path | str) -> "UploadCount | None":
        """Return the count of the accepted uploads among these, by opening none of them again.

        Values that are added up are kept by subtracting the values of other uploads, which are opened for
        that. So uploads that one party alone has cost all parties those uploads, and not a second count.

        Args:
            accepted: The identities that all parties accept.
            place: The files of the uploads, as in `add`.

        Returns:
            None if more uploads would have to be opened than by counting anew, or one is not there any more.

        Raises:
            ShareError: As by `add`.
        """
        wanted = Identities.from_names(accepted)
        others = self.identities - wanted
        identities = self.identities & wanted
        if self.opener.summed:
            if len(others) > len(identities):
                return None
            values = self.values
            if others:  # otherwise all files would be read for nothing
                removed = UploadCount(self.opener, others)
                size = self.opener.task.envelope_bytes(self.opener.party)
                removed.add(place, _processes_for(len(others), size))
                if removed.identities != others:
                    return None
                values = self.opener.task.ring.subtract(values, removed.values)
        else:
            values = self.values[:, wanted.has(self.identities.digests)]
        made = UploadCount(self.opener, wanted)
        made._parts = [CountedPart(identities.digests, values)]
        made.bounds = {name: policy for name, policy in self.bounds.items() if name in wanted}
        made._checkpoint = self._checkpoint  # which `write` removes
        return made

    @property
    def gone(self) -> Identities:
        """The uploads that are in the checkpoint, and in none of the files."""
        missing = Identities(self._resumed.digests[~self._found])
        if not missing:
            return missing
        return missing - self._left_out.identities

    @property
    def unsound(self) -> dict[str, Identities]:
        """The names of what is left out, by reason, as `LeftOut.listed` returns them."""
        return self._left_out.listed(self.identities)

    @property
    def repeated(self) -> int:
        """The number of envelopes that repeat an upload that counts, or claim to be it."""
        return self._not_opened - int(self._found.sum()) + self._left_out.claims_of(self.identities)

    def report(self) -> UploadReport:
        """Return the party's list of uploads."""
        return UploadReport(self.opener.party, self.opener.task.name, self.identities, self.unsound)

    @property
    def policies(self) -> ClientPolicies:
        """The policies of the counted uploads: what both client and task allow."""
        allowed = self.opener.task.allowed
        bounds = {name: policy.and_also(allowed) for name, policy in self.bounds.items()}
        return ClientPolicies(self.identities, allowed, bounds)

    def write(self, out: Path, left_out: Mapping[str, int]) -> Header:
        """Write the aggregate, and remove the checkpoint; return the aggregate's header.

        Args:
            out: The file of the aggregate.
            left_out: How many uploads were left out, by reason, for the header.

        Raises:
            ShareError: Uploads are missing that the lists have, or there are too few, or the file cannot be
                written.
        """
        header = self._header(left_out)
        write_file(out, *self._head(header), self._values_in_file())
        self._remove_checkpoint()
        return header

    def write_apart(self, head: Path, values: Path, left_out: Mapping[str, int]) -> Header:
        """Write the aggregate's head and its values to a file each, and remove the checkpoint.

        A run that follows at once takes both files as they are. From a whole aggregate the values would have
        to be copied first.
        [test: tests/harness/uploads/test_copies.py]

        Args:
            head: The file of the aggregate's first two lines.
            values: The file of its values.
            left_out: As in `write`.

        Returns:
            The aggregate's header.

        Raises:
            ShareError: As by `write`.
        """
        header = self._header(left_out)
        write_file(head, *self._head(header))
        write_file(values, self._values_in_file())
        self._remove_checkpoint()
        return header

    def _header(self, left_out: Mapping[str, int]) -> Header:
        """Return the aggregate's header. Raises ShareError for missing or too few uploads."""
        task = self.opener.task
        identities = self.identities
        clients = len(identities)
        if self._accepted is not None and clients < len(self._accepted):
            raise ShareError(
                f"Party {self.opener.party} no longer has all uploads of the lists; run "
                f"{named_command('uploads')} again at every party."
            )
        task.check_count(clients)
        policy = task.allowed if self.opener.policy is None else self.opener.policy
        return Header(
            party=self.opener.party,
            uploads=clients,
            fingerprint=identities.fingerprint(),
            policy=policy.to_json(),
            task=task,
            excluded=dict(left_out),
        )

    def _head(self, header: Header) -> Iterator[bytes | Iterable[bytes]]:
        """Yield the aggregate's first two lines, in parts."""
        yield header.line()
        yield map(str.encode, self.identities.texts())
        yield b"\n"

    def _values_in_file(self) -> memoryview:
        """Return the values as an aggregate has them."""
        return self.opener.task.ring.as_bytes(self.values)

    def _remove_checkpoint(self) -> None:
        """Remove the checkpoint, if there is one, as all that it has is written elsewhere."""
        if self._checkpoint:
            self._checkpoint.unlink(missing_ok=True)


def kept_count(
    opener: Opener, place: Path | str, checkpoint: Path, accepted: Iterable[str]
) -> UploadCount | None:
    """Return the count of accepted uploads by what `UploadCount.keep` has kept, or None without that.

    It is None if nothing is kept, or it is of another task, party or policy, or if it lacks one of these
    uploads, or if one of these, or one that has to be taken out, is in no file any more.
    [test: tests/harness/uploads/test_counting.py]

    Raises ShareError as `UploadCount.add`.
    """
    if not checkpoint.is_file():
        return None
    listed = UploadCount(opener, None, checkpoint)
    wanted = Identities.from_names(accepted)
    if not len(wanted) or not wanted <= listed.identities:
        return None
    listed.find_files(place)
    if listed.gone & wanted:
        return None
    return listed.kept(wanted, place)


def opening_here(processes: int) -> OpeningPlace:
    """Return the place at which so many processes of this machine open envelopes; with 0 this process."""
    if processes:
        return _Workers(processes)
    return _ThisProcess()


@dataclass(frozen=True)
class _Later:
    """Envelopes that this process opens once their result is asked for."""

    opener: Opener
    envelopes: bytes
    apart: bool

    def result(self) -> OpenedBatch:
        return self.opener(self.envelopes, self.apart)


@dataclass(frozen=True)
class _ByThisProcess:
    """Opens envelopes in this process, one batch after the other."""

    opener: Opener
    most_waiting: int = 0

    def start(self, envelopes: bytes, apart: bool) -> Opening:
        return _Later(self.opener, envelopes, apart)


class _ThisProcess:
    """This process, as a place."""

    @contextmanager
    def opening(self, opener: Opener) -> Iterator[OpeningPool]:
        yield _ByThisProcess(opener)


@dataclass(frozen=True)
class _ByWorkers:
    """Opens envelopes in worker processes."""

    opener: Opener
    executor: Executor
    most_waiting: int

    def start(self, envelopes: bytes, apart: bool) -> Opening:
        return self.executor.submit(self.opener, envelopes, apart)


@dataclass(frozen=True)
class _Workers:
    """Worker processes of this machine, as a place."""

    processes: int

    @contextmanager
    def opening(self, opener: Opener) -> Iterator[OpeningPool]:
        """Yield workers that open envelopes. Raises ShareError if one of them was ended."""
        try:
            with worker_pool(self.processes) as executor:
                yield _ByWorkers(opener, executor, 2 * self.processes)
        except BrokenExecutor:
            raise ShareError(
                "A process that opened uploads was ended by something else, as where memory ends; make room, "
                "and go on by the same command."
            ) from None


def _processes_for(envelopes: int, envelope_bytes: int) -> int:
    """Return how many processes open so many envelopes of this length, 0 if this process does."""
    if envelopes <= _FEW and envelopes * envelope_bytes <= _BYTES_OF_FEW:
        return 0
    return os.cpu_count() or 1


def packed(opener: Opener, envelopes: bytes, apart: bool) -> bytes:
    """Open envelopes in a cluster's worker, and return what was found, for `unpacked`.

    It is the length of a list in JSON, the list, and the values. The list has for each envelope its client's
    own policy or null, or else a text: the reason to leave it out, or `_AGAIN`.
    """
    opened = opener(envelopes, apart)
    text = json.dumps([_stated(envelope) for envelope in opened.envelopes]).encode()
    return len(text).to_bytes(_LENGTH_BYTES, "big") + text + opened.values.astype("<u8").tobytes()


def _stated(envelope: JudgedEnvelope) -> JsonValue:
    """Return a worker's statement of an envelope, as `packed` has it."""
    if isinstance(envelope, RepeatedEnvelope):
        return _AGAIN
    if isinstance(envelope, UnsoundEnvelope):
        return envelope.reason
    return None if envelope.bounds is None else envelope.bounds.to_json()


def _judged(stated: str | JsonFields | None, refusal: Refusal) -> JudgedEnvelope:
    """Return the envelope of which a worker states this, or refuse what this version does not know."""
    if stated is None:
        return SoundEnvelope(None)
    if not isinstance(stated, str):
        return SoundEnvelope(client_policy_from_json(stated, refusal))
    if stated == _AGAIN:
        return RepeatedEnvelope()
    if stated not in UNSOUND:
        refusal.say("it has a reason that this version does not know")
    return UnsoundEnvelope(stated)


def unpacked(content: object, opener: Opener, number: int, apart: bool) -> OpenedBatch:
    """Return the batch that a worker packed by `packed`.

    Guarantees: nothing of it is unpickled. A worker that lies in this form is not found out.
    [test: tests/harness/uploads/test_counting.py]

    Args:
        content: The bytes that the worker returned.
        opener: The keys and rules by which the worker opened the envelopes.
        number: The number of the envelopes.
        apart: Whether each upload's values should come apart.

    Raises:
        ShareError: The content has another form, or is a batch of other envelopes.
    """
    refusal = Refusal(ShareError, "What a worker of the cluster returned", "a count", "see to its version")
    if not isinstance(content, bytes):
        refusal.say("it is not bytes")
    start_of_values = _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES], "big")
    text = content[_LENGTH_BYTES:start_of_values]
    stated = as_type(list[str | JsonFields | None], parse_json(text, refusal), refusal)
    judged = [_judged(of_envelope, refusal) for of_envelope in stated]
    sound = sum(1 for envelope in judged if isinstance(envelope, SoundEnvelope))
    columns, _, words = opener.nothing.values.shape
    is_summed = opener.summed and not apart
    rows = 1 if is_summed else sound
    expected_bytes = columns * rows * words * _WORD_BYTES
    if len(judged) != number or len(content) - start_of_values != expected_bytes:
        refusal.say("it is longer or shorter than a count of these envelopes")
    values = np.frombuffer(content, "<u8", offset=start_of_values).astype(np.uint64)
    return OpenedBatch(judged, values.reshape(columns, rows, words))
