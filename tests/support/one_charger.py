"""A process that charges a ledger again and again: `one_charger.py LEDGER BUDGET EPSILON TIMES [hang]`.

Prints `ready`, waits for a line, then prints each charge's number once it is made; stops when the budget
does. With `hang` it stops inside the first transaction, with the charge written but not kept.
"""

import sqlite3
import sys
import time
from fractions import Fraction
from pathlib import Path

from fairshares.harness.errors import BudgetError
from fairshares.harness.privacy.ledger import entries
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.ledger.populations import PrivacyEvent
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.guarantee import Budget, Guarantee

PATH, BUDGET, EPSILON, TIMES = Path(sys.argv[1]), *map(Fraction, sys.argv[2:5])
RELEASE = PrivacyEvent(
    "test",
    "ring",
    Guarantee(EPSILON, Fraction(1, 2**40)),
    PrivacyUnit.RECORD,
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    Path("out"),
)


def hang(connection: sqlite3.Connection, name: str | None, event: PrivacyEvent) -> int:
    insert(connection, name, event)
    print("inside", flush=True)
    time.sleep(600)
    raise AssertionError


insert = entries._insert
if "hang" in sys.argv:
    entries._insert = hang
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(TIMES)):
    try:
        number, _found = Ledger(PATH, timeout_s=600).charge("loans", Budget(BUDGET), RELEASE)
    except BudgetError:
        print("refused", flush=True)
        break
    print(number, flush=True)
