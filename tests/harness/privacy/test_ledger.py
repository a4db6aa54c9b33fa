"""The ledger's file: what it keeps, what it refuses, and that no damaged, locked or foreign one is used.

For all sequences of charges and budgets, what is charged is exactly what fits.
"""

import json
import os
import socket
import sqlite3
import stat
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings, strategies as st

from fairshares.harness.errors import (
    BudgetError,
    FairSharesError,
    LedgerError,
    PopulationError,
    UsedUploadsError,
)
from fairshares.harness.privacy.ledger.accountants import NoiseEvent
from fairshares.harness.privacy.ledger.entries import Ledger, default_path
from fairshares.harness.privacy.ledger.populations import Population, PrivacyEvent, Status, key_of
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.circuits.coins import Coin
from fairshares.protocols.guarantee import Budget, Guarantee, compose

pytestmark = pytest.mark.usefixtures("in_shell")

ONE = PrivacyEvent(
    "weights",
    "ring",
    Guarantee(Fraction(498501056129, 5 * 10**11), Fraction(40641, 2**59)),
    PrivacyUnit.RECORD,
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    Path("out"),
    NoiseEvent((Coin(69, 8), Coin(31, 8)), 2),
)
TWO = Budget(Fraction(2))
U, V, W = (digit * 64 for digit in "abc")  # identities of uploads


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "deep" / "ledger.sqlite", timeout_s=0.2)


def only(ledger: Ledger) -> Population:
    (population,) = ledger.populations()
    return population


def of_uploads(*uploads: str) -> PrivacyEvent:
    return replace(ONE, uploads=uploads)


def test_no_file_until_something_is_written(ledger: Ledger, tmp_path: Path) -> None:
    assert ledger.populations() == []
    ledger.check("loans", TWO, ONE)
    ledger.check(None, None, of_uploads(U))
    with pytest.raises(BudgetError):
        ledger.check("loans", Budget(Fraction(1, 2)), ONE)
    assert list(tmp_path.iterdir()) == []


def test_a_charge_is_kept_exactly(ledger: Ledger) -> None:
    number, population = ledger.charge("Loans", TWO, ONE)
    assert [number] == [charge.id for charge in only(ledger).charges]
    assert population == only(ledger)
    assert (population.name, population.unit, population.relation) == ("Loans", ONE.unit, ONE.relation)
    assert (population.budget, population.spent) == (TWO, ONE.exact)
    (charge,) = population.charges
    assert (charge.exact, charge.noise, charge.task, charge.model) == (
        ONE.exact,
        ONE.noise,
        "weights",
        "ring",
    )
    assert (charge.out, charge.status) == (Path("out").absolute(), Status.RUNNING)
    ledger.charge("LOANS", None, replace(ONE, noise=None))
    assert [charge.noise for charge in only(ledger).charges] == [ONE.noise, None]
    assert only(ledger).spent.epsilon == 2 * ONE.exact.epsilon
    assert {path.name for path in ledger.path.parent.iterdir()} == {"ledger.sqlite"}


@pytest.mark.parametrize("status", [Status.DONE, Status.ABORTED])
def test_what_became_of_a_run_does_not_give_back(status: Status, ledger: Ledger) -> None:
    number, _ = ledger.charge("loans", None, ONE)
    ledger.settle(number, status)
    assert (only(ledger).charges[0].status, only(ledger).spent) == (status, ONE.exact)


def test_what_is_refused_is_not_written(ledger: Ledger) -> None:
    ledger.charge("loans", TWO, ONE)
    ledger.charge("loans", TWO, ONE)
    before = ledger.populations()
    refused: list[tuple[str, Budget | None, PrivacyEvent, type[FairSharesError]]] = [
        ("loans", None, ONE, BudgetError),
        ("Loans", TWO, ONE, BudgetError),
        ("loans", Budget(Fraction(3)), ONE, PopulationError),
        ("loans", None, replace(ONE, relation=NeighboringRelation.REPLACE_ONE), PopulationError),
        ("loasn", None, ONE, PopulationError),
        ("new", Budget(Fraction(1, 2)), ONE, BudgetError),
    ]
    for name, budget, release, error in refused:
        for attempt in (ledger.check, ledger.charge):
            with pytest.raises(error):
                attempt(name, budget, release)
    assert ledger.populations() == before


