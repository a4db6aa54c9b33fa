"""Features as declared, and models of them: encodings within bounds, classifiers as scikit-learn has them."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from fairshares import LogisticModel
from harness.errors import FeaturesError, RecordsError, ResultFileError
from harness.training.features import Feature, Features, features_from_json, read_features

DECLARED = {"age": {"low": 20, "high": 60}, "sector": {"categories": ["a", "b", "c"]}}


def test_ranges_are_scaled_and_categories_marked():
    features = features_from_json(DECLARED, "here")
    table = {"age": ["20", "40", "70", "", "x", "-inf"], "sector": ["a", "c", "d", "", "b", "a"]}
    expected = [[-1, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0], [-1, 1, 0, 0]]
    assert features.encode(table).tolist() == expected
    assert features.named == ["age", "sector = a", "sector = b", "sector = c"]
    assert features_from_json(features.to_json(), "again") == features


@given(
    st.lists(st.text() | st.floats().map(str) | st.integers().map(str)),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False),
)
def test_no_value_is_refused_and_none_leaves_the_bounds(values, low, high):
    features = [Feature(categories=("0", "a"))]
    if 0 < high / 2 - low / 2 < np.inf:
        features.append(Feature(low, high))
    for feature in features:
        encoded = feature.encode(values)
        assert encoded.shape == (len(values), feature.columns) and (np.abs(encoded) <= 1).all()


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({}, "a model has 1 to 100000 columns of features, not 0"),
        ({"age": {"low": 3}}, "A feature has categories, or a low end and a high one above it"),
        ({"age": {"low": 3, "high": 3}}, "or a low end and a high one above it"),
        ({"age": {"low": 0, "high": 1, "categories": ["a", "b"]}}, "either categories, or a low and a high"),
        ({"sector": {"categories": ["a", "a"]}}, "two or more categories, each named once"),
        ({"sector": ["a", "b"]}, "is not a declaration of features"),
        ({"age": {"low": 0, "high": 1, "hi": 1}}, "did you mean high"),
        ({"group": {"low": 0, "high": 1}}, "group is no feature"),
    ],
)
def test_what_is_no_declaration_is_refused_in_one_sentence(tmp_path, declared, said):
    path = tmp_path / "features.json"
    path.write_text(json.dumps(declared))
    with pytest.raises(FeaturesError) as error:
        read_features(path)
    text = str(error.value)
    assert said.lower() in text.lower() and "features.json" in text and text.endswith(".")


TWO_FEATURES = Features({"age": Feature(0.0, 10.0), "sector": Feature(categories=("1", "2"))})
CLASSIFIER = LogisticModel(TWO_FEATURES, ("no", "yes"), np.array([[1.0, 2.0, -2.0, 0.5]]))


def test_probabilities_are_those_of_the_log_odds():
    table = pd.DataFrame({"sector": [1, 2.0, np.nan], "age": [10, 99, 5], "other": [0, 0, 0]})
    expected = 1 / (1 + np.exp(-np.array([3.5, -0.5, 0.5])))
    np.testing.assert_allclose(CLASSIFIER.predict_proba(table)[:, 1], expected)
    assert CLASSIFIER.predict(table).tolist() == ["yes", "no", "yes"]
    assert CLASSIFIER.score(table, ["yes", "no", "no"]) == pytest.approx(2 / 3)
    assert CLASSIFIER.classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"parameters": [[1.0]]}, ResultFileError),
        ({"parameters": [[1.0] * 4, [1.0]], "labels": ["a", "b", "c"]}, ResultFileError),
        ({"labels": [None, "yes"]}, ResultFileError),
        ({"features": {}}, FeaturesError),
    ],
)
def test_a_file_is_read_or_refused(tmp_path, change, error):
    path = tmp_path / "model.json"
    path.write_text(json.dumps(CLASSIFIER.to_json()))
    assert LogisticModel.load(tmp_path).to_json() == CLASSIFIER.to_json()
    path.write_text(json.dumps({**CLASSIFIER.to_json(), **change}))
    with pytest.raises(error, match=r"model\.json"):
        LogisticModel.load(path)


def test_what_is_no_table_of_its_features_is_refused():
    with pytest.raises(FeaturesError, match="takes a pandas DataFrame of features, not list"):
        CLASSIFIER.predict([[1, 2]])  # type: ignore[arg-type]
    with pytest.raises(RecordsError, match="The table has no column sector"):
        CLASSIFIER.predict(pd.DataFrame({"age": [1]}))
