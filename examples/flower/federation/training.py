"""A client's computation, and the assessment of results."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.linear_model import SGDClassifier

from fairshares.data.loanapp import GROUPS, LoanApplications, load_loanapp
from fairshares.harness.evaluation.metrics import assess

Array = npt.NDArray[np.float64]

ROUNDS = 5
EPOCHS = 4
RATE = 0.02
# A feature's typical value and spread: public knowledge of its unit, so that nothing is learnt from data.
SCALES = {
    "loanprc": (0.8, 0.2), "hrat": (25, 10), "obrat": (33, 10), "pubrec": (0, 0.25), "cons": (2, 2),
    "mortg": (2, 1), "unem": (4, 4), "self": (0, 0.33),
}  # fmt: skip
FEATURES = list(SCALES)
START = [np.zeros((1, len(FEATURES))), np.zeros(1)]
SHOWN = [
    "accuracy", "balanced_accuracy", "selection_rate",
    "demographic_parity_difference", "equalized_odds_difference", "equal_opportunity_difference",
]  # fmt: skip

_data = cache(load_loanapp)


def applicants(part: str, split: int) -> pd.DataFrame:
    """Return a split's applicants: scaled features, group and label.

    Args:
        part: "train" for the training applicants, "test" for the test applicants.
        split: The split's number.
    """
    data: LoanApplications = _data()
    train, test = data.split(split)
    rows = {"train": train, "test": test}[part]
    typical, spread = pd.DataFrame(SCALES).to_numpy()
    table = data.features.loc[rows, FEATURES].sub(typical).div(spread)
    return table.assign(group=data.sensitive_feature[rows], label=data.y_true[rows])


def train_locally(model: Sequence[Array], rows: pd.DataFrame, per_row: pd.Series | None) -> list[Array]:
    """Train a logistic regression on a client's rows, from the federation's model."""
    local = _classifier(model)
    for _ in range(EPOCHS):
        local.partial_fit(rows[FEATURES].to_numpy(), rows["label"], sample_weight=per_row)
    return [local.coef_, local.intercept_]


def metrics(model: Sequence[Array] | None, split: int) -> dict[str, float]:
    """Assess a model on test applicants. If the model is None, everybody is approved."""
    rows = applicants("test", split)
    if model is None:
        predicted = np.ones(len(rows), dtype=int)
    else:
        predicted = _classifier(model).predict(rows[FEATURES].to_numpy())
    figures = assess(rows["label"], predicted, rows["group"], GROUPS)
    return {name: figures[name] for name in SHOWN}


def report(constant: pd.DataFrame, unmitigated: pd.DataFrame, weighted: pd.DataFrame) -> str:
    """Compare models by the means of their tables, a row per split."""
    change = weighted - unmitigated
    columns = {
        "approve everybody": constant.mean(),
        "unmitigated": unmitigated.mean(),
        "weighted": weighted.mean(),
        "change": change.mean(),
        "std": change.std(),
        "lower in": [f"{splits} of {len(change)}" for splits in (change < 0).sum()],
    }
    return pd.DataFrame(columns).to_string(float_format="{:.3f}".format)


def _classifier(model: Sequence[Array]) -> SGDClassifier:
    classifier = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=RATE, random_state=0)
    classifier.classes_ = np.array([0, 1])
    coefficients, intercept = model
    classifier.coef_ = coefficients.copy()
    classifier.intercept_ = intercept.copy()
    return classifier


if __name__ == "__main__":
    data = _data()
    print(data.clients(data.split()[0]).to_csv(index=False), end="")
