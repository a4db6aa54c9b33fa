"""Splits of a data set into training and test rows, and the model that is fitted on them."""

import warnings
from dataclasses import dataclass
from functools import cached_property

import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from harness.evaluation.loanapp import LoanApplications
from harness.postprocessing.reweighing.sample_weight import Floats, Indices, WeightsTable, look_up_weights

MAX_ITERATIONS = 1000
_PARTS = 3  # of the cross-validation that held-out scores come from


def model_for(data: LoanApplications) -> Pipeline:
    """Return an unfitted pipeline: impute, scale or encode, logistic regression.

    It never sees the sensitive feature, which is not among the features. All that it learns, medians
    and scales included, it learns in `fit`, from training rows.
    [test: tests/harness/evaluation/test_before_after.py::test_test_rows_do_not_reach_the_fitted_pipeline]
    """
    numeric = [name for name in data.features.columns if name not in data.categorical]
    prepare = ColumnTransformer(
        [
            ("numeric", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numeric),
            (
                "categorical",
                make_pipeline(
                    SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
                ),
                list(data.categorical),
            ),
        ],
        sparse_threshold=0,
    )
    return Pipeline([("prepare", prepare), ("classify", LogisticRegression(max_iter=MAX_ITERATIONS))])


def fit(data: LoanApplications, rows: Indices, weights: WeightsTable | None = None) -> Pipeline:
    """Fit the model on these rows, each weighted by its group and label, or all alike.

    Raises: sklearn.exceptions.ConvergenceWarning: the optimiser stopped early, so that the figures
    would describe the optimiser; as in `look_up_weights`.
    """
    y, per_sample, model = data.y_true[rows], None, model_for(data)
    if weights is not None:
        per_sample = look_up_weights(weights, data.groups, data.labels, data.sensitive_feature[rows], y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.fit(data.features.iloc[rows], y, classify__sample_weight=per_sample)
    return model


@dataclass(frozen=True, eq=False)
class Fold:
    """One split of a data set, and the model without mitigation, which several mitigations may need."""

    data: LoanApplications
    seed: int
    train: Indices
    test: Indices

    @property
    def tested(self) -> pd.DataFrame:
        """The features of the test rows."""
        return self.data.features.iloc[self.test]

    @cached_property
    def unmitigated(self) -> Pipeline:
        """The model, fitted on the training rows without weights, once. Raises: as `fit`."""
        return fit(self.data, self.train)


def held_out_scores(data: LoanApplications, rows: Indices) -> Floats:
    """Return each row's score from a model that was fitted without it, shape (rows,).

    Computes: cross-validation in three parts, which do not depend on the labels. On rows that a model was
    fitted on its scores flatter it, and thresholds that are derived from them come out wrong.
    """
    parts = KFold(_PARTS, shuffle=True, random_state=0)
    with threadpool_limits(limits=1):
        found = cross_val_predict(
            model_for(data), data.features.iloc[rows], data.y_true[rows], cv=parts, method="predict_proba"
        )
    scores: Floats = found[:, 1]
    return scores
