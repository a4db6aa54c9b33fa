"""Whose performance values the tables measure: recordings of the activity data, or a synthetic stand-in."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import Normalizer

from benchmarks.papers import gaps
from benchmarks.studies.local_simulation import Population
from data.activity import READINGS, load_activity
from harness.errors import DataSetError
from protocols.arrays import Floats

SEXES = ("M", "F")
SYNTHETIC, ACTIVITY = "synthetic", "activity"
NAMES = {
    SYNTHETIC: "SYNTHETIC population: values made up around the means that the paper prints, not measured",
    ACTIVITY: "activity data (UCI 427): rates of recordings under a model trained here",
}
RATES = ("true_positive_rate", "false_positive_rate")
FEWEST_READINGS, FEWEST_OF_A_CLASS = 50, 6  # of a recording; in the published code, not in the paper


@dataclass(frozen=True)
class Measured:
    """A figure of the data or the model. Attributes: deviation: over splits, None where there are none."""

    value: float
    deviation: float | None = None


@dataclass(frozen=True, eq=False)
class Rates:
    """Per sex, in the order of `SEXES`: a rate of every recording, nan where it is 0/0.

    Attributes: source: SYNTHETIC or ACTIVITY; values: by a name of `RATES`; figures: what the paper says of
    the data and the model, by the names of `printed_figures`, in its units; about: for about.json.
    """

    source: str
    values: dict[str, tuple[Floats, ...]]
    figures: dict[str, Measured]
    about: dict[str, Any]

    def of(self, name: str) -> tuple[Floats, ...]:
        """Return the rates that are defined."""
        return tuple(of_sex[~np.isnan(of_sex)] for of_sex in self.values[name])


def printed_figures() -> dict[str, str]:
    """Return what the paper prints of the data and the model, by name; of a sex, name and sex."""
    printed: dict[str, str] = {}
    for name, value in gaps()["activity"].items():
        if name in ("source", "test_share", "splits"):
            continue
        of_sexes = value.items() if isinstance(value, dict) else [("", value)]
        printed |= {f"{name}_{sex}".rstrip("_"): str(each) for sex, each in of_sexes}
    return printed


def resampled(values: tuple[Floats, ...], sizes: tuple[int, ...]) -> Population:
    """Return groups of these sizes, in which each value has as many clients as any other, to one."""
    clients = [
        size // len(of_group) + (np.arange(len(of_group)) < size % len(of_group)).astype(np.int64)
        for of_group, size in zip(values, sizes, strict=True)
    ]
    return Population(values, tuple(clients))


def synthetic_rates() -> Rates:
    """Return as many rates per sex as the paper has recordings, with its means: nothing else is known.

    Computes: equally spaced around the mean, as far as 0 or 1, whichever is nearer.
    """
    printed = gaps()["activity"]

    def around_the_mean(name: str, sex: str) -> Floats:
        mean = float(printed[f"mean_{name}"][sex]) / 100
        return mean + min(mean, 1 - mean) * np.linspace(-1, 1, printed["recordings"][sex])

    values = {name: tuple(around_the_mean(name, sex) for sex in SEXES) for name in RATES}
    return Rates(SYNTHETIC, values, {}, {"source": SYNTHETIC, "is": NAMES[SYNTHETIC]})


def activity_rates(path: Path, splits: int, progress: Callable[[int], None] = lambda _: None) -> Rates:
    """Return the rates of each recording's held-out readings under a model of all recordings.

    Source: appendix D; where it is silent or differs, the published code: recordings with fewer than 50
    readings, or 6 of a class, are dropped; all eight columns are used, each row scaled to length 1; logistic
    regression with elastic net (L1 share 0.99), classes balanced, by SAGA; 70 % of each recording's readings
    train one model for all, the rest test it; the rates per recording are those of the last split, as
    there, all figures means over splits. Rows here are in the order of the recordings' names, there in the
    file system's, so that no split is the same.
    Raises: DataSetError: no recording of either sex is left; see `load_activity`, too.
    """
    recordings = load_activity(path)
    table, of_recordings = recordings.table, recordings.table.groupby("recording")
    sizes, sexes, lying = of_recordings.size(), of_recordings["sex"].first(), of_recordings["lying"].sum()
    fewest = np.minimum(lying, sizes - lying)
    used = sizes.index[(sizes >= FEWEST_READINGS) & (fewest >= FEWEST_OF_A_CLASS)]
    if set(sexes[used]) != set(SEXES):
        raise DataSetError(
            f"{path} has no recording of each sex with at least {FEWEST_READINGS} readings and "
            f"{FEWEST_OF_A_CLASS} of each class; name the whole archive."
        )
    kept = table[table["recording"].isin(used)]
    measured = [_split(kept, seed, progress) for seed in range(splits)]
    last = measured[-1][1]
    of_splits = pd.DataFrame([figures for figures, _ in measured])
    return Rates(
        ACTIVITY,
        {name: tuple(last[name][sexes[used] == sex].to_numpy() for sex in SEXES) for name in RATES},
        {
            **{f"recordings_{sex}": Measured(float((sexes == sex).sum())) for sex in SEXES},
            "readings_per_recording": Measured(float(sizes.mean())),
            **{
                str(name): Measured(float(of.mean()), float(of.std(ddof=0))) for name, of in of_splits.items()
            },
        },
        {
            "source": ACTIVITY,
            "is": NAMES[ACTIVITY],
            "sha256": recordings.sha256,
            "same_as_described_in_data_README": recordings.checked,
            "readings": len(table),
            "splits": splits,
            "scikit_learn": sklearn.__version__,
        },
    )


def _split(
    table: pd.DataFrame, seed: int, progress: Callable[[int], None]
) -> tuple[dict[str, float], pd.DataFrame]:
    """Train and test once. Returns: the paper's figures, in %; the rates of each recording."""
    features = Normalizer().fit_transform(table[list(READINGS)].to_numpy())
    train, test = train_test_split(
        np.arange(len(table)),
        test_size=float(gaps()["activity"]["test_share"]),
        stratify=table["recording"],
        random_state=seed,
    )
    model = LogisticRegression(
        class_weight="balanced", l1_ratio=0.99, solver="saga", max_iter=1000, random_state=0
    )
    model.fit(features[train], table["lying"].to_numpy()[train])
    told = table.iloc[test].assign(predicted=model.predict(features[test]))
    progress(seed + 1)
    figures = {"accuracy": 100 * float((told["predicted"] == told["lying"]).mean())}
    rates = {}
    for name, positive in zip(RATES, (1, 0), strict=True):
        of_class = told[told["lying"] == positive]
        figures[name] = 100 * float(of_class["predicted"].mean())
        grouped = of_class.groupby(["recording", "sex"])["predicted"].mean()
        means = [100 * float(grouped[:, sex].mean()) for sex in SEXES]
        figures |= {f"mean_{name}_{sex}": mean for sex, mean in zip(SEXES, means, strict=True)}
        figures[f"{name}_gap"] = abs(means[0] - means[1])
        rates[name] = grouped.droplevel("sex")
    return figures, pd.DataFrame(rates, index=sorted(set(table["recording"])))
