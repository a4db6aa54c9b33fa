"""A party's list of its uploads, and the uploads that all parties accept.

A client that sends one party something else, or all of them something invalid, harms only itself.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from operator import and_, or_
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec

from fairshares.harness.errors import ShareError, UsedUploadsError, cannot, named
from fairshares.harness.system.documents import SMALL, Refusal, as_type, parse_json
from fairshares.harness.system.files import open_regular
from fairshares.harness.uploads.files import write_file
from fairshares.harness.uploads.identities import IDENTITY_TEXT_BYTES, MOST_UPLOADS, Identities
from fairshares.harness.uploads.reasons import COUNTED, NOT_THE_SAME, SAYS, UNCOVERED, UNSOUND
from fairshares.harness.uploads.signatures import is_signature, kind_of, signature_of
from fairshares.harness.uploads.task import Task

SCHEMA = 3
LIST_SUFFIX = ".uploads"
_FIRST_LINE_BYTES = 1 << 16
# Returns those of some uploads that earlier runs counted.

# The bytes of the longest list: its first line, the most identities of a run, and the ends of its lines, of
# which there is one for the sound uploads and one for each reason.
LONGEST_LIST = _FIRST_LINE_BYTES + IDENTITY_TEXT_BYTES * MOST_UPLOADS + len(UNSOUND) + 1


@dataclass(frozen=True)
class UploadReport:
    """A party's own judgment of its uploads for a task.

    Attributes:
        party: The party.
        task: The name of the task.
        sound: The identities that the party accepts.
        unsound: The names of the uploads that it does not accept, by reason. The first file that claims an
            identity has this identity as its name. Each further such file, and each file that is no upload,
            has the SHA-256 of the file's own name.
        signature: The party's signature of `digest`; None where hosts sign the list.
    """

    party: int
    task: str
    sound: Collection[str]
    unsound: Mapping[str, Collection[str]]
    signature: str | None = field(default=None, compare=False)

    @property
    def digest(self) -> str:
        """The SHA-256 of the first line without a signature, and of all identities."""
        head, parts = _parts(self)
        digest = hashlib.sha256(json.dumps(asdict(head), sort_keys=True).encode() + b"\n")
        for names in parts:
            digest.update(names.digests.view(np.uint8).data)
        return digest.hexdigest()

    def without(self, identities: Collection[str], reason: str = UNCOVERED) -> "UploadReport":
        """Return the report with some of its sound uploads left out, for a reason."""
        sound = Identities.from_names(self.sound)
        left_out = sound & Identities.from_names(identities)
        if not left_out:
            return replace(self, sound=sound)
        before = Identities.from_names(self.unsound.get(reason, ()))
        unsound = {**self.unsound, reason: before | left_out}
        return replace(self, sound=sound - left_out, unsound=unsound)


@dataclass(frozen=True)
class Agreement:
    """The identities that all parties accept, and how many others are left out, by reason."""

    accepted: Collection[str]
    left_out: Mapping[str, int]


@dataclass(frozen=True)
class _ListHead:
    schema: int
    party: int
    task: str
    sound: int
    unsound: dict[str, int]
    signature: str = ""  # the signature of a list that hosts sign; all other code says None


def new_uploads(report: UploadReport, counted: Collection[str]) -> UploadReport:
    """Return a report without the sound uploads that earlier runs counted.

    Raises:
        UsedUploadsError: No sound upload is left.
    """
    new = report.without(counted, COUNTED)
    if counted and not new.sound:
        raise UsedUploadsError(
            f"Earlier runs counted all {len(counted)} uploads that are sound at party {report.party}. Go on "
            f"when others have arrived, as {named('add')} adds up a chain's results so far; or charge the "
            f"{named('population')} that they are of again, without {named('chain')}."
        )
    return new


def common_uploads(reports: Sequence[UploadReport]) -> Agreement:
    """Choose the uploads that are sound at every party.

    Guarantees: the result follows from the parties' lists alone.
    [test: tests/harness/uploads/test_agreeing.py]

    Args:
        reports: The parties' lists, party 0 first.

    Raises:
        ShareError: The lists are of several tasks, or no upload is sound at every party.
    """
    for report in reports:
        if report.task != reports[0].task:
            raise ShareError(
                f"Party {report.party} lists uploads of task {report.task[:16]}, party {reports[0].party} of "
                f"{reports[0].task[:16]}; bring lists of one task together."
            )
    sound = [Identities.from_names(report.sound) for report in reports]
    accepted = reduce(and_, sound)
    seen = accepted  # that need no further reason; bytes that claim an accepted identity take nothing from it
    numbers: Counter[str] = Counter()
    for report in reports:  # where parties differ, the first one's reason counts
        others = [names for names, other in zip(sound, reports, strict=True) if other is not report]
        for reason, names in sorted(report.unsound.items()):
            new = Identities.from_names(names) - seen
            says_alone = len(reduce(and_, others, new)) if others else 0
            numbers[reason] += len(new) - says_alone
            numbers[reason + SAYS.format(party=report.party)] += says_alone
            seen |= new
    numbers[NOT_THE_SAME] += len(reduce(or_, sound) - seen)
    left_out = {reason: number for reason, number in sorted(numbers.items()) if number > 0}
    if not accepted:
        raise ShareError(f"No upload is sound at every party: {described(left_out) or 'there is none'}.")
    return Agreement(accepted, left_out)


def described(left_out: Mapping[str, int]) -> str:
    """Say how many uploads are left out, and why."""
    return ", ".join(f"{count} {why}" for why, count in left_out.items())


def _parts(report: UploadReport) -> tuple[_ListHead, list[Identities]]:
    """Return a list's first line, without a signature, and the sets of identities in the lines after it."""
    sound = Identities.from_names(report.sound)
    unsound = {reason: Identities.from_names(names) for reason, names in sorted(report.unsound.items())}
    head = _ListHead(
        schema=SCHEMA,
        party=report.party,
        task=report.task,
        sound=len(sound),
        unsound={reason: len(names) for reason, names in unsound.items()},
    )
    return head, [sound, *unsound.values()]


