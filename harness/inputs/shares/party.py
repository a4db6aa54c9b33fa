"""A party's half of sharing: it judges its uploads, takes those that all parties take, and adds them up.

All parties take the same uploads: those of one kind that are sound at each. All alike leave out the others.
A party judges by what is public: that an upload is there under its own name, for this party, and as long as
its header says. Of which kind it has to be, most uploads or the user decide. So a client that sends one party
something else, or all of them something foreign, harms itself only.
"""

import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from harness.errors import RecordDomainError, ShareError, named
from harness.inputs.record_schema import MAX_TOTAL, RecordDomain, domain_from_json
from harness.inputs.shares.file_format import (
    MAX_VALUES,
    SALT_BYTES,
    SUFFIX,
    WAYS_OUT,
    ClientPolicy,
    Header,
    UploadKind,
    batch_of,
    domain_text,
    hash_of,
    opened,
    read_file,
    read_header,
    uploads_in,
    write_file,
)
from harness.system.documents import Refusal, as_type, read_json
from harness.system.progress import tell
from protocols.arrays import Words
from protocols.spec import ENFORCED, INPUT_FORMS, SPLIT

SCHEMA = 1
LIST_SUFFIX = ".uploads"
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
COUNTED = "that an earlier run of this chain counted"
NOT_THE_SAME = "not the same at every party"
OTHER_TASK = "of another task"
OTHER_KEY = "sealed for a key that this party does not have"
UNOPENED = "that the party's key does not open"
# Then it lies, or the client sent it something else, or runs were charged to its ledger alone.
SAYS = ", says party {party} alone"
_UNSOUND = (
    UNREADABLE,
    RENAMED,
    MISDIRECTED,
    TOO_LARGE,
    WRONG_SIZE,
    CHANGED,
    CROWDED,
    UNDECLARED,
    UNCOVERED,
    COUNTED,
    OTHER_TASK,
    OTHER_KEY,
    UNOPENED,
)
# What is forgotten most in a declared domain.
HINT = (
    'That of shares for a cap says "sizes": true, of predictions "predictions": true, and that of shares '
    'with a cap says it, as "cap": 10.'
)


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
        return {batch_of(identity): kind for identity, kind in self.sound.items()}

    def without(self, left_out: Collection[str], reason: str = UNCOVERED) -> "UploadReport":
        """Return the report of a run that leaves some out. Args: left_out: `batch` of each."""
        sound = {each: kind for each, kind in self.sound.items() if batch_of(each) not in left_out}
        why = dict.fromkeys((batch_of(each) for each in self.sound.keys() - sound.keys()), reason)
        return replace(self, sound=sound, unsound={**self.unsound, **why})

    def to_json(self) -> dict[str, Any]:
        """Return what `report_from_json` reads."""
        sound = []
        for kind in sorted(set(self.sound.values())):
            uploads = sorted(identity for identity, of in self.sound.items() if of == kind)
            sound.append({**kind.to_json(), "uploads": uploads})
        return {"schema": SCHEMA, "party": self.party, "sound": sound, "unsound": dict(self.unsound)}


@dataclass(frozen=True)
class Agreement:
    """What all parties take. Attributes: taken: identities; left_out: how many files are left out, by why."""

    taken: frozenset[str]
    left_out: Mapping[str, int]

    @property
    def batches(self) -> frozenset[str]:
        """The `batch` of each upload that is taken."""
        return frozenset(map(batch_of, self.taken))

    def without(self, uncovered: Collection[str]) -> "Agreement":
        """Return what is left of it in a run that some policies do not cover. Args: as for a report."""
        accepted = frozenset(each for each in self.taken if batch_of(each) not in uncovered)
        more = len(self.taken) - len(accepted)
        return Agreement(accepted, {**self.left_out, UNCOVERED: more} if more else self.left_out)


@dataclass(frozen=True)
class _Policy:
    """A policy as JSON has it."""

    domain: dict[str, Any] | None
    clients: int


@dataclass(frozen=True, kw_only=True)
class _Sound(UploadKind):
    """Uploads of one kind, as a party's list has them."""

    uploads: list[str]


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
    policy = as_type(_Policy, fields, refusal)
    if policy.clients < 1:
        refusal.say("an upload is of one client at least")
    domain = None if policy.domain is None else domain_from_json(policy.domain, where)
    return UploadPolicy(domain, policy.clients)


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
    declared = None if rules.domain is None else hash_of([domain_text(rules.domain.to_json())])
    for path in uploads_in(directory):
        name = path.name.removesuffix(SUFFIX).encode(errors="backslashreplace").decode()  # for a list in JSON
        try:
            with opened(path) as (header, file):
                fault = _fault(header, name, party, file)
        except ShareError:
            unsound[name] = UNREADABLE
            continue
        kind = header.upload_kind
        if not fault and header.clients > rules.clients:
            fault = CROWDED
        if not fault and declared not in (None, kind.domain):
            fault = UNDECLARED
        if fault:
            unsound[name] = fault
            continue
        sound[header.identity] = kind
        domains.setdefault(kind.domain, header.record_domain)
        if policy := header.allowed:  # of those alone that are what their names say
            policies[header.batch] = one_each.setdefault(policy, policy)
    return UploadReport(party, sound, unsound, policies, domains)


