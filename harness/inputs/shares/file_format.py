"""The files that hold shares: a public header in one line, then what follows it.

A share batch is one client's upload (or a simulation's, of many clients): one file per party, each with
values or with a 32-byte seed that stretches to them. An aggregate is what a party feeds into a run: its
second line lists the uploads in it, and values follow.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from harness.errors import RecordDomainError, ShareError, ThresholdGridError
from harness.inputs.encoding import count_columns, is_per_record
from harness.inputs.record_schema import RecordDomain, domain_from_json
from harness.inputs.rings import RINGS, Ring
from harness.system.documents import Refusal, as_type, parse_json
from harness.system.files import create_file, open_regular, write_whole
from protocols.accounting.calibration import PrivacyUnit
from protocols.guarantee import Guarantee
from protocols.spec import INPUT_FORMS, REPLICATED, SPLIT, InputForm

SCHEMA = 2
SUFFIX = ".share"
AGGREGATE_SUFFIX = ".aggregate"
SEED_BYTES = 32
SALT_BYTES = 16
MAX_VALUES = 2**24  # of one upload: what a header may make a party expand
WAYS_OUT = "have it sent again, remove it at every party, or leave such uploads out by ./inv uploads"
_IDENTITY, _COMMITMENT = b"fairshares:share:2:identity\n", b"fairshares:share:2:commitment\n"
_BOUND = (
    "form",
    "arithmetic",
    "parties",
    "clients",
    "records",
    "record_domain",
    "policy",
    "commitments",
    "copies",
)


_LIMITS = ("epsilon", "delta")
_NUMBER = re.compile("[0-9]{1,200}(/[1-9][0-9]{0,199})?")


@dataclass(frozen=True)
class ClientPolicy:
    """What a share file's header says of the runs that its client allows; public, as all of the header is.

    Attributes:
        tasks: The tasks that the upload may be used for.
        total: The most that all runs on the upload may spend together.
        unit: What a run has to protect, a record at least.
    """

    tasks: tuple[str, ...]
    total: Guarantee
    unit: PrivacyUnit

    def covers(self, task: str, unit: PrivacyUnit, total: Guarantee) -> bool:
        """Return whether a run is allowed. Args: total: what the upload will have spent with it."""
        protects = unit in (self.unit, PrivacyUnit.CLIENT)
        within = total.epsilon <= self.total.epsilon and total.delta <= self.total.delta
        return task in self.tasks and protects and within

    def and_also(self, other: "ClientPolicy") -> "ClientPolicy":
        """Return the policy that allows what both do."""
        tasks = tuple(task for task in self.tasks if task in other.tasks)
        epsilon = min(self.total.epsilon, other.total.epsilon)
        delta = min(self.total.delta, other.total.delta)
        unit = min(self.unit, other.unit)  # alphabetically: "client" before "record"
        return ClientPolicy(tasks, Guarantee(epsilon, delta), unit)

    def to_json(self) -> dict[str, Any]:
        """Return what `client_policy_from_json` reads."""
        limits = {name: str(getattr(self.total, name)) for name in _LIMITS}
        return {"tasks": list(self.tasks), **limits, "unit": str(self.unit)}


def client_policy_from_json(fields: Mapping[str, Any], refusal: Refusal) -> ClientPolicy:
    """Return a policy as a share file's header has it. Raises: ShareError: it is something else."""
    texts = [fields.get(name) for name in _LIMITS]
    if not all(isinstance(text, str) and _NUMBER.fullmatch(text) for text in texts):
        raise ShareError(
            f"{refusal.where}: epsilon and delta of a client's policy have to be rational numbers."
        )
    others = {name: value for name, value in fields.items() if name not in _LIMITS}
    epsilon, delta = (Fraction(str(text)) for text in texts)
    return as_type(ClientPolicy, {"total": Guarantee(epsilon, delta), **others}, refusal)


@dataclass(frozen=True, order=True)
class UploadKind:
    """What uploads that go together have in common.

    Attributes:
        form: The input form's name.
        arithmetic: The name of the ring of the values.
        parties: How many parties the uploads are for.
        domain: A hash of the records' domain, "" for any.
        copies: How many parties hold each share.
    """

    form: str
    arithmetic: str
    parties: int
    domain: str
    copies: int = 1

    @property
    def of_any_domain(self) -> "UploadKind":
        """The same, whatever the domain is."""
        return replace(self, domain="")

    def to_json(self) -> dict[str, Any]:
        """Return the fields as files have them: `copies` of replicated shares only."""
        return _without_one_copy(asdict(self))


