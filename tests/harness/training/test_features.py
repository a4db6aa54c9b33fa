"""Features as declared: every value has an encoding within bounds; what is no declaration is refused."""

import json

import numpy as np
import pytest
from hypothesis import given, strategies as st

from harness.errors import FeaturesError
from harness.training.features import Feature, features_from_json, read_features

DECLARED = {"age": {"low": 20, "high": 60}, "sector": {"categories": ["a", "b", "c"]}}


def test_ranges_are_scaled_and_categories_marked():
    found = features_from_json(DECLARED, "here")
    table = {"age": ["20", "40", "70", "", "x", "-inf"], "sector": ["a", "c", "d", "", "b", "a"]}
    expected = [[-1, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0], [-1, 1, 0, 0]]
    assert found.encode(table).tolist() == expected
    assert found.named == ["age", "sector = a", "sector = b", "sector = c"]
    assert features_from_json(found.to_json(), "again") == found


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
        found = feature.encode(values)
        assert found.shape == (len(values), feature.columns) and (np.abs(found) <= 1).all()


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
