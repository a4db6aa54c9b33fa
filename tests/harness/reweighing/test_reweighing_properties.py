"""Weights of true counts are what AIF360 and the formulas say, for 2 to 5 groups and 2 to 4 labels."""

import logging
import warnings
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.utils.class_weight import compute_sample_weight

from fairshares.harness.reweighing.formulas import REWEIGHINGS, weights_of_counts
from tests.support import exact_weights

Table = Sequence[Sequence[int]]


@pytest.fixture(scope="module", autouse=True)
def quiet_aif360() -> None:
    """Import it once, with what it says of optional packages that it cannot find."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import aif360.algorithms.preprocessing  # noqa: F401
            import aif360.datasets  # noqa: F401
            import aif360.sklearn.preprocessing  # noqa: F401
    finally:
        logging.disable(logging.NOTSET)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Return counts of at least 1 record per group and label."""
    groups, labels = draw(st.integers(2, 5)), draw(st.integers(2, 4))
    row = st.lists(st.integers(1, draw(st.sampled_from([3, 60]))), min_size=labels, max_size=labels)
    return draw(st.lists(row, min_size=groups, max_size=groups))


def ours(table: Table, reweighing: str) -> npt.NDArray[np.float64]:
    return weights_of_counts(np.array(table, dtype=np.float64), reweighing)


def records(table: Table) -> pd.DataFrame:
    """Return one row per record."""
    rows = [(s, y) for s, row in enumerate(table) for y, count in enumerate(row) for _ in range(count)]
    return pd.DataFrame(rows, columns=["group", "label"])


@given(tables())
@settings(max_examples=40)
def test_kamiran_calders_is_aif360s_reweighing(table: Table) -> None:
    """Its scikit-learn interface takes any number of groups and labels."""
    from aif360.sklearn.preprocessing import Reweighing

    frame = records(table).set_index("group", drop=False)
    reweigher = Reweighing(prot_attr="group")
    _, of_rows = reweigher.fit_transform(frame[["label"]], frame["label"])
    weights = ours(table, "kamiran-calders")
    np.testing.assert_allclose(weights, reweigher.reweigh_factors_, rtol=1e-12)
    np.testing.assert_allclose(weights[frame["group"], frame["label"]], of_rows, rtol=1e-12)


@given(tables(), st.sampled_from(sorted(REWEIGHINGS)))
@settings(max_examples=40)
def test_weights_are_the_formulas(table: Table, reweighing: str) -> None:
    """Exactly computed; and scikit-learn's balanced weights of pairs and of labels."""
    weights = ours(table, reweighing)
    exact = [[float(weight) for weight in row] for row in exact_weights.WEIGHTS[reweighing](table)]
    np.testing.assert_allclose(weights, exact, rtol=1e-14)
    frame = records(table)
    keys = {"balanced": frame["group"] * 10 + frame["label"], "label": frame["label"]}
    if reweighing in keys:
        expected = compute_sample_weight("balanced", keys[reweighing])
        np.testing.assert_allclose(weights[frame["group"], frame["label"]], expected, rtol=1e-12)
