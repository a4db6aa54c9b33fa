"""Scikit-learn's and Fairlearn's conventions are kept, but where docs/reference/python.md says not."""

import inspect
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from fairlearn.postprocessing import ThresholdOptimizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_validate
from sklearn.utils.estimator_checks import check_estimator

from fairshares.harness.errors import RecordsError
from fairshares.harness.postprocessing.thresholds.predictor import GroupThresholdPredictor
from fairshares.harness.postprocessing.thresholds.rules import ThresholdRule
from fairshares.harness.training.features import Features, NumberInRange
from fairshares.harness.training.logistic import LogisticModel
from tests.conftest import PROJECT

RULES = {"a": ThresholdRule((0.5,)), "b": ThresholdRule((0.25, 0.75), (0.5, 0.5))}
OF_FIT = {  # checks of what `fit` learns or refuses; it does nothing
    *("check_estimators_unfitted", "check_fit_check_is_fitted", "check_n_features_in_after_fitting"),
    *("check_n_features_in", "check_complex_data", "check_estimators_empty_data_messages", "check_fit1d"),
    *("check_estimators_nan_inf", "check_estimator_sparse_tag", "check_estimator_sparse_array"),
    *("check_estimator_sparse_matrix", "check_classifiers_train", "check_classifiers_regression_target"),
    *("check_supervised_y_no_nan",),
}


def table() -> tuple[pd.DataFrame, pd.Series, pd.Series]:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"x": rng.normal(size=200), "z": rng.normal(size=200)})
    y = pd.Series(np.where(frame.x + rng.normal(size=200) > 0, "yes", "no"))
    return frame, y, pd.Series(rng.choice(["a", "b"], 200))


NO_LABELS_OF_THEIRS = {"check_classifiers_classes", "check_classifier_data_not_an_array"}
MODEL = LogisticModel(
    Features({"x": NumberInRange(-3, 3), "z": NumberInRange(-3, 3)}), (0, 1), np.array([[2.0, 0.1, 0.0]])
)


