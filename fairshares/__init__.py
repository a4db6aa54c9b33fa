"""Differentially private fairness statistics of records that stay secret-shared, for pandas and scikit-learn.

    import fairshares as fs

    r = fs.weights(df, epsilon=1)  # columns client_id, group, label; or arrays, by name
    model.fit(X, y, sample_weight=r.sample_weight(df.group, df.label))

    t = fs.thresholds(df, epsilon=1, positive_label="approved")  # also a column score
    t.predictor(model).predict(X, sensitive_features=df.group)

A call plays all roles on this machine, clients and parties, and protects nothing against its owner. Errors
are subclasses of `FairSharesError`, whose messages say what to do. This is the one place for re-exports.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairshares._calls import cap, confusion, count, gap, thresholds, train, weights
    from fairshares._lookups import ledger, load, plan, preprocess
    from fairshares._results import (
        CapResult,
        ConfusionResult,
        CountResult,
        GapResult,
        ThresholdsResult,
        TrainResult,
        WeightsResult,
    )
    from fairshares._session import Session
    from fairshares.harness import __version__
    from fairshares.harness.errors import FairSharesError
    from fairshares.harness.hosts.sums import SumsAtHosts
    from fairshares.harness.postprocessing.thresholds.predictor import GroupThresholdPredictor
    from fairshares.harness.reweighing.sample_weight import read_weights, sample_weight
    from fairshares.harness.training.client_round import TrainingRound
    from fairshares.harness.training.logistic import LogisticModel
    from fairshares.harness.training.session import SumSession
    from fairshares.harness.uploads.vectors import UpdateClient

__all__ = [
    "CapResult",
    "ConfusionResult",
    "CountResult",
    "FairSharesError",
    "GapResult",
    "GroupThresholdPredictor",
    "LogisticModel",
    "Session",
    "SumSession",
    "SumsAtHosts",
    "ThresholdsResult",
    "TrainResult",
    "TrainingRound",
    "UpdateClient",
    "WeightsResult",
    "__version__",
    "cap",
    "confusion",
    "count",
    "gap",
    "ledger",
    "load",
    "plan",
    "preprocess",
    "read_weights",
    "sample_weight",
    "thresholds",
    "train",
    "weights",
]

# Nothing of ours is imported before it is asked for: each of our processes passes through this module, also
# where nothing is installed yet, and under MP-SPDZ's compiler.
_LATE = {
    "FairSharesError": "fairshares.harness.errors",
    "__version__": "fairshares.harness",
    "cap": "fairshares._calls",
    "confusion": "fairshares._calls",
    "count": "fairshares._calls",
    "gap": "fairshares._calls",
    "ledger": "fairshares._lookups",
    "load": "fairshares._lookups",
    "plan": "fairshares._lookups",
    "preprocess": "fairshares._lookups",
    "thresholds": "fairshares._calls",
    "train": "fairshares._calls",
    "weights": "fairshares._calls",
    "GroupThresholdPredictor": "fairshares.harness.postprocessing.thresholds.predictor",
    "LogisticModel": "fairshares.harness.training.logistic",
    "Session": "fairshares._session",
    "SumSession": "fairshares.harness.training.session",
    "SumsAtHosts": "fairshares.harness.hosts.sums",
    "TrainingRound": "fairshares.harness.training.client_round",
    "UpdateClient": "fairshares.harness.uploads.vectors",
    "read_weights": "fairshares.harness.reweighing.sample_weight",
    "sample_weight": "fairshares.harness.reweighing.sample_weight",
    **{name: "fairshares._results" for name in __all__ if name.endswith("Result")},
}


def __getattr__(name: str) -> type[FairSharesError]:
    """Return an error's class, or a name of `_LATE`, which type checkers have from the imports above."""
    if name in _LATE:
        late: type[FairSharesError] = getattr(import_module(_LATE[name]), name)
        return late
    from fairshares.harness import errors

    error = vars(errors).get(name)
    if isinstance(error, type) and issubclass(error, errors.FairSharesError):
        return error
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
