"""Features as declared, and models of them: encodings within bounds, classifiers as scikit-learn has them."""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime

import duckdb
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from fairshares import LogisticModel
from fairshares.harness.errors import FeaturesError, RecordsError, ResultFileError
from fairshares.harness.inputs.columns import as_text
from fairshares.harness.inputs.tables import Counted, table_at
from fairshares.harness.training.features import (
    Category,
    Feature,
    Features,
    NumberInRange,
    features_from_json,
    read_features,
)
from fairshares.protocols.json_values import JsonValue

DECLARED: JsonValue = {"age": {"low": 20, "high": 60}, "sector": {"categories": ["a", "b", "c"]}}


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
    features: list[Feature] = [Category(("0", "a"))]
    if 0 < high / 2 - low / 2 < np.inf:
        features.append(NumberInRange(low, high))
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
        (
            {"age": {"low": 0, "high": 1, "hi": 1}},
            "age has the key hi; a feature has the keys low and high, or",
        ),
        ({"age": {"min": 0, "max": 1}}, "age has the key min; a feature has the keys low and high, or"),
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


def as_read(values: Mapping[str, Sequence[object]]) -> Counted:
    """Return a line per record, as they come from a table."""
    return Counted(values, np.ones(len(next(iter(values.values()))), dtype=np.int64))


def as_csv(columns, tmp_path):
    pd.DataFrame(columns).to_csv(tmp_path / "x.csv", index=False)
    return tmp_path / "x.csv"


def as_parquet(columns, tmp_path):
    pd.DataFrame(columns).to_parquet(tmp_path / "x.parquet")
    return tmp_path / "x.parquet"


TRUTHS = {
    "pandas": lambda values, _: pd.DataFrame({"x": values}),
    "nullable": lambda values, _: pd.DataFrame({"x": pd.array(values, dtype="boolean")}),
    "objects": lambda values, _: pd.DataFrame({"x": pd.Series(values, dtype=object)}),
    "polars": lambda values, _: polars.DataFrame({"x": values}),
    "arrow": lambda values, _: pa.table({"x": values}),
    "duckdb": lambda values, _: duckdb_relation({"x": values}),
    "csv": lambda values, tmp_path: as_csv({"x": values}, tmp_path),
    "parquet": lambda values, tmp_path: as_parquet({"x": values}, tmp_path),
}


@pytest.mark.parametrize("made", TRUTHS)
def test_truth_is_one_and_zero_from_every_source(made, tmp_path):
    """As `pd.get_dummies` gives it; a model would else be trained on nothing, and ε be spent."""
    values = [True, False, True]
    rows = table_at(TRUTHS[made](values, tmp_path), ["x"]).rows(["x"])
    assert NumberInRange(0.0, 1.0).encode(rows.texts["x"]).ravel().tolist() == [1, -1, 1]
    declared = features_from_json({"x": {"categories": [True, False]}}, "here")
    texts = [text.capitalize() for text in rows.texts["x"]]
    assert declared.encode({"x": texts}).tolist() == [[1, 0], [0, 1], [1, 0]]
    assert list(Features({"x": NumberInRange(0.0, 1.0)}).misread(rows)) == []


def test_categories_are_numbers_too():
    declared = features_from_json({"x": {"categories": [0, 12], "low": None, "high": None}}, "here")
    assert declared.encode({"x": as_text([12.0, 0.0, math.nan])}).tolist() == [[0, 1], [1, 0], [0, 0]]
    assert features_from_json(declared.to_json(), "again") == declared


RANGE, KINDS = NumberInRange(0.0, 9.0), Category(("a", "b"))


@pytest.mark.parametrize(
    ("feature", "values", "said"),
    [
        (
            RANGE,
            ["low", "high"],
            "holds low, for example, and no value in it is a number, such",
        ),
        (
            RANGE,
            ["1,5", "2,5", "2,5"],
            "holds '2,5', for example, and no value in it is a number",
        ),
        (RANGE, [math.nan, None], "is empty, and no value in it is a number"),
        (RANGE, [datetime(2026, 1, 2), None], "has values of the type datetime, which no feature is made of"),
        (KINDS, [date(2026, 1, 2)], "has values of the type date, which no feature is made of; give numbers"),
        (KINDS, ["A", "B"], "holds A, for example, and no value in it is one of its declared categories"),
    ],
)
def test_a_column_of_which_nothing_is_read_is_refused(feature, values, said):
    with pytest.raises(RecordsError) as error:
        list(Features({"x": feature}).misread(as_read({"x": values})))
    assert said in str(error.value) and str(error.value).startswith("The column x ")


@pytest.mark.parametrize("values", [[500, 1500.5, None], [math.inf, -math.inf], ["-1", "n/a"]])
def test_a_column_outside_its_range_is_refused(values):
    """Each value would count as one of the ends."""
    with pytest.raises(
        RecordsError, match="and all of its numbers are outside the declared range from 0 to 9"
    ):
        list(Features({"x": RANGE}).misread(as_read({"x": values})))


def test_values_at_the_ends_are_inside_and_those_beyond_are_said():
    assert list(Features({"x": RANGE}).misread(as_read({"x": [0, 9]}))) == []
    assert list(Features({"x": RANGE}).misread(as_read({"x": [9, 9.5, -math.inf]}))) == [
        "x: 2 of 3 values are outside the range from 0 to 9, as 9.5, and count as its nearer end.",
    ]


