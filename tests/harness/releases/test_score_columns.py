"""Thresholds of more than two labels: a score and curves for each, and noise for all of them together."""

import itertools
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from harness.errors import RecordDomainError, RecordsError
from harness.inputs.encoding import columns_of, count_columns
from harness.inputs.record_schema import Cap, RecordDomain, RecordKind, as_grid
from harness.inputs.records import ClientRecords, read_records
from harness.inputs.synthetic import Federation
from harness.postprocessing.curves import exact_curves
from harness.postprocessing.thresholds.choose import choose_thresholds
from harness.releases.score_curves import CurvesStatistic, ThresholdChoice, thresholds_on
from harness.security_models import MODELS
from harness.views.releases.thresholds import thresholds
from protocols.accounting.calibration import NeighboringRelation
from protocols.accounting.exact_privacy import values_moved
from protocols.mechanisms.count_tree import CountTree
from protocols.spec import PI_ROC_RECORDS, SCORED_SPLIT, declared_release
from tests.support.requests import request_of

LABELS = ("cat", "dog", "owl")
GRID = as_grid([0.3, 0.6, 1.0])
DOMAIN = RecordDomain(("a", "b"), LABELS, 100, kind=RecordKind.SCORE, thresholds=GRID)
RELATIONS = [NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE]
ROWS = """client_id,group,label,score_cat,score_dog,score_owl
1,a,dog,0.1,0.7,0.3
1,b,owl,0,1,0.6
2,a,cat,1,0,0
"""


def of_one(group: int, label: int, bins: tuple[int, ...]) -> ClientRecords:
    """Return one client's one record."""
    one, (client, of_group, of_label) = np.array(["it"]), np.array([[0], [group], [label]])
    return ClientRecords(DOMAIN, one, client, of_group, of_label, np.array([bins]))


