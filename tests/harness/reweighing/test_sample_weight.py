"""From `weights.json` to a pandas Series that scikit-learn takes."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fairshares.harness.errors import RecordsError, ResultFileError
from fairshares.harness.reweighing.sample_weight import read_weights, sample_weight

GOOD: dict[str, Any] = {
    "schema": 1,
    "groups": ["a", "b"],
    "labels": ["0", "1"],
    "weights": [[1.0, 2.0], [3.0, 4.0]],
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "weights.json").write_text(json.dumps(GOOD))
    return tmp_path


def test_weights_are_indexed_by_group_and_label(run: Path) -> None:
    weights = read_weights(run)
    assert weights["b", "0"] == 3 and weights.shape == (4,)
    assert weights.equals(read_weights(str(run / "weights.json")))


def test_rows_get_their_weight_under_their_own_index(run: Path) -> None:
    rows = pd.DataFrame({"group": ["b", "a", "b"], "label": [1, 0, 0]}, index=[7, 3, 5])
    weights = sample_weight(run, rows["group"], rows["label"])
    assert weights.to_dict() == {7: 4.0, 3: 1.0, 5: 3.0}
    assert weights.name == "sample_weight"


@pytest.mark.parametrize("labels", [[0, 1], [0.0, 1.0], ["0", "1"], pd.Categorical([0, 1])])
def test_labels_are_matched_as_they_stand_in_a_file(run: Path, labels: Any) -> None:
    weights = sample_weight(read_weights(run), pd.Series(["a", "b"]), pd.Series(labels))
    assert weights.tolist() == [1.0, 4.0]


@pytest.mark.parametrize(
    ("group", "label", "message"),
    [
        (["a", "c"], [0, 1], "Sample 1 has the group 'c'"),
        (["a", "b"], [0, None], "Sample 1 has the group 'b' and the label ''"),
    ],
)
def test_a_row_without_a_weight_is_named(run: Path, group: list[str], label: list[int], message: str) -> None:
    with pytest.raises(RecordsError, match=message):
        sample_weight(run, pd.Series(group), pd.Series(label))


def test_group_and_label_of_other_rows_are_refused(run: Path) -> None:
    with pytest.raises(RecordsError, match="same index"):
        sample_weight(run, pd.Series(["a"], index=[0]), pd.Series([1], index=[1]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "Cannot read"),
        ("{", "not JSON"),
        ("[]", "not the weights.json of a run"),
        (json.dumps({**GOOD, "schema": 2}), "schema 2; this version reads schema 1"),
        (json.dumps({**GOOD, "weights": [[1, 2]]}), "a positive weight for each"),
        (json.dumps({**GOOD, "weights": [[1, 2], [3, 0]]}), "a positive weight for each"),
        (json.dumps({**GOOD, "weights": [[1, 2], [3, "x"]]}), "not the weights.json of a run"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "weights.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ResultFileError, match=message):
        read_weights(path)