def write_uploads(report: UploadReport, out: Path, key: ec.EllipticCurvePrivateKey | None = None) -> None:
    """Write a party's list. Raises ShareError.

    Args:
        report: The list.
        out: The file.
        key: The party's signing key. Without it the list has no signature, as hosts sign it.
    """
    head, parts = _parts(report)
    if key:
        head = replace(head, signature=signature_of(key, kind_of(UploadReport), report.digest))
    pieces: list[bytes | Iterable[bytes]] = [json.dumps(asdict(head)).encode() + b"\n"]
    for names in parts:
        pieces.append(map(str.encode, names.texts()))
        pieces.append(b"\n")
    write_file(out, *pieces)


def read_lists(directory: Path, task: Task, *, signed: bool = True) -> Agreement:
    """Return the uploads that all parties accept, by their lists `party-<i>.uploads`; or raise ShareError.

    Guarantees: if `signed`, the key that the task names for its party signed each list. Otherwise the caller
    has compared lists that hosts signed.
    [test: tests/harness/uploads/test_agreeing.py]
    """
    return common_uploads(_lists_of_all(directory, task, signed=signed))


@dataclass(frozen=True)
class ArrivedUploads:
    """The numbers of uploads that are sound at all parties, and at some parties alone."""

    at_all: int
    at_some: int


def count_stored(directory: Path, task: Task) -> ArrivedUploads:
    """Return how many uploads the parties have, by their signed lists, which `read_lists` describes.

    Raises ShareError.
    """
    reports = _lists_of_all(directory, task, signed=True)
    sound = [Identities.from_names(report.sound) for report in reports]
    at_all = len(reduce(and_, sound))
    return ArrivedUploads(at_all, len(reduce(or_, sound)) - at_all)


def _lists_of_all(directory: Path, task: Task, *, signed: bool) -> list[UploadReport]:
    """Return the parties' lists in a directory, party 0 first; raise ShareError as `read_lists`."""
    reports = [_read_list(path) for path in sorted(directory.glob(f"*{LIST_SUFFIX}"))]
    if [report.party for report in reports] != list(range(len(task.parties))):
        raise ShareError(
            f"{directory} does not hold one list of uploads of each of the task's parties, by the name "
            f"party-<i>{LIST_SUFFIX}."
        )
    if reports[0].task != task.name:
        raise ShareError(f"{directory} holds lists of task {reports[0].task[:16]}, not {task.name[:16]}.")
    if signed:
        for report, party in zip(reports, task.parties, strict=True):
            signature = report.signature
            if signature is None or not is_signature(
                signature, party.verifier, kind_of(UploadReport), report.digest
            ):
                raise ShareError(
                    f"Party {report.party}, {party.name}, did not sign the list that {directory} has of it: "
                    "somebody changed or made it. Fetch it from the party itself."
                )
    return reports


def _read_list(path: Path) -> UploadReport:
    """Return the list in a file, whose signature is not checked here. Raises ShareError."""
    refusal = Refusal(ShareError, str(path), "a party's list of uploads", "write it again")
    try:
        with cannot(f"read {path}", ShareError, "write it again"), open_regular(path, links=True) as file:
            line = file.readline(_FIRST_LINE_BYTES)
            head = as_type(_ListHead, parse_json(line, refusal, limits=SMALL), refusal)
            if head.schema != SCHEMA or not set(head.unsound) <= set(UNSOUND):
                refusal.say("it is of another version")
            numbers = [head.sound, *head.unsound.values()]
            if not all(0 <= number <= MOST_UPLOADS for number in numbers):
                refusal.say(f"it lists fewer than no uploads, or more than {MOST_UPLOADS:,}")
            sound = Identities.read(file, head.sound)
            unsound = {reason: Identities.read(file, number) for reason, number in head.unsound.items()}
            if file.read(1):
                refusal.say("it goes on after its end")
    except ValueError:
        refusal.say("it lists what is no identity, not in order, or not as many as it says")
    return UploadReport(head.party, head.task, sound, unsound, head.signature or None)
