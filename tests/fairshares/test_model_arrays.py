"""A model's arrays as one vector, and back."""

import re
from typing import Any

import numpy as np
import pytest

from fairshares.flower.model_arrays import change_of, moved, size_of
from fairshares.harness.errors import ModelArraysError

BEFORE: dict[str, Any] = {
    "weights": np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32),
    "bias": np.array(0.5),
}


def test_a_change_is_after_minus_before_in_order() -> None:
    after = {"weights": BEFORE["weights"] + np.float32(0.25), "bias": np.array(-1.5)}
    assert size_of(BEFORE) == 5
    assert change_of(BEFORE, after).tolist() == [0.25, 0.25, 0.25, 0.25, -2.0]
    assert change_of(BEFORE, after).dtype == np.float64
    assert change_of({}, {}).shape == (0,)


def test_a_model_moves_in_its_own_types() -> None:
    went = moved(BEFORE, np.array([1.0, 0.0, -1.0, 0.5, 2.0]))
    assert went["weights"].tolist() == [[2.0, 2.0], [2.0, 4.5]] and went["bias"] == 2.5
    assert {name: array.dtype for name, array in went.items()} == {"weights": np.float32, "bias": np.float64}
    assert BEFORE["bias"] == 0.5


def test_halves_are_subtracted_as_doubles() -> None:
    before, after = {"a": np.array([1000], dtype=np.float16)}, {"a": np.array([1000.0001])}
    assert change_of(before, after) == pytest.approx([0.0001])


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (
            {"bias": BEFORE["bias"], "weights": BEFORE["weights"]},
            "arrays bias, weights, and .* weights, bias",
        ),
        ({"weights": BEFORE["weights"].ravel(), "bias": BEFORE["bias"]}, r"'weights' has the shape \(4,\)"),
        ({"weights": BEFORE["weights"], "bias": np.array(7)}, "'bias' is of type int64"),
    ],
)
def test_another_model_is_refused_without_its_numbers(after: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelArraysError) as refused:
        change_of(BEFORE, after)
    assert re.search(said, str(refused.value)) and "7" not in str(refused.value)


def test_integers_are_refused_in_what_is_sent_out() -> None:
    with pytest.raises(ModelArraysError, match="'batches' is of type int64"):
        size_of({"batches": np.array([3])})
