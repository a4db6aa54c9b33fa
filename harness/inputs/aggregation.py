"""A party's half of sharing: reads and checks share files, agrees on which to take, adds them up.

All parties take the same uploads: those of one kind that are sound at each. All alike leave out the others.
A party judges by what is public: that an upload is there under its own name, for this party, and as long as
its header says. Of which kind it has to be, most uploads or the user decide. So a client that sends one party
something else, or all of them something foreign, harms itself only.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from harness.errors import RecordDomainError, ShareError, ThresholdGridError
from harness.inputs.client_policy import ClientPolicy
from harness.inputs.record_schema import MAX_TOTAL, RecordDomain, domain_from_json
from harness.inputs.rings import RINGS, Words
from harness.inputs.shares import (
    MAX_VALUES,
    SALT_BYTES,
    SCHEMA as SHARE_SCHEMA,
    SUFFIX,
    Header,
    content_of,
    domain_text,
)
from harness.system.documents import Refusal, as_type, parse_json, read_json
from harness.system.files import create_file, open_regular, write_whole
from harness.system.progress import tell
from protocols.spec import ENFORCED, INPUT_FORMS, SPLIT

SCHEMA = 1
AGGREGATE_SUFFIX, LIST_SUFFIX = ".aggregate", ".uploads"
_WAYS_OUT = "have it sent again, remove it at every party, or leave such uploads out by ./inv uploads"

# Why an upload is left out; nothing of it is secret.
UNREADABLE = "unreadable or of another version"
RENAMED = "not under the name that it was shared by"
MISDIRECTED = "for another party"
TOO_LARGE = "of more than one upload may hold"
WRONG_SIZE = "longer or shorter than it says"
CHANGED = "changed since it was shared"
CROWDED = "of more clients than one may be of"
UNDECLARED = "of another domain than was declared"
FOREIGN = "of another domain or input form"
UNCOVERED = "whose client's policy does not cover this run"
NOT_THE_SAME = "not the same at every party"
# Then it lies, or the client sent it something else, or runs were charged to its ledger alone.
SAYS = ", says party {party} alone"
_UNSOUND = (UNREADABLE, RENAMED, MISDIRECTED, TOO_LARGE, WRONG_SIZE, CHANGED, CROWDED, UNDECLARED, UNCOVERED)


# What is forgotten most in a declared domain.
HINT = (
    'That of shares for a cap says "sizes": true, of predictions "predictions": true, and that of shares '
    'with a cap says it, as "cap": 10.'
)


class UploadKind(NamedTuple):
    """What uploads that go together have in common.

    Attributes: copies: how many parties hold each share; domain: a hash of the records' domain.
    """

    form: str
    arithmetic: str
    parties: int
    domain: str
    copies: int = 1


@dataclass(frozen=True)
class UploadPolicy:
    """What uploads have to be, as whoever runs says.

    Attributes: domain: which they are of, None for that of most; clients: of how many each may be.
    """

    domain: RecordDomain | None = None
    clients: int = MAX_VALUES

    def to_json(self) -> dict[str, Any]:
        """Return what `policy_from_json` reads."""
        return {"domain": self.domain and self.domain.to_json(), "clients": self.clients}


ANY = UploadPolicy()


@dataclass(frozen=True)
class UploadReport:
    """What one party has of uploads, by its own judgement.

    Attributes: party: its number; sound: the identities of those that it would take, and of which kind they
    are; unsound: the names of all others' files, without the ending, and why; policies: by `batch`, those of
    sound ones' clients who have one; domains: the records' domains by their hashes, as in headers. The last
    two stay with the party.
    """

    party: int
    sound: Mapping[str, UploadKind]
    unsound: Mapping[str, str]
    policies: Mapping[str, ClientPolicy] = field(default_factory=dict, compare=False)
    domains: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, compare=False)

    @property
    def sound_batches(self) -> dict[str, UploadKind]:
        """The kinds of those that it would take, by `batch`."""
        return {_batch(identity): kind for identity, kind in self.sound.items()}

    def without(self, uncovered: Collection[str]) -> UploadReport:
        """Return the report of a run that some policies do not cover. Args: uncovered: `batch` of each."""
        sound = {each: kind for each, kind in self.sound.items() if _batch(each) not in uncovered}
        why = dict.fromkeys((_batch(each) for each in self.sound.keys() - sound.keys()), UNCOVERED)
        return replace(self, sound=sound, unsound={**self.unsound, **why})

    def to_json(self) -> dict[str, Any]:
        """Return what `report_from_json` reads."""
        sound = []
        for kind in sorted(set(self.sound.values())):
            fields = {name: value for name, value in kind._asdict().items() if name != "copies" or value > 1}
            sound.append({**fields, "uploads": sorted(each for each, of in self.sound.items() if of == kind)})
        return {"schema": SCHEMA, "party": self.party, "sound": sound, "unsound": dict(self.unsound)}


@dataclass(frozen=True)
class Agreement:
    """What all parties take. Attributes: taken: identities; left_out: how many files are left out, by why."""

    taken: frozenset[str]
    left_out: Mapping[str, int]

    @property
    def batches(self) -> frozenset[str]:
        """The `batch` of each upload that is taken."""
        return frozenset(map(_batch, self.taken))

    def without(self, uncovered: Collection[str]) -> Agreement:
        """Return what is left of it in a run that some policies do not cover. Args: as for a report."""
        taken = frozenset(each for each in self.taken if _batch(each) not in uncovered)
        more = len(self.taken) - len(taken)
        return Agreement(taken, {**self.left_out, UNCOVERED: more} if more else self.left_out)


@dataclass(frozen=True)
class _Policy:
    """A policy as JSON has it."""

    domain: dict[str, Any] | None
    clients: int


@dataclass(frozen=True)
class _Sound:
    """Uploads of one kind, as a party's list has them."""

    form: str
    arithmetic: str
    parties: int
    domain: str
    uploads: list[str]
    copies: int = 1


