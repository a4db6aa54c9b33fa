"""What a client allows of its upload: for which tasks, whom they protect, and how much they spend in all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from harness.errors import ShareError
from protocols.accounting.calibration import PrivacyUnit
from protocols.guarantee import Budget, Guarantee

_NUMBER = re.compile("[0-9]{1,200}(/[1-9][0-9]{0,199})?")


@dataclass(frozen=True)
class ClientPolicy:
    """What a share file's header says of the runs that its client allows; public, as all of the header is.

    Attributes: tasks: that the upload may be used for; epsilon, delta: the most that all runs on it may spend
    together, exact rationals as text; unit: what a run has to protect, a record at least.
    Raises: ShareError: epsilon or delta is no such number.
    """

    tasks: tuple[str, ...]
    epsilon: str
    delta: str
    unit: PrivacyUnit

    def __post_init__(self) -> None:
        if not _NUMBER.fullmatch(self.epsilon) or not _NUMBER.fullmatch(self.delta):
            raise ShareError("epsilon and delta of a client's policy have to be rational numbers.")

    @property
    def total(self) -> Budget:
        """The most that all runs on the upload may spend together."""
        return Budget(Fraction(self.epsilon), Fraction(self.delta))

    def covers(self, task: str, unit: PrivacyUnit, total: Guarantee) -> bool:
        """Return whether a run is allowed. Args: total: what the upload will have spent with it."""
        protects = unit in (self.unit, PrivacyUnit.CLIENT)
        return task in self.tasks and protects and self.total.allows(total)

    def and_also(self, other: ClientPolicy) -> ClientPolicy:
        """Return the policy that allows what both do."""
        return ClientPolicy(
            tuple(task for task in self.tasks if task in other.tasks),
            min(self.epsilon, other.epsilon, key=Fraction),
            min(self.delta, other.delta, key=Fraction),
            min(self.unit, other.unit),  # alphabetically: "client" before "record"
        )
