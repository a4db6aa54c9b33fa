"""Which uploads all parties take: those of one kind that are sound at each. All alike leave out the others.

A party judges by what is public: that an upload is there under its own name, for this party, and as long as
its header says. Of which kind it has to be, most uploads or the user decide. So a client that sends one party
something else, or all of them something foreign, harms itself only.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from harness.errors import ShareError
from harness.inputs.record_schema import RecordDomain, domain_from_json
from harness.inputs.shares import MAX_VALUES, SUFFIX, Header, payload_bytes, read_header
from harness.system.files import write_whole

SCHEMA = 1
LIST_SUFFIX = ".uploads"

# Why an upload is left out; nothing of it is secret.
UNREADABLE = "unreadable or of another version"
RENAMED = "not under the name that it was shared by"
MISDIRECTED = "for another party"
TOO_LARGE = "of more than one upload may hold"
WRONG_SIZE = "longer or shorter than it says"
CROWDED = "of more clients than one may be of"
UNDECLARED = "of another domain than was declared"
FOREIGN = "of another domain or input form"
NOT_THE_SAME = "not the same at every party"
_UNSOUND = (UNREADABLE, RENAMED, MISDIRECTED, TOO_LARGE, WRONG_SIZE, CROWDED, UNDECLARED)


# What is forgotten most in a declared domain.
HINT = (
    'That of shares for a cap says "sizes": true, of predictions "predictions": true, and that of shares '
    'with a cap says it, as "cap": 10.'
)


class UploadKind(NamedTuple):
    """What uploads that go together have in common. domain: a hash of the records' domain."""

    form: str
    arithmetic: str
    parties: int
    domain: str


@dataclass(frozen=True)
class UploadPolicy:
    """What uploads have to be, as whoever runs says.

    Attributes: domain: which they are of, None for that of most; clients: of how many each may be.
    """

    domain: RecordDomain | None = None
    clients: int = MAX_VALUES

    def to_json(self) -> dict[str, Any]:
        """Return what `rules_from_json` reads."""
        return {"domain": self.domain and self.domain.to_json(), "clients": self.clients}


ANY = UploadPolicy()


