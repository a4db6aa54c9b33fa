"""A trained model is scikit-learn's kind of classifier, of tables as they stand in files."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from fairshares import LogisticModel
from harness.errors import FeaturesError, RecordsError, ResultFileError
from harness.training.features import Feature, Features

FEATURES = Features({"age": Feature(0.0, 10.0), "sector": Feature(categories=("1", "2"))})
MODEL = LogisticModel(FEATURES, ("no", "yes"), np.array([[1.0, 2.0, -2.0, 0.5]]))


def test_probabilities_are_those_of_the_log_odds():
    table = pd.DataFrame({"sector": [1, 2.0, np.nan], "age": [10, 99, 5], "other": [0, 0, 0]})
    expected = 1 / (1 + np.exp(-np.array([3.5, -0.5, 0.5])))
    np.testing.assert_allclose(MODEL.predict_proba(table)[:, 1], expected)
    assert MODEL.predict(table).tolist() == ["yes", "no", "yes"]
    assert MODEL.score(table, ["yes", "no", "no"]) == pytest.approx(2 / 3)
    assert MODEL.classes_.tolist() == ["no", "yes"]


def test_it_is_fitted_cloned_and_pickled():
    check_is_fitted(MODEL)
    for again in (clone(MODEL), pickle.loads(pickle.dumps(MODEL)), MODEL.fit(None)):
        assert (again.parameters == MODEL.parameters).all() and again.features == FEATURES


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"parameters": [[1.0]]}, ResultFileError),
        ({"parameters": [[1.0] * 4, [1.0]], "labels": ["a", "b", "c"]}, ResultFileError),
        ({"labels": [1, 2]}, ResultFileError),
        ({"features": {}}, FeaturesError),
    ],
)
def test_a_file_is_read_or_refused(tmp_path, change, error):
    path = tmp_path / "model.json"
    path.write_text(json.dumps(MODEL.to_json()))
    assert LogisticModel.load(tmp_path).to_json() == MODEL.to_json()
    path.write_text(json.dumps({**MODEL.to_json(), **change}))
    with pytest.raises(error, match=r"model\.json"):
        LogisticModel.load(path)


def test_what_is_no_table_of_its_features_is_refused():
    with pytest.raises(FeaturesError, match="takes a pandas DataFrame of features, not list"):
        MODEL.predict([[1, 2]])  # type: ignore[arg-type]
    with pytest.raises(RecordsError, match="The table has no column sector"):
        MODEL.predict(pd.DataFrame({"age": [1]}))
