"""Charges that a host's owner enters once its ledger came back from a backup that lacks them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fairshares.harness.hosts.host_log import Event, HostLog
from fairshares.harness.hosts.local_host import turn_at
from fairshares.harness.hosts.policy import LEDGER, STOCK, check_is_host
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.ledger.populations import PrivacyEvent, key_of, spent_text
from fairshares.harness.privacy.stock import Stock
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.guarantee import Guarantee

_LOST = "lost"  # the task of such a charge, in the ledger


@dataclass(frozen=True)
class LostRuns:
    """The runs on a population that a restored ledger lacks, as its owner states them.

    Attributes:
        population: The name of the population.
        spent: The guarantee that all of them spent together, as other hosts' ledgers say.
        seen: The heads of the lost ledger that others have seen, each of 64 hexadecimal digits.
        unit: The unit that they protected, unless the ledger has it of the population.
        relation: The neighboring relation of the runs, unless the ledger has one of the population. None is
            adding or removing one.
    """

    population: str
    spent: Guarantee
    seen: Sequence[str]
    unit: PrivacyUnit = PrivacyUnit.RECORD
    relation: NeighboringRelation | None = None


def restore(directory: Path, lost: LostRuns) -> PrivacyEvent:
    """Charge a host's ledger for lost runs, and have it go on from what others have seen of it.

    Guarantees:
        No run of the host is under way meanwhile.
        [test: tests/harness/hosts/test_preparation.py]
        Noise that was made ahead is gone before the ledger goes on, as lost runs may have opened some of it.
        [test: tests/harness/hosts/test_restoring.py]

    Args:
        directory: The host's own directory.
        lost: The runs that were lost.

    Returns:
        What was charged.

    Raises:
        OptionError: The directory is no host's directory.
        HostUnfitError: A run is under way, or other users could keep the host's turn.
    """
    check_is_host(directory)
    ledger = Ledger(directory / LEDGER)
    with turn_at(directory):  # as a run may have taken noise that was used before
        event = _event_of(directory, lost, ledger)
        Stock(directory / STOCK).destroy()  # first, as some of it may be a copy of used noise
        ledger.restore(lost.population, event, lost.seen)
        spent = spent_text(event.exact)
        said = f"Lost charges were added to population {lost.population!r}: {spent}."
        HostLog(directory, coordinator="").write(Event.CHANGED, "restored", said)
    return event


def _event_of(directory: Path, lost: LostRuns, ledger: Ledger) -> PrivacyEvent:
    """Return the charge, under the unit and relation that the ledger has of the population, if any."""
    unit = lost.unit
    relation = lost.relation or NeighboringRelation.ADD_OR_REMOVE_ONE
    for known in ledger.populations():
        if key_of(known.name) == key_of(lost.population):
            unit = known.unit or unit
            relation = known.relation or relation
    return PrivacyEvent(_LOST, "", lost.spent, unit, relation, directory)
