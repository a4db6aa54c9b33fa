"""A party's list of its uploads, and which of them all parties take.

All parties take the same uploads: those that each of them can open. All alike leave out the others, whatever
is wrong with these. So a client that sends one party something else, or all of them something foreign, harms
itself only, and no party skips an upload alone.
"""

import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec

from harness.errors import ShareError
from harness.inputs.shares.file_format import write_file
from harness.inputs.shares.identities import Identities
from harness.inputs.shares.signatures import is_signature, signature_of
from harness.inputs.shares.task import Task
from harness.system.documents import MAX_BYTES, Refusal, as_type, parse_json

SCHEMA = 2
LIST_SUFFIX = ".uploads"
# Why an upload is left out; nothing of it is secret.
UNREADABLE = "unreadable or of another version"
WRONG_SIZE = "longer or shorter than an envelope of the task"
CHANGED = "changed since it was shared"
UNCOVERED = "whose client's policy does not cover this run"
COUNTED = "that an earlier run counted"
NOT_THE_SAME = "not the same at every party"
OTHER_TASK = "of another task"
OTHER_KEY = "sealed for a key that this party does not have"
UNOPENED = "that the party's key does not open"
_IDENTITY = re.compile("[0-9a-f]{64}")
# Then it lies, or the client sent it something else, or runs were charged to its ledger alone.
SAYS = ", says party {party} alone"
_UNSOUND = (UNREADABLE, WRONG_SIZE, CHANGED, UNCOVERED, COUNTED, OTHER_TASK, OTHER_KEY, UNOPENED)


@dataclass(frozen=True)
class UploadReport:
    """What one party has of uploads, by its own judgement.

    Attributes:
        party: Its number.
        task: The name of the task that it opened them for.
        sound: The identities of those that it would take.
        unsound: Of all others the identities that they claim, or their files' names, and why.
        signature: Of `digest`, by the party; empty where what the report is part of is signed.
    """

    party: int
    task: str
    sound: AbstractSet[str]
    unsound: Mapping[str, str]
    signature: str = field(default="", compare=False)

    def without(self, identities: Collection[str], reason: str = UNCOVERED) -> "UploadReport":
        """Return the report of a run that leaves some of these out. Args: reason: why."""
        left_out = self.sound & set(identities)
        unsound = {**self.unsound, **dict.fromkeys(left_out, reason)}
        return replace(self, sound=self.sound - left_out, unsound=unsound)

    @property
    def head(self) -> dict[str, Any]:
        """The first line of the party's list, as JSON: all but the identities of what is sound."""
        return {"schema": SCHEMA, "party": self.party, "task": self.task, "unsound": dict(self.unsound)}

    @property
    def digest(self) -> str:
        """What stands for the whole report: SHA-256 of its first line and of its identities' bytes."""
        digest = hashlib.sha256(json.dumps(self.head, sort_keys=True).encode() + b"\n")
        digest.update(Identities.of(self.sound).digests.view(np.uint8).data)
        return digest.hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return what `report_from_json` reads."""
        return {**self.head, "sound": "".join(Identities.of(self.sound).texts())}


@dataclass(frozen=True)
class Agreement:
    """What all parties take. Attributes: accepted: identities; left_out: how many others, by why."""

    accepted: AbstractSet[str]
    left_out: Mapping[str, int]


@dataclass(frozen=True)
class _List:
    """A party's list, as JSON has it."""

    schema: int
    party: int
    task: str
    unsound: dict[str, str]
    sound: str = ""
    signature: str = ""