@dataclass(frozen=True)
class _List:
    """A party's list, as JSON has it."""

    schema: int
    party: int
    sound: list[_Sound]
    unsound: dict[str, str]


def policy_from_json(fields: Any) -> UploadPolicy:
    """Return a policy that came from the machine that starts a run. Raises: RecordDomainError."""
    where, way_out = "What uploads have to be", "update the machine that starts the run"
    refusal = Refusal(RecordDomainError, where, "known here", way_out)
    asked = as_type(_Policy, fields, refusal)
    if asked.clients < 1:
        refusal.say("an upload is of one client at least")
    domain = None if asked.domain is None else domain_from_json(asked.domain, where)
    return UploadPolicy(domain, asked.clients)


def uploads_in(directory: Path) -> list[Path]:
    """Return the uploads that a party's directory holds.

    Raises: ShareError: an aggregate is there, too: a client's file may have its name, to stand for all.
    """
    uploads, aggregates = (sorted(directory.glob(f"*{suffix}")) for suffix in (SUFFIX, AGGREGATE_SUFFIX))
    if uploads and aggregates:
        raise ShareError(
            f"{directory} holds the upload {uploads[0].name} and the aggregate {aggregates[0].name}, which "
            "would stand for all uploads; keep only what you mean there."
        )
    return uploads


