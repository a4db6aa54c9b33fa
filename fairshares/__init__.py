"""Differentially private fairness statistics of records that stay secret-shared, for pandas and scikit-learn.

    import fairshares as fs

    r = fs.weights(df, epsilon=1)  # columns client_id, group, label; or arrays, by name
    model.fit(X, y, sample_weight=r.sample_weight(df.group, df.label))

    t = fs.thresholds(df, epsilon=1, positive_label="approved")  # also a column score
    t.predictor(model).predict(X, sensitive_features=df.group)

`weights`, `thresholds`, `confusion`, `gap`, `count` and `cap` release a statistic and return what follows
from it; `train` trains a model; `load` reads what one of them, or a command, has written; `plan` says
beforehand what a release would cost, `ledger` afterwards what was spent. `SumSession` opens noisy sums of
clients' vectors, round by round, for training in any framework. A call plays all roles on this machine,
clients and parties, and protects nothing against its owner. It prints nothing, and raises a
`FairSharesError` that says the way out.

The one place for re-exports: names here stay where they are, the modules that they come from may move.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.postprocessing.reweighing.sample_weight import read_weights, sample_weight
    from harness.postprocessing.thresholds.predictor import GroupThresholdPredictor
    from harness.training.logistic import LogisticModel
    from harness.training.session import SumSession

__all__ = [
    "FairSharesError",
    "GroupThresholdPredictor",
    "LogisticModel",
    "SumSession",
    "cap",
    "confusion",
    "count",
    "gap",
    "ledger",
    "load",
    "plan",
    "read_weights",
    "sample_weight",
    "thresholds",
    "train",
    "weights",
]

_PACKAGES = ("harness", "protocols")
_LATE = {  # their libraries take seconds to load
    "GroupThresholdPredictor": "harness.postprocessing.thresholds.predictor",
    "LogisticModel": "harness.training.logistic",
    "SumSession": "harness.training.session",
    "read_weights": "harness.postprocessing.reweighing.sample_weight",
    "sample_weight": "harness.postprocessing.reweighing.sample_weight",
}


def _find_packages(here: Path) -> None:
    """Have our other packages found: beside this one in a checkout, inside it where it is installed.

    Raises: ImportError: another package of the same name would be imported in place of ours.
    """
    place = here / "_tree" if (here / "_tree").is_dir() else here.parent
    if str(place) not in sys.path:
        sys.path.append(str(place))  # last, so that nothing of anybody else's is hidden
    for name in _PACKAGES:
        spec = find_spec(name)
        where = Path(spec.origin if spec and spec.origin else "/").resolve()
        if not where.is_relative_to(place):
            raise ImportError(
                f"fairshares needs its own package {name}, and Python finds another one, {where.parent}: "
                "rename that, or leave its directory out of sys.path."
            )


_find_packages(Path(__file__).resolve().parent)

from fairshares._calls import (  # noqa: E402  (found only now)
    cap,
    confusion,
    count,
    gap,
    thresholds,
    train,
    weights,
)
from fairshares._lookups import ledger, load, plan  # noqa: E402
from harness.errors import FairSharesError  # noqa: E402


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATE[name]), name)


def __dir__() -> list[str]:
    return __all__
