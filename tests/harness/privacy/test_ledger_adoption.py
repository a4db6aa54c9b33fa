"""A ledger that adopts another: nothing is lost or allowed twice, whatever happens meanwhile."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from harness.errors import (
    AdoptedError,
    BudgetError,
    FairSharesError,
    LedgerError,
    PopulationError,
    UsedUploadsError,
)
from harness.privacy.ledger import entries as ledger_module
from harness.privacy.ledger.entries import EARLIER_PATH, Ledger
from harness.privacy.ledger.populations import NoiseEvent, Population, PrivacyEvent, Status
from protocols.accounting.calibration import Budget, NeighboringRelation, PrivacyUnit
from protocols.circuits.coins import Coin
from protocols.noise.truncated import Guarantee
from tests.conftest import PROJECT
from tests.support.surroundings import small_disk

ONE = PrivacyEvent(
    "weights",
    "ring",
    Guarantee(Fraction(1), Fraction(1, 2**40)),
    PrivacyUnit.RECORD,
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    Path("out"),
    NoiseEvent((Coin(69, 8), Coin(31, 8)), 2),
)
TWO, THREE = Budget(Fraction(2)), Budget(Fraction(3), Fraction(1, 10**6))


@pytest.fixture
def old(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "old" / "ledger.sqlite", timeout_s=0.2)


@pytest.fixture
def new(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "new" / "ledger.sqlite", timeout_s=0.2)


def done(ledger: Ledger, name: str | None, budget: Budget | None = None, *uploads: str, **other: Any) -> None:
    """Charge a run that has ended."""
    number, _ = ledger.charge(name, budget, replace(ONE, uploads=uploads, **other))
    ledger.settle(number, Status.DONE)


def named(ledger: Ledger) -> dict[str, Population]:
    return {each.name: each for each in ledger.populations()}


def content(ledger: Ledger) -> object:
    """Return all that a ledger holds, None if there is none, or where it says that its content is."""
    try:
        return ledger._everything() if ledger.path.exists() else None
    except AdoptedError as error:
        return error.into


def refused(
    error: type[FairSharesError], match: str, old: Ledger, new: Ledger, *, merge: bool = False
) -> None:
    """Adopting is refused, and nothing is changed."""
    before = content(old), content(new)
    with pytest.raises(error, match=match):
        new.adopt(old, merge)
    assert (content(old), content(new) if before[1] else None) == before


def test_all_is_moved_and_the_old_one_refuses(old: Ledger, new: Ledger) -> None:
    """Into a new ledger: charges keep their numbers, which manifests name."""
    done(old, "loans", TWO)
    done(old, None, None, "u")
    done(old, "Cards", THREE, "v")
    old.set_budget("unused", THREE)
    before = old._everything()
    new.adopt(old, merge=False)
    assert new._everything() == before
    with pytest.raises(BudgetError):
        new.charge("loans", None, replace(ONE, exact=Guarantee(Fraction(11, 10), Fraction(0))))
    with pytest.raises(UsedUploadsError):
        new.check(None, None, replace(ONE, uploads=("u",)))
    with pytest.raises(UsedUploadsError, match="They belong to 'Cards'"):
        new.check(None, None, replace(ONE, uploads=("v",)))
    for attempt in (
        old.populations,
        lambda: old.check("loans", None, ONE),
        lambda: old.charge("loans", None, ONE),
        lambda: old.set_budget("loans", THREE),
        lambda: old.settle(1, Status.DONE),
        lambda: new.adopt(old, merge=True),
        lambda: old.adopt(new, merge=True),
    ):
        with pytest.raises(AdoptedError, match=f"adopted, and what it held is in {new.path}; name that one"):
            attempt()
    assert new._everything() == before


def test_versions_that_know_one_schema_refuse_it(old: Ledger, new: Ledger) -> None:
    """They compare `user_version` with 1, after `application_id`, and say that it is of another version."""
    done(old, "loans")
    new.adopt(old, merge=False)
    with closing(sqlite3.connect(old.path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
        assert connection.execute("PRAGMA application_id").fetchone() == (0x46534C47,)


def test_charges_are_numbered_after_those_that_are_there(old: Ledger, new: Ledger) -> None:
    """Also after the last number that was ever given, so that no manifest's number gets another meaning."""
    done(new, "others", None, "w")
    done(old, "loans", None, "u")
    done(old, None, None, "v")
    new.adopt(old, merge=False)
    assert [charge.id for charge in named(new)["loans"].charges] == [2]
    done(new, "loans", None, "u", "v")  # which nobody was charged for before
    assert [charge.id for charge in named(new)["loans"].charges] == [2, 3, 4]
    with pytest.raises(PopulationError, match="charged to 'loans', not to 'others'"):
        new.check("others", None, replace(ONE, uploads=("v",)))