def uploads_at(party: int, directory: Path, rules: UploadPolicy = ANY) -> UploadReport:
    """Judge the share files that one party has.

    An upload's file has its batch for a name, so that nobody who knows it can send a second one.
    Guarantees: tells of sizes, headers and names only, and whether a file is as it was shared.
    [test: tests/harness/inputs/test_agreeing.py]
    Raises: ShareError: as `uploads_in`.
    """
    sound: dict[str, UploadKind] = {}
    unsound: dict[str, str] = {}
    policies: dict[str, ClientPolicy] = {}
    domains: dict[str, dict[str, Any]] = {}
    one_each: dict[ClientPolicy, ClientPolicy] = {}
    declared = None if rules.domain is None else _hash_of([domain_text(rules.domain.to_json())])
    for path in uploads_in(directory):
        name = path.name.removesuffix(SUFFIX).encode(errors="backslashreplace").decode()  # for a list in JSON
        try:
            with _opened(path) as (header, file):
                fault = _fault(header, name, party, file)
        except ShareError:
            unsound[name] = UNREADABLE
            continue
        domain = _hash_of([header.domain_text])
        kind = UploadKind(header.form, header.arithmetic, header.parties, domain, header.copies)
        if not fault and header.clients > rules.clients:
            fault = CROWDED
        if not fault and declared not in (None, kind.domain):
            fault = UNDECLARED
        if fault:
            unsound[name] = fault
        else:
            sound[header.identity] = kind
            if header.policy:  # of those alone that are what their names say
                policies[header.batch] = one_each.setdefault(header.policy, header.policy)
            domains.setdefault(kind.domain, header.record_domain)
    return UploadReport(party, sound, unsound, policies, domains)


def _fault(header: Header, name: str, party: int, file: BinaryIO) -> str:
    """Return why an upload is not sound; empty if it is. Args: file: read up to the end of its header."""
    if name != header.batch:
        return RENAMED
    # A seed makes any number of values.
    if (header.kind, header.party, header.content) != ("batch", party, content_of(header)):
        return MISDIRECTED
    if header.values > MAX_VALUES:
        return TOO_LARGE
    if os.fstat(file.fileno()).st_size - file.tell() != header.payload_bytes:
        return WRONG_SIZE
    return "" if header.fits(file.read()) else CHANGED


def kind_in(header: Header) -> tuple[str, str, int, int]:
    """Return what shares are of: input form, arithmetic, parties and copies."""
    return header.form, header.arithmetic, header.parties, header.copies


def common_uploads(
    reports: Sequence[UploadReport], wanted: tuple[str, str, int, int] | None = None
) -> Agreement:
    """Choose the uploads that all parties take: sound at each, of the kind that most are of.

    Guarantees: follows from the lists of all parties, and is the same whoever computes it.
    [test: tests/harness/inputs/test_agreeing.py]
    Args: wanted: input form, arithmetic, parties and copies of the run; where half of the uploads or more
    are of it, no others count.
    Raises: ShareError: none is sound at every party, a party's list is missing, or no kind is that of more
    than half.
    """
    first, *others = (each.sound for each in reports)
    same = {one: kind for one, kind in first.items() if all(each.get(one) == kind for each in others)}
    doubted = {name for each in reports for name in each.unsound}
    found_sound = Counter(name for each in reports for name in doubted.intersection(map(_batch, each.sound)))
    kinds = Counter(same.values())
    of_run = Counter({kind: count for kind, count in kinds.items() if (*kind[:3], kind.copies) == wanted})
    if of_run and 2 * of_run.total() >= kinds.total():
        kinds = of_run
    most = max(kinds, key=lambda kind: kinds[kind], default=None)
    taken = frozenset(identity for identity, kind in same.items() if kind == most)
    rest = [identity for each in reports for identity in each.sound if identity not in taken]
    why = {_batch(identity): NOT_THE_SAME for identity in rest}
    for each in reversed(reports):  # where parties differ, the first one's reason counts
        says = SAYS.format(party=each.party)
        for name, fault in each.unsound.items():
            alone = 0 < found_sound[name] == len(reports) - 1
            why[name] = fault + says if alone else fault
    why |= {_batch(identity): FOREIGN for identity in rest if identity in same}
    names = {name for identity in taken if (name := _batch(identity)) in why}
    left_out = Counter(fault for name, fault in why.items() if name not in names)
    counts = dict(sorted(left_out.items()))
    if most is None:
        raise ShareError(
            f"No upload is sound at every party: {described(counts) or 'there is none'}. Share again, or "
            f"correct --domain. {HINT}"
        )
    if 2 * len(taken) <= kinds.total():
        raise ShareError(
            f"{kinds.total()} uploads are of {len(kinds)} domains or input forms, none of them that of more "
            "than half; say by --domain which is meant."
        )
    if most.parties != len(reports):
        raise ShareError(
            f"These are the lists of {len(reports)} parties, of uploads for {most.parties}; bring the lists "
            "of all parties together."
        )
    return Agreement(taken, counts)