def test_a_budget_can_be_given_and_changed_at_any_time(ledger: Ledger) -> None:
    ledger.set_budget("loans", Budget(Fraction(1), Fraction(1, 10**6)))
    assert only(ledger) == Population("loans", budget=Budget(Fraction(1), Fraction(1, 10**6)))
    ledger.charge("loans", None, replace(ONE, relation=NeighboringRelation.REPLACE_ONE))
    assert only(ledger).relation is NeighboringRelation.REPLACE_ONE
    with pytest.raises(BudgetError):
        ledger.charge("loans", None, replace(ONE, relation=NeighboringRelation.REPLACE_ONE))
    ledger.set_budget("LOANS", TWO)
    ledger.charge("loans", None, replace(ONE, relation=NeighboringRelation.REPLACE_ONE))
    ledger.set_budget("loans", Budget(Fraction(0)))
    assert only(ledger).left == Budget(Fraction(0))
    assert len(only(ledger).charges) == 2


def test_a_run_of_another_unit_or_relation_is_told_which_option_to_choose(ledger: Ledger) -> None:
    ledger.charge("loans", None, ONE)
    replaced = replace(ONE, relation=NeighboringRelation.REPLACE_ONE)
    with pytest.raises(PopulationError, match="the former by --neighboring-relation add_or_remove_one"):
        ledger.charge("loans", None, replaced)
    of_clients = replace(ONE, unit=PrivacyUnit.CLIENT, relation=NeighboringRelation.ZERO_OUT_ONE)
    with pytest.raises(PopulationError, match="the former by --privacy-unit record"):
        ledger.charge("loans", None, of_clients)


def test_uploads_run_once_without_a_charge(ledger: Ledger) -> None:
    _, nobody = ledger.charge(None, None, of_uploads(U, V))
    assert nobody is None and ledger.populations() == []
    for uploads in ((U, V), (W, V)):
        for attempt in (ledger.check, ledger.charge):
            with pytest.raises(
                UsedUploadsError, match=f"{len({*uploads} & {U, V})} of these 2 uploads went "
            ):
                attempt(None, None, of_uploads(*uploads))
    ledger.charge(None, None, of_uploads(W))
    ledger.charge("loans", None, of_uploads(W))
    with pytest.raises(UsedUploadsError, match="They belong to 'loans'"):
        ledger.charge(None, None, of_uploads(W))


def test_what_uploads_spent_before_is_charged_when_they_are_named(ledger: Ledger) -> None:
    """Both runs that nobody was named for count against the budget, and are of one relation."""
    first, second = (ledger.charge(None, None, of_uploads(*uploads))[0] for uploads in ((U, V), (W,)))
    all_three = of_uploads(U, V, W)
    with pytest.raises(BudgetError, match="after 2 runs; this run needs"):
        ledger.charge("loans", TWO, all_three)
    with pytest.raises(PopulationError, match="the two do not add up"):
        ledger.charge("loans", None, replace(all_three, relation=NeighboringRelation.REPLACE_ONE))
    assert ledger.populations() == []
    third, population = ledger.charge("loans", Budget(Fraction(3)), all_three)
    assert population == only(ledger)
    assert [charge.id for charge in only(ledger).charges] == [first, second, third]
    assert only(ledger).spent.epsilon == 3 * ONE.exact.epsilon
    ledger.set_budget("loans", Budget(Fraction(4)))
    ledger.charge("loans", None, of_uploads(U))
    assert only(ledger).spent.epsilon == 4 * ONE.exact.epsilon


def test_uploads_have_one_population(ledger: Ledger) -> None:
    ledger.charge("loans", None, of_uploads(U, V))
    ledger.charge("LOANS", None, of_uploads(V))
    with pytest.raises(
        PopulationError, match="Some of these uploads were charged to 'loans', not to 'others'"
    ):
        ledger.charge("others", None, of_uploads(V, W))
    assert len(only(ledger).charges) == 2
    ledger.charge("others", None, of_uploads(W))


def test_many_uploads(ledger: Ledger) -> None:
    """10^5 clients that each uploaded on their own."""
    uploads = tuple(f"{i:032x}" for i in range(100_000))
    ledger.charge("loans", None, of_uploads(*uploads))
    with pytest.raises(UsedUploadsError, match="100000 of these 100000 uploads"):
        ledger.check(None, None, of_uploads(*uploads))


