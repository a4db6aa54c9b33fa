"""Four attributes hold a release's ε on its way, and five fields of its files: a search of living objects.

Each attribute counts by itself, in whatever class or package it is. docs/decisions/others.md, 0082, says why
none of them can follow from another one where it is needed.
"""

from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest

import fairshares as fs
from fairshares.harness.pipeline import run
from fairshares.harness.privacy.ledger.charge import ChargedRun
from fairshares.harness.privacy.manifest import Manifest
from fairshares.protocols.accounting.calibration import NoisePlan
from tests.support.carriers import alive, attributes_with
from tests.support.walks import ASKED

ON_THE_WAY = {
    "Protect.epsilon",  # what was asked for
    "NoisePlan.node_epsilon",  # of one noisy value
    "Guarantee.epsilon",  # of the loss that is charged
    "PrivateJob.arguments",  # for the program and its hash
}
OF_ONE_VALUE = {"NoisePlan.node_epsilon", "PrivateJob.arguments"}
FILES = {
    "Manifest.request",
    "StatedPrivacy.epsilon",
    "StatedPrivacy.epsilon_exact",
    "StatedPrivacy.epsilon_requested",
    "StatedLoss.epsilon",  # what the population has spent
}
MOST = 4


def structs_of(kind: type) -> set[str]:
    """Return the names of the structs that a file's struct consists of, its own included."""
    waiting = [msgspec.inspect.type_info(kind)]
    found = dict[str, None]()
    while waiting:
        known: Any = waiting.pop()
        if isinstance(known, msgspec.inspect.StructType) and known.cls.__qualname__ not in found:
            found[known.cls.__qualname__] = None
            waiting += [field.type for field in known.fields]
        elif isinstance(known, msgspec.inspect.UnionType):
            waiting += known.types
    return set(found)


@pytest.mark.parametrize("changes_two_values", [False, True])
def test_four_attributes_hold_a_releases_epsilon(
    changes_two_values: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a record changes two values, each of them has a half, and what the program takes is no carrier.

    They are looked for while the parties wait for the charge, and again when the results are to appear.
    """
    found: dict[str, Any] = {}
    charge = run.charge
    publish = run.publish

    def charged(*arguments: Any) -> Any:
        found["waiting"] = attributes_with(ASKED)
        return charge(*arguments)

    def published(*arguments: Any) -> None:
        plans = [thing for thing in alive() if isinstance(thing, NoisePlan)]
        charges = [thing for thing in alive() if isinstance(thing, ChargedRun)]
        (found["plan"],) = (plan for plan in plans if any(plan.exact is one.event.exact for one in charges))
        found["published"] = attributes_with(ASKED) | attributes_with(found["plan"].exact.epsilon)
        publish(*arguments)

    monkeypatch.setattr(run, "charge", charged)
    monkeypatch.setattr(run, "publish", published)
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
    assert len(ON_THE_WAY) <= MOST, "Let a new one follow from those that are there."
    on_the_way = ON_THE_WAY - OF_ONE_VALUE if changes_two_values else ON_THE_WAY
    assert found["waiting"] == on_the_way - {"Guarantee.epsilon"}  # which is less than what was asked for
    assert found["published"] == on_the_way | FILES
    assert {name.partition(".")[0] for name in FILES} <= structs_of(Manifest)
    assert result.privacy.epsilon_exact == found["plan"].exact.epsilon < ASKED