def described(left_out: Mapping[str, int]) -> str:
    """Return how many uploads were left out, and why, as people read it."""
    return ", ".join(f"{count} {why}" for why, count in left_out.items())


def paths_of(taken: Iterable[str], report: UploadReport, directory: Path) -> list[Path]:
    """Return where uploads are. Raises: ShareError: one is not there, or not sound any more."""
    if not report.sound.keys() >= set(taken):
        raise ShareError(
            f"Party {report.party} no longer has all uploads of the lists; run ./inv uploads again at every "
            "party."
        )
    return [directory / f"{_batch(identity)}{SUFFIX}" for identity in sorted(taken)]


def write_uploads(report: UploadReport, out: Path) -> None:
    """Write one party's list, for all parties to see. Raises: ShareError: it cannot be written."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out, json.dumps(report.to_json()).encode() + b"\n")
    except OSError as error:
        raise ShareError(f"Cannot write {out}: {error.strerror}.") from None


def read_lists(directory: Path) -> Agreement:
    """Return what all parties take, by the lists `party-<i>.uploads` of all of them.

    Raises: ShareError: a party's list is missing or damaged; as `common_uploads`.
    """
    reports = []
    for path in sorted(directory.glob(f"*{LIST_SUFFIX}")):
        fields = read_json(path, _refusal(str(path)))
        reports.append(report_from_json(fields, str(path)))
    if not reports or sorted(each.party for each in reports) != list(range(len(reports))):
        raise ShareError(f"{directory} does not hold one list of uploads per party, from party 0 up.")
    return common_uploads(sorted(reports, key=lambda each: each.party))


def report_from_json(fields: Any, where: str) -> UploadReport:
    """Check a party's list, as `UploadReport.to_json` gives it. Raises: ShareError: it is something else."""
    refusal = _refusal(where)
    listed = as_type(_List, fields, refusal)
    if listed.schema != SCHEMA or not set(listed.unsound.values()) <= set(_UNSOUND):
        refusal.say("it is of another version")
    sound = {
        identity: UploadKind(each.form, each.arithmetic, each.parties, each.domain, each.copies)
        for each in listed.sound
        for identity in each.uploads
    }
    return UploadReport(listed.party, sound, listed.unsound)


def _refusal(where: str) -> Refusal:
    return Refusal(ShareError, where, "a party's list of uploads", "write it again")