def owned_by(ledger: Ledger, process: tuple[str, str, int, str]) -> Status:
    with closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute("UPDATE charges SET process = ?", (json.dumps(process),))
    return only(ledger).charges[0].status


def test_a_run_whose_process_has_gone_was_aborted(ledger: Ledger) -> None:
    ledger.charge("loans", None, ONE)
    with closing(sqlite3.connect(ledger.path)) as connection:
        machine, boot, pid, began = json.loads(
            connection.execute("SELECT process FROM charges").fetchone()[0]
        )
    assert (machine, pid) == (socket.gethostname(), os.getpid())
    assert owned_by(ledger, (machine, boot, pid, began)) is Status.RUNNING
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    assert owned_by(ledger, (machine, boot, ended.pid, began)) is Status.ABORTED
    assert owned_by(ledger, ("elsewhere", boot, pid, began)) is Status.UNKNOWN
    if began:
        assert owned_by(ledger, (machine, boot, pid, "1")) is Status.ABORTED  # the number is another's now
        assert owned_by(ledger, (machine, "before", pid, began)) is Status.ABORTED
    assert only(ledger).spent == ONE.exact


def rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def query(sql: str) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.executescript(sql)

    return run


def make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda p: p.write_bytes(b""), "it is no ledger of FairShares"),
    "text": (lambda p: p.write_text("population,epsilon\n" * 99), "it is no database, or its beginning is"),
    "cut": (lambda p: rewrite(p, lambda b: b[: len(b) // 2]), "it is damaged; restore it from a copy"),
    "beginning": (lambda p: rewrite(p, lambda b: bytes(100) + b[100:]), "it is no database"),
    "middle": (lambda p: rewrite(p, lambda b: b[:4096] + bytes(8192) + b[12288:]), "it is damaged"),
    "directory": (make_directory, "it cannot be opened; it has to be a file"),
    "another program's": (query("PRAGMA application_id = 7"), "it is no ledger of FairShares"),
    "later schema": (query("PRAGMA user_version = 8"), "it has schema 8, this version of FairShares has 7"),
    "no tables": (query("DROP TABLE uploads; DROP TABLE charges"), "SQLite says: no such table"),
    "no number": (query("UPDATE charges SET epsilon = 'x'"), "an entry in it is damaged"),
    "division": (query("UPDATE charges SET delta = '1/0'"), "an entry in it is damaged"),
    "gives back": (query("UPDATE charges SET epsilon = '-1'"), "an entry in it is damaged"),
    "not finite": (query("UPDATE charges SET epsilon = 'nan'"), "an entry in it is damaged"),
    "relation": (query("UPDATE charges SET relation = 'none'"), "an entry in it is damaged"),
    "status": (query("UPDATE charges SET status = 'free'"), "an entry in it is damaged"),
    "process": (query("UPDATE charges SET process = '{'"), "an entry in it is damaged"),
    "noise": (query("UPDATE charges SET noise = '[1]'"), "an entry in it is damaged"),
    "budget": (query("UPDATE populations SET budget_epsilon = ''"), "an entry in it is damaged"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_ledger_is_not_used(damage: str, ledger: Ledger) -> None:
    for _ in range(2):
        ledger.charge("loans", Budget(Fraction(9)), of_uploads(U))
    change, reason = DAMAGES[damage]
    change(ledger.path)
    before = ledger.path.read_bytes() if ledger.path.is_file() else None
    for attempt in (
        lambda: ledger.charge("loans", None, of_uploads(U)),
        lambda: ledger.check("loans", None, of_uploads(U)),
        ledger.populations,
    ):
        with pytest.raises(LedgerError) as error:
            attempt()
        assert str(error.value).startswith(f"Cannot use the ledger {ledger.path}: {reason}")
    assert (ledger.path.read_bytes() if ledger.path.is_file() else None) == before


@pytest.mark.parametrize("damage", ["DELETE FROM histories", "UPDATE histories SET before = id"])
def test_a_run_is_charged_by_whole_histories_alone(damage: str, ledger: Ledger) -> None:
    ledger.charge("loans", None, of_uploads(U))
    query(damage)(ledger.path)
    for attempt in (ledger.charge, ledger.check):
        with pytest.raises(LedgerError, match="an entry in it is damaged"):
            attempt("loans", None, of_uploads(U))
    ledger.charge("loans", None, of_uploads(V))


def test_a_reader_that_stays_blocks_a_charge_and_loses_nothing(ledger: Ledger) -> None:
    """The commit itself is refused then: the charge must not half exist."""
    ledger.charge("loans", None, ONE)
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT * FROM charges").fetchall()
        with pytest.raises(LedgerError, match="has kept it locked"):
            ledger.charge("loans", None, ONE)
        connection.execute("ROLLBACK")
    assert len(only(ledger).charges) == 1
    ledger.charge("loans", None, ONE)


@pytest.mark.parametrize("place", ["file/ledger.sqlite", "file/deep/ledger.sqlite", "x" * 300])
def test_a_place_where_no_file_can_be(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerError, match=r"it cannot be (made|found): .*name another file with --ledger"):
        Ledger(tmp_path / place).charge("loans", None, ONE)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("name", ["a b", "a?mode=memory", "a#b", "a%20b", "ä.sqlite", "file:x"])
def test_any_file_name_will_do(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    Ledger(path).charge("loans", None, ONE)
    assert len(only(Ledger(path)).charges) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_a_relative_path_is_from_where_the_command_runs(in_tmp: Path) -> None:
    Ledger(Path("l.sqlite")).charge("loans", None, ONE)
    assert (in_tmp / "l.sqlite").is_file()
    assert Ledger(Path("l.sqlite")).path == in_tmp / "l.sqlite"


def test_the_user_has_one_wherever_commands_run(
    in_tmp: Path, data_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else may read it; a relative XDG_DATA_HOME counts for nothing."""
    Ledger().charge("loans", None, ONE)
    path = data_home / "fairshares" / "ledger.sqlite"
    assert Ledger().path == path and len(only(Ledger(path)).charges) == 1 and list(in_tmp.iterdir()) == []
    assert [stat.S_IMODE(place.stat().st_mode) for place in (path, path.parent)] == [0o600, 0o700]
    monkeypatch.setenv("HOME", str(in_tmp))
    for said in ("", "data"):
        monkeypatch.setenv("XDG_DATA_HOME", said)
        assert default_path() == in_tmp / ".local" / "share" / "fairshares" / "ledger.sqlite"


EPSILONS = st.fractions(0, 20, max_denominator=10**12)
DELTAS = st.fractions(0, Fraction(1, 2), max_denominator=2**60)
GUARANTEES = st.builds(Guarantee, EPSILONS, DELTAS)
BUDGETS = st.builds(Budget, EPSILONS, st.none() | DELTAS)
TINY = Fraction(1, 10**12)


def release(exact: Guarantee) -> PrivacyEvent:
    relation = NeighboringRelation.REPLACE_ONE
    return PrivacyEvent("test", "ring", exact, PrivacyUnit.RECORD, relation, Path("out"))


@given(st.lists(GUARANTEES, max_size=6), BUDGETS)
@example([Guarantee(Fraction(1, 3), Fraction(1, 8))] * 4, Budget(Fraction(1), Fraction(3, 8)))
@example([Guarantee(Fraction(1, 10), Fraction(0))] * 11, Budget(Fraction(1)))
@example([Guarantee(TINY, Fraction(0))] * 2, Budget(TINY))
@settings(max_examples=25)
def test_what_is_charged_is_what_fits(runs: list[Guarantee], budget: Budget) -> None:
    """A model of the ledger, in integers over a common denominator, says the same."""
    with TemporaryDirectory() as directory:
        ledger = Ledger(Path(directory) / "ledger.sqlite")
        ledger.set_budget("p", budget)
        kept: list[Guarantee] = []
        for exact in runs:
            epsilon = sum((one.epsilon for one in [*kept, exact]), Fraction(0))
            delta = sum((one.delta for one in [*kept, exact]), Fraction(0))
            if epsilon <= budget.epsilon and (budget.delta is None or delta <= budget.delta):
                ledger.charge("p", None, release(exact))
                kept.append(exact)
            else:
                with pytest.raises(BudgetError):
                    ledger.charge("p", None, release(exact))
        (population,) = ledger.populations()
    assert [charge.exact for charge in population.charges] == kept
    assert population.spent == compose(kept)
    left = population.left
    assert left is not None and budget.allows(population.spent)
    assert left.epsilon + population.spent.epsilon == budget.epsilon


@given(st.text(max_size=20))
def test_keys_of_names_are_settled(name: str) -> None:
    key = key_of(name)
    assert key_of(key) == key_of(name.casefold()) == key_of(unicodedata.normalize("NFD", name)) == key
