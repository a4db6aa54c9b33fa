"""A client's computation on one mortgage application, the scores that follow, and the results' assessment."""

from collections.abc import Mapping
from functools import cache

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairshares.data.loanapp import GROUPS, LoanApplications, load_loanapp
from fairshares.harness.evaluation.metrics import assess

Array = npt.NDArray[np.float64]

# A feature's typical value and spread: public knowledge of its unit, so that nothing is learnt from data.
SCALES = {
    "loanprc": (0.8, 0.2), "hrat": (25, 10), "obrat": (33, 10), "pubrec": (0, 0.25), "cons": (2, 2),
    "mortg": (2, 1), "unem": (4, 4), "self": (0, 0.33),
}  # fmt: skip
FEATURES = list(SCALES)
START = np.zeros(len(FEATURES) + 1)  # coefficients and intercept
STEP = 2.0
CLIP = 3.0  # of a change, twice as long as that of an applicant with typical features
HELD_BACK = 4  # one training applicant in so many chooses thresholds, and trains nothing
SHOWN = [
    "accuracy", "balanced_accuracy", "selection_rate",
    "demographic_parity_difference", "equalized_odds_difference",
]  # fmt: skip

_data = cache(load_loanapp)


@cache
def applicants(part: str, split: int) -> pd.DataFrame:
    """Return a split's applicants: scaled features, group, label and client.

    Args:
        part: "train" for those who train, "thresholds" for those who choose thresholds, or "test".
        split: The split's number.
    """
    data: LoanApplications = _data()
    train, test = data.split(split)
    rows = test
    if part != "test":
        chooses = np.arange(len(train)) % HELD_BACK == 0
        rows = train[chooses if part == "thresholds" else ~chooses]
    typical, spread = pd.DataFrame(SCALES).to_numpy()
    table = data.features.loc[rows, FEATURES].sub(typical).div(spread)
    return table.assign(client_id=rows, group=data.sensitive_feature[rows], label=data.y_true[rows])


def train_locally(model: Array, row: pd.Series, weight: float) -> Array:
    """Return the model after a step along the gradient of one applicant's weighed log-likelihood."""
    inputs = np.append(row[FEATURES].to_numpy(dtype=np.float64), 1.0)
    probability = 1 / (1 + np.exp(-inputs @ model))
    return np.asarray(model + STEP * weight * (float(row["label"]) - probability) * inputs)


def weight_of(weights: Mapping[str, float], row: pd.Series) -> float:
    """Return an applicant's own weight, from the table that is public; 1 without a table."""
    return weights.get(f"{row['group']}/{row['label']}", 1.0)


def scores(model: Array, rows: pd.DataFrame) -> Array:
    """Return the probability of approval for each row."""
    inputs = np.column_stack([rows[FEATURES].to_numpy(dtype=np.float64), np.ones(len(rows))])
    return np.asarray(1 / (1 + np.exp(-inputs @ model)))


def metrics(predicted: npt.NDArray[np.int64], rows: pd.DataFrame) -> dict[str, float]:
    """Assess predictions for test applicants."""
    figures = assess(rows["label"], predicted, rows["group"], GROUPS)
    return {name: figures[name] for name in SHOWN}