class Aggregator:
    """Turns uploads, one at a time, into the one file that a party feeds into a run.

    Computes: split form: the sum over all clients, per column, in the memory of one upload; other
    forms: all uploads' columns, one after the other. They are in the order of their batches, which is the
    same at every party, whatever the files are called there.
    """

    def __init__(self, party: int) -> None:
        self._party = party
        self._first: tuple[Header, Path, int] | None = None  # and the most that one of its clients counts for
        self._identities: dict[str, str] = {}  # by batch
        self._clients = self._records = 0
        self._blocks: dict[str, Words] = {}  # by batch; in split form, all of them added up
        self._policy: ClientPolicy | None = None  # what all clients allow

    def add(self, path: Path) -> None:
        """Add an upload. Raises: ShareError: it is damaged, foreign, was added before, or does not fit."""
        header, following = _read(path)
        if self._first is None:
            domain = domain_from_json(header.record_domain, str(path))
            self._first = header, path, domain.max_contribution
        first, origin, most = self._first
        if header.kind != "batch" or header.party != self._party:
            raise ShareError(f"{path} is not what a client shared for party {self._party}; {_WAYS_OUT}.")
        if header.values > MAX_VALUES:
            raise ShareError(f"{path} claims {header.values} values, too many for one upload; {_WAYS_OUT}.")
        if _common(header) != _common(first):
            raise ShareError(f"{path} and {origin} differ in domain, input form or parties; {_WAYS_OUT}.")
        if header.batch in self._identities:
            raise ShareError(f"{path} is the same upload as another file there; remove one of the copies.")
        block = _block(path, header, following)
        self._identities[header.batch] = header.identity
        if header.policy:
            self._policy = self._policy.and_also(header.policy) if self._policy else header.policy
        self._clients += header.clients
        self._records += header.records
        if INPUT_FORMS[header.form].capped != ENFORCED and self._clients * most >= MAX_TOTAL:
            raise ShareError(
                f"{path.parent} holds {self._clients} clients with up to {most} records each, whose sum "
                f"could overflow; all clients must declare a --max-count below {MAX_TOTAL // self._clients}."
            )
        if header.form != SPLIT.name:
            self._blocks[header.batch] = block
            return
        total, before = header.domain.total(block), self._blocks.get("")
        self._blocks[""] = total if before is None else header.domain.add(before, total)

    def write(self, out: Path) -> Header:
        """Write the file. Raises: ShareError: it cannot be written, and is not there then."""
        assert self._first is not None
        first, identities = self._first[0], [of for _, of in sorted(self._identities.items())]
        blocks = [block for _, block in sorted(self._blocks.items())]
        merged = blocks[0] if first.form == SPLIT.name else np.concatenate(blocks, axis=1)
        summary = replace(
            first,
            kind="aggregate",
            batch=_hash_of(identities),
            clients=self._clients,
            records=self._records,
            content="values",
            batches=len(identities),
            commitments=(),
            policy=self._policy,
        )
        try:
            out.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            uploads = " ".join(identities).encode() + b"\n"
            write_whole(out, summary.line(), uploads, first.domain.to_bytes(merged))
        except OSError as error:
            raise ShareError(f"Cannot write {out}: {error.strerror}.") from None
        return summary


def aggregate(party: int, directory: Path, out: Path, paths: Iterable[Path] | None = None) -> Header:
    """Turn the batches that one party received into the one file that it feeds into a run.

    Args: paths: of those in the directory that all parties take, None for all that there are.
    Raises: ShareError: no batch, a damaged or foreign one, the same upload twice, batches that do not
    go together, or so many clients that the sum could overflow; `out` is not written.
    """
    uploads = uploads_in(directory) if paths is None else sorted(paths)
    if not uploads:
        raise ShareError(
            f"{directory} holds no share files (*{SUFFIX}); run `share` first, or check --shares."
        )
    aggregator = Aggregator(party)
    for done, path in enumerate(uploads, 1):
        aggregator.add(path)
        tell(done, len(uploads))
    return aggregator.write(out)


def check_aggregates(paths: Sequence[Path]) -> Header:
    """Check that the parties' aggregates are of the same uploads; return what they have in common.

    Raises: ShareError: says which party differs from party 0, and in what.
    """
    headers = [read_header(path) for path in paths]
    first = headers[0]
    for i, header in enumerate(headers):
        if header.kind != "aggregate" or header.party != i or header.parties != len(paths):
            raise ShareError(
                f"{paths[i]} is not the aggregate of party {i} of {len(paths)}; run `aggregate` again."
            )
        if (header.batches, header.clients) != (first.batches, first.clients):
            raise ShareError(
                f"Party {i} has {header.batches} uploads of {header.clients} clients, party 0 has "
                f"{first.batches} of {first.clients}: an upload reached only some parties. "
                "Remove it everywhere, or send it again."
            )
        if (header.batch, header.policy, _common(header)) != (first.batch, first.policy, _common(first)):
            raise ShareError(
                f"Party {i} has other uploads than party 0; the same clients must reach every party."
            )
    return first


