"""Results of calls: what they hold, how they print, and that a saved one is the same when it is loaded."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from sklearn.linear_model import LogisticRegression

import fairshares as fs
from tests.support.running import QUICKEST

PAIRS = [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
SAID: dict[str, Any] = {"epsilon": 20, "security": QUICKEST}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Return 400 clients' records, of both groups and labels alike."""
    frame = pd.DataFrame({"client_id": range(400), "group": ["a", "b"] * 200, "label": [0, 0, 1, 1] * 100})
    scores = 0.2 + 0.6 * frame.label
    return frame.assign(score=scores, prediction=frame.label, value=scores).set_index(frame.index + 1000)


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("domain") / "domain.json"
    path.write_text('{"groups": ["a", "b"], "labels": ["0", "1"], "thresholds": 11}')
    return path


@pytest.fixture(scope="module")
def results(frame: pd.DataFrame, domain: Path) -> dict[str, Any]:
    """Return a result of each statistic."""
    return {
        "weights": fs.weights(frame, **SAID),
        "confusion": fs.confusion(frame, **SAID),
        "thresholds": fs.thresholds(frame, positive_label=0, domain=domain, tolerance=1, **SAID),
        "gap": fs.gap(frame, groups=["a", "b"], range=(0, 1), **SAID),
        "count": fs.count(frame, error_to=1000, **SAID),
        "cap": fs.cap(frame, release_epsilon=1, max_count=5, **SAID),
    }


@pytest.mark.parametrize("task", ["weights", "confusion", "thresholds", "gap", "count", "cap"])
def test_a_saved_result_is_the_same_when_it_is_loaded(
    task: str, results: dict[str, Any], tmp_path: Path
) -> None:
    saved = results[task]
    saved.save(tmp_path / "saved")
    loaded = fs.load(tmp_path / "saved")
    assert type(loaded) is type(saved)
    assert loaded.manifest == saved.manifest
    assert "\n".join([str(loaded), *saved._notes]) == str(saved)
    for name in (
        "weights",
        "rates",
        "intervals",
        "counts",
        "gaps",
        "means",
        "curves",
        "rules",
        "noisy_counts",
    ):
        ours: Any = getattr(saved, name, None)
        theirs: Any = getattr(loaded, name, None)
        if isinstance(ours, pd.DataFrame):
            pd.testing.assert_frame_equal(ours, theirs, check_exact=True)
        elif isinstance(ours, pd.Series):
            pd.testing.assert_series_equal(ours, theirs, check_exact=True)
        else:
            assert ours == theirs
    assert str(pickle.loads(pickle.dumps(saved))) == str(copy.copy(saved)) == str(saved)


def test_weights(results: dict[str, Any], frame: pd.DataFrame) -> None:
    found = results["weights"]
    assert found.weights.index.tolist() == PAIRS and found.weights.name == "sample_weight"
    assert (found.intervals.low <= found.weights).all() and (found.weights <= found.intervals.high).all()
    assert 0 < found.privacy.epsilon <= 20 and found.privacy.unit == "record"
    of_rows = found.sample_weight(frame.group, frame.label)
    assert of_rows.index.equals(frame.index)
    for as_type in (list, np.array):
        others = found.sample_weight(as_type(frame.group), as_type(frame.label))
        assert others.index.equals(pd.RangeIndex(400)) and others.tolist() == of_rows.tolist()


def test_thresholds(results: dict[str, Any], frame: pd.DataFrame) -> None:
    found = results["thresholds"]
    assert found.problem is None and set(found.rules) == {"a", "b"}
    assert found.curves.shape == (22, 3) and found.rates.shape == (2, 3) and found.intervals.shape == (2, 6)
    model = LogisticRegression().fit(frame[["score"]], frame.label)
    predicted = found.predictor(model).predict(
        frame[["score"]], sensitive_features=frame.group, random_state=1
    )
    assert set(predicted) <= {0, 1}
    assert found.predictor(model).positive_label == "0"
    other = pickle.loads(pickle.dumps(found.predictor()))
    assert type(other) is fs.GroupThresholdPredictor and type(other).__module__ == "fairshares"


def test_thresholds_are_chosen_again_without_a_run(results: dict[str, Any], tmp_path: Path) -> None:
    found = results["thresholds"]
    again = found.choose(positive_label=1.0, deterministic=True, objective="balanced_accuracy_score")
    assert again.predictor().positive_label == "1" and again.rates.shape == (2, 3)
    assert all(len(rule.thresholds) == 1 for rule in again.rules.values())
    assert again.privacy == found.privacy and again.manifest["ledger"] is None and "spent no ε" in str(again)
    again.save(tmp_path / "again")
    assert str(fs.load(tmp_path / "again")) in str(again)
    same = again.choose(positive_label=0, tolerance=1)
    assert same.rules == found.rules and same.curves.equals(found.curves)
    with pytest.raises(fs.FairSharesError, match=r"^constraint= must be"):
        found.choose(constraint="parity")


