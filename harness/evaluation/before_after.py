"""Evaluation in the clear, on public data: what a mitigation does to a model's accuracy and fairness.

Needs every row of the data in one place, so it says what a mitigation is worth and is no part of a
private run. Whatever privacy weights or thresholds have, they bring; nothing here adds to it or draws noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from harness.evaluation.metrics import Assessment, assess
from harness.evaluation.splits import DataSet, Fold, fit
from harness.postprocessing.reweighing.sample_weight import Indices, WeightsTable
from harness.postprocessing.thresholds.predictor import GroupThresholdPredictor
from harness.postprocessing.thresholds.rules import ThresholdRule

METRICS = tuple(field.name for field in fields(Assessment))
UNMITIGATED = "unmitigated"

Mitigation = Callable[[Fold], Indices]
"""Returns predictions, 0 or 1, for a fold's test rows."""


def reweighed(weights: Callable[[Fold], WeightsTable]) -> Mitigation:
    """Return the mitigation that fits anew with these weights."""

    def predict(fold: Fold) -> Indices:
        model = fit(fold.data, fold.train, weights(fold))
        found: Indices = model.predict(fold.data.features.iloc[fold.test])
        return found

    return predict


def thresholded(rules: Callable[[Fold], Mapping[str, ThresholdRule]]) -> Mitigation:
    """Return the mitigation that applies each group's rule to the unmitigated model's scores.

    Mixed rules draw from the split's seed, so that figures can be repeated.
    """

    def predict(fold: Fold) -> Indices:
        predictor = GroupThresholdPredictor(rules(fold), fold.unmitigated)
        found: Indices = predictor.predict(
            fold.data.features.iloc[fold.test],
            sensitive_features=fold.data.sensitive_feature[fold.test],
            random_state=fold.seed,
        )
        return found

    return predict


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Figures of every model on every split.

    Attributes: runs: one row per split and model; columns `split`, `model` and those of `METRICS`.
    """

    runs: pd.DataFrame

    def summary(self) -> pd.DataFrame:
        """Return columns model, metric, mean, std, splits, in the order of models and metrics.

        Edge cases: `splits` counts those where the metric is defined, and the others are left out;
        std is NaN for one split. As splits overlap, std is a spread, not a standard error.
        """
        return _spread(self.runs)

    def changes(self) -> pd.DataFrame:
        """Return the same of the change against the unmitigated model *of the same split*.

        Two columns more: `lower` and `higher` count the splits where the metric fell or rose.
        """
        wide = self.runs.set_index(["split", "model"])[list(METRICS)]
        before = wide.xs(UNMITIGATED, level="model")
        change = (wide - before.reindex(wide.index.get_level_values("split")).to_numpy()).reset_index()
        change = change[change["model"] != UNMITIGATED]
        table = _spread(change)
        signs = np.sign(change.set_index("model")[list(METRICS)])
        for column, sign in (("lower", -1), ("higher", 1)):
            counted = (signs == sign).groupby(level="model").sum()
            table[column] = [
                int(counted.loc[model, metric])
                for model, metric in zip(table["model"], table["metric"], strict=True)
            ]
        return table


def _spread(runs: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for model, of_model in runs.groupby("model", sort=False):
        for metric in METRICS:
            values = of_model[metric].dropna()
            rows.append((model, metric, values.mean(), values.std(ddof=1), len(values)))
    return pd.DataFrame(rows, columns=["model", "metric", "mean", "std", "splits"])


def evaluate(
    data: DataSet,
    mitigations: Mapping[str, Mitigation],
    splits: Iterable[int],
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Assess the model without mitigation, and each mitigation, on every split's test rows.

    The caller decides where a split's weights or thresholds come from (an MPC run, a simulated release,
    exact counts) and must say so where the figures are shown. Each call is one more release on people
    that are in most splits.
    Args: mitigations: by name; splits: seeds; progress: called after every split with how many are
    done, out of how many.
    Raises: ValueError: a mitigation has the reserved name; as in `fit`.
    """
    if UNMITIGATED in mitigations:
        raise ValueError(f"the name {UNMITIGATED!r} is kept for the model without mitigation")
    seeds = list(splits)
    rows: list[dict[str, object]] = []
    # On data this small threads wait for each other: one is faster, many times so on a busy machine.
    with threadpool_limits(limits=1):
        for done, seed in enumerate(seeds, start=1):
            fold = Fold(data, seed, *data.split(seed))
            features = data.features.iloc[fold.test]
            predictions = {UNMITIGATED: fold.unmitigated.predict(features)}
            predictions |= {name: predict(fold) for name, predict in mitigations.items()}
            y_true, groups = data.y_true[fold.test], data.sensitive_feature[fold.test]
            for name, y_pred in predictions.items():
                figures = assess(y_true, y_pred, groups, data.groups)
                rows.append({"split": seed, "model": name, **asdict(figures)})
            if progress is not None:
                progress(done, len(seeds))
    return Evaluation(pd.DataFrame(rows, columns=["split", "model", *METRICS]))
