"""Groups and labels come back as the caller has them: their types, in every result and prediction."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fairshares as fs
from harness.inputs.record_schema import values_of

COLUMNS: dict[str, tuple[list[Any], list[Any]]] = {
    "ints": ([0, 1], [10, 20]),
    "truth": ([False, True], [True, False]),
    "texts": (["0", "1"], ["a", "b"]),
    "floats": ([0.0, 1.0], [0.5, 1.5]),
}


def table(labels: list[Any], groups: list[Any], rows: int = 120) -> pd.DataFrame:
    """Return a client's record a row, of all pairs alike, whose label follows from x."""
    label = np.arange(rows) // 2 % 2
    found = pd.DataFrame({"client_id": range(rows), "label": [labels[i] for i in label], "x": label * 1.0})
    found["group"] = [groups[i % 2] for i in range(rows)]
    found["score"] = 0.25 + 0.5 * found.x
    return found


@pytest.mark.parametrize("kind", COLUMNS)
def test_weights_have_the_callers_groups_and_labels(kind: str, tmp_path: Path) -> None:
    labels, groups = COLUMNS[kind]
    df = table(labels, groups)
    r = fs.weights(df, epsilon=20, security="mpyc")
    assert sorted(r.weights.index.tolist()) == sorted((g, y) for g in groups for y in labels)
    assert {type(each) for pair in r.weights.index for each in pair} == {type(labels[0]), type(groups[0])}
    assert r.weights.loc[(groups[1], labels[0])] > 0
    merged = df.merge(r.weights.reset_index(), on=["group", "label"])
    by_row = r.sample_weight(df.group, df.label)
    assert len(merged) == len(df) and sorted(merged.sample_weight) == sorted(by_row)
    r.save(tmp_path / "out")
    for again in (pickle.loads(pickle.dumps(r)), fs.load(tmp_path / "out")):
        assert again.weights.equals(r.weights)


def test_a_model_predicts_the_callers_labels(tmp_path: Path) -> None:
    """And its thresholds, and its file: a comparison with the labels must not be false everywhere."""
    df = table([0, 1], ["a", "b"], 400)
    features = {"x": {"low": 0, "high": 1}}
    r = fs.train(
        df, features=features, epsilon=20, rounds=4, with_=["thresholds"], positive_label=1, security="mpyc"
    )
    assert r.model.classes_.tolist() == [0, 1] and (r.model.predict(df) == df.label).mean() > 0.9
    assert r.model.score(df, df.label) > 0.9
    assert r.thresholds is not None
    predicted = r.thresholds.predictor(r.model).predict(df, sensitive_features=df.group)
    assert set(predicted.tolist()) <= {0, 1} and predicted.dtype.kind == "i"
    r.save(tmp_path / "out")
    assert fs.load(tmp_path / "out").model.classes_.tolist() == [0, 1]


def test_a_name_that_two_values_share_stands_for_none() -> None:
    assert values_of(pd.Series([1, "1", "b", None], dtype=object)) == {"b": "b"}
    assert values_of(pd.Series([1.0, np.nan, 2.0])) == {"1": 1.0, "2": 2.0}
    assert values_of(pd.Series(pd.to_datetime(["2020-01-01"]))) == {}


def test_without_client_ids_each_row_is_a_client() -> None:
    df = table([0, 1], ["a", "b"]).drop(columns="client_id")
    r = fs.weights(df, epsilon=20, security="mpyc")
    assert r.manifest["inputs"]["clients"] == len(df) and "number of rows is public" in str(r)
    for asked in ({"privacy_unit": "client", "cap": 2}, {"cap": 2}):
        with pytest.raises(fs.OptionError, match="name the column of clients by client_id="):
            fs.weights(df, epsilon=20, security="mpyc", **asked)
    with pytest.raises(fs.RecordsError, match="has no column client_id"):
        fs.weights(df.assign(Client_ID=1), epsilon=20, security="mpyc")
