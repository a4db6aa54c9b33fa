"""Thresholds applied to scores and models: by hand, and as scikit-learn wants it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
import sklearn
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.validation import check_is_fitted

from fairshares.harness.errors import RecordsError, ResultFileError, ThresholdRuleError, UnseenGroupError
from fairshares.harness.postprocessing.curves import ACCEPT_NOBODY, EVERYBODY, exact_curves
from fairshares.harness.postprocessing.thresholds.choose import choose_thresholds
from fairshares.harness.postprocessing.thresholds.predictor import GroupThresholdPredictor
from fairshares.harness.postprocessing.thresholds.rules import ThresholdRule

RULES = {"a": ThresholdRule((0.5,)), "b": ThresholdRule((0.25, 0.75), (0.5, 0.5))}
SCORES = np.array([0.5, 0.49, 0.75, 0.2])
FEATURE = np.array(["a", "a", "b", "b"])
N = 4000


def test_scores_reach_their_groups_threshold() -> None:
    predictor = GroupThresholdPredictor(RULES)
    assert predictor.predict(SCORES, sensitive_features=FEATURE).tolist() == [1, 0, 1, 0]
    mixed = predictor.positive_probability([0.74, 0.75, 0.5], sensitive_features=["b", "b", "a"])
    assert mixed.tolist() == [0.5, 1, 1]


@pytest.mark.parametrize(
    "X",
    [
        SCORES.tolist(),
        SCORES[:, np.newaxis],
        np.column_stack([1 - SCORES, SCORES]),
        pd.Series(SCORES, index=[3, 1, 4, 2]),
        pd.DataFrame({"score": SCORES}, index=[3, 1, 4, 2]),
        polars.LazyFrame({"score": SCORES}),
        pa.table({"score": SCORES}),
    ],
)
@pytest.mark.parametrize(
    "as_what",
    [
        *(list, np.array, pd.Categorical, pd.Series, pd.DataFrame),
        *(lambda of: of[:, np.newaxis], lambda of: [[group] for group in of]),
        *(polars.Series, polars.DataFrame, lambda of: polars.LazyFrame({"group": of})),
    ],
)
def test_takes_scores_and_groups_in_many_forms(X: Any, as_what: Any) -> None:  # noqa: N803
    feature = as_what(FEATURE)
    if all(isinstance(table, pd.Series | pd.DataFrame) for table in (X, feature)):
        feature.index = X.index
    assert GroupThresholdPredictor(RULES).predict(X, sensitive_features=feature).tolist() == [1, 0, 1, 0]


def test_labels_are_predicted_whichever_is_positive(tmp_path: Path) -> None:
    GroupThresholdPredictor(RULES, positive_label="no", labels=("yes", "no")).save(tmp_path)
    predictor = GroupThresholdPredictor.load(tmp_path)
    assert predictor.classes_.tolist() == ["no", "yes"]
    predicted = predictor.predict(SCORES, sensitive_features=FEATURE)
    assert predicted.tolist() == ["no", "yes", "no", "yes"]
    assert predictor.predict_proba(SCORES, sensitive_features=FEATURE)[:, 0].tolist() == [1, 0, 1, 0]
    turned = GroupThresholdPredictor(RULES, positive_label="0", labels=[0, 1])
    assert turned.predict(SCORES, sensitive_features=FEATURE).tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("feature", [[0, 1], [0.0, 1.0], ["0", "1"]])
def test_groups_are_matched_as_they_stand_in_a_file(feature: list[Any]) -> None:
    predictor = GroupThresholdPredictor({"0": ThresholdRule((0.2,)), "1": ThresholdRule((0.8,))})
    assert predictor.predict([0.5, 0.5], sensitive_features=feature).tolist() == [1, 0]


def test_ends_accept_everybody_and_nobody() -> None:
    rules = {"all": ThresholdRule((EVERYBODY,)), "none": ThresholdRule((ACCEPT_NOBODY,))}
    predictor = GroupThresholdPredictor(rules)
    predicted = predictor.predict([0, 1, 0, 1], sensitive_features=["all", "all", "none", "none"])
    assert predicted.tolist() == [1, 1, 0, 0]


def test_draws_are_anew_for_each_sample_and_each_call() -> None:
    """Each of 4000 samples is positive with probability 1/2: binomial limits at 10^-9, also for agreement."""
    predictor = GroupThresholdPredictor(RULES)
    scores, feature = np.full(N, 0.5), ["b"] * N
    first, second = (predictor.predict(scores, sensitive_features=feature) for _ in range(2))
    low, high = binom.ppf(5e-10, N, 0.5), binom.isf(5e-10, N, 0.5)
    for successes in (first.sum(), second.sum(), (first == second).sum(), (first[1:] == first[:-1]).sum()):
        assert low <= successes <= high


def test_draws_follow_the_probabilities() -> None:
    predictor = GroupThresholdPredictor({"a": ThresholdRule((0.2, 0.4, 0.6), (0.2, 0.3, 0.5))})
    for score, share in ((0.3, 0.2), (0.5, 0.5)):
        positives = predictor.predict(np.full(N, score), sensitive_features=["a"] * N).sum()
        assert binom.ppf(5e-10, N, share) <= positives <= binom.isf(5e-10, N, share)
        assert predictor.positive_probability([score], sensitive_features=["a"]) == pytest.approx([share])


@pytest.mark.parametrize(
    "make", [lambda: 7, lambda: np.random.default_rng(7), lambda: np.random.RandomState(7)]
)
def test_random_state_repeats_the_draws(make: Any) -> None:
    predictor, feature = GroupThresholdPredictor(RULES), ["b"] * 100
    first, second = (
        predictor.predict(np.full(100, 0.5), sensitive_features=feature, random_state=make())
        for _ in range(2)
    )
    assert first.tolist() == second.tolist() and 0 < first.sum() < 100


def test_unseen_group_is_an_error_or_gets_the_threshold_that_the_user_says() -> None:
    with pytest.raises(
        UnseenGroupError, match=r"Sample 1 is of the group 'c', which has no threshold .*a, b"
    ):
        GroupThresholdPredictor(RULES).predict([0.5, 0.5], sensitive_features=["a", "c"])
    thresholds: list[Any] = [0.5, np.float32(0.5), np.float64(0.5)]
    for threshold in thresholds:
        predicted = GroupThresholdPredictor(RULES, unseen_group=threshold).predict(
            [0.5, 0.4, 0.5], sensitive_features=["c", "c", "a"]
        )
        assert predicted.tolist() == [1, 0, 1]
    with pytest.raises(UnseenGroupError, match="Sample 0 is of the group ''"):
        GroupThresholdPredictor(RULES).predict([0.5], sensitive_features=pd.Series([None]))


@pytest.mark.parametrize("unseen", ["skip", True, None])
def test_refuses_a_fallback_that_is_no_threshold(unseen: Any) -> None:
    with pytest.raises(ThresholdRuleError, match='unseen_group must be "error" or a threshold'):
        GroupThresholdPredictor(RULES, unseen_group=unseen).predict([0.5], sensitive_features=["c"])


@pytest.mark.parametrize(
    ("X", "feature", "message"),
    [
        ([0.5, 1.5], ["a", "a"], "Sample 1 has the score 1.5; scores must be from 0 to 1"),
        ([float("nan")], ["a"], "Sample 0 has the score nan"),
        ([0.5, 0.5], ["a"], "2 samples but 1 sensitive features"),
        (np.zeros((2, 3)), ["a", "a"], r"not \(2, 3\)"),
        ([1.0000001], ["a"], "Sample 0 has the score 1.0000001; scores"),
        ([0.5], np.full((1, 2, 2), "a"), r"must have shape \(n,\), or \(n, k\) of .*, not \(1, 2, 2\)"),
        (pd.Series([0.5]), pd.Series(["a"], index=[7]), "same index"),
    ],
)
def test_refuses(X: Any, feature: Any, message: str) -> None:  # noqa: N803
    with pytest.raises(RecordsError, match=message):
        GroupThresholdPredictor(RULES).predict(X, sensitive_features=feature)


@pytest.mark.parametrize("precision", [np.float16, np.float32, np.float64])
def test_scores_of_any_precision_reach_a_threshold_that_is_written_alike(
    precision: type[np.floating],
) -> None:
    """For most hundredths, the nearest number of lower precision is another one, and often below."""
    written = [f"{hundredths / 100:.2f}" for hundredths in range(101)]
    for text in written:
        predictor = GroupThresholdPredictor({"a": ThresholdRule((float(text),))})
        scores = np.array(written, dtype=precision)
        reached = predictor.predict(scores, sensitive_features=["a"] * len(scores))
        assert reached.tolist() == [int(float(score) >= float(text)) for score in written]


def test_a_model_without_probabilities_is_refused() -> None:
    x, y, feature = data()
    with pytest.raises(RecordsError, match=r"^LinearSVC has no predict_proba, and thresholds are for scores"):
        GroupThresholdPredictor(RULES, LinearSVC().fit(x, y)).predict(x, sensitive_features=feature)


def test_saves_and_loads(tmp_path: Path) -> None:
    GroupThresholdPredictor(RULES).save(tmp_path)
    written = json.loads((tmp_path / "thresholds.json").read_text())
    assert written["schema"] == 1 and written["deterministic"] is False
    assert written["thresholds"]["a"] == {"threshold": 0.5}
    for path in (tmp_path, str(tmp_path / "thresholds.json")):
        assert GroupThresholdPredictor.load(path).rules == RULES


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("{", ResultFileError, "is not JSON"),
        ("[]", ResultFileError, "is not the thresholds.json of a run"),
        ('{"schema": 2, "thresholds": {}}', ResultFileError, "schema 2; this version reads schema 1"),
        ('{"schema": 1}', ResultFileError, "is not the thresholds.json of a run"),
        ('{"schema": 1, "thresholds": {}}', ResultFileError, "is not the thresholds.json of a run"),
        ('{"schema": 1, "thresholds": {"a": 0.5}}', ThresholdRuleError, "group 'a', must have the key"),
    ],
)
def test_refuses_files(tmp_path: Path, content: str, error: type[Exception], message: str) -> None:
    (tmp_path / "thresholds.json").write_text(content)
    with pytest.raises(error, match=message):
        GroupThresholdPredictor.load(tmp_path)
    with pytest.raises(ResultFileError, match="Cannot read"):
        GroupThresholdPredictor.load(tmp_path / "absent.json")


def data() -> tuple[pd.DataFrame, pd.Series, pd.Series]:
    rng = np.random.default_rng(3)
    y = pd.Series(np.where(rng.random(400) < 0.5, "yes", "no"))
    feature = pd.Series(rng.choice(["a", "b"], 400))
    return pd.DataFrame({"x": rng.normal(size=400) + (y == "yes") + (feature == "b")}), y, feature


def test_takes_the_scores_of_the_label_that_the_thresholds_are_for(tmp_path: Path) -> None:
    """`no` comes first among the classes, so its column is not the last one."""
    x, y, feature = data()
    model = LogisticRegression().fit(x, y)
    rules = {"a": ThresholdRule((0.8,)), "b": ThresholdRule((0.6,))}
    GroupThresholdPredictor(rules, positive_label="no").save(tmp_path)
    predictor = GroupThresholdPredictor.load(tmp_path, model)
    expected = np.where(model.predict_proba(x)[:, 0] >= np.where(feature == "a", 0.8, 0.6), "no", "yes")
    assert predictor.predict(x, sensitive_features=feature).tolist() == expected.tolist()
    refused = GroupThresholdPredictor(rules, model, positive_label="maybe")
    with pytest.raises(RecordsError, match="for the label 'maybe', and the model's classes are no, yes"):
        refused.predict(x, sensitive_features=feature)


def test_is_a_scikit_learn_estimator() -> None:
    x, y, feature = data()
    model = LogisticRegression().fit(StandardScaler().fit_transform(x), y)
    predictor = GroupThresholdPredictor(RULES, model, unseen_group=0.5)
    check_is_fitted(predictor)
    again = sklearn.clone(predictor)
    assert again.estimator is not model and (again.estimator.coef_ == model.coef_).all()
    assert again.rules == RULES and again.get_params()["unseen_group"] == 0.5
    assert again.set_params(unseen_group="error").unseen_group == "error"
    steps = make_pipeline(StandardScaler(), again).fit(x, y)
    predicted = steps.predict(x, sensitive_features=feature, random_state=1)
    assert predicted.tolist() == predictor.fit(x, y).predict(
        StandardScaler().fit_transform(x), sensitive_features=feature, random_state=1
    ).tolist()  # fmt: skip
    assert "GroupThresholdPredictor" in repr(predictor)


def test_does_what_the_thresholds_were_chosen_for() -> None:
    """Rates of the predictions' probabilities are those that the choice promised."""
    rng = np.random.default_rng(5)
    y, feature = rng.integers(2, size=2000), rng.choice(["a", "b", "c"], 2000)
    score = np.clip(rng.normal(0.4 + 0.2 * y * (1 + (feature == "a")), 0.2), 0, 1)
    chosen = choose_thresholds(
        exact_curves(y, score, feature, ["a", "b", "c"], np.arange(1001) / 1000), "equalized_odds"
    )
    positive = GroupThresholdPredictor(chosen.rules).positive_probability(score, sensitive_features=feature)
    for label, name in ((1, "true_positive_rate"), (0, "false_positive_rate")):
        rates = [positive[(feature == group) & (y == label)].mean() for group in "abc"]
        assert rates == pytest.approx(chosen.rates[name].tolist())