def check_own(path: Path, party: int) -> Header:
    """Return the header of a party's own aggregate. Raises: ShareError: it is another's, or none."""
    header = read_header(path)
    if (header.kind, header.party) != ("aggregate", party):
        raise ShareError(f"{path} is not the aggregate of party {party}; run `aggregate` again.")
    return header


def extract_values(aggregate_file: Path, out: Path) -> Path:
    """Write an aggregate's values alone, as engines read them; return `out`.

    Raises: ShareError: the aggregate is damaged.
    """
    header, payload = _read(aggregate_file)
    if len(payload) != header.copies * header.values * header.domain.value_bytes:
        raise ShareError(f"{aggregate_file} is damaged: it has {len(payload)} bytes of values.")
    create_file(out, payload)
    return out


def read_uploads(aggregate_file: Path) -> tuple[str, ...]:
    """Return the identities of all uploads in an aggregate.

    Raises: ShareError: they are not those that its header stands for.
    """
    with _opened(aggregate_file) as (header, file):
        identities = tuple(file.readline().decode(errors="replace").split())
    if (len(identities), _hash_of(identities)) != (header.batches, header.batch):
        raise ShareError(f"{aggregate_file} is damaged: its list of uploads is not whole; aggregate again.")
    return identities


def read_header(path: Path) -> Header:
    """Return a share file's header. Raises: ShareError: it is not a share file of a version known here."""
    with _opened(path) as (header, _):
        return header


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Header, BinaryIO]]:
    """Yield a share file's header, and the file, read up to its end. Raises: ShareError, as `read_header`."""
    try:
        with open_regular(path) as file:
            yield _header_in(file, path), file
    except OSError as error:
        raise ShareError(f"Cannot read {path}: {error.strerror}.") from None


def _header_in(file: BinaryIO, path: Path) -> Header:
    """Read a share file's header, and no more. Raises: ShareError; OSError."""
    refusal = Refusal(ShareError, str(path), "a share file of this version", _WAYS_OUT)
    line = file.readline(1 << 20)
    if not line.endswith(b"\n"):
        refusal.say("its first line has no end")
    header = as_type(Header, parse_json(line, refusal), refusal)
    sound = (
        header.schema == SHARE_SCHEMA
        and header.arithmetic in RINGS
        and header.form in INPUT_FORMS
        and header.content in ("seed", "values")
        and header.batch.isalnum()
        and header.clients > 0 <= header.records
        and header.copies in (1, header.parties - 1)
        and (header.kind == "aggregate" or len(header.commitments) == header.parties)
    )
    with suppress(RecordDomainError, ThresholdGridError):
        if sound and header.columns > 0:
            return header
    refusal.say("its header fits none")


def _hash_of(identities: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(identities).encode()).hexdigest()


def _common(header: Header) -> tuple[Any, ...]:
    return *kind_in(header), header.record_domain


def _read(path: Path) -> tuple[Header, bytes]:
    """Return a share file's header, and what follows it; of an aggregate, after the list of its uploads."""
    with _opened(path) as (header, file):
        if header.kind == "aggregate":
            file.readline()
        return header, file.read()


def _block(path: Path, header: Header, following: bytes) -> Words:
    """Return a batch's values, shape (copies * columns, clients, words).

    Raises: ShareError: it is damaged.
    """
    if len(following) != header.payload_bytes:
        raise ShareError(
            f"{path} is damaged: {len(following)} bytes where {header.payload_bytes} belong; {_WAYS_OUT}."
        )
    if not header.fits(following):
        raise ShareError(f"{path} was {CHANGED}; {_WAYS_OUT}.")
    domain, shares = header.domain, []
    for _, piece, is_seed in header.pieces(following):
        payload = piece[SALT_BYTES:]
        if is_seed:
            shares.append(domain.expand(payload, header.values))
        else:
            shares.append(domain.reduce(domain.from_bytes(payload)))  # whatever words a client sent
    flat = np.concatenate(shares) if header.copies > 1 else shares[0]
    return flat.reshape(-1, header.rows, domain.words)


def _batch(identity: str) -> str:
    return identity.partition(":")[0]
