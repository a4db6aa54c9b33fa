"""How much of the disk a ledger takes, and what it keeps as it gets smaller, as it does by closed tasks.

The oracle keeps the uploads of each charge as sets.
"""

import random
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import pytest

from fairshares.harness.errors import LedgerError, PopulationError, UsedUploadsError
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.ledger.populations import PrivacyEvent, RunChain
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.guarantee import Guarantee
from tests.conftest import PROJECT
from tests.support.marked import STEPS, steps_until_killed

SPENT = Guarantee(Fraction(1), Fraction(1, 1 << 40))
RUN = PrivacyEvent(
    "weights", "ring", SPENT, PrivacyUnit.RECORD, NeighboringRelation.ADD_OR_REMOVE_ONE, Path("/first")
)
TASKS = ("1" * 64, "2" * 64)
# The tables and charges of version 1.0, without the three uses that it has.
OF_1_0 = (PROJECT / "tests" / "golden" / "1.0" / "ledger.sql").read_text()
POPULATIONS_OF_1_0 = ("clinics", "clinics", "clinics", "clinics", "patients", "readers")  # of charges 1 to 6


def identities(number: int, seed: int = 1) -> list[str]:
    draw = random.Random(seed)
    return [draw.randbytes(32).hex() for _ in range(number)]


def of_uploads(uploads: list[str], task: str | None = None, chain: str | None = None) -> PrivacyEvent:
    chained = RunChain(chain, "a,b") if chain else None
    return replace(RUN, uploads=tuple(uploads), upload_task=task, chain=chained)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite")


@pytest.mark.parametrize("arriving", [False, True], ids=["all from the first on", "some each month"])
def test_an_identity_takes_a_hundred_bytes_for_a_year_of_monthly_runs(ledger: Ledger, arriving: bool) -> None:
    """So a million take 100 MB; version 1.0 took 80 bytes for each run."""
    uploads = identities(12_000)
    for month in range(1, 13):
        there = uploads[: 1000 * month] if arriving else uploads
        ledger.charge("people", None, of_uploads(there, TASKS[0]))
    size = ledger.path.stat().st_size
    assert size <= 100 * len(uploads)
    assert ledger.spent_on(uploads[:1]) == {uploads[0]: SPENT * 12}
    ledger.charge("people", None, of_uploads(uploads, TASKS[0]))
    assert ledger.path.stat().st_size - size < 4096 * 4  # one more run of all


@dataclass
class Naive:
    """What a ledger knows of uploads: of each charge, in order, its population, chain and uploads."""

    charges: list[tuple[str | None, str | None, set[str]]] = field(default_factory=list)

    def spent(self, upload: str) -> int:
        return sum(upload in uploads for _, _, uploads in self.charges)

    def counted(self, name: str | None, chain: str | None, asked: list[str]) -> set[str]:
        left_out = set[str]()
        for population, of_chain, uploads in self.charges:
            is_others = population is not None and population != name
            if name is None or is_others or (chain and of_chain == chain):
                left_out |= uploads & {*asked}
        return left_out

    def check(self, ledger: Ledger, asked: list[str]) -> None:
        """Compare everything that a ledger says of uploads."""
        spent = {upload: SPENT * self.spent(upload) for upload in asked if self.spent(upload)}
        assert ledger.spent_on(asked) == spent
        for name in (None, "people", "clinics"):
            for chain in (None, "weekly"):
                assert ledger.counted(name, chain, asked) == self.counted(name, chain, asked)


def test_histories_say_what_sets_say(ledger: Ledger) -> None:
    """Over runs of random uploads, of two tasks, of a chain and of none."""
    draw, uploads, naive = random.Random(2), identities(24), Naive()
    weekly = set[str]()  # of the chain
    for number in range(30):
        some = draw.sample(uploads, draw.randint(1, 8))
        if number % 3 == 2:
            some = [upload for upload in some if upload not in weekly]
            if not some:
                continue
            if not weekly:
                naive.charges.append(("people", "weekly", weekly))
            weekly.update(some)
            ledger.charge("people", None, of_uploads(some, TASKS[number % 2], "weekly"))
        else:
            naive.charges.append(("people", None, {*some}))
            ledger.charge("people", None, of_uploads(some, TASKS[number % 2]))
        naive.check(ledger, uploads)
    assert ledger.size().uploads == len(uploads)


def of_version_1_0(path: Path) -> Naive:
    """Write a ledger of version 1.0 whose charges counted random uploads."""
    draw, uploads, naive = random.Random(3), identities(40, seed=3), Naive()
    lines = [line for line in OF_1_0.splitlines() if 'INSERT INTO "uses"' not in line]
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("\n".join(lines))
        connection.execute("UPDATE charges SET epsilon = '1', delta = '1/1099511627776'")
        for number, population in enumerate(POPULATIONS_OF_1_0, 1):
            some = draw.sample(uploads, 15)
            naive.charges.append((population, None, {*some}))
            connection.executemany("INSERT INTO uses VALUES (?, ?)", [(upload, number) for upload in some])
        connection.commit()
    return naive


