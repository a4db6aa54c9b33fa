"""Which uploads all parties take: those that are sound at each of them. What is not is left out by all alike.

A party judges by what is public: that an upload is there, once, for this party, of the declared domain, and
as long as its header says. So a client that sends one party something else harms itself only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ShareError
from harness.records import RecordDomain
from harness.scratch import write_whole
from harness.sharing import MAX_VALUES, SUFFIX, payload_bytes, read_header

SCHEMA = 1
LIST_SUFFIX = ".uploads"


@dataclass(frozen=True)
class UploadsAt:
    """What one party has of uploads, by its own judgement.

    Attributes: party: its number; seen: the batches that say who they are; sound: the identities of those to
    take, with how many clients they claim to be of, and where they are; foreign: how many are of another
    domain than was declared.
    """

    party: int
    seen: frozenset[str]
    sound: Mapping[str, Path]
    foreign: int = 0

    def of(self, agreed: frozenset[str]) -> list[Path]:
        """Return where these uploads are. Raises: ShareError: one is not here, or not sound any more."""
        if not agreed <= set(self.sound):
            raise ShareError(
                f"Party {self.party} has not all uploads of the lists any more; write lists again."
            )
        return [self.sound[identity] for identity in sorted(agreed)]


def uploads_at(party: int, directory: Path, domain: RecordDomain | None = None) -> UploadsAt:
    """Judge the share files that one party has.

    Guarantees: depends on sizes, headers and names only.  [test: tests/unit/test_agreeing.py]
    Args: domain: what was declared; uploads of another are not sound. None: it is not judged here.
    """
    seen: dict[str, tuple[str, Path]] = {}
    unsound: set[str] = set()
    declared = None if domain is None else domain.to_json()
    foreign = 0
    for path in directory.glob(f"*{SUFFIX}"):
        try:
            header = read_header(path)
            with path.open("rb") as file:
                first = len(file.readline())
            found = path.stat().st_size - first
        except (ShareError, OSError):
            continue  # it names no upload
        of_this = header.record_domain == (declared or header.record_domain)
        foreign += not of_this
        good = (
            of_this
            and header.batch not in seen
            and (header.kind, header.party) == ("batch", party)
            and header.values <= MAX_VALUES
            and found == payload_bytes(header)
        )
        if not good:
            unsound.add(header.batch)
        seen[header.batch] = header.identity, path
    sound = dict(found for batch, found in seen.items() if batch not in unsound)
    return UploadsAt(party, frozenset(seen), sound, foreign)


def agreed_uploads(found: Sequence[Iterable[str]]) -> frozenset[str]:
    """Return the uploads that are in all parties' lists of sound ones. Raises: ShareError: there are none."""
    agreed = frozenset.intersection(*(frozenset(each) for each in found))
    if not agreed:
        raise ShareError("No upload is sound at every party; share the records again.")
    return agreed


def write_uploads(found: UploadsAt, out: Path) -> None:
    """Write one party's list, for all parties to see. Raises: ShareError: it cannot be written."""
    fields = {
        "schema": SCHEMA,
        "party": found.party,
        "seen": sorted(found.seen),
        "sound": sorted(found.sound),
    }
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out, json.dumps(fields).encode() + b"\n")
    except OSError as error:
        raise ShareError(f"Cannot write {out}: {error.strerror}.") from None


def read_lists(directory: Path) -> frozenset[str]:
    """Return the uploads that are sound at every party, by the lists `party-<i>.uploads` of all of them.

    Raises: ShareError: a party's list is missing or damaged, or no upload is left.
    """
    paths = sorted(directory.glob(f"*{LIST_SUFFIX}"))
    found = [_read_list(path) for path in paths]
    if not found or sorted(party for party, _ in found) != list(range(len(found))):
        raise ShareError(f"{directory} does not hold one list of uploads per party, from party 0 up.")
    return agreed_uploads([sound for _, sound in found])


def _read_list(path: Path) -> tuple[int, frozenset[str]]:
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        if fields["schema"] == SCHEMA and type(fields["party"]) is int:
            return fields["party"], frozenset(map(str, fields["sound"]))
    except OSError as error:
        raise ShareError(f"Cannot read {path}: {error.strerror}.") from None
    except (ValueError, TypeError, KeyError):
        pass
    raise ShareError(f"{path} is not a party's list of uploads; write it again.")