def common_uploads(reports: Sequence[UploadReport]) -> Agreement:
    """Choose the uploads that all parties take: those that are sound at each.

    Guarantees: follows from the lists of all parties, and is the same whoever computes it.
    [test: tests/harness/inputs/test_agreeing.py]
    Args: reports: of all parties, party 0 first.
    Raises: ShareError: none is sound at every party, or parties opened them for different tasks.
    """
    for report in reports:
        if report.task != reports[0].task:
            raise ShareError(
                f"Party {report.party} lists uploads of task {report.task[:16]}, party {reports[0].party} of "
                f"{reports[0].task[:16]}; bring lists of one task together."
            )
    accepted = reduce(and_, (report.sound for report in reports))
    why = {name: NOT_THE_SAME for report in reports for name in report.sound - accepted}
    for report in reversed(reports):  # where parties differ, the first one's reason counts
        says = SAYS.format(party=report.party)
        for name in report.unsound.keys() - accepted:  # bytes that claim an identity take nothing from it
            at_others = [bool(_IDENTITY.fullmatch(name)) and name in other.sound for other in reports]
            alone = sum(at_others) == len(reports) - 1 > 0
            why[name] = report.unsound[name] + says if alone else report.unsound[name]
    left_out = dict(sorted(Counter(why.values()).items()))
    if not accepted:
        raise ShareError(f"No upload is sound at every party: {described(left_out) or 'there is none'}.")
    return Agreement(accepted, left_out)


def described(left_out: Mapping[str, int]) -> str:
    """Return how many uploads were left out, and why, as people read it."""
    return ", ".join(f"{count} {why}" for why, count in left_out.items())


def write_uploads(report: UploadReport, key: ec.EllipticCurvePrivateKey, out: Path) -> None:
    """Write one party's list, signed, for all parties to see. Raises: ShareError: it cannot be written."""
    texts = Identities.of(report.sound).texts()
    head = {**report.head, "signature": signature_of(key, UploadReport, report.digest)}
    write_file(out, json.dumps(head).encode() + b"\n", map(str.encode, texts), b"\n")


def read_lists(directory: Path, task: Task) -> Agreement:
    """Return what all parties take, by the lists `party-<i>.uploads` of all of them.

    Guarantees: what counts is what each party said, whoever carried the lists; only a party's own key, which
    the task names, signs for it.  [test: tests/harness/inputs/test_agreeing.py]
    Raises: ShareError: a party's list is missing, damaged, of another task, or not signed by that party; as
    `common_uploads`.
    """
    reports = [_read_list(path) for path in directory.glob(f"*{LIST_SUFFIX}")]
    reports.sort(key=lambda report: report.party)
    if [report.party for report in reports] != list(range(len(task.parties))):
        raise ShareError(f"{directory} does not hold one list of uploads of each of the task's parties.")
    if reports[0].task != task.name:
        raise ShareError(f"{directory} holds lists of task {reports[0].task[:16]}, not {task.name[:16]}.")
    for report in reports:
        if not is_signature(
            report.signature, task.parties[report.party].verifier, UploadReport, report.digest
        ):
            raise ShareError(
                f"Party {report.party}, {task.parties[report.party].name}, did not sign the list that "
                f"{directory} has of it: somebody changed or made it. Fetch it from the party itself."
            )
    return common_uploads(reports)


def _read_list(path: Path) -> UploadReport:
    refusal = _refusal(str(path))
    try:
        with path.open("rb") as file:
            head = file.readline(MAX_BYTES)
            if not head.endswith(b"\n"):
                refusal.say("its first line has no end")
            return report_from_json(parse_json(head, refusal), str(path), file)
    except OSError as error:
        raise ShareError(f"Cannot read {path}: {error.strerror}; write it again.") from None


def report_from_json(fields: Any, where: str, listed: BinaryIO | None = None) -> UploadReport:
    """Check a party's list, as `UploadReport.to_json` gives it.

    Args: listed: what has the identities of what is sound, if the fields do not.
    Raises: ShareError: it is something else.
    """
    refusal = _refusal(where)
    head = as_type(_List, fields, refusal)
    if head.schema != SCHEMA or not set(head.unsound.values()) <= set(_UNSOUND):
        refusal.say("it is of another version")
    try:
        sound = Identities.read(listed or io.BytesIO(head.sound.encode()))
    except ValueError:
        refusal.say("it lists what is no identity, or not in order")
    return UploadReport(head.party, head.task, sound, head.unsound, head.signature)


def _refusal(where: str) -> Refusal:
    return Refusal(ShareError, where, "a party's list of uploads", "write it again")
