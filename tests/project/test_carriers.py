"""Ten attributes hold a release's ε: a search of all living objects, right before results appear.

Each attribute counts by itself, in whatever class or package it is. docs/decisions/others.md, 0082, says why
none of them can follow from another one where it is needed.
"""

import gc
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import fairshares as fs
from fairshares.harness.pipeline import run
from fairshares.harness.privacy.ledger.charge import ChargedRun
from fairshares.protocols.accounting.calibration import NoisePlan

ASKED = Fraction(7310586, 10**7)  # which nothing else has
OURS = ("fairshares", "harness", "protocols")

REQUEST = {"Protect.epsilon"}
PLAN = {"NoisePlan.node_epsilon", "Guarantee.epsilon"}  # of one noisy value, and of the loss that is charged
ARGUMENTS = {
    "PrivateJob.arguments",
    "Embedded.arguments",
}  # for the program's hash, and a party's process
FILES = {
    "Manifest.request",
    "StatedPrivacy.epsilon",
    "StatedPrivacy.epsilon_exact",
    "StatedPrivacy.epsilon_requested",
    "StatedLoss.epsilon",  # what the population has spent
}
CARRIERS = REQUEST | PLAN | ARGUMENTS | FILES
OF_ONE_VALUE = ARGUMENTS | {"NoisePlan.node_epsilon"}
MOST = 10


def fields_of(thing: object) -> dict[str, object]:
    """Return the values of an object of ours by attribute; none of other objects."""
    kind = type(thing)
    if str(kind.__module__).partition(".")[0] not in OURS or isinstance(thing, type):
        return {}
    structs = {name: getattr(thing, name, None) for name in getattr(kind, "__struct_fields__", ())}
    return {**getattr(thing, "__dict__", {}), **structs}


def alive() -> Iterator[object]:
    """Yield all objects of ours, also those that the interpreter knows by their holders alone."""
    gc.collect()
    waiting, seen = [*gc.get_objects()], set[int]()
    while waiting:
        thing = waiting.pop()
        if id(thing) not in seen and (fields := fields_of(thing)):
            seen.add(id(thing))
            waiting.extend(fields.values())
            yield thing


def numbers_in(value: object) -> Iterator[object]:
    """Yield a value's own numbers and texts, within one container."""
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, tuple | list):
        yield from value
    else:
        yield value


def holding(wanted: Fraction) -> set[str]:
    """Return the attributes of living objects that hold this number, exactly, rounded up, or as a text."""
    same = {wanted, float(wanted), str(wanted), f"{float(wanted):.7f}"}
    found = set()
    for thing in alive():
        for name, value in fields_of(thing).items():
            if any(isinstance(one, Fraction | float | str) and one in same for one in numbers_in(value)):
                found.add(f"{type(thing).__qualname__}.{name}")
    return found


@pytest.mark.parametrize("changes_two_values", [False, True])
def test_ten_attributes_hold_a_releases_epsilon(
    changes_two_values: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a record changes two values, each of them has a half, and what the program takes is no carrier."""
    found: dict[str, Any] = {}
    publish = run.publish

    def searched(*arguments: Any) -> None:
        plans = [thing for thing in alive() if isinstance(thing, NoisePlan)]
        charges = [thing for thing in alive() if isinstance(thing, ChargedRun)]
        (found["plan"],) = (plan for plan in plans if any(plan.exact is one.event.exact for one in charges))
        found["asked"] = holding(ASKED)
        found["spent"] = holding(found["plan"].exact.epsilon)
        publish(*arguments)

    monkeypatch.setattr(run, "publish", searched)
    table = pd.DataFrame({"group": ["a", "b"] * 100, "label": ["0", "1", "1", "0"] * 50})
    result = fs.weights(
        table,
        epsilon=ASKED,
        neighboring_relation="replace_one" if changes_two_values else "add_or_remove_one",
        security="mpyc",
        population="people",
        budget=3,
        ledger=tmp_path / "ledger.sqlite",
    )
    assert len(CARRIERS) == MOST, "Let a new one follow from those that are there."
    expected = CARRIERS - OF_ONE_VALUE if changes_two_values else CARRIERS
    assert found["asked"] | found["spent"] == expected
    assert result.privacy.epsilon_exact == found["plan"].exact.epsilon < ASKED