def test_a_record_is_counted_once_for_each_score(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text(ROWS)
    found = read_records(tmp_path / "r.csv", DOMAIN, kind=RecordKind.SCORE)
    table = columns_of(found, SCORED_SPLIT)
    assert table.shape == (count_columns(DOMAIN, "split"), 2) == (3 * 2 * 2 * 4, 2)
    counts = table.sum(axis=1).reshape(3, 2, 2, 4)  # by score, group, whether the label is the score's, bin
    expected = np.zeros_like(counts)
    for score, group, right, place in (
        *((0, 0, 0, 0), (1, 0, 1, 2), (2, 0, 0, 1)),
        *((0, 1, 0, 0), (1, 1, 0, 3), (2, 1, 1, 2)),
        *((0, 0, 1, 3), (1, 0, 0, 0), (2, 0, 0, 0)),
    ):
        expected[score, group, right, place] += 1
    assert counts.tolist() == expected.tolist()


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("flat", [True, False])
def test_noise_is_for_all_values_that_a_record_moves(relation: NeighboringRelation, flat: bool) -> None:
    """Every record, and every pair of records: what their shares move, by the tree's own map."""
    request = request_of(MODELS["ring"], SCORED_SPLIT, Fraction(20), Fraction(1, 2**40), relation)
    prepared = CurvesStatistic(flat).prepare(request, DOMAIN)
    tree = CountTree(len(GRID), tuple(map(int, str(prepared.arguments["blocks"]).split("."))))
    dense = np.zeros((DOMAIN.cells, prepared.plan.nodes), dtype=np.int64)
    for cell, nodes in enumerate(tree.release(3 * 2 * 2).columns):
        dense[cell, list(nodes)] = 1
    places = itertools.product(range(2), range(3), itertools.product(range(len(GRID)), repeat=3))
    moved = np.unique([columns_of(of_one(*each), SCORED_SPLIT)[:, 0] @ dense for each in places], axis=0)
    if relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
        most = moved.sum(axis=1).max()
    else:
        most = max(int(np.abs(moved - one).sum(axis=1).max()) for one in moved)
    expected = 3 * len(tree.blocks) * (2 if relation is NeighboringRelation.REPLACE_ONE else 1)
    assert prepared.plan.changed == most == expected
    assert prepared.plan.largest == np.abs(moved).max() == 1
    assert prepared.plan.node_epsilon <= Fraction(20, expected)
    arguments = {name: str(value) for name, value in prepared.arguments.items()}
    assert values_moved(declared_release(prepared.spec, arguments), prepared.plan.neighbors) == expected
    listed = CurvesStatistic.audited["thresholds"].declared(
        {"groups": 2, "labels": 3, "thresholds": 4},
        prepared.plan.neighbors,
        *(Fraction(20), Fraction(1, 2**40), None),
    )
    assert flat or listed[1] == prepared.arguments


def test_each_labels_curves_are_of_its_own_scores() -> None:
    rng = np.random.default_rng(2)
    group, label = rng.integers(0, 2, 4000), rng.integers(0, 3, 4000)
    right = label[:, np.newaxis] == np.arange(3)
    scores = np.clip(rng.normal(0.3 + 0.4 * right, 0.2), 0, 1)
    frame = pd.DataFrame(scores, columns=[f"score_{name}" for name in LABELS])
    frame = frame.assign(client_id=1, group=np.array(DOMAIN.groups)[group], label=np.array(LABELS)[label])
    domain = replace(DOMAIN, max_count=4000)
    records = read_records(frame.astype(str), domain, kind=RecordKind.SCORE)
    request = request_of(MODELS["ring"], SCORED_SPLIT, Fraction(1), Fraction(1, 2**40))
    prepared = CurvesStatistic(flat=True, positive="dog").prepare(request, domain)
    counted = prepared.read({"nodes": tuple(columns_of(records, SCORED_SPLIT)[:, 0].tolist())}, 1)
    exact = {
        name: exact_curves(label == at, scores[:, at], frame.group, DOMAIN.groups, GRID)
        for at, name in enumerate(LABELS)
    }
    mean = prepared.plan.noise  # its mean is taken off what is opened
    assert mean and (counted.positive, counted.negative, list(counted.others)) == ("dog", "", ["cat", "owl"])
    for name in LABELS:
        found = counted.for_positive(name).curves
        for array in ("tp", "fp", "positives", "negatives"):
            assert getattr(found, array) == pytest.approx(getattr(exact[name], array), abs=len(GRID))
    choice = ThresholdChoice("equal_opportunity", "balanced_accuracy_score", 0.05, True)
    chosen = thresholds_on(counted, choice)
    for name, rules in {"dog": chosen.thresholds, **chosen.others}.items():
        curves = counted.for_positive(name).curves
        alone = choose_thresholds(
            curves, "equal_opportunity", "balanced_accuracy_score", 0.05, deterministic=True
        )
        assert rules is not None and rules.to_json() == alone.to_json()
    assert set(chosen.files()["thresholds.json"]["others"]) == {"cat", "owl"}
    shown = [cells[:2] for part in thresholds(chosen) for cells in getattr(part, "rows", ()) if cells]
    assert ["cat", "a"] in shown and ["owl", "b"] in shown


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (ROWS.replace("score_owl", "score"), "score_owl"),
        (ROWS.replace("0.7", "1.7"), "score_dog '1.7' is not a number from 0 to 1"),
        (ROWS.replace("0.7", ""), "column score_dog is empty"),
    ],
)
def test_scores_that_are_not_there_are_named(rows: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text(rows)
    with pytest.raises(RecordsError, match=message):
        read_records(tmp_path / "r.csv", DOMAIN, kind=RecordKind.SCORE)


def test_what_several_scores_do_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        RecordDomainError, match=r"Of 3 labels a record has as many scores, and a cap takes one"
    ):
        replace(DOMAIN, cap=Cap(2))
    request = request_of(MODELS["ring"], SCORED_SPLIT, Fraction(1), Fraction(1, 2**40))
    with pytest.raises(RecordDomainError, match=r"A key has one score, and of 3 labels a record has as many"):
        CurvesStatistic(spec=PI_ROC_RECORDS).prepare(request, DOMAIN)
    (tmp_path / "r.csv").write_text(ROWS.replace("score_cat", "score"))
    with pytest.raises(RecordDomainError, match=r"has 3 labels.*columns score_cat, score_dog, score_owl"):
        read_records(tmp_path / "r.csv", None, kind=RecordKind.SCORE)


def test_records_are_made_up_with_as_many_scores() -> None:
    made = Federation(5, 20, 2, 3, RecordKind.SCORE, thresholds=4).made_up()
    assert made.detail is not None and made.detail.shape == (20, 3)
    assert made.counts_per_client().sum() == 3 * 20