@dataclass(frozen=True)
class Header:
    """What a share file says of itself in its first line: docs/reference/share-files.md. All of it is public.

    Attributes:
        kind: "batch" (one upload) or "aggregate" (what a party feeds into a run).
        batch: The upload's identity, the same at every party. That of an aggregate is a hash of all
            identities in it, which its second line lists.
        content: "seed" or "values".
        records: How many records there are in a form that shares a row for each, else 0, as that is secret.
        commitments: One to the salt and payload of each of the r shares. An aggregate has none.
        policy: What the client allows, None for every run. That of an aggregate is what all clients allow.
        copies: How many parties hold each share, 1 of additive ones, and how many shares a file holds.
    """

    kind: str
    batch: str
    form: str
    arithmetic: str
    party: int
    parties: int
    clients: int
    content: str
    record_domain: dict[str, Any]
    records: int = 0
    batches: int = 1
    commitments: tuple[str, ...] = ()
    policy: dict[str, Any] | None = None
    schema: int = SCHEMA
    copies: int = 1

    @property
    def domain(self) -> Ring:
        """The ring or field of the values."""
        return RINGS[self.arithmetic]

    @cached_property
    def public_domain(self) -> RecordDomain:
        """The records' domain. Raises: RecordDomainError, ThresholdGridError: there is no such domain."""
        return _domain_of(domain_text(self.record_domain))

    @property
    def allowed(self) -> ClientPolicy | None:
        """What the client allows."""
        return _policy_of(self.policy, _refusal("The header"))

    @property
    def columns(self) -> int:
        """How many values a row has, see `count_columns`."""
        return count_columns(self.public_domain, self.form)

    @property
    def rows(self) -> int:
        """How many rows the columns have: clients, or records where each has one."""
        return self.records if is_per_record(self.public_domain, self.form) else self.clients

    @cached_property
    def upload_kind(self) -> UploadKind:
        """What has to be the same in all uploads of a run."""
        domain = hash_of([domain_text(self.record_domain)])
        return UploadKind(self.form, self.arithmetic, self.parties, domain, self.copies)

    @property
    def identity(self) -> str:
        """Which upload it is, and how many rows it claims: the same at all parties, or others would shift."""
        return f"{self.batch}:{self.clients}:{self.records}"

    @cached_property
    def held(self) -> tuple[int, ...]:
        """Which of the upload's shares the party holds, in the order of its file."""
        return held_by(self.party, self.parties, self.copies)

    @property
    def right_content(self) -> str:
        """What a batch's file has to hold for its party: values, if it holds the last share."""
        return "values" if self.parties - 1 in self.held else "seed"

    @cached_property
    def values(self) -> int:
        """How many values each share in the file stands for."""
        summed = self.kind == "aggregate" and self.form == SPLIT.name
        return self.columns * (1 if summed else self.rows)

    def is_seed(self, number: int) -> bool:
        """Return whether one of a batch's shares is a seed: the upload's last share has values."""
        return self.content == "seed" or number != max(self.held)

    @cached_property
    def sizes(self) -> list[int]:
        """How many bytes of each share follow a batch's header: salt, and a seed or values."""
        values = self.values * self.domain.value_bytes
        return [SALT_BYTES + (SEED_BYTES if self.is_seed(number) else values) for number in self.held]

    def pieces(self, following: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the number of each share in a batch, with its salt and payload."""
        start = 0
        for number, size in zip(self.held, self.sizes, strict=True):
            yield number, following[start : start + size]
            start += size

    @property
    def bound(self) -> str:
        """The identity that follows from what the upload is: of a batch, it is `batch`."""
        fields = _without_one_copy({name: getattr(self, name) for name in _BOUND})
        text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(_IDENTITY + text.encode()).hexdigest()

    def fits(self, following: bytes) -> bool:
        """Return whether a batch is as it was shared: its identity, and the bytes that follow its header.

        Guarantees: parties whose files fit hold the same shares of an upload, as its identity is a digest of
        a salted digest of each share, whose salt is for those that hold it.
        [test: tests/harness/inputs/test_share_files.py]
        """
        # Which of both `content` is, no commitment tells: 32 bytes may be a seed, or values.
        right = self.batch == self.bound and self.content == self.right_content
        return right and all(
            self.commitments[number : number + 1] == (commitment(salted),)
            for number, salted in self.pieces(following)
        )

    def line(self) -> bytes:
        """Return the first line of a file with this header."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return json.dumps(_without_one_copy(fields), sort_keys=True).encode() + b"\n"


def _without_one_copy(fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out `copies` of additive shares, which files do not say."""
    return {name: value for name, value in fields.items() if name != "copies" or value > 1}


def domain_text(record_domain: Mapping[str, Any]) -> str:
    """Return a records' domain as text: the same text for the same domain."""
    return json.dumps(record_domain, sort_keys=True)


@lru_cache(maxsize=64)  # a party may read a million headers of one domain
def _domain_of(text: str) -> RecordDomain:
    return domain_from_json(json.loads(text), "the share's header")


def copies_of(form: InputForm, parties: int) -> int:
    """Return how many parties hold each share of what comes in this form, by its path."""
    return parties - 1 if form.path is REPLICATED else 1


def held_by(party: int, parties: int, copies: int) -> tuple[int, ...]:
    """Return which shares a party holds: its own; of replicated ones all but its own, from the next on."""
    return (party,) if copies == 1 else tuple((party + i) % parties for i in range(1, parties))


def commitment(salted: bytes) -> str:
    """Return what commits to a salt and the payload after it. Guarantees: tells nothing without the salt."""
    return hashlib.sha256(_COMMITMENT + salted).hexdigest()


def hash_of(texts: Iterable[str]) -> str:
    """Return what stands for several texts, as for the identities of all uploads in an aggregate."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def batch_of(identity: str) -> str:
    """Return the `batch` in an upload's identity."""
    return identity.partition(":")[0]


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


@contextmanager
def opened(path: Path) -> Iterator[tuple[Header, BinaryIO]]:
    """Yield a share file's header, and the file, read up to its end. Raises: ShareError, as `read_header`."""
    try:
        with open_regular(path) as file:
            yield _header_in(file, _refusal(str(path))), file
    except OSError as error:
        raise ShareError(f"Cannot read {path}: {error.strerror}.") from None


def read_header(path: Path) -> Header:
    """Return a share file's header. Raises: ShareError: it is not a share file of a version known here."""
    with opened(path) as (header, _):
        return header


def read_uploads(aggregate_file: Path) -> tuple[str, ...]:
    """Return the identities of all uploads in an aggregate.

    Raises: ShareError: they are not those that its header stands for.
    """
    with opened(aggregate_file) as (header, file):
        identities = tuple(file.readline().decode(errors="replace").split())
    if (len(identities), hash_of(identities)) != (header.batches, header.batch):
        raise ShareError(f"{aggregate_file} is damaged: its list of uploads is not whole; aggregate again.")
    return identities


def read_file(path: Path) -> tuple[Header, bytes]:
    """Return a share file's header, and what follows it; of an aggregate, after the list of its uploads."""
    with opened(path) as (header, file):
        if header.kind == "aggregate":
            file.readline()
        return header, file.read()


def write_file(out: Path, *parts: bytes | Iterable[bytes]) -> None:
    """Write a party's file whole, or not at all. Raises: ShareError: it cannot be written."""
    try:
        out.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(out, *parts)
    except OSError as error:
        raise ShareError(f"Cannot write {out}: {error.strerror}.") from None


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
        if (header.batch, header.policy, header.upload_kind) != (
            first.batch,
            first.policy,
            first.upload_kind,
        ):
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
    header, payload = read_file(aggregate_file)
    if len(payload) != header.copies * header.values * header.domain.value_bytes:
        raise ShareError(f"{aggregate_file} is damaged: it has {len(payload)} bytes of values.")
    create_file(out, payload)
    return out


def _header_in(file: BinaryIO, refusal: Refusal) -> Header:
    """Read a share file's header, and no more. Raises: ShareError; OSError."""
    line = file.readline(1 << 20)
    if not line.endswith(b"\n"):
        refusal.say("its first line has no end")
    header = as_type(Header, parse_json(line, refusal), refusal)
    _policy_of(header.policy, refusal)
    sound = (
        header.schema == SCHEMA
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


def _policy_of(fields: dict[str, Any] | None, refusal: Refusal) -> ClientPolicy | None:
    return None if fields is None else client_policy_from_json(fields, refusal)


def _refusal(where: str) -> Refusal:
    return Refusal(ShareError, where, "a share file of this version", WAYS_OUT)
