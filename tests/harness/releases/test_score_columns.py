"""Thresholds of more than two labels: a score and curves for each, and noise for all of them together."""

import itertools
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.measure.made_up import made_up
from fairshares.harness.errors import FairSharesError
from fairshares.harness.inputs.encoding import columns_of, count_columns
from fairshares.harness.inputs.federation_size import FederationSize
from fairshares.harness.inputs.record_schema import Cap, RecordDomain, RecordKind, as_grid
from fairshares.harness.inputs.records import read_records
from fairshares.harness.postprocessing.curves import exact_curves
from fairshares.harness.releases.thresholds.spec import PI_ROC_RECORDS
from fairshares.harness.releases.thresholds.statistic import (
    CurvesStatistic,
    ThresholdChoice,
    state_thresholds,
    thresholds_on,
)
from fairshares.harness.releases.thresholds.view import thresholds
from fairshares.harness.security_models import MODELS
from fairshares.protocols.accounting.calibration import NeighboringRelation
from fairshares.protocols.accounting.exact_privacy import values_moved
from fairshares.protocols.mechanisms.count_tree import CountTree
from fairshares.protocols.spec import SCORED_SPLIT, declared_release
from tests.support.requests import request_of

LABELS = ("cat", "dog", "owl")
GRID = as_grid([0.3, 0.6, 1.0])
DOMAIN = RecordDomain(("a", "b"), LABELS, 4000, kind=RecordKind.SCORE, thresholds=GRID)
TERMS = (MODELS["ring"], SCORED_SPLIT, Fraction(20), Fraction(1, 2**40))
ROWS = """client_id,group,label,score_cat,score_dog,score_owl
1,a,dog,0.1,0.7,0.3
1,b,owl,0,1,0.6
2,a,cat,1,0,0
"""