def test_several_directories_one_after_another(new: Ledger, tmp_path: Path) -> None:
    for name in "abc":
        ledger = Ledger(tmp_path / name / "ledger.sqlite")
        done(ledger, name, TWO, f"upload-{name}")
        new.adopt(ledger, merge=False)
    assert {name: (found.budget, len(found.charges)) for name, found in named(new).items()} == {
        "a": (TWO, 1),
        "b": (TWO, 1),
        "c": (TWO, 1),
    }


def test_a_population_in_both_is_merged_only_when_asked_for(old: Ledger, new: Ledger) -> None:
    done(old, "LOANS", TWO, "u")
    done(new, "loans", TWO, "u", "v")
    done(new, "loans", None)
    said = rf"have 'LOANS'\. For the same people, .* --adopt {old.path} --merge`; for others, .* {old.path}"
    refused(PopulationError, said, old, new)
    new.adopt(old, merge=True)
    (found,) = new.populations()
    assert (found.name, found.budget, len(found.charges)) == ("loans", TWO, 3)
    assert found.spent == Guarantee(Fraction(3), Fraction(3, 2**40)) and found.left == Budget(Fraction(0))
    with pytest.raises(BudgetError):  # it was overspent in two places, and is not any further
        new.charge("loans", None, replace(ONE, exact=Guarantee(Fraction(1, 10**6), Fraction(0))))


@pytest.mark.parametrize("has", ["old", "new", "both"])
def test_a_merged_population_has_the_budget_that_either_had(has: str, old: Ledger, new: Ledger) -> None:
    done(old, "loans", THREE if has != "new" else None)
    done(new, "loans", THREE if has != "old" else None)
    new.adopt(old, merge=True)
    (found,) = new.populations()
    assert (found.budget, len(found.charges)) == (THREE, 2)


def test_budgets_that_differ_are_not_chosen_between(old: Ledger, new: Ledger) -> None:
    done(old, "loans", TWO)
    done(new, "loans", THREE)
    refused(PopulationError, r"has a budget of 2 in .*, of 3,1e-6 in .*Decide on one", old, new, merge=True)
    old.set_budget("loans", THREE)
    new.adopt(old, merge=True)


def test_kinds_of_privacy_that_do_not_add_up_are_not_merged(old: Ledger, new: Ledger) -> None:
    done(old, "loans", relation=NeighboringRelation.REPLACE_ONE)
    done(new, "loans")
    refused(PopulationError, "the two do not add up; go on with the old ledger by", old, new, merge=True)
    new.path.unlink()
    new.set_budget("loans", TWO)  # has no kind yet
    new.adopt(old, merge=True)
    assert named(new)["loans"].relation is NeighboringRelation.REPLACE_ONE


@pytest.mark.parametrize(
    ("theirs", "ours"), [(None, None), (None, "loans"), ("loans", None), ("loans", "cards")]
)
def test_uploads_that_were_used_in_both_and_not_for_one_population(
    theirs: str | None, ours: str | None, old: Ledger, new: Ledger
) -> None:
    done(old, theirs, None, "u", "v")
    done(new, ours, None, "w", "v")
    refused(PopulationError, r"Uploads went into runs of both ledgers \(1 of them\)", old, new, merge=True)


def test_a_run_that_is_going_on_is_waited_for(old: Ledger, new: Ledger) -> None:
    """It could not write its end: also one that only its uploads are noted of."""
    for name, uploads in (("loans", ()), (None, ("u",))):
        number, _ = old.charge(name, None, replace(ONE, uploads=uploads))
        refused(LedgerError, rf"the run in {Path('out').absolute()} is going on; adopt it when", old, new)
        old.settle(number, Status.ABORTED)
    new.adopt(old, merge=False)


def test_nobody_writes_meanwhile(old: Ledger, new: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """From before it is seen what is in them until all is moved."""
    done(old, "loans", TWO)
    done(new, "others", TWO)
    tried: list[Path] = []

    def move(connection: sqlite3.Connection, path: Path) -> None:
        for ledger in (Ledger(old.path, 0.05), Ledger(new.path, 0.05)):
            for attempt in (
                lambda ledger=ledger: ledger.charge("loans", TWO, ONE),
                lambda ledger=ledger: ledger.adopt(other, merge=False),
                lambda ledger=ledger: other.adopt(ledger, merge=False),
            ):
                with pytest.raises(LedgerError, match="another program has kept it locked"):
                    attempt()
                tried.append(ledger.path)
        moved(connection, path)

    moved, other = ledger_module._move, Ledger(old.path.with_name("other"), 0.05)
    done(other, "people")
    monkeypatch.setattr(ledger_module, "_move", move)
    new.adopt(old, merge=False)
    assert len(tried) == 6 and set(named(new)) == {"loans", "others"} and set(named(other)) == {"people"}


def test_one_that_is_locked_is_left_alone(old: Ledger, new: Ledger) -> None:
    done(old, "loans")
    done(new, "others")
    for ledger in (old, new):
        with closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            refused(LedgerError, "Cannot move .* another program has kept it locked", old, new)


@pytest.mark.parametrize("mode", ["delete", "wal"])
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="traces a process")
def test_killed_at_any_moment_exactly_one_has_all(mode: str) -> None:
    """In memory, if possible: what a killed process wrote is there, whether a disk has it or not."""
    script, memory = PROJECT / "tests" / "support" / "one_adopter.py", Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as place:
        (Path(place) / "here").mkdir()
        ended = subprocess.run(
            [sys.executable, str(script), str(Path(place) / "here"), mode],
            env={**os.environ, "PYTHONPATH": str(PROJECT)},
            capture_output=True,
            text=True,
            check=False,
        )
    if ended.stdout == "untraceable\n":
        pytest.skip("no process may be traced here")
    assert ended.returncode == 0 and ended.stderr == "", ended
    killed, by_the_old = map(int, ended.stdout.split())
    assert 20 < by_the_old < killed - 5  # before and after the moment at which it is done


