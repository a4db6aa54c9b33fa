"""`./inv reproduce gaps`: Juarez and Korolova's numbers, each beside the published one."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import Normalizer

from benchmarks.papers import gaps, rounds_to
from benchmarks.studies.gaps.figures import claims, figure4, figure_1
from benchmarks.studies.gaps.published import table1, table2
from benchmarks.studies.outcome import Row, StudyResult, grouped, rounded
from fairshares.data.activity import READINGS, load_activity
from fairshares.harness.errors import DataSetError
from fairshares.harness.views.parts import Bad, Good, Part, Stacked, Table
from fairshares.protocols.accounting.rounding import digits_up, float_up
from fairshares.protocols.arrays import Floats

SEXES = ("M", "F")
SYNTHETIC, ACTIVITY = "synthetic", "activity"
NAMES = {
    SYNTHETIC: "SYNTHETIC population: values made up around the means that the paper prints, not measured",
    ACTIVITY: "activity data (UCI 427): rates of recordings under a model trained here",
}
RATES = ("true_positive_rate", "false_positive_rate")
FEWEST_READINGS, FEWEST_OF_A_CLASS = 50, 6  # of a recording; in the published code, not in the paper


@dataclass(frozen=True, eq=False)
class Rates:
    """Rates of recordings by a name of `RATES`, then by sex as in `SEXES`, without 0/0."""

    values: dict[str, tuple[Floats, ...]]
    figures: dict[str, tuple[float, float | None]]  # of the data and model, with deviations over splits
    about: dict[str, Any]


def synthetic_rates() -> Rates:
    """Return rates per sex, evenly spaced around the paper's means."""
    printed = gaps()["activity"]

    def around_the_mean(name: str, sex: str) -> Floats:
        mean = float(printed[f"mean_{name}"][sex]) / 100
        return mean + min(mean, 1 - mean) * np.linspace(-1, 1, printed["recordings"][sex])

    return Rates(
        {name: tuple(around_the_mean(name, sex) for sex in SEXES) for name in RATES},
        {},
        {"source": SYNTHETIC, "is": NAMES[SYNTHETIC]},
    )


