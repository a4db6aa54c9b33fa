"""A client's part in a round over hosts: the row that a training on one machine has for it, and no other."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairshares.harness.errors import RecordsError, ResultFileError, ShareError
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.system.progress import nothing_said
from fairshares.harness.training.client_round import TrainingRound, check_task, read_round, update_of
from fairshares.harness.training.declared_training import DeclaredTraining
from fairshares.harness.training.fairness import FairGrad
from fairshares.harness.training.features import Category, Features, NumberInRange
from fairshares.harness.training.logistic import Descent, Examples
from fairshares.protocols.accounting.calibration import PrivacyUnit
from tests.support.envelopes import made_task

FEATURES = Features({"age": NumberInRange(0, 10), "sector": Category(("x", "y"))})
DOMAIN = RecordDomain(("a", "b"), ("no", "yes"))
RECORDS = pd.DataFrame(
    {
        "group": ["a", "b", "b"],
        "label": ["yes", "no", "yes"],
        "age": [10, 0, 5],
        "sector": ["x", "y", "z"],
    }
)
PLAIN = DeclaredTraining(DOMAIN, FEATURES, Descent(4, clip=0.5), None)
FAIR = replace(
    PLAIN,
    descent=Descent(4, clip=0.5, largest_weight=1.25),
    fairgrad=FairGrad("equalized_odds", 2, 2, positive=1),
)
TABLE = np.array([[0.5, 2.0], [1.5, 1.0]])


def published(declared: DeclaredTraining, place: Path, **changes: Any) -> Path:
    """Return the file of a second round, with some model and weights. Args: changes: of its fields."""
    state = replace(declared.begun(), parameters=np.array([[0.5, -1.0, 0.25, 2.0]]), weights=TABLE, done=1)
    fields = json.loads(declared.round_text("0" * 64, 2, state, None))
    file = place / "round.json"
    file.write_text(json.dumps({**fields, **changes}))
    return file


@pytest.mark.parametrize("declared", [PLAIN, FAIR])
def test_an_update_is_the_row_of_this_client_among_all(declared: DeclaredTraining, tmp_path: Path) -> None:
    """Beside another client, whose records come first."""
    asked = TrainingRound.load(published(declared, tmp_path))
    found = update_of(asked, RECORDS, nothing_said)
    columns = {name: ["3", *map(str, RECORDS[name])] for name in ("age", "sector")}
    together = Examples(
        FEATURES.encode(columns),
        np.array([0, 1, 0, 1]),
        np.array([0, 1, 1, 1]),
        2,
        2,
        group=np.array([1, 0, 1, 1]),
    )
    rows = together.updates(
        np.array([[0.5, -1.0, 0.25, 2.0]]),
        0.5,
        declared.descent.largest_weight,
        PrivacyUnit.CLIENT,
        fairgrad=declared.fairgrad,
        weights=TABLE if declared.fairgrad else None,
    )
    assert found == pytest.approx(rows[1], abs=1e-12)
    assert len(found) == declared.bounds.coordinates
    assert np.linalg.norm(found) < declared.bounds.norm
    alone = update_of(asked, RECORDS[1:2], nothing_said)  # a wrong prediction, and the largest weight
    assert np.linalg.norm(alone) == pytest.approx(declared.bounds.norm)


def test_a_client_is_one(tmp_path: Path) -> None:
    asked = read_round(published(PLAIN, tmp_path))
    known = RECORDS.assign(sector="x")
    with pytest.raises(RecordsError, match="of 3 clients, each of whom seals an update of its own"):
        asked.update(known.assign(client_id=["c", "d", "e"]))
    assert asked.update(known.assign(client_id="c")).tolist() == asked.update(known).tolist()
    said: list[str] = []
    update_of(asked, RECORDS, said.append)
    assert len(said) == 1 and "sector: 1 of 3 values" in said[0]
    with pytest.warns(UserWarning, match="sector: 1 of 3 values"):
        asked.update(RECORDS)


LARGEST = 1.7e308
ANY_RECORDS = [
    RECORDS[:0],
    RECORDS[:1],
    RECORDS[1:2],
    pd.DataFrame(
        {
            "group": ["a", None, "c"],
            "label": ["no", "yes", "nan"],
            "age": ["1e999", "", "2026-01-01"],
            "sector": ["7", "", "z"],
        }
    ),
]
NO_ROUND_OF_EVERYBODY: dict[str, dict[str, Any]] = {
    "one group": {"groups": ["a", "nobody's"]},
    "one label": {"labels": ["no", "nobody's"]},
    "other features": {
        "features": {"age": {"categories": ["10", "11"]}, "sector": {"low": 0, "high": 1}},
        "parameters": [[1, 1, 1, 1]],
    },
    "another range": {
        "features": {"age": {"low": -LARGEST, "high": -1e308}, "sector": {"categories": ["x", "y"]}}
    },
    "scores that overflow": {"parameters": [[LARGEST, 0, 0, LARGEST]]},
    "weights that overflow": {
        "weights": [[LARGEST, 1], [-LARGEST, 0]],
        "clip": LARGEST,
        "largest_weight": LARGEST,
    },
}


@pytest.mark.parametrize("asks_for", NO_ROUND_OF_EVERYBODY)
def test_whether_a_client_sends_says_nothing_of_its_records(asks_for: str, tmp_path: Path) -> None:
    """A round that some records make fail would ask everybody, at no ε, whether theirs are such."""
    asked = read_round(published(FAIR, tmp_path, **NO_ROUND_OF_EVERYBODY[asks_for]))
    for records in ANY_RECORDS:
        found = update_of(asked, records, nothing_said)
        assert found.shape == (FAIR.bounds.coordinates,) and np.isfinite(found).all()


def test_records_that_a_round_has_no_place_for_are_left_out_with_a_sentence(tmp_path: Path) -> None:
    asked = read_round(published(PLAIN, tmp_path, groups=["b", "other"]))
    said: list[str] = []
    found = update_of(asked, RECORDS.assign(sector="x"), said.append)
    both = read_round(published(PLAIN, tmp_path))
    assert found.tolist() == update_of(both, RECORDS[1:].assign(sector="x"), nothing_said).tolist()
    assert len(said) == 1 and "group 'a' is not declared" in said[0] and "left out" in said[0]
    assert not update_of(asked, RECORDS[:1], said.append).any()
    assert said[-1] == "None of the records counts in this round, so the update is of zeros."


def test_a_frames_order_of_labels_changes_no_update(tmp_path: Path) -> None:
    """The parameters are in the round's order, whatever order a frame's categories have."""
    asked = read_round(published(PLAIN, tmp_path))
    known = RECORDS.assign(sector="x")
    ordered = known.assign(label=pd.Categorical(known["label"], ["yes", "no"], ordered=True))
    assert asked.update(ordered).tolist() == asked.update(known).tolist()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"reveal": 0}, "reveal"),
        ({"parameters": [[1.0, 2.0]]}, "its parameters are not those of its features and labels"),
        ({"weights": [[1.0, 2.0]]}, "its weights are not those of its groups and labels"),
        ({"labels": ["no"]}, "at least two"),
        ({"features": {}}, "1 to"),
        ({"clip": 0}, "clip"),
        (
            {"fairness": {"definition": "justice", "positive": 1, "step": 0.01, "share": 0.1}},
            "weighs groups in a way that this version does not know",
        ),
        (
            {"fairness": {"definition": "accuracy_parity", "positive": 2, "step": 0.01, "share": 0.1}},
            "weighs groups in a way",
        ),
        ({"more": 1}, "more"),
    ],
)
def test_what_is_no_round_is_refused_in_a_sentence(
    changes: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ResultFileError, match=sentence):
        TrainingRound.load(published(PLAIN, tmp_path, **changes))


def test_a_round_of_another_task_is_refused(tmp_path: Path) -> None:
    task = made_task(tmp_path / "task")
    asked = read_round(published(PLAIN, tmp_path))
    check_task(replace(asked, task=task.name), task)
    with pytest.raises(ShareError, match="ask the coordinator which one it trains by"):
        check_task(asked, task)