UNREAD: list[list[object]] = [
    ["0,9", "0,1"],
    ["yes", "no"],
    [b"9", b"1"],
    [math.nan, math.nan],
    ["x"],
]


@pytest.mark.parametrize("values", UNREAD)
def test_a_model_refuses_a_column_of_which_it_reads_nothing(values):
    """It would else say the same of everybody."""
    table = pd.DataFrame({"age": pd.Series(values, dtype=object), "sector": "1"})
    for predict in (CLASSIFIER.predict, CLASSIFIER.predict_proba):
        with pytest.raises(
            RecordsError, match=r"^The column age .*no value in it is a number, .*correct it\.$"
        ):
            predict(table)


def test_a_model_warns_of_what_counts_as_nothing():
    table = pd.DataFrame({"age": ["10", "n/a", "5"], "sector": ["1", "2", None]})
    with pytest.warns(UserWarning, match="of 3 values are") as warned:
        CLASSIFIER.predict(table)
    assert [str(warning.message) for warning in warned] == [
        "age: 1 of 3 values are not a number, such as 1.5, as n/a, and count as the middle of the range.",
        "sector: 1 of 3 values are missing, and count as none of the categories.",
    ]


def test_one_row_may_lack_a_value_or_have_another_category():
    with pytest.warns(UserWarning, match="age: 1 of 1 values are missing"):
        of_one = CLASSIFIER.predict_proba(pd.DataFrame({"age": [None], "sector": ["1"]}))
    assert of_one.tolist() == CLASSIFIER.predict_proba(pd.DataFrame({"age": [5], "sector": ["1"]})).tolist()
    with pytest.warns(UserWarning, match="sector: 1 of 1 values are not one of its declared categories"):
        CLASSIFIER.predict(pd.DataFrame({"age": [5], "sector": ["3"]}))


def test_what_counts_as_nothing_is_said():
    values: dict[str, list[object]] = {"x": [1, 2.5, "n/a", None], "y": ["a", "c", "c", ""]}
    assert list(Features({"x": RANGE, "y": KINDS}).misread(as_read(values))) == [
        "x: 1 of 4 values are not a number, such as 1.5, as n/a, and count as the middle of the range.",
        "x: 1 of 4 values are missing, and count as the middle of the range.",
        "y: 2 of 4 values are not one of its declared categories, as c, and count as none of the categories.",
        "y: 1 of 4 values are missing, and count as none of the categories.",
        "y: no record has the category b.",
    ]


def duckdb_relation(columns):
    return duckdb.connect().from_arrow(pa.table(columns))


def as_array(columns):
    return np.array([columns["age"], columns["sector"]]).T


TWO_FEATURES = Features({"age": NumberInRange(0.0, 10.0), "sector": Category(("1", "2"))})
CLASSIFIER = LogisticModel(TWO_FEATURES, ("no", "yes"), np.array([[1.0, 2.0, -2.0, 0.5]]))


def test_probabilities_are_those_of_the_log_odds():
    table = pd.DataFrame({"sector": [1, 2.0, np.nan], "age": [10, 99, 5]})
    expected = 1 / (1 + np.exp(-np.array([3.5, -0.5, 0.5])))
    with pytest.warns(UserWarning, match="sector: 1 of 3 values are missing"):
        found = CLASSIFIER.predict_proba(table)
    np.testing.assert_allclose(found[:, 1], expected)
    table["sector"] = [1, 2, 2]
    table["age"] = [10, 99, 0]
    assert CLASSIFIER.predict(table).tolist() == ["yes", "no", "no"]
    assert CLASSIFIER.score(table, ["yes", "no", "yes"]) == pytest.approx(2 / 3)
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


@pytest.mark.parametrize("frame", [polars.DataFrame, polars.LazyFrame, pa.table, duckdb_relation, as_array])
def test_any_frame_has_the_model_s_columns_by_name(frame):
    columns = {"sector": [1, 2, 2], "age": [10, 99, 5]}
    table, y = pd.DataFrame(columns), polars.Series(["no", "yes", "no"])
    expected = CLASSIFIER.predict_proba(table)
    assert CLASSIFIER.predict_proba(frame(columns)).tolist() == expected.tolist()
    assert CLASSIFIER.score(frame(columns), y) == CLASSIFIER.score(table, y.to_list()) < 1
    assert CLASSIFIER.feature_names_in_.tolist() == ["age", "sector"] and CLASSIFIER.n_features_in_ == 2


def test_classes_are_sorted_as_scikit_learn_s_are():
    table = pd.DataFrame({"sector": [1, 2], "age": [10, 0]})
    turned = LogisticModel(TWO_FEATURES, ("yes", "no"), CLASSIFIER.parameters)
    assert turned.classes_.tolist() == ["no", "yes"]
    assert turned.predict(table).tolist() == [
        {"no": "yes", "yes": "no"}[y] for y in CLASSIFIER.predict(table)
    ]
    assert turned.predict_proba(table).tolist() == CLASSIFIER.predict_proba(table)[:, ::-1].tolist()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([[1]], r"X has the shape \(1, 1\); the model takes a frame with the columns age, sector, or"),
        (pd.DataFrame({"age": [1]}), "The table has no column sector"),
        (polars.DataFrame({"age": [1]}), "The table has no column sector"),
        (polars.DataFrame({"age": [1], "sector": [1], "x": [0]}), "has the column x, which is no feature of"),
    ],
)
def test_other_columns_than_the_features_are_refused(given, said):
    with pytest.raises(RecordsError, match=said):
        CLASSIFIER.predict(given)