def schema(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def test_a_ledger_of_1_0_is_read_as_it_is_and_brought_on_by_the_first_charge(ledger: Ledger) -> None:
    """Whoever only looks leaves it to version 1.0, which refuses it, by its schema, from the charge on."""
    naive, uploads = of_version_1_0(ledger.path), identities(50, seed=3)
    before, populations, head = ledger.path.read_bytes(), ledger.populations(), ledger.head()
    naive.check(ledger, uploads)
    with pytest.raises(PopulationError, match="a record has one population"):
        ledger.charge("others", None, of_uploads(uploads))
    assert ledger.path.read_bytes() == before and schema(ledger.path) == 6
    assert ledger.size().uploads == len(set.union(*(counted for _, _, counted in naive.charges)))
    ledger.settle(1, populations[0].charges[0].status)
    assert schema(ledger.path) == 7 and ledger.path.read_bytes() != before
    assert (ledger.populations(), ledger.head()) == (populations, head)
    naive.check(ledger, uploads)
    of_others = naive.charges[4][2] | naive.charges[5][2]
    own = [upload for upload in uploads if upload not in of_others]
    ledger.charge("clinics", None, of_uploads(own, TASKS[0]))
    naive.charges.append(("clinics", None, {*own}))
    naive.check(ledger, uploads)


def test_a_process_killed_while_it_brings_a_ledger_on_leaves_it_whole(tmp_path: Path) -> None:
    source, draw, uploads = tmp_path / "1.0.sqlite", random.Random(4), identities(50, seed=3)
    naive = of_version_1_0(source)
    new = uploads[-1:]
    after = Naive([*naive.charges, ("clinics", None, {*new})])
    place = tmp_path / "ledger.sqlite"
    charge = partial(Ledger(place).charge, "clinics", None, of_uploads(new, TASKS[0]))
    kept = set[int]()
    steps = 0
    for number in range(24):
        place.write_bytes(source.read_bytes())
        at = draw.randint(1, steps) if number else 0
        steps = steps_until_killed(charge, at, STEPS) or steps
        (clinics,) = Ledger(place).populations("clinics")
        is_charged = len(clinics.charges) == 5
        (after if is_charged else naive).check(Ledger(place), uploads)
        kept.add(schema(place))
        assert schema(place) == (7 if is_charged else 6)
    assert kept == {6, 7}


def closable(ledger: Ledger) -> tuple[list[str], list[str]]:
    """Charge runs of two tasks; return the uploads of each."""
    first, second = identities(2000, seed=5), identities(2000, seed=6)
    for uploads, task in ((first, TASKS[0]), (second, TASKS[1]), (first, TASKS[0])):
        ledger.charge("people", None, of_uploads(uploads, task))
    return first, second


def test_a_closed_task_is_forgotten_and_no_run_takes_its_uploads(ledger: Ledger) -> None:
    """Nor under another population, nor those that no run had; charges, heads and other tasks stay."""
    first, second = closable(ledger)
    before, head, size = ledger.populations(), ledger.head(), ledger.path.stat().st_size
    assert ledger.closed_on(TASKS[0]) is None
    assert ledger.close_task(TASKS[0]) == 2000
    assert ledger.path.stat().st_size < 0.7 * size
    assert (ledger.populations(), ledger.head(), ledger.had([head])) == (before, head, [head])
    assert ledger.size().uploads == 2000
    for name in (None, "people", "others"):
        for uploads in (first, identities(1, seed=9)):
            for attempt in (ledger.check, ledger.charge):
                with pytest.raises(UsedUploadsError, match=r"Task 1111.* was closed in .* on 20"):
                    attempt(name, None, of_uploads(uploads, TASKS[0]))
    with pytest.raises(UsedUploadsError, match="2000 of these 2000 uploads"):
        ledger.charge(None, None, of_uploads(second, TASKS[1]))
    ledger.charge("people", None, of_uploads(second, TASKS[1]))
    closed = ledger.closed_on(TASKS[0])
    assert ledger.close_task(TASKS[0]) == 0 and ledger.closed_on(TASKS[0]) == closed
    (people,) = ledger.populations("people")
    assert people.spent == SPENT * 4 and people.of_uploads


def test_a_process_killed_while_it_closes_a_task_forgets_nothing_of_an_open_one(tmp_path: Path) -> None:
    source, place, draw = Ledger(tmp_path / "source.sqlite"), tmp_path / "ledger.sqlite", random.Random(7)
    first, _ = closable(source)
    close = partial(Ledger(place).close_task, TASKS[0])
    found = set[bool]()
    steps = 0
    for number in range(12):
        place.write_bytes(source.path.read_bytes())
        steps = steps_until_killed(close, draw.randint(1, steps) if number else 0, STEPS) or steps
        is_closed = bool(Ledger(place).closed_on(TASKS[0]))
        found.add(is_closed)
        if is_closed:
            assert Ledger(place).size().uploads == 2000
        else:
            assert Ledger(place).counted(None, None, first) == {*first}
    assert found == {False, True}


def test_no_disk_to_shrink_on(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="it cannot be opened"):
        ledger.shrink()
