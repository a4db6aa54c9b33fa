"""A client's vectors for the reveals of a task: sealed once each, and sent as often as need be."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fairshares.harness.errors import PYTHON, OptionError, ShareError, cannot, naming
from fairshares.harness.system.files import as_path, create_file, in_turn, scratch_directory, sync
from fairshares.harness.system.places import directory_fault, make_own_directory
from fairshares.harness.uploads.client import seal_upload
from fairshares.harness.uploads.files import SUFFIX
from fairshares.harness.uploads.sending import TO_TASK, addresses_for, all_stored, send
from fairshares.harness.uploads.task import Task, read_task
from fairshares.protocols.arrays import Floats, Integers


@dataclass(frozen=True)
class SealedUpdate:
    """A client's vector for a reveal, sealed for the parties.

    Attributes:
        reveal: The number of the reveal, from 1 on.
        identity: The upload's identity, by which parties list it.
        envelopes: The bytes for each party, party 0 first.
    """

    reveal: int
    identity: str
    envelopes: tuple[bytes, ...] = field(repr=False)


class UpdateClient:
    """One client of a task of vectors, with a record of what it has sealed.

    Each vector is clipped, weighed, rounded at random to the task's grid, and split into a share for each
    party. Hosts cannot tell whether two uploads are of one client, so this record keeps the client to one
    vector in a reveal.

    Guarantees: at most one vector is sealed for a reveal, also by several processes, and its bytes are the
    same whenever they are sent. If the task keeps a client to some of the reveals, no more are sealed for.
    [test: tests/harness/uploads/test_vectors.py]

    Args:
        task: The file of a task of vectors, or the task.
        directory: The client's own directory, for this record. A client that loses it could send two vectors
            for a reveal, and loses its protection in that reveal.
    Raises:
        ShareError: The file is no task of this version, or others could change the directory.
        OptionError: The task is of records.
    """

    def __init__(self, task: Task | Path | str, directory: Path | str) -> None:
        with naming(PYTHON):
            read = task if isinstance(task, Task) else read_task(as_path(task, "task"))
            self._declared = read.vectors
            # Of all reveals: the task of a single one would have a record of its own for the same reveals.
            self.task = read.declared
            # Another task has another directory, and reveals of its own.
            self._directory = as_path(directory, "directory") / self.task.name
            with cannot(f"write {self._directory}", ShareError):
                reason = make_own_directory(self._directory)
            if reason is not None:
                raise ShareError(
                    f"{reason}, so others could replace what this client sends; name another directory, or "
                    "take that right away (chmod go-w)."
                )

    @property
    def reveals(self) -> int:
        """The number of reveals that the task declares."""
        return self._declared.reveals

    @property
    def left(self) -> int:
        """The number of reveals for which the client may still seal a vector.

        At first it is the number of the task's reveals, or the most that the task allows a client. A reveal
        that the client has sealed for counts, whether it was revealed or broke off.
        """
        return self._declared.most_of_a_client - self._sealed_reveals()

    def seal(self, reveal: int, update: Floats, weight: float = 1.0) -> SealedUpdate:
        """Seal the client's vector for a reveal, once.

        Guarantees: all parties' envelopes but one, even opened, are independent of the vector. Their length
        is the same for all vectors. As everybody sees who sends, none is refused for its numbers.
        [test: tests/harness/uploads/test_vectors.py, tests/harness/uploads/test_envelopes.py]
        Edge cases: a vector that is not finite is sealed as zeros, with a warning, and so is one whose weight
        is not.

        Args:
            reveal: The number of the reveal, from 1 on.
            update: The vector, secret, shape (coordinates,).
            weight: The weight of the clipped vector, cut to the largest weight that the task allows.
        Returns:
            The sealed vector, of which the client's directory keeps a copy.
        Raises:
            RecordDomainError: The task declares fewer reveals.
            OptionError: The vector has another length.
            ShareError: A vector was sealed for this reveal before, or for as many reveals as the task allows;
                the task is over, a party's keys have expired, or the record cannot be written.
        """
        with naming(PYTHON):
            task = self.task.of_reveal(reveal)
            self.task.check_open()
            encoded = self._encoded(update, weight)
            place = self._place(reveal)
            with cannot(f"write {place}", ShareError, "nothing was sealed"), in_turn(self._directory):
                if place.exists():
                    raise ShareError(
                        f"A vector for reveal {reveal} was sealed before, in {place}, and a client has one "
                        "in a reveal: send that one."
                    )
                most = self._declared.most_of_a_client
                if self._sealed_reveals() >= most:
                    raise ShareError(
                        f"A client takes part in at most {most} of this task's {self.reveals} reveals, and "
                        f"this one has sealed for as many: send no vector in reveal {reveal}."
                    )
                identity, envelopes = seal_upload(task, encoded, None)
                with scratch_directory(self._directory) as partial:
                    whole = partial / place.name
                    for party, envelope in enumerate(envelopes):
                        own = whole / f"party-{party}"
                        own.mkdir(mode=0o700, parents=True)
                        create_file(own / f"{identity}{SUFFIX}", envelope)
                    whole.rename(place)  # whole, or not at all
                sync(self._directory)
            return SealedUpdate(reveal, identity, tuple(envelopes))

    def sealed(self, reveal: int) -> SealedUpdate | None:
        """Return what was sealed for a reveal.

        Args:
            reveal: The number of the reveal, from 1 on.
        Returns:
            The sealed vector; None if nothing was sealed for the reveal.
        Raises:
            ShareError: The record was changed, or cannot be read.
        """
        with naming(PYTHON):
            place = self._place(reveal)
            if not place.exists():
                return None
            identities: set[str] = set()
            envelopes: list[bytes] = []
            with cannot(f"read {place}", ShareError):
                for party in range(len(self.task.parties)):
                    own = place / f"party-{party}"
                    reason = directory_fault(own)
                    files = sorted(own.glob("*.s*"))  # its end says how far the sending is
                    if reason is not None or len(files) != 1:
                        raise ShareError(f"{place} is not as it was sealed; send nothing of it.")
                    identities.add(files[0].stem)
                    envelopes.append(files[0].read_bytes())
            if len(identities) != 1:
                raise ShareError(f"{place} is not as it was sealed; send nothing of it.")
            return SealedUpdate(reveal, identities.pop(), tuple(envelopes))

    def send(
        self, reveal: int, to: str = TO_TASK, certificate: Path | str | None = None
    ) -> Mapping[str, int]:
        """Send what was sealed for a reveal to each party's server, and again what is not known to be there.

        Args:
            reveal: The number of the reveal, from 1 on.
            to: A URL for each party, separated by spaces. Default: the addresses in the task.
            certificate: A PEM file with the client's certificate and key, for servers that ask for one.
        Returns:
            How many of the envelopes are stored, by the servers' last answer.
        Raises:
            OptionError: The number of addresses differs from the number of parties.
            ShareError: Nothing was sealed for the reveal, or not every envelope is known to be stored.
        """
        with naming(PYTHON):
            shown = None if certificate is None else as_path(certificate, "certificate")
            place = self._place(reveal)
            if not place.exists():
                raise ShareError(f"No vector was sealed for reveal {reveal}; seal it before you send it.")
            ends = send(place, addresses_for(self.task, to, shown), shown)
            if not all_stored(ends):
                answers = sorted({str(end) for of_party in ends for end in of_party})
                raise ShareError(
                    f"Not every envelope for reveal {reveal} is known to be stored: {'; '.join(answers)}. "
                    f"{place} keeps them: send them again, as another vector would count twice."
                )
            stored: dict[str, int] = {}
            for of_party in ends:
                for end, number in of_party.items():
                    stored[str(end)] = stored.get(str(end), 0) + number
            return stored

    def _sealed_reveals(self) -> int:
        return len([*self._directory.glob("reveal-*")])

    def _place(self, reveal: int) -> Path:
        return self._directory / f"reveal-{reveal}"

    def _encoded(self, update: Floats, weight: float) -> Integers:
        """Return the vector in units of the grid, shape (coordinates,)."""
        rule = self._declared.rule
        values = np.asarray(update, dtype=np.float64)
        if values.shape != (rule.coordinates,):
            raise OptionError(
                f"The task's vectors have {rule.coordinates} coordinates, and this one has the shape "
                f"{values.shape}; nothing was sealed."
            )
        if not (np.isfinite(values).all() and np.isfinite(weight)):
            sentence = (
                "The vector, or its weight, has a number that is not finite, and counts as zeros. Send it "
                "all the same: who sends nothing says something of its numbers."
            )
            warnings.warn_explicit(sentence, UserWarning, __file__, 0)  # each time, unlike `warn`
            values = np.zeros(rule.coordinates)
            weight = 0.0
        encoded: Integers = rule.encode(values[np.newaxis], np.array([weight]))[0]
        return encoded
