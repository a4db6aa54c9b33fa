"""Common parts of envelopes, tasks and aggregates (docs/reference/share-files.md)."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ShareError, cannot
from harness.system.documents import Refusal, as_type
from harness.system.files import make_own_directory, write_whole
from protocols.accounting.calibration import PrivacyUnit
from protocols.guarantee import Guarantee
from protocols.json_values import JsonFields, JsonObject
from protocols.spec import REPLICATED, InputForm

SUFFIX = ".share"
AGGREGATE_SUFFIX = ".aggregate"
SEED_BYTES = 32
SALT_BYTES = 16
MAX_VALUES = 2**24  # of one client, since a party expands them

_LIMITS = ("epsilon", "delta")
_NUMBER = re.compile("[0-9]{1,200}(/[1-9][0-9]{0,199})?")


@dataclass(frozen=True)
class ClientPolicy:
    """The runs that a task's clients, or one client, allow.

    Attributes:
        tasks: The releases that may use the upload.
        total: The most that all runs on it spend together.
        unit: The least privacy unit to protect.
    """

    tasks: tuple[str, ...]
    total: Guarantee
    unit: PrivacyUnit

    def covers(self, task: str, unit: PrivacyUnit, total: Guarantee) -> bool:
        """Return whether a run is allowed that brings the upload's loss to `total`."""
        within = total.epsilon <= self.total.epsilon and total.delta <= self.total.delta
        return task in self.tasks and unit in (self.unit, PrivacyUnit.CLIENT) and within

    def covers_all(self, other: "ClientPolicy") -> bool:
        """Return whether all that another policy allows is allowed."""
        return all(self.covers(task, other.unit, other.total) for task in other.tasks)

    def and_also(self, other: "ClientPolicy") -> "ClientPolicy":
        """Return the policy that allows what both allow."""
        epsilon = min(self.total.epsilon, other.total.epsilon)
        delta = min(self.total.delta, other.total.delta)
        return ClientPolicy(
            tuple(task for task in self.tasks if task in other.tasks),
            Guarantee(epsilon, delta),
            min(self.unit, other.unit),  # alphabetically: "client" before "record"
        )

    def to_json(self) -> JsonFields:
        """Return what `client_policy_from_json` reads."""
        return JsonFields(
            tasks=list(self.tasks),
            epsilon=str(self.total.epsilon),
            delta=str(self.total.delta),
            unit=str(self.unit),
        )


def client_policy_from_json(fields: JsonObject, refusal: Refusal) -> ClientPolicy:
    """Return the policy in a file, or raise ShareError."""
    texts = [fields.get(name) for name in _LIMITS]
    if not all(isinstance(text, str) and _NUMBER.fullmatch(text) for text in texts):
        raise ShareError(
            f"{refusal.where}: epsilon and delta of a client's policy have to be rational numbers."
        )
    others = {name: value for name, value in fields.items() if name not in _LIMITS}
    return as_type(ClientPolicy, {"total": dict(zip(_LIMITS, texts, strict=True)), **others}, refusal)


def copies_of(form: InputForm, parties: int) -> int:
    """Return the number of parties that hold each share."""
    return parties - 1 if form.path is REPLICATED else 1


def held_by(party: int, parties: int, copies: int) -> tuple[int, ...]:
    """Return the numbers of a party's shares: its own, or if replicated the others', from the next on."""
    return (party,) if copies == 1 else tuple((party + i) % parties for i in range(1, parties))


def pieces_of(
    party: int, parties: int, copies: int, value_bytes: int, clients: int = 1
) -> list[tuple[int, int]]:
    """Return each share that a party holds, with its bytes of salt and payload for all clients.

    The last share has `value_bytes`; the others are seeds.
    """
    sizes = [clients * SEED_BYTES] * (parties - 1) + [value_bytes]
    return [(number, clients * SALT_BYTES + sizes[number]) for number in held_by(party, parties, copies)]


def hash_of(texts: Iterable[str]) -> str:
    """Return a digest of texts."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def check_place(out: Path) -> None:
    """Raise ShareError if others could replace a file there, which a later command is to trust.

    [test: tests/harness/inputs/test_places_of_others.py]

    Args:
        out: The file. Its directory is made if need be.
    """
    with cannot(f"write {out}", ShareError):
        reason = make_own_directory(out.parent)
    if reason is not None:
        raise ShareError(
            f"{reason}, so others could replace {out}; nothing was written. Name a file elsewhere, or take "
            "that right away (chmod go-w)."
        )


def write_file(out: Path, *parts: bytes | Iterable[bytes]) -> None:
    """Write a file whole or not at all, or raise ShareError."""
    with cannot(f"write {out}", ShareError):
        out.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(out, *parts)