def _fault(header: Header, name: str, party: int, file: BinaryIO) -> str:
    """Return why an upload is not sound; empty if it is. Args: file: read up to the end of its header."""
    if name != header.batch:
        return RENAMED
    # A seed makes any number of values.
    if (header.kind, header.party, header.content) != ("batch", party, header.right_content):
        return MISDIRECTED
    if header.values > MAX_VALUES:
        return TOO_LARGE
    if os.fstat(file.fileno()).st_size - file.tell() != sum(header.sizes):
        return WRONG_SIZE
    return "" if header.fits(file.read()) else CHANGED


def common_uploads(reports: Sequence[UploadReport], wanted: UploadKind | None = None) -> Agreement:
    """Choose the uploads that all parties take: sound at each, of the kind that most are of.

    Guarantees: follows from the lists of all parties, and is the same whoever computes it.
    [test: tests/harness/inputs/test_agreeing.py]
    Args: wanted: the kind of uploads for the run, of any domain; where half of the uploads or more are of it,
    no others count.
    Raises: ShareError: none is sound at every party, a party's list is missing, or no kind is that of more
    than half.
    """
    first, *others = (each.sound for each in reports)
    same = {one: kind for one, kind in first.items() if all(each.get(one) == kind for each in others)}
    doubted = {name for each in reports for name in each.unsound}
    found_sound = Counter(
        name for each in reports for name in doubted.intersection(map(batch_of, each.sound))
    )
    kinds = Counter(same.values())
    of_run = Counter({kind: count for kind, count in kinds.items() if kind.of_any_domain == wanted})
    if of_run and 2 * of_run.total() >= kinds.total():
        kinds = of_run
    most = max(kinds, key=lambda kind: kinds[kind], default=None)
    accepted = frozenset(identity for identity, kind in same.items() if kind == most)
    rest = [identity for each in reports for identity in each.sound if identity not in accepted]
    why = {batch_of(identity): NOT_THE_SAME for identity in rest}
    for each in reversed(reports):  # where parties differ, the first one's reason counts
        says = SAYS.format(party=each.party)
        for name, fault in each.unsound.items():
            alone = 0 < found_sound[name] == len(reports) - 1
            why[name] = fault + says if alone else fault
    why |= {batch_of(identity): FOREIGN for identity in rest if identity in same}
    names = {name for identity in accepted if (name := batch_of(identity)) in why}
    counts = dict(sorted(Counter(fault for name, fault in why.items() if name not in names).items()))
    if most is None:
        raise ShareError(
            f"No upload is sound at every party: {described(counts) or 'there is none'}. Share again, or "
            f"correct {named('domain')}. {HINT}"
        )
    if 2 * len(accepted) <= kinds.total():
        raise ShareError(
            f"{kinds.total()} uploads are of {len(kinds)} domains or input forms, none of them that of more "
            f"than half; say by {named('domain')} which is meant."
        )
    if most.parties != len(reports):
        raise ShareError(
            f"These are the lists of {len(reports)} parties, of uploads for {most.parties}; bring the lists "
            "of all parties together."
        )
    return Agreement(accepted, counts)


def described(left_out: Mapping[str, int]) -> str:
    """Return how many uploads were left out, and why, as people read it."""
    return ", ".join(f"{count} {why}" for why, count in left_out.items())


def paths_of(identities: Iterable[str], report: UploadReport, directory: Path) -> list[Path]:
    """Return where uploads are. Raises: ShareError: one is not there, or not sound any more."""
    if not report.sound.keys() >= set(identities):
        raise ShareError(
            f"Party {report.party} no longer has all uploads of the lists; run ./inv uploads again at every "
            "party."
        )
    return [directory / f"{batch_of(identity)}{SUFFIX}" for identity in sorted(identities)]


def write_uploads(report: UploadReport, out: Path) -> None:
    """Write one party's list, for all parties to see. Raises: ShareError: it cannot be written."""
    write_file(out, json.dumps(report.to_json()).encode() + b"\n")