@dataclass(frozen=True)
class UploadReport:
    """What one party has of uploads, by its own judgement.

    Attributes: party: its number; sound: the identities of those that it would take, and of which kind they
    are; unsound: the names of all others' files, without the ending, and why.
    """

    party: int
    sound: Mapping[str, UploadKind]
    unsound: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return what `read_found` reads."""
        kinds = sorted(set(self.sound.values()))
        sound = [
            {**kind._asdict(), "uploads": sorted(each for each, of in self.sound.items() if of == kind)}
            for kind in kinds
        ]
        return {"schema": SCHEMA, "party": self.party, "sound": sound, "unsound": dict(self.unsound)}


@dataclass(frozen=True)
class Agreement:
    """What all parties take. Attributes: taken: identities; left_out: how many files are left out, by why."""

    taken: frozenset[str]
    left_out: Mapping[str, int]


def rules_from_json(found: dict[str, Any]) -> UploadPolicy:
    """Return rules that came from the machine that starts a run. Raises: RecordDomainError."""
    domain, clients = found["domain"], int(found["clients"])
    return UploadPolicy(None if domain is None else domain_from_json(domain, "what was asked"), clients)


def uploads_at(party: int, directory: Path, rules: UploadPolicy = ANY) -> UploadReport:
    """Judge the share files that one party has.

    An upload's file has its batch for a name, so that nobody who knows it can send a second one.
    Guarantees: depends on sizes, headers and names only.  [test: tests/harness/inputs/test_agreeing.py]
    """
    sound: dict[str, UploadKind] = {}
    unsound: dict[str, str] = {}
    declared = None if rules.domain is None else _hash_of(rules.domain.to_json())
    for path in directory.glob(f"*{SUFFIX}"):
        name = path.name.removesuffix(SUFFIX)
        try:
            header = read_header(path)
            with path.open("rb") as file:
                first = len(file.readline())
            found = path.stat().st_size - first
        except (ShareError, OSError):
            unsound[name] = UNREADABLE
            continue
        kind = UploadKind(header.form, header.arithmetic, header.parties, _hash_of(header.record_domain))
        fault = _fault(header, name, party, found)
        if not fault and header.clients > rules.clients:
            fault = CROWDED
        if not fault and declared not in (None, kind.domain):
            fault = UNDECLARED
        if fault:
            unsound[name] = fault
        else:
            sound[header.identity] = kind
    return UploadReport(party, sound, unsound)


def _fault(header: Header, name: str, party: int, size: int) -> str:
    """Return why an upload is not sound; empty if it is. Args: size: of what follows its header."""
    if name != header.batch:
        return RENAMED
    content = "values" if party == header.parties - 1 else "seed"  # a seed makes any number of values
    if (header.kind, header.party, header.content) != ("batch", party, content):
        return MISDIRECTED
    if header.values > MAX_VALUES:
        return TOO_LARGE
    return "" if size == payload_bytes(header) else WRONG_SIZE


def common_uploads(found: Sequence[UploadReport], wanted: tuple[str, str, int] | None = None) -> Agreement:
    """Choose the uploads that all parties take: sound at each, of the kind that most are of.

    Guarantees: follows from the lists of all parties, and is the same whoever computes it.
    [test: tests/harness/inputs/test_agreeing.py]
    Args: wanted: input form, arithmetic and parties of the run; where half of the uploads or more are of
    it, no others count.
    Raises: ShareError: none is sound at every party, a party's list is missing, or no kind is that of more
    than half.
    """
    same = frozenset.intersection(*(frozenset(each.sound.items()) for each in found))
    kinds = Counter(kind for _, kind in same)
    of_run = Counter({kind: count for kind, count in kinds.items() if kind[:3] == wanted})
    if of_run and 2 * of_run.total() >= kinds.total():
        kinds = of_run
    most = max(kinds, key=lambda kind: kinds[kind], default=None)
    taken = frozenset(identity for identity, kind in same if kind == most)
    why = {_batch(identity): NOT_THE_SAME for each in found for identity in each.sound}
    for each in reversed(found):  # where parties differ, the first one's reason counts
        why |= each.unsound
    why |= {_batch(identity): FOREIGN for identity, _ in same}
    names = set(map(_batch, taken))
    left_out = Counter(fault for name, fault in why.items() if name not in names)
    said = dict(sorted(left_out.items()))
    if most is None:
        raise ShareError(
            f"No upload is sound at every party: {described(said) or 'there is none'}. Share again, or "
            f"correct --domain. {HINT}"
        )
    if 2 * len(taken) <= kinds.total():
        raise ShareError(
            f"{kinds.total()} uploads are of {len(kinds)} domains or input forms, none of them that of more "
            "than half; say by --domain which is meant."
        )
    if most.parties != len(found):
        raise ShareError(
            f"These are the lists of {len(found)} parties, of uploads for {most.parties}; bring the lists of "
            "all parties together."
        )
    return Agreement(taken, said)


def described(left_out: Mapping[str, int]) -> str:
    """Return how many uploads were left out, and why, as people read it."""
    return ", ".join(f"{count} {why}" for why, count in left_out.items())


def paths_of(taken: Iterable[str], found: UploadReport, directory: Path) -> list[Path]:
    """Return where uploads are. Raises: ShareError: one is not there, or not sound any more."""
    if not set(taken) <= set(found.sound):
        raise ShareError(f"Party {found.party} has not all uploads of the lists any more; write lists again.")
    return [directory / f"{_batch(identity)}{SUFFIX}" for identity in sorted(taken)]


def write_uploads(found: UploadReport, out: Path) -> None:
    """Write one party's list, for all parties to see. Raises: ShareError: it cannot be written."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out, json.dumps(found.to_json()).encode() + b"\n")
    except OSError as error:
        raise ShareError(f"Cannot write {out}: {error.strerror}.") from None


def read_lists(directory: Path) -> Agreement:
    """Return what all parties take, by the lists `party-<i>.uploads` of all of them.

    Raises: ShareError: a party's list is missing or damaged; as `common_uploads`.
    """
    found = []
    for path in sorted(directory.glob(f"*{LIST_SUFFIX}")):
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ShareError(f"Cannot read {path}: {error.strerror}.") from None
        except ValueError:
            fields = None
        found.append(read_found(fields, str(path)))
    if not found or sorted(each.party for each in found) != list(range(len(found))):
        raise ShareError(f"{directory} does not hold one list of uploads per party, from party 0 up.")
    return common_uploads(sorted(found, key=lambda each: each.party))


def read_found(fields: Any, where: str) -> UploadReport:
    """Check a party's list, as `UploadReport.to_json` gives it. Raises: ShareError: it is something else."""
    try:
        sound = {
            str(identity): UploadKind(*(kind[name] for name in UploadKind._fields))
            for kind in fields["sound"]
            for identity in kind["uploads"]
        }
        unsound = {str(name): str(fault) for name, fault in fields["unsound"].items()}
        hash(tuple(sound.values()))  # a TypeError where a kind holds lists
        known = fields["schema"] == SCHEMA and set(unsound.values()) <= set(_UNSOUND)
        if known and type(fields["party"]) is int:
            return UploadReport(fields["party"], sound, unsound)
    except (AttributeError, TypeError, KeyError):
        pass
    raise ShareError(f"{where} is not a party's list of uploads; write it again.")


def _batch(identity: str) -> str:
    return identity.partition(":")[0]


def _hash_of(record_domain: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record_domain, sort_keys=True).encode()).hexdigest()
