"""What a client allows of its upload: for which tasks, whom they protect, and how much they spend in all."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from harness.errors import ShareError
from harness.system.documents import Refusal, as_type
from protocols.accounting.calibration import PrivacyUnit
from protocols.guarantee import Guarantee

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