def read_lists(directory: Path) -> Agreement:
    """Return what all parties take, by the lists `party-<i>.uploads` of all of them.

    Raises: ShareError: a party's list is missing or damaged; as `common_uploads`.
    """
    reports = []
    for path in sorted(directory.glob(f"*{LIST_SUFFIX}")):
        reports.append(report_from_json(read_json(path, _refusal(str(path))), str(path)))
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


def aggregate(party: int, directory: Path, out: Path, paths: Iterable[Path] | None = None) -> Header:
    """Turn the batches that one party received into the one file that it feeds into a run.

    Computes: split form: the sum over all clients, per column, in the memory of one upload; other
    forms: all uploads' columns, one after the other. They are in the order of their batches, which is the
    same at every party, whatever the files are called there.
    Args: paths: of those in the directory that all parties take, None for all that there are.
    Raises: ShareError: no batch, a damaged or foreign one, the same upload twice, batches that do not
    go together, or so many clients that the sum could overflow; `out` is not written.
    """
    uploads = uploads_in(directory) if paths is None else sorted(paths)
    if not uploads:
        raise ShareError(
            f"{directory} holds no share files (*{SUFFIX}); run `share` first, or check {named('shares')}."
        )
    first = read_header(uploads[0])
    clients, records, policy = 0, 0, first.allowed
    identities: dict[str, str] = {}  # by batch
    blocks: dict[str, Words] = {}  # by batch; in split form, all of them added up
    for done, path in enumerate(uploads, 1):
        header, following = read_file(path)
        _check_fits(path, header, party, uploads[0], first)
        if header.batch in identities:
            raise ShareError(f"{path} is the same upload as another file there; remove one of the copies.")
        block = _block(path, header, following)
        identities[header.batch] = header.identity
        clients += header.clients
        records += header.records
        if header.allowed:
            policy = policy.and_also(header.allowed) if policy else header.allowed
        _check_sum(directory, clients, first)
        if header.form == SPLIT.name:
            total = header.domain.total(block)[:, np.newaxis]
            blocks[""] = header.domain.add(blocks[""], total) if blocks else total
        else:
            blocks[header.batch] = block
        tell(done, len(uploads))
    ordered = [identity for _, identity in sorted(identities.items())]
    summary = replace(
        first,
        kind="aggregate",
        batch=hash_of(ordered),
        clients=clients,
        records=records,
        content="values",
        batches=len(ordered),
        commitments=(),
        policy=policy.to_json() if policy else None,
    )
    values = np.concatenate([block for _, block in sorted(blocks.items())], axis=1)
    write_file(out, summary.line(), " ".join(ordered).encode() + b"\n", first.domain.to_bytes(values))
    return summary


def _check_fits(path: Path, header: Header, party: int, origin: Path, first: Header) -> None:
    """Raise ShareError unless a file is an upload for the party that goes with the first one."""
    if header.kind != "batch" or header.party != party:
        raise ShareError(f"{path} is not what a client shared for party {party}; {WAYS_OUT}.")
    if header.values > MAX_VALUES:
        raise ShareError(f"{path} claims {header.values} values, too many for one upload; {WAYS_OUT}.")
    if header.upload_kind != first.upload_kind:
        raise ShareError(f"{path} and {origin} differ in domain, input form or parties; {WAYS_OUT}.")


def _check_sum(directory: Path, clients: int, first: Header) -> None:
    """Raise ShareError if the sum over so many clients could overflow."""
    most = first.public_domain.max_contribution
    if INPUT_FORMS[first.form].capped != ENFORCED and clients * most >= MAX_TOTAL:
        raise ShareError(
            f"{directory} holds {clients} clients with up to {most} records each, whose sum "
            f"could overflow; all clients must declare a {named('max_count')} below {MAX_TOTAL // clients}."
        )


def _block(path: Path, header: Header, following: bytes) -> Words:
    """Return a batch's values, shape (copies * columns, clients, words).

    Raises: ShareError: it is damaged.
    """
    if len(following) != sum(header.sizes):
        raise ShareError(
            f"{path} is damaged: {len(following)} bytes where {sum(header.sizes)} belong; {WAYS_OUT}."
        )
    if not header.fits(following):
        raise ShareError(f"{path} was {CHANGED}; {WAYS_OUT}.")
    shares = []
    for number, piece in header.pieces(following):
        payload = piece[SALT_BYTES:]
        if header.is_seed(number):
            shares.append(header.domain.expand(payload, header.values))
        else:  # whatever words a client sent
            shares.append(header.domain.reduce(header.domain.from_bytes(payload)))
    flat = np.concatenate(shares) if header.copies > 1 else shares[0]
    return flat.reshape(-1, header.rows, header.domain.words)