def link(path: Path, make: Callable[[Path, Path], None]) -> Path:
    other = path.with_name("link")
    make(other, path)
    return other


SELVES: dict[str, Callable[[Path], Path]] = {
    "itself": lambda path: path,
    "relative": lambda path: Path(os.path.relpath(path)),
    "roundabout": lambda path: path.parent / ".." / path.parent.name / path.name,
    "symlink": lambda path: link(path, Path.symlink_to),
    "hard link": lambda path: link(path, Path.hardlink_to),
}


@pytest.mark.parametrize("way", SELVES)
def test_a_ledger_does_not_adopt_itself(way: str, new: Ledger) -> None:
    done(new, "loans", TWO)
    refused(LedgerError, "is this ledger itself", Ledger(SELVES[way](new.path)), new, merge=True)


def test_there_is_nothing_to_adopt(old: Ledger, new: Ledger) -> None:
    refused(LedgerError, f"Cannot use the ledger {old.path}: it cannot be opened", old, new)
    assert not new.path.parent.exists()


def test_an_empty_ledger_is_marked_all_the_same(old: Ledger, new: Ledger) -> None:
    old.set_budget("loans", TWO)
    with closing(sqlite3.connect(old.path)) as connection, connection:
        connection.execute("DELETE FROM populations")
    new.adopt(old, merge=False)
    assert new.populations() == [] and content(old) == new.path


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to this user")
def test_an_old_one_that_may_not_be_written_stays_what_it_is(old: Ledger, new: Ledger) -> None:
    done(old, "loans")
    old.path.chmod(0o400)
    refused(LedgerError, rf"Cannot move {old.path} into .* it may not be written", old, new)
    old.path.chmod(0o600)
    new.adopt(old, merge=False)


def test_a_full_disk_moves_nothing(old: Ledger, new: Ledger) -> None:
    """Whichever of the two is on it."""
    done(old, "loans", TWO, *(f"{i:032x}" for i in range(2_000)))
    for kilobytes in (8, 40, 100):
        with small_disk(new.path.parent, kilobytes):
            refused(LedgerError, "the disk is full; make room", old, new)
    new.adopt(old, merge=False)
    with small_disk(old.path.with_name("small"), 64):
        full = Ledger(old.path.parent / "small" / "ledger.sqlite")
        done(full, "people", TWO)
        with suppress(OSError):
            (full.path.parent / "else").write_bytes(bytes(1 << 16))
        refused(LedgerError, "the disk is full; make room", full, new)


def test_what_lies_in_a_directory(in_tmp: Path, data_home: Path, new: Ledger) -> None:
    """An earlier version's ledger is found until the user's own has adopted it."""
    users = Ledger()
    assert users.unadopted() is None
    left = Ledger(EARLIER_PATH)
    done(left, "loans", TWO)
    found = users.unadopted()
    assert found is not None and found.path == in_tmp / "runs" / "ledger.sqlite"
    assert Ledger(EARLIER_PATH).unadopted() is None  # who names it, uses it
    users.adopt(left, merge=False)
    assert users.unadopted() is None
    with pytest.raises(AdoptedError, match=f"what it held is in {users.path}"):
        new.unadopted()  # of another user, or another machine
    users.path.unlink()
    with closing(sqlite3.connect(left.path)) as connection, connection:
        connection.execute("UPDATE adopted SET path = ?", ("/" + "x" * 300,))
    with pytest.raises(AdoptedError):  # which this user cannot even look for
        users.unadopted()
    with pytest.raises(AdoptedError):  # a home that is not mounted holds no budgets
        users.unadopted()
    left.path.write_bytes(b"")
    with pytest.raises(LedgerError, match="it is no ledger of FairShares"):
        users.unadopted()


def test_a_link_to_the_users_ledger_is_the_users_ledger(in_tmp: Path) -> None:
    done(Ledger(), "loans")
    EARLIER_PATH.parent.mkdir()
    EARLIER_PATH.symlink_to(Ledger().path)
    assert Ledger().unadopted() is None
