"""Tasks for tests, with their parties' keys, and counts of what parties have.

`python -m tests.support.envelopes` writes the known-answer vectors; they are the specification's, so they
change with it only.
"""

import hashlib
import io
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import numpy as np

from fairshares.harness.inputs.encoding import shared_over
from fairshares.harness.inputs.record_schema import Cap, RecordDomain
from fairshares.harness.inputs.shares import copies_of
from fairshares.harness.security_models import get_model
from fairshares.harness.system.stores import File
from fairshares.harness.uploads.client import seal_upload
from fairshares.harness.uploads.counting import Opener, UploadCount
from fairshares.harness.uploads.envelope import HEAD_BYTES, info_of
from fairshares.harness.uploads.keys import SealingParty, secrets_in, unseal
from fairshares.harness.uploads.opening import open_envelope
from fairshares.harness.uploads.reasons import OTHER_KEY, OTHER_TASK, UNOPENED, UNREADABLE
from fairshares.harness.uploads.task import ANYONE, Task
from fairshares.protocols.arrays import Integers, Words
from fairshares.protocols.json_values import JsonFields
from fairshares.protocols.spec import INPUT_FORMS, PATHS
from tests.support.rings import to_integers

VECTORS = Path(__file__).parents[1] / "fixtures" / "envelopes-3.json"


@dataclass(frozen=True)
class FileOfBytes(File):
    """A file of a place, with a content that is here."""

    content: bytes
    opened: Callable[[bytes], BinaryIO] = io.BytesIO

    def read(self) -> BinaryIO:
        return self.opened(self.content)


UNTIL = "9999-12-31"
POLICY = JsonFields(tasks=["weights", "count"], epsilon="4", delta="1/1048576", unit="record")
DOMAIN = RecordDomain(("a", "b"), ("0", "1"), 2**40)


def made_task(
    directory: Path,
    form: str = "split",
    path: str = "shares",
    security: str = "ring",
    *,
    hybrid: bool = False,
    least: int = 1,
    domain: RecordDomain = DOMAIN,
    parties: int | None = None,
) -> Task:
    """Return a task whose parties have a key each in `directory/keys-<i>`."""
    model, kind = get_model(security, parties), INPUT_FORMS[form].by(PATHS[path])
    sealing = []
    for i in range(model.parties):
        own = directory / f"keys-{i}"
        own.mkdir(mode=0o700, parents=True)
        sealing.append(SealingParty(f"party {i}", "", []).with_new_key(own, UNTIL, hybrid))
    ring, copies = shared_over(kind, model.ring), copies_of(kind, model.parties)
    return Task(security, form, ring.name, copies, domain.to_json(), POLICY, sealing, least, UNTIL, ANYONE)


CAPPED = RecordDomain(("a", "b"), ("0", "1"), 10, cap=Cap(3))
FORMS = [
    ("split", "shares", "ring", DOMAIN),
    ("split", "shares", "mpyc", DOMAIN),
    ("slots", "shares", "semi2k", CAPPED),
    ("split", "replicated", "ps-rep-ring", DOMAIN),
    ("slots", "replicated", "rep4-ring", CAPPED),
]


def opener(task: Task, party: int, directory: Path) -> Opener:
    """Return what opens a party's envelopes, whatever their clients allow."""
    return Opener(task, party, secrets_in(directory / f"keys-{party}"))


def upload(task: Task, values: Integers | list[int], shares: Path) -> str:
    """Write one client's envelopes to `shares/party-<i>/`; return its identity."""
    identity, envelopes = seal_upload(task, np.asarray(values, dtype=np.int64), None)
    for party, envelope in enumerate(envelopes):
        (shares / f"party-{party}").mkdir(parents=True, exist_ok=True)
        (shares / f"party-{party}" / f"{identity}.share").write_bytes(envelope)
    return identity


def counts(
    task: Task, directory: Path, accepted: Collection[str] | None = None, shares: Path | None = None
) -> list[UploadCount]:
    """Return each party's count. Args: directory: of keys; shares: with `party-<i>`, if not beside them."""
    made = []
    for party in range(len(task.parties)):
        made.append(UploadCount(opener(task, party, directory), accepted))
        made[-1].add((shares or directory / "shares") / f"party-{party}", 0)
    return made


