"""What a host's own ledger and policy keep of a run, whatever its coordinator keeps."""

import sqlite3
from contextlib import ExitStack, closing
from fractions import Fraction
from pathlib import Path

import pytest

from harness.errors import (
    BudgetError,
    LedgerError,
    PolicyError,
    PopulationError,
    UsedUploadsError,
)
from harness.hosts.policy import LEDGER
from harness.privacy.ledger.entries import Ledger
from harness.privacy.ledger.populations import Status
from protocols.guarantee import Budget
from tests.support.coordinators import (
    RULE,
    Coordinator,
    Party,
    asked,
    let_go,
    ran,
    spent,
    write_rules,
)


def test_a_run_is_charged_before_its_party_may_go_and_stays_charged(hosts: list[Path]) -> None:
    class Failing(Party):
        charged: tuple[str, Fraction, Status]

        def go(self, _certificates: object) -> None:
            (self.charged,) = spent(hosts[0])
            raise KeyboardInterrupt

    failing = Failing()
    with pytest.raises(KeyboardInterrupt):
        ran(hosts, found=failing)
    name, epsilon, status = failing.charged
    assert name == "loans" and Fraction(99, 100) < epsilon <= 1 and status is Status.RUNNING
    assert [each[:2] for each in spent(hosts[0])] == [(name, epsilon)]


def test_repeats_are_charged_until_nothing_is_left(hosts: list[Path]) -> None:
    """The coordinator's own ledger, or none, changes nothing about that."""
    for count in range(1, 5):
        assert ran(hosts).gone
        assert len(spent(hosts[0])) == count
    with pytest.raises(BudgetError, match=r"has ε = .* left of its budget of 4,"):
        ran(hosts)
    assert ran(hosts, 1).gone  # of which only this host had a part


def test_a_budget_follows_the_policy(hosts: list[Path]) -> None:
    assert ran(hosts).gone
    write_rules(hosts[0], RULE.replace("epsilon = 4", 'epsilon = "1.5"'))
    with pytest.raises(BudgetError, match=r"of its budget of 1\.5,"):
        ran(hosts)
    write_rules(hosts[0], RULE)
    assert ran(hosts).gone


def test_what_the_owner_changes_counts_at_once(hosts: list[Path], stack: ExitStack) -> None:
    """Also for connections that were open before; they do not put the old budget back."""
    coordinator = Coordinator(hosts[0], stack)
    work = coordinator.prepared(asked())
    write_rules(hosts[0], RULE.replace("epsilon = 4", 'epsilon = "1/2"'))
    with pytest.raises(BudgetError, match=r"of its budget of 0\.5,"):
        let_go(coordinator, work, hosts)
    write_rules(hosts[0], 'coordinators = ["nobody"]\n' + RULE)
    with pytest.raises(PolicyError, match="start nothing"):
        work.admit("go")
    assert spent(hosts[0]) == []


def test_another_name_for_the_same_uploads_is_no_new_budget(hosts: list[Path]) -> None:
    write_rules(hosts[0], RULE.replace("loans", "*"))
    assert ran(hosts).gone
    with pytest.raises(PopulationError, match="were charged to 'loans', not to 'others'"):
        ran(hosts, population="others")
    with pytest.raises(UsedUploadsError, match="went into a run before"):
        ran(hosts, population=None)


def test_a_ledger_that_cannot_be_written_lets_no_party_go(hosts: list[Path], stack: ExitStack) -> None:
    coordinator, party = Coordinator(hosts[0], stack), Party()
    work = coordinator.prepared(asked())
    Ledger(hosts[0] / LEDGER).set_budget("others", Budget(Fraction(1)))  # so that there is a file
    ledger = work.release.guard._ledger
    ledger.timeout_s = 0.1
    with closing(sqlite3.connect(hosts[0] / LEDGER)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="another program has kept it locked"):
            let_go(coordinator, work, hosts, party)
    assert not party.gone


def test_a_damaged_ledger_refuses_and_is_kept(hosts: list[Path], stack: ExitStack) -> None:
    (hosts[0] / LEDGER).write_bytes(b"not a ledger" * 100)
    with pytest.raises(LedgerError, match="it is no database, or its beginning is damaged"):
        Coordinator(hosts[0], stack).prepared(asked())
    assert (hosts[0] / LEDGER).read_bytes() == b"not a ledger" * 100