def test_curves_that_allow_no_rules_are_returned_and_say_why(frame: pd.DataFrame, domain: Path) -> None:
    few: Any = {"epsilon": "0.01", "security": QUICKEST, "domain": domain}
    found = fs.thresholds(frame[:8], **few)
    assert isinstance(found.problem, fs.FairSharesError) and str(found.problem) in str(found)
    assert found.curves.shape == (22, 3) and found.plot().get_xlabel() == "False positive rate"
    with pytest.raises(type(found.problem)):
        found.predictor()


def test_others_hold_what_they_say(results: dict[str, Any]) -> None:
    assert results["confusion"].counts.shape == (8,) and results["confusion"].rates.index.tolist() == PAIRS
    assert abs(results["confusion"].rates.loc[("b", 1), "true_positive_rate"] - 1) < 0.1
    assert results["confusion"].intervals.shape == (4, 6)
    assert results["gap"].gaps.index.tolist() == [("a", "b")] and results["gap"].means.shape == (2, 3)
    assert abs(results["gap"].sizes.sum() - 400) < 40
    assert results["count"].counts.index.tolist() == results["count"].intervals.index.tolist() == PAIRS
    assert 1 <= results["cap"].cap <= 5


@pytest.mark.parametrize("task", ["weights", "confusion", "thresholds", "gap", "count"])
def test_results_render_and_plot(task: str, results: dict[str, Any]) -> None:
    found = results[task]
    text, page = str(found), found._repr_html_()
    assert repr(found) == text and "Guarantee: ε = " in text
    assert "population=NAME tracks it." in text and "--" not in text
    assert page.count("<table>") == text.count("┏") and "population=NAME tracks it." in page


AXES = {
    "weights": {"": "weight (kamiran-calders)", "weights": "weight (kamiran-calders)"},
    "confusion": {"": "predicted label", "rates": "rate"},
    "thresholds": {"": "False positive rate", "rates": "rate, under equalized odds"},
    "gap": {"": "gap: mean - mean", "means": "mean"},
    "count": {"": "estimated count"},
    "cap": {"": "ε"},
}


@pytest.mark.parametrize("task", AXES)
def test_pictures_of_results(task: str, results: dict[str, Any]) -> None:
    """A picture is on axes of its own, or on those given; what there is no picture of is refused."""
    for kind, label in {**AXES[task], "privacy": "ε"}.items():
        own, given = results[task].plot(kind), pyplot.figure().add_subplot()
        assert own.get_xlabel() == label and own is not given
        assert results[task].plot(kind, ax=given) is given and given.get_xlabel() == label
        pyplot.close("all")
    with pytest.raises(ValueError, match=r"There is no picture 'pie' of this; there are: \w+"):
        results[task].plot("pie")


def across(line: Any) -> list[float]:
    found: list[float] = np.asarray(line.get_xdata()).tolist()
    return found


def test_pictures_show_what_was_revealed(results: dict[str, Any]) -> None:
    found = results["weights"]
    *ends, weights = found.plot().get_lines()[1:]  # the first is the line to compare them with
    assert across(weights) == found.weights.tolist()
    assert [across(line) for line in ends] == found.intervals.to_numpy().tolist()
    counts = results["confusion"]
    assert [text.get_text() for text in counts.plot().texts] == [f"{count:,.1f}" for count in counts.counts]
    *ends, gaps = results["gap"].plot().get_lines()[1:]
    assert [[*across(gaps), *across(ends[0])]] == results["gap"].gaps.to_numpy().tolist()
    pyplot.close("all")


def test_plans_and_ledgers_have_pictures(tmp_path: Path) -> None:
    plan = fs.plan(clients=1000, groups=2, epsilon=1)
    assert across(plan.plot("seconds").get_lines()[-1]) == plan.models.mpc_s.dropna().tolist()
    pyplot.close("all")
    with pytest.raises(ValueError, match="There is no picture '' of this; there are: none"):
        fs.ledger(ledger=tmp_path / "l.sqlite").plot()


def test_what_is_no_result_is_not_loaded(results: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(fs.FairSharesError, match="Cannot read"):
        fs.load(tmp_path)
    results["weights"].save(tmp_path / "saved")
    (tmp_path / "saved" / "weights.json").write_text('{"schema": 1, "groups": []}')
    with pytest.raises(fs.FairSharesError, match="does not hold the files of a run of weights"):
        fs.load(tmp_path / "saved")
    manifest = tmp_path / "saved" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"task": "weights"', '"task": "quickstart"'))
    with pytest.raises(fs.FairSharesError, match="the result of 'quickstart'; what can be read is that of"):
        fs.load(tmp_path / "saved")