def left_out(unsound: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Return by identity, or by SHA-256 of a file's name, why uploads are left out, of what a report has."""
    return {name: reason for reason, names in unsound.items() for name in names}


def name_of(file: str) -> str:
    """Return by what a report names a file that is none of an identity."""
    return hashlib.sha256(file.encode()).hexdigest()


def revealed(task: Task, parts: list[Words]) -> list[int]:
    """Return what all parties' values stand for. Args: parts: each of shape (columns held, …, words)."""
    columns, total = task.columns, None
    by_number: dict[int, Words] = {}
    for party, values in enumerate(parts):
        for place, (number, _) in enumerate(task.pieces(party)):
            own = values[place * columns : (place + 1) * columns]
            assert np.array_equal(by_number.setdefault(number, own), own)
    for own in by_number.values():
        total = own if total is None else task.ring.add(total, own)
    assert total is not None
    return to_integers(task.ring, total)


def changed(envelope: bytes, at: int) -> bytes:
    """Return an envelope with one other byte."""
    return envelope[:at] + bytes([envelope[at] ^ 1]) + envelope[at + 1 :]


def resealed(task: Task, party: int, envelope: bytes, secrets: Path, at: int) -> bytes:
    """Return an envelope of which a client sealed one byte otherwise. Args: secrets: keys; at: where."""
    head, key = envelope[:HEAD_BYTES], task.parties[party].keys[0]
    plain = unsealed(task, party, envelope, secrets)
    return head + key.seal(changed(plain, at % len(plain)), info_of(head, party))


def unsealed(task: Task, party: int, envelope: bytes, secrets: Path) -> bytes:
    """Return what is in an envelope, unchecked. Args: secrets: the party's keys."""
    head, key = envelope[:HEAD_BYTES], task.parties[party].keys[0]
    plain = unseal(secrets_in(secrets)[key.id], envelope[HEAD_BYTES:], info_of(head, party))
    assert plain is not None
    return plain


def vectors(directory: Path) -> list[dict[str, object]]:
    """Return envelopes, what opens them, and what is in them or why they are left out."""
    cases: list[dict[str, object]] = []
    for name, hybrid in (("x25519", False), ("hybrid", True)):
        own = directory / name
        task, values = made_task(own, hybrid=hybrid), [3, 0, 2**40, 1]
        identity, envelopes = seal_upload(task, np.array(values), None)
        opened = [
            open_envelope(task, i, opener(task, i, own).keys, envelope)
            for i, envelope in enumerate(envelopes)
        ]
        parts = [answer.shares for answer in opened if not isinstance(answer, str)]
        assert revealed(task, parts) == values
        bad: list[tuple[str, int, bytes, Any]] = [
            ("first bytes", 0, changed(envelopes[0], 3), UNREADABLE),
            ("task", 0, changed(envelopes[0], 4), OTHER_TASK),
            ("identity", 0, changed(envelopes[0], 36), UNOPENED),
            ("key", 0, changed(envelopes[0], 68), OTHER_KEY),
            ("encapsulated key", 0, changed(envelopes[0], 76), UNOPENED),
            ("tag", 0, changed(envelopes[0], len(envelopes[0]) - 1), UNOPENED),
            ("another party's", 1, envelopes[0], OTHER_KEY),
        ]
        cases += [
            {
                "name": f"{name}: {what}",
                "task": task.text.decode(),
                "party": party,
                "keys": {key.hex(): secret.hex() for key, secret in opener(task, party, own).keys.items()},
                "envelope": envelope.hex(),
                **({"left_out": answer} if isinstance(answer, str) else {"identity": identity, **answer}),
            }
            for what, party, envelope, answer in [
                *(
                    (f"party {i}", i, sealed, {"elements": to_integers(task.ring, part)})
                    for i, (sealed, part) in enumerate(zip(envelopes, parts, strict=True))
                ),
                *(bad if not hybrid else bad[4:6]),
            ]
        ]
    return cases


if __name__ == "__main__":
    with TemporaryDirectory() as temporary:
        VECTORS.write_text(json.dumps(vectors(Path(temporary)), indent=1) + "\n")
