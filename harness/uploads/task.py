"""A task: the facts of many clients' uploads, in a file that never changes."""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from fairshares.harness.errors import OptionError, ShareError, cannot, named, named_command, refuse
from fairshares.harness.inputs.encoding import count_columns, is_per_record
from fairshares.harness.inputs.record_schema import MAX_TOTAL, RecordDomain, VectorGrid, domain_from_json
from fairshares.harness.inputs.rings import RINGS, Ring
from fairshares.harness.inputs.shares import MAX_VALUES
from fairshares.harness.numbers_of_parties import MOST_PARTIES
from fairshares.harness.security_models import SecurityModel, get_model
from fairshares.harness.system.documents import DECLARATION, Refusal, as_type, parse_json
from fairshares.harness.system.files import read_bounded
from fairshares.harness.uploads.envelope import HEAD_BYTES, bound_in, pieces_of
from fairshares.harness.uploads.keys import (
    MOST_KEYS,
    SealingParty,
    has_too_many_keys,
    is_date,
    secrets_in,
    signing_key,
    today,
)
from fairshares.harness.uploads.policy import ClientPolicy, client_policy_from_json
from fairshares.protocols.json_values import JsonFields
from fairshares.protocols.spec import ENFORCED, INPUT_FORMS

SCHEMA = 1
MOST_ENVELOPES = 2**20  # envelopes of one file
# Who may upload.
ANYONE = "anyone"
CERTIFICATE = "certificate"
URLS = "urls"
ADMISSIONS = {
    ANYONE: "anyone who reaches a server uploads, any number of times",
    CERTIFICATE: "servers take uploads of those who show a certificate that they trust",
    URLS: "servers take an upload at a URL that was given for it alone",
}