def activity_rates(path: Path, splits: int, progress: Callable[[int], None] = lambda _: None) -> Rates:
    """Return the rates of each recording's held-out readings under a model of all recordings.

    Rates are those of the last split, and figures are means over splits.
    Source: appendix D and the published code; see benchmarks/results/reproduce-gaps/README.md.
    Raises:
        DataSetError: A sex has no recording left.
    """
    recordings = load_activity(path)
    table, of_recordings = recordings.table, recordings.table.groupby("recording")
    sizes, sexes, lying = of_recordings.size(), of_recordings["sex"].first(), of_recordings["lying"].sum()
    used = sizes.index[(sizes >= FEWEST_READINGS) & (np.minimum(lying, sizes - lying) >= FEWEST_OF_A_CLASS)]
    if set(sexes[used]) != set(SEXES):
        raise DataSetError(
            f"{path} has no recording of each sex with at least {FEWEST_READINGS} readings and "
            f"{FEWEST_OF_A_CLASS} of each class; name the directory of the whole archive."
        )
    kept = table[table["recording"].isin(used)]
    measured = [_split(kept, seed, progress) for seed in range(splits)]
    last = measured[-1][1]
    figures: dict[str, tuple[float, float | None]] = {
        **{f"recordings_{sex}": (float((sexes == sex).sum()), None) for sex in SEXES},
        "readings_per_recording": (float(sizes.mean()), None),
        **{
            str(name): (float(of.mean()), float(of.std(ddof=0)))
            for name, of in pd.DataFrame([figures for figures, _ in measured]).items()
        },
    }
    return Rates(
        {name: tuple(last[name][sexes[used] == sex].dropna().to_numpy() for sex in SEXES) for name in RATES},
        figures,
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
    judged = table.iloc[test].assign(predicted=model.predict(features[test]))
    progress(seed + 1)
    figures = {"accuracy": 100 * float((judged["predicted"] == judged["lying"]).mean())}
    rates = {}
    for name, positive in zip(RATES, (1, 0), strict=True):
        of_class = judged[judged["lying"] == positive]
        figures[name] = 100 * float(of_class["predicted"].mean())
        grouped = of_class.groupby(["recording", "sex"])["predicted"].mean()
        means = [100 * float(grouped[:, sex].mean()) for sex in SEXES]
        figures |= {f"mean_{name}_{sex}": mean for sex, mean in zip(SEXES, means, strict=True)}
        figures[f"{name}_gap"] = abs(means[0] - means[1])
        rates[name] = grouped.droplevel("sex")
    return figures, pd.DataFrame(rates, index=sorted(set(table["recording"])))


SEED = 20_230_417  # any; fixed, so that figures can be repeated
RESULT = "gaps.json"
MARKS = {True: Good("✓"), False: Bad("✗")}
# Runs of Table 2's cells, and splits of the activity data.
WHOLE = {"runs": 10_000, "splits": int(gaps()["activity"]["splits"]), "runs_of_figure_4": 100_000}
QUICK = {"runs": 200, "splits": 1, "runs_of_figure_4": 1_000}


def close(found: float, published: str, deviation: float | None) -> bool:
    """Return whether a figure rounds to the published one, or is within three deviations."""
    near = deviation is not None and abs(found - float(published)) <= 3 * deviation
    return near or rounds_to(found, published)


def reproduce(
    data: Path | None,
    extent: Mapping[str, int],
    begin: Callable[[str], None] = lambda _: None,
    detail: Callable[[str], None] = lambda _: None,
) -> StudyResult:
    """Return every number beside the published one."""
    of_table2, of_figure4 = np.random.default_rng(SEED).spawn(2)
    rates = (
        synthetic_rates()
        if data is None
        else activity_rates(
            data, extent["splits"], lambda done: detail(f"{done} of {extent['splits']} splits")
        )
    )
    result: dict[str, Any] = {
        "schema": 1,
        "population": {"source": rates.about["source"], "is": NAMES[rates.about["source"]]},
    }
    begin("table1")
    result["table1"] = table1()
    begin("table2")
    result["table2"] = table2(rates.about["source"], rates.values[RATES[0]], extent["runs"], of_table2)
    begin("figures")
    result["claims"] = claims()
    result["figure4"] = figure4(extent["runs_of_figure_4"], of_figure4)
    table = pd.json_normalize(gaps()["activity"], sep="_")
    printed = {str(name): str(value) for name, value in table.iloc[0].items()}
    result["activity"] = [
        {
            "what": name,
            "published": printed[name],
            "found": value,
            "deviation": deviation,
            "agrees": close(value, printed[name], deviation),
        }
        for name, (value, deviation) in rates.figures.items()
    ]
    return StudyResult(
        {"population": rates.about, "seed": SEED, "extent": extent, "paper": gaps()["paper"]},
        _plain(result | {"caveats": gaps()["caveats"]}),
        view(result),
        result=RESULT,
        figures={"figure-1.png": figure_1},
    )


def _plain(value: Any) -> Any:
    """Return numbers as JSON, epsilons rounded up and others to six digits."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, Fraction):
        return float_up(value)
    return rounded(value, 6) if isinstance(value, float) else value


def view(result: Mapping[str, Any]) -> Iterator[Part]:
    """View all tables."""
    yield f"Population of Table 2: {result['population']['is']}."
    synthetic = result["population"]["source"] == SYNTHETIC
    if result["activity"]:
        yield Table(
            ["activity data and model", "published", "found", "over splits", ""],
            [
                [
                    row["what"].replace("_", " "),
                    row["published"],
                    f"{row['found']:.2f}",
                    "" if row["deviation"] is None else f"± {row['deviation']:.2f}",
                    MARKS[row["agrees"]],
                ]
                for row in result["activity"]
            ],
            title="Appendix D",
        )
    yield grouped(
        (
            *("", "clients", "α", "published", "reproduced", "", "true ε of that"),
            *("repaired: α at that ε", "repaired: ε for α", "the same, Chernoff"),
        ),
        [
            [
                cell["mechanism"],
                f"10^{len(str(cell['clients'])) - 1}",
                f"{cell['alpha']:g}",
                cell["published"] or "-",
                _number(cell["reproduced"]),
                MARKS[cell["agrees"]],
                "-" if cell["reproduced"] is None else _epsilon(cell["true_epsilon"]),
                *(_number(cell[name]) for name in ("repaired_alpha", "repaired", "tight")),
            ]
            for cell in result["table1"]
        ],
        2,
        title="Table 1: least ε for an error α of the gap, with probability 0.99",
    )
    yield grouped(
        (
            *("", "ε", "α published", "reproduced", "", "true ε", "α repaired", "error published"),
            *("as printed", "as coded", "repaired"),
        ),
        [
            [
                cell["mechanism"],
                cell["epsilon"],
                cell["published"]["alpha"],
                Stacked(f"{cell['alpha']:.4f}\n({cell['alpha_of_the_text']:.4f})"),
                MARKS[cell["agrees"]],
                Stacked(f"{_epsilon(cell['true_epsilon'])}\nas coded: {_epsilon(cell['coded_epsilon'])}")
                if cell["coded"]
                else _epsilon(cell["true_epsilon"]),
                f"{cell['repaired_alpha']:.4f}",
                Stacked(f"{cell['published']['error']}\n({cell['published']['deviation']})"),
                *(_errors(cell[name]) for name in ("errors", "coded", "repaired")),
            ]
            for cell in result["table2"]
        ],
        title=f"Table 2: error of the gap, 10^7 clients{' — SYNTHETIC POPULATION' if synthetic else ''}",
    )
    yield (
        "Errors: mean (deviation) of one run; P is how often as many runs as the paper's have a mean as far "
        "out as the published one, twice. α: Chebyshev's bound at 99 %, worst values, two groups of "
        "5,000,000, gap of rates from 0 to 1, which is what the published code computes; the text's "
        "groups and scale give the α in brackets. As coded: the published code exchanges the two scales of "
        "M_L's noise; that fault is emulated here."
    )
    rows = [
        [
            *(f"{claim[name]}" for name in ("figure", "what", "published", "reproduced")),
            MARKS[claim["agrees"]],
            claim["true"],
        ]
        for claim in result["claims"]
    ]
    printed = gaps()["figure4"]
    rows += [
        [
            "4",
            f"MSE of a group's mean by M_R, {curve['name']}",
            f"{printed['runs']['100000']}; Eq. 20: {printed['theory']}"
            if curve is result["figure4"][0]
            else "",
            f"{curve['empirical'][-1]:.3f} over {curve['runs'][-1]:,} runs; Eq. 20: {curve['theory']:.3f}",
            "",
            f"true ε {_epsilon(curve['epsilon'])}",
        ]
        for curve in result["figure4"]
    ]
    yield grouped(
        ["figure", "what", "published", "reproduced", "", "what holds"],
        rows,
        alignment="llllll",
        title="What figures show",
    )
    yield (
        "The ε that is published is not the ε of these settings, but for M_L with k = 2: see the true ε. "
        "Table 2's α are as published by the reading of the published code."
    )


def _errors(errors: Row | None) -> str:
    if errors is None:
        return ""
    text = f"{errors['mean']:.2g} ({errors['deviation']:.2g})"
    return text if errors["fits_mean"] is None else Stacked(f"{text}\nP = {errors['fits_mean']:.2g}")


def _epsilon(epsilon: Fraction | None) -> str:
    return "none" if epsilon is None else digits_up(epsilon, 4)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