def test_a_record_is_counted_once_for_each_score(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text(ROWS)
    table = columns_of(read_records(tmp_path / "r.csv", DOMAIN, kind=RecordKind.SCORE), SCORED_SPLIT)
    assert table.shape == (count_columns(DOMAIN, "split"), 2) == (3 * 2 * 2 * 4, 2)
    counts = table.sum(axis=1).reshape(3, 2, 2, 4)  # by score, group, whether the label is the score's, bin
    assert counts.max() == 1 and np.argwhere(counts).tolist() == [
        *([0, 0, 0, 0], [0, 0, 1, 3], [0, 1, 0, 0]),
        *([1, 0, 0, 0], [1, 0, 1, 2], [1, 1, 0, 3]),
        *([2, 0, 0, 0], [2, 0, 0, 1], [2, 1, 1, 2]),
    ]


@pytest.mark.parametrize(("relation", "times"), [("add_or_remove_one", 1), ("replace_one", 2)])
@pytest.mark.parametrize("flat", [True, False])
def test_noise_is_for_all_values_that_a_record_moves(relation: str, times: int, flat: bool) -> None:
    """Every record, and every pair of records: what their shares move, by the tree's own map."""
    request = request_of(*TERMS, relation=NeighboringRelation(relation))
    prepared = CurvesStatistic(flat).prepare(request, DOMAIN)
    plan, arguments = prepared.plan, {name: str(value) for name, value in prepared.arguments.items()}
    tree = CountTree(len(GRID), tuple(map(int, arguments["blocks"].split("."))))
    dense = np.zeros((DOMAIN.cells, plan.nodes), dtype=np.int64)
    for cell, nodes in enumerate(tree.release(3 * 2 * 2).columns):
        dense[cell, list(nodes)] = 1
    one = made_up(FederationSize(1, 1, 2, 3, RecordKind.SCORE, thresholds=4))
    rows = (
        replace(one, group=np.array([group]), label=np.array([label]), detail=np.array([bins]))
        for group, label, *bins in itertools.product(range(2), range(3), *[range(4)] * 3)
    )
    moved = np.unique([columns_of(row, SCORED_SPLIT)[:, 0] @ dense for row in rows], axis=0)
    before = [np.zeros_like(moved[0])] if times == 1 else moved
    most = max(int(np.abs(moved - other).sum(axis=1).max()) for other in before)
    assert plan.changed == most == times * 3 * len(tree.blocks)
    assert plan.node_epsilon <= Fraction(20, most) and plan.largest == moved.max() == 1
    assert values_moved(declared_release(prepared.spec, arguments), plan.neighbors) == most
    sizes = {"groups": 2, "labels": 3, "thresholds": 4}
    audited = CurvesStatistic.audited["thresholds"].declared(sizes, plan.neighbors, *TERMS[2:], None)
    assert flat or audited[1] == prepared.arguments


def test_each_labels_curves_are_of_its_own_scores() -> None:
    rng = np.random.default_rng(2)
    group, label = rng.integers(0, 2, 4000), rng.integers(0, 3, 4000)
    scores = np.clip(rng.normal(0.3 + 0.4 * (label[:, np.newaxis] == np.arange(3)), 0.2), 0, 1)
    frame = pd.DataFrame(scores, columns=[f"score_{name}" for name in LABELS])
    frame = frame.assign(client_id=1, group=np.array(DOMAIN.groups)[group], label=np.array(LABELS)[label])
    records = read_records(frame.astype(str), DOMAIN, kind=RecordKind.SCORE)
    prepared = CurvesStatistic(flat=True, positive="dog").prepare(request_of(*TERMS), DOMAIN)
    curves = prepared.read({"nodes": tuple(columns_of(records, SCORED_SPLIT)[:, 0].tolist())}, 1)
    choice = ThresholdChoice("equal_opportunity", "balanced_accuracy_score", 0.05, True)
    chosen = thresholds_on(curves, choice)
    assert (curves.positive, curves.negative, list(chosen.others)) == ("dog", "", ["cat", "owl"])
    for at, name in enumerate(LABELS):
        noisy, exact = (
            curves.for_positive(name).curves,
            exact_curves(label == at, scores[:, at], frame.group, DOMAIN.groups, GRID),
        )
        for array in ("tp", "fp", "positives", "negatives"):  # but for the noise's mean, which is taken off
            assert getattr(noisy, array) == pytest.approx(getattr(exact, array), abs=len(GRID))
        rules = {"dog": chosen.thresholds, **chosen.others}[name]
        assert rules is not None and state_thresholds(rules) == state_thresholds(choice.thresholds_on(noisy))
    shown = [cells[:2] for part in thresholds(chosen) for cells in getattr(part, "rows", ()) if cells]
    assert ["cat", "a"] in shown and ["owl", "b"] in shown


@pytest.mark.parametrize(
    ("old", "new", "domain", "message"),
    [
        ("score_owl", "score", DOMAIN, "score_owl"),
        ("0.7", "1.7", DOMAIN, "score_dog '1.7' is not a number from 0 to 1"),
        ("0.7", "", DOMAIN, "column score_dog is empty"),
        ("score_cat", "score", None, r"has 3 labels.*a column of scores, score_cat, score_dog, score_owl"),
    ],
)
def test_scores_that_are_not_there_are_named(
    old: str, new: str, domain: RecordDomain | None, message: str, tmp_path: Path
) -> None:
    (tmp_path / "r.csv").write_text(ROWS.replace(old, new))
    with pytest.raises(FairSharesError, match=message):
        read_records(tmp_path / "r.csv", domain, kind=RecordKind.SCORE)


def test_what_several_scores_do_not_fit_is_refused() -> None:
    with pytest.raises(
        FairSharesError, match=r"Of 3 labels a record has as many scores, and a cap takes one"
    ):
        replace(DOMAIN, cap=Cap(2))
    with pytest.raises(FairSharesError, match=r"A key has one score, and of 3 labels a record has as many"):
        CurvesStatistic(spec=PI_ROC_RECORDS).prepare(request_of(*TERMS), DOMAIN)