@dataclass(frozen=True)
class Task:
    """A task's file, explained in docs/reference/share-files.md."""

    security: str
    form: str
    arithmetic: str
    copies: int
    record_domain: JsonFields
    policy: JsonFields
    parties: list[SealingParty]
    least_uploads: int
    until: str
    admission: str
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        keys = [key for party in self.parties for key in party.keys]
        sound = (
            self.schema == SCHEMA
            and self.form in INPUT_FORMS
            and self.arithmetic in RINGS
            and 2 <= len(self.parties) <= MOST_PARTIES
            and self.copies in (1, len(self.parties) - 1)
            and self.least_uploads >= 1
            and is_date(self.until)
            and self.allowed.tasks
            and self.admission in ADMISSIONS
            and all(party.keys and party.signing for party in self.parties)
        )
        if not sound or self.columns > MAX_VALUES:
            raise ShareError("It is no task that this version knows.")
        refuse(
            ShareError,
            (
                len({len(key.raw) for key in keys}) > 1 or len({key.id for key in keys}) < len(keys),
                "Sealing keys of a task differ from each other, and are all of one kind.",
            ),
            (
                is_per_record(self.domain, self.form),
                "An upload's length would tell how many records its client has; declare a "
                f"{named('cap')}, or choose another {named('input_form')}.",
            ),
        )

    @cached_property
    def domain(self) -> RecordDomain:
        """The facts about records. Raises RecordDomainError if they are invalid."""
        return domain_from_json(self.record_domain, "the task")

    @cached_property
    def allowed(self) -> ClientPolicy:
        """The allowed runs. Raises ShareError if they are no policy."""
        return client_policy_from_json(self.policy, _refusal("The task's policy"))

    @property
    def vectors(self) -> VectorGrid:
        """The task's declaration of vectors; OptionError if it is of records."""
        declared = self.domain.vectors
        if declared is None:
            raise OptionError("The task is of records, and has no vectors; name a task of vectors.")
        return declared

    @property
    def declared(self) -> "Task":
        """The task as its maker wrote it: of vectors, the one of all reveals."""
        return replace(self, record_domain=self.domain.in_all_reveals.to_json())

    def of_reveal(self, number: int) -> "Task":
        """Return the task of one reveal of vectors, for which clients seal; its number is from 1 on.

        It has a digest of its own, so an upload for another reveal is one of another task.
        [test: tests/harness/uploads/test_vectors.py]

        Raises RecordDomainError if the task is of records, or declares fewer reveals.
        """
        return replace(self, record_domain=self.domain.of_reveal(number).to_json())

    @property
    def ring(self) -> Ring:
        """The ring of the shares."""
        return RINGS[self.arithmetic]

    @property
    def model(self) -> SecurityModel:
        """The security model of so many parties.

        Raises OptionError if there is no model of this name, and ShareError if it does not take so many.
        """
        usual = get_model(self.security)
        number = len(self.parties)
        if not usual.takes(number):
            raise ShareError(
                f"The task is for {number} parties, and its model {usual.name} takes {usual.numbers_taken}; "
                f"make another task by {named_command('task')}."
            )
        return usual.with_parties(number)

    @cached_property
    def columns(self) -> int:
        """The number of values that a client shares."""
        return count_columns(self.domain, self.form)

    @cached_property
    def text(self) -> bytes:
        """The bytes of the file: JSON with sorted keys and without spaces, and a line end."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":")).encode() + b"\n"

    @cached_property
    def digest(self) -> bytes:
        """The SHA-256 of the file."""
        return hashlib.sha256(self.text).digest()

    @property
    def name(self) -> str:
        """The digest in hexadecimal digits."""
        return self.digest.hex()

    def pieces(self, party: int) -> tuple[tuple[int, int], ...]:
        """Return the number of each share that a party holds, with its bytes of salt and payload."""
        return pieces_of(party, len(self.parties), self.copies, self.columns * self.ring.value_bytes)

    def envelope_bytes(self, party: int) -> int:
        """Return the length of a party's envelopes."""
        return (
            HEAD_BYTES
            + self.parties[party].keys[0].overhead
            + bound_in(len(self.parties)).stop
            + sum(size for _, size in self.pieces(party))
        )

    def most_file_bytes(self, party: int) -> int:
        """Return the greatest length of a file of a party's envelopes."""
        return MOST_ENVELOPES * self.envelope_bytes(party)

    def secrets(self, party: int, directory: Path) -> dict[bytes, bytes]:
        """Return a party's secret keys by ID, or raise ShareError."""
        held = secrets_in(directory)
        own_keys = {key.id for key in self.parties[party].keys} & held.keys()
        if not own_keys:
            raise ShareError(f"{directory} holds no key of party {party} of this task; name its own.")
        return {key: held[key] for key in own_keys}

    def signer(self, party: int, directory: Path) -> ec.EllipticCurvePrivateKey:
        """Return a party's signing key, or raise ShareError."""
        key = signing_key(directory)
        if key.public_key() != self.parties[party].verifier:
            raise ShareError(
                f"{directory} signs by another key than party {party} of this task; name its own."
            )
        return key

    def check_open(self) -> None:
        """Raise ShareError if the last day of the task is over by this machine's clock."""
        if today() > self.until:
            raise ShareError(
                f"The task ended on {self.until}, and this machine's clock says {today()}: nothing was "
                "shared. Correct the clock, or ask for a new task."
            )

    def check_over(self) -> None:
        """Raise ShareError unless the last day of the task is over by this machine's clock."""
        if today() <= self.until:
            raise ShareError(
                f"The task takes uploads until {self.until}, and this machine's clock says {today()}: it can "
                "be closed from the day after."
            )

    def check_count(self, uploads: int) -> None:
        """Raise ShareError if uploads are too few, or their sum could overflow."""
        refuse(
            ShareError,
            (
                uploads < self.least_uploads,
                f"{uploads} uploads can be counted, and a run of this task has {self.least_uploads} at "
                "least; wait for more.",
            ),
            (
                INPUT_FORMS[self.form].capped != ENFORCED
                and uploads * self.domain.max_contribution >= MAX_TOTAL,
                f"The sum over {uploads} uploads could overflow; count fewer at a time.",
            ),
        )


def task_from_bytes(text: bytes, where: str) -> Task:
    """Return the task in a file's bytes, or raise ShareError."""
    refusal = _refusal(where)
    fields = parse_json(text, refusal, limits=DECLARATION)
    parties = fields.get("parties") if isinstance(fields, dict) else None
    if isinstance(parties, list) and (len(parties) > MOST_PARTIES or any(map(has_too_many_keys, parties))):
        refusal.say(f"it has more than {MOST_PARTIES} parties, or one of more than {MOST_KEYS} keys")
    task = as_type(Task, fields, refusal)
    if task.text != text:
        refusal.say("it was changed, or written by something else")
    return task


def read_task(path: Path) -> Task:
    """Return the task in a file, or raise ShareError."""
    with cannot(f"read {path}", ShareError, f"name a file that {named_command('task')} made"):
        return task_from_bytes(read_bounded(path, DECLARATION.size), str(path))


def _refusal(where: str) -> Refusal:
    return Refusal(
        ShareError, where, "a task of this version", f"fetch it again, or make one by {named_command('task')}"
    )
