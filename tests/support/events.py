"""What ledgers are asked about, where tests need no more than a run."""

from fractions import Fraction
from pathlib import Path

from fairshares.harness.privacy.ledger.populations import PrivacyEvent
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.guarantee import Guarantee


def a_run(task: str = "weights", model: str = "ring", out: Path = Path("out")) -> PrivacyEvent:
    """Return a run with ε = 1 and δ = 0 for a record that is added or removed."""
    return PrivacyEvent(
        task,
        model,
        Guarantee(Fraction(1), Fraction(0)),
        PrivacyUnit.RECORD,
        NeighboringRelation.ADD_OR_REMOVE_ONE,
        out,
    )