@pytest.mark.parametrize(
    ("classifier", "needed", "other"),
    [
        (GroupThresholdPredictor(RULES), "'sensitive_features'", OF_FIT),
        (MODEL, "the model takes a frame with", (OF_FIT | NO_LABELS_OF_THEIRS)),
    ],
)
def test_checks_of_scikit_learn_fail_for_two_reasons_only(classifier: Any, needed: str, other: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is skipped
        done = check_estimator(classifier, on_skip=None, on_fail=None)
    failed = {check["check_name"]: str(check["exception"]) for check in done if check["status"] == "failed"}
    assert {name for name, said in failed.items() if needed not in said} == other
    assert len([check for check in done if check["status"] == "passed"]) >= 20
    text = (PROJECT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    assert [name for name in other if f"`{name}`" not in text] == []


def test_a_trained_model_works_with_its_thresholds_where_metadata_are_routed() -> None:
    X, y, group = table()  # noqa: N806
    y = (y == "yes").astype(int)
    rules = dict.fromkeys("ab", ThresholdRule((0.5,)))
    predictor = GroupThresholdPredictor(rules, MODEL, positive_label="1")
    with sklearn.config_context(enable_metadata_routing=True):
        validated = cross_validate(predictor, X, y, cv=4, params={"sensitive_features": group})
    assert np.mean(validated["test_score"]) == pytest.approx(MODEL.score(X, y)) and MODEL.score(X, y) > 0.6
    assert log_loss(y, MODEL.predict_proba(X)) < 1 and cross_validate(MODEL, X, y)["test_score"].min() > 0.5


def test_it_says_what_its_model_says_of_features_and_classes() -> None:
    X, y, _ = table()  # noqa: N806
    predictor = GroupThresholdPredictor(RULES, LogisticRegression().fit(X, y), positive_label="yes")
    assert predictor.classes_.tolist() == ["no", "yes"] and predictor.n_features_in_ == 2
    assert predictor.feature_names_in_.tolist() == ["x", "z"]
    alone = GroupThresholdPredictor(RULES)
    assert alone.classes_.tolist() == [0, 1]
    assert not hasattr(alone, "n_features_in_") and not hasattr(alone, "feature_names_in_")


@pytest.mark.parametrize("positive", ["yes", "no"])
def test_probabilities_are_of_classes_in_their_order(positive: str) -> None:
    X, y, group = table()  # noqa: N806
    predictor = GroupThresholdPredictor(RULES, LogisticRegression().fit(X, y), positive_label=positive)
    both = predictor.predict_proba(X, sensitive_features=group)
    assert both.shape == (200, 2) and (both.sum(axis=1) == 1).all()
    of_positive = both[:, predictor.classes_.tolist().index(positive)]
    assert of_positive.tolist() == predictor.positive_probability(X, sensitive_features=group).tolist()
    certain = of_positive != 0.5
    assert 0 < certain.sum() < 200
    predicted = predictor.predict(X, sensitive_features=group)
    assert (
        predicted[certain]
        == np.where(of_positive == 1, positive, {"yes": "no", "no": "yes"}[positive])[certain]
    ).all()


def test_score_is_the_accuracy_of_predict() -> None:
    predictor, group = GroupThresholdPredictor(RULES), ["a"] * 4
    scores, y = [0.2, 0.7, 0.9, 0.4], [0, 1, 0, 0]
    assert predictor.score(scores, y, sensitive_features=group) == 0.75
    assert predictor.score(scores, y, [1, 1, 2, 0], sensitive_features=group) == 0.5
    mixed = ["b"] * 4
    expected = np.mean(predictor.predict([0.5] * 4, sensitive_features=mixed, random_state=5) == y)
    assert predictor.score([0.5] * 4, y, sensitive_features=mixed, random_state=5) == expected


def test_groups_are_routed_to_it_without_being_asked_for() -> None:
    X, y, group = table()  # noqa: N806
    model = LogisticRegression().fit(X, y)
    predictor = GroupThresholdPredictor({"a": ThresholdRule((0.5,)), "b": ThresholdRule((0.25,))}, model)
    with sklearn.config_context(enable_metadata_routing=True):
        validated = cross_validate(predictor, X, y, cv=4, params={"sensitive_features": group})
    parts = [
        predictor.score(X[i : i + 50], y[i : i + 50], sensitive_features=group[i : i + 50])
        for i in range(0, 200, 50)
    ]
    assert np.mean(validated["test_score"]) == pytest.approx(np.mean(parts))


@pytest.mark.parametrize("given", [{}, {"params": {"sensitive_features": ["a", "b"] * 20}}])
def test_who_gives_no_groups_reads_how_scikit_learn_hands_them_on(given: dict[str, Any]) -> None:
    """A plain call is refused by the sentence; of scores that fail scikit-learn makes NaN and a warning."""
    scores = np.linspace(0, 1, 40)
    y = (scores > 0.4).astype(int)
    predictor = GroupThresholdPredictor({"a": ThresholdRule((0.5,)), "b": ThresholdRule((0.25,))})
    sentence = (
        r"give each sample's as sensitive_features\. .* sklearn\.set_config\(enable_metadata_routing=True\) "
        r"first, and give params={'sensitive_features': groups}"
    )
    for call in (predictor.predict, predictor.predict_proba, predictor.positive_probability):
        with pytest.raises(RecordsError, match=sentence):
            call(scores)
    with pytest.warns(UserWarning, match=sentence):
        assert np.isnan(cross_validate(predictor, scores, y, cv=4, **given)["test_score"]).all()
    with pytest.raises(RecordsError, match=sentence):
        cross_validate(predictor, scores, y, cv=4, error_score="raise", **given)


def test_predict_takes_what_fairlearn_s_does() -> None:
    fairlearns = inspect.signature(ThresholdOptimizer.predict).parameters
    ours = inspect.signature(GroupThresholdPredictor.predict).parameters
    assert {name: parameter.kind for name, parameter in ours.items()} == {
        name: parameter.kind for name, parameter in fairlearns.items()
    }
