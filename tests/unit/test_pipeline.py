"""What the pipeline refuses before anything is shared, and whom it protects unless told otherwise."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from harness.errors import UnsupportedError
from harness.models import get_model
from harness.pipeline import Settings, plan_release, run_on_records
from harness.records import ClientRecords, RecordDomain
from harness.weights import WeightsStatistic
from protocols.budget import NeighboringRelation
from protocols.spec import PI_RW, SPLIT


def test_a_protocol_without_a_declared_release_does_not_run(tmp_path: Path) -> None:
    statistic = WeightsStatistic()
    object.__setattr__(statistic, "spec", replace(PI_RW, release=None))
    one = np.zeros(1, dtype=np.int64)
    records = ClientRecords(RecordDomain(("a", "b"), ("0", "1")), np.array(["c"]), one, one, one)
    settings = Settings(get_model("mpyc"), SPLIT, Fraction(1), Fraction(1, 2**40))
    with pytest.raises(UnsupportedError, match="no guarantee can be stated"):
        run_on_records(statistic, records, settings, tmp_path / "out", lambda step: None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("most", "chosen", "relation"),
    [(1, None, "replace_one"), (1, "add_or_remove_one", "add_or_remove_one"), (2, None, "add_or_remove_one")],
)
def test_one_record_each_is_protected_in_what_it_says_unless_the_user_says_otherwise(
    most: int, chosen: str | None, relation: str
) -> None:
    asked = None if chosen is None else NeighboringRelation(chosen)
    settings = Settings(get_model("mpyc"), SPLIT, Fraction(1), Fraction(1, 2**40), asked)
    domain = RecordDomain(("a", "b"), ("0", "1"), max_count=most)
    assert plan_release(WeightsStatistic(), settings, domain).relation == relation
