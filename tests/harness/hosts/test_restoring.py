"""What a host's owner charges once its ledger came back from a backup; noise made ahead goes with it."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from fairshares.harness.errors import HostUnfitError, LedgerError, OptionError
from fairshares.harness.hosts.host_log import Event, read_log
from fairshares.harness.hosts.local_host import turn_at
from fairshares.harness.hosts.policy import LEDGER, STOCK
from fairshares.harness.hosts.restoring import LostRuns, restore
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.guarantee import Guarantee
from tests.support.coordinators import RULE, write_rules
from tests.support.events import a_run

SEEN = "a" * 64
LOST = LostRuns("loans", Guarantee(Fraction(1), Fraction(0)), [SEEN])


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A host with a policy, an empty ledger, and a piece of noise."""
    write_rules(tmp_path, RULE)
    (tmp_path / STOCK / "terms" / "piece").mkdir(parents=True)
    return tmp_path


def test_lost_runs_are_charged_and_what_others_have_seen_was_had(host: Path) -> None:
    charged = restore(host, LOST)
    (population,) = Ledger(host / LEDGER).populations()
    assert population.name == "loans" and population.spent == LOST.spent == charged.exact
    assert Ledger(host / LEDGER).had([SEEN]) == [SEEN]
    assert not (host / STOCK).exists()
    (line,) = read_log(host).lines
    assert (line.event, line.request) == (Event.CHANGED, "restored") and "'loans': ε = 1" in line.said


@pytest.mark.parametrize("stated", [None, NeighboringRelation.ADD_OR_REMOVE_ONE])
def test_unit_and_relation_are_those_of_the_ledger(host: Path, stated: NeighboringRelation | None) -> None:
    """However the population's name is written, and whatever the owner states."""
    known = replace(a_run(), unit=PrivacyUnit.CLIENT, relation=NeighboringRelation.REPLACE_ONE)
    Ledger(host / LEDGER).charge("Loans", None, known)
    charged = restore(host, replace(LOST, relation=stated))
    assert (charged.unit, charged.relation) == (PrivacyUnit.CLIENT, NeighboringRelation.REPLACE_ONE)
    other = restore(host, replace(LOST, population="others", relation=stated))
    assert (other.unit, other.relation) == (PrivacyUnit.RECORD, NeighboringRelation.ADD_OR_REMOVE_ONE)


def test_noise_is_gone_even_where_the_ledger_cannot_be_written(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_given: object) -> None:
        raise LedgerError("The disk is full.")

    monkeypatch.setattr(Ledger, "restore", full)
    with pytest.raises(LedgerError, match="is full"):
        restore(host, LOST)
    assert not (host / STOCK).exists()


def test_nothing_is_restored_beside_a_run_or_elsewhere(host: Path) -> None:
    with turn_at(host), pytest.raises(HostUnfitError, match="under way"):
        restore(host, LOST)
    assert (host / STOCK).is_dir() and Ledger(host / LEDGER).populations() == []
    with pytest.raises(OptionError, match=r"is no host's directory; name the one with its policy\.toml"):
        restore(host / "elsewhere", LOST)
