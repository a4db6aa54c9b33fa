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
SYNTHETIC = "synthetic"
ACTIVITY = "activity"
NAMES = {
    SYNTHETIC: "SYNTHETIC population: values made up around the means that the paper prints, not measured",
    ACTIVITY: "activity data (UCI 427): rates of recordings under a model trained here",
}
RATES = ("true_positive_rate", "false_positive_rate")
# Fewest of a recording that counts: in the published code, not in the paper.
FEWEST_READINGS = 50
FEWEST_OF_A_CLASS = 6


@dataclass(frozen=True, eq=False)
class Rates:
    """Rates of recordings, and figures of the data and the model that they come from.

    Args:
        values: The recordings' rates by sex in the order of `SEXES`, by a name of `RATES`. A recording whose
            rate is 0/0 has none.
        figures: Each figure's mean and deviation over splits; None for a figure that no split changes.
        about: The fields of `about.json` on the data.
    """

    values: dict[str, tuple[Floats, ...]]
    figures: dict[str, tuple[float, float | None]]
    about: dict[str, Any]


def synthetic_rates() -> Rates:
    """Return made-up rates of each sex, evenly spaced around the means that the paper prints."""
    printed = gaps()["activity"]

    def around_the_mean(name: str, sex: str) -> Floats:
        mean = float(printed[f"mean_{name}"][sex]) / 100
        return mean + min(mean, 1 - mean) * np.linspace(-1, 1, printed["recordings"][sex])

    values = {}
    for name in RATES:
        values[name] = tuple(around_the_mean(name, sex) for sex in SEXES)
    return Rates(values, {}, {"source": SYNTHETIC, "is": NAMES[SYNTHETIC]})


def activity_rates(path: Path, splits: int, progress: Callable[[int], None] = lambda _: None) -> Rates:
    """Return the rates of each recording's held-out readings under a model of all recordings.

    The rates are of the last split. The figures are means over all splits.
    Source: appendix D and the published code; see benchmarks/results/reproduce-gaps/README.md.

    Args:
        path: The directory of the data.
        splits: How often readings are split into those for training and those for tests.
        progress: A function that is told the number of splits that are done.

    Raises:
        DataSetError: A sex has no recording left.
    """
    recordings = load_activity(path)
    table = recordings.table
    by_recording = table.groupby("recording")
    sizes = by_recording.size()
    sexes = by_recording["sex"].first()
    lying = by_recording["lying"].sum()
    fewer_of_a_class = np.minimum(lying, sizes - lying)
    used = sizes.index[(sizes >= FEWEST_READINGS) & (fewer_of_a_class >= FEWEST_OF_A_CLASS)]
    if set(sexes[used]) != set(SEXES):
        raise DataSetError(
            f"{path} has no recording of each sex with at least {FEWEST_READINGS} readings and "
            f"{FEWEST_OF_A_CLASS} of each class; name the directory of the whole archive."
        )
    kept = table[table["recording"].isin(used)]
    measured = [_split(kept, seed, progress) for seed in range(splits)]
    figures: dict[str, tuple[float, float | None]] = {}
    for sex in SEXES:
        figures[f"recordings_{sex}"] = (float((sexes == sex).sum()), None)
    figures["readings_per_recording"] = (float(sizes.mean()), None)
    of_splits = pd.DataFrame([of_split for of_split, _ in measured])
    for name, column in of_splits.items():
        figures[str(name)] = (float(column.mean()), float(column.std(ddof=0)))
    _, last_rates = measured[-1]
    values = {}
    for name in RATES:
        values[name] = tuple(last_rates[name][sexes[used] == sex].dropna().to_numpy() for sex in SEXES)
    return Rates(
        values,
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
    """Train on a split, and return its figures, and the rates with a row for each recording."""
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
        of_recordings = of_class.groupby(["recording", "sex"])["predicted"].mean()
        means = [100 * float(of_recordings[:, sex].mean()) for sex in SEXES]
        for sex, mean in zip(SEXES, means, strict=True):
            figures[f"mean_{name}_{sex}"] = mean
        figures[f"{name}_gap"] = abs(means[0] - means[1])
        rates[name] = of_recordings.droplevel("sex")
    return figures, pd.DataFrame(rates, index=sorted(set(table["recording"])))


SEED = 20_230_417  # any; fixed, so that figures can be repeated
RESULT = "gaps.json"
MARKS = {True: Good("✓"), False: Bad("✗")}
# Runs of Table 2's cells, and splits of the activity data.
WHOLE = {"runs": 10_000, "splits": int(gaps()["activity"]["splits"]), "runs_of_figure_4": 100_000}
QUICK = {"runs": 200, "splits": 1, "runs_of_figure_4": 1_000}


def close(found: float, published: str, deviation: float | None) -> bool:
    """Return whether a figure rounds to the published figure, or is within three deviations of it."""
    if deviation is not None and abs(found - float(published)) <= 3 * deviation:
        return True
    return rounds_to(found, published)


def reproduce(
    data: Path | None,
    extent: Mapping[str, int],
    begin: Callable[[str], None] = lambda _: None,
    detail: Callable[[str], None] = lambda _: None,
) -> StudyResult:
    """Return every number of the paper that is reproduced, beside the published number.

    Args:
        data: The directory of the activity data; None for values that are made up.
        extent: How much is computed: `WHOLE` or `QUICK`.
        begin: A function that is told the name of each step as the step begins.
        detail: A function that is told how far a step is.
    """
    rng_of_table2, rng_of_figure4 = np.random.default_rng(SEED).spawn(2)
    if data is None:
        rates = synthetic_rates()
    else:
        splits = extent["splits"]
        rates = activity_rates(data, splits, lambda done: detail(f"{done} of {splits} splits"))
    source = rates.about["source"]
    result: dict[str, Any] = {"schema": 1, "population": {"source": source, "is": NAMES[source]}}
    begin("table1")
    result["table1"] = table1()
    begin("table2")
    result["table2"] = table2(source, rates.values[RATES[0]], extent["runs"], rng_of_table2)
    begin("figures")
    result["claims"] = claims()
    result["figure4"] = figure4(extent["runs_of_figure_4"], rng_of_figure4)
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
    """Return values as JSON has them: epsilons rounded up, other numbers rounded to six digits."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, Fraction):
        return float_up(value)
    if isinstance(value, float):
        return rounded(value, 6)
    return value


def view(result: Mapping[str, Any]) -> Iterator[Part]:
    """View all tables."""
    yield f"Population of Table 2: {result['population']['is']}."
    if result["activity"]:
        yield Table(
            ["activity data and model", "published", "found", "over splits", ""],
            [_line_of_activity(row) for row in result["activity"]],
            title="Appendix D",
        )
    yield grouped(
        (
            "",
            "clients",
            "α",
            "published",
            "reproduced",
            "",
            "true ε of that",
            "repaired: α at that ε",
            "repaired: ε for α",
            "the same, Chernoff",
        ),
        [_line_of_table1(cell) for cell in result["table1"]],
        2,
        title="Table 1: least ε for an error α of the gap, with probability 0.99",
    )
    title = "Table 2: error of the gap, 10^7 clients"
    if result["population"]["source"] == SYNTHETIC:
        title += " — SYNTHETIC POPULATION"
    yield grouped(
        (
            "",
            "ε",
            "α published",
            "reproduced",
            "",
            "true ε",
            "α repaired",
            "error published",
            "as printed",
            "as coded",
            "repaired",
        ),
        [_line_of_table2(cell) for cell in result["table2"]],
        title=title,
    )
    yield (
        "Errors: mean (deviation) of one run; P is how often as many runs as the paper's have a mean as far "
        "out as the published one, twice. α: Chebyshev's bound at 99 %, worst values, two groups of "
        "5,000,000, gap of rates from 0 to 1, which is what the published code computes; the text's "
        "groups and scale give the α in brackets. As coded: the published code exchanges the two scales of "
        "M_L's noise; that fault is emulated here."
    )
    yield grouped(
        ["figure", "what", "published", "reproduced", "", "what holds"],
        _lines_of_figures(result),
        alignment="llllll",
        title="What figures show",
    )
    yield (
        "The ε that is published is not the ε of these settings, but for M_L with k = 2: see the true ε. "
        "Table 2's α are as published by the reading of the published code."
    )


def _line_of_activity(row: Row) -> list[str]:
    deviation = ""
    if row["deviation"] is not None:
        deviation = f"± {row['deviation']:.2f}"
    return [
        row["what"].replace("_", " "),
        row["published"],
        f"{row['found']:.2f}",
        deviation,
        MARKS[row["agrees"]],
    ]


def _line_of_table1(cell: Row) -> list[str]:
    true_epsilon = "-"
    if cell["reproduced"] is not None:
        true_epsilon = _epsilon(cell["true_epsilon"])
    return [
        cell["mechanism"],
        f"10^{len(str(cell['clients'])) - 1}",
        f"{cell['alpha']:g}",
        cell["published"] or "-",
        _number(cell["reproduced"]),
        MARKS[cell["agrees"]],
        true_epsilon,
        _number(cell["repaired_alpha"]),
        _number(cell["repaired"]),
        _number(cell["tight"]),
    ]


def _line_of_table2(cell: Row) -> list[str]:
    printed = cell["published"]
    true_epsilon = _epsilon(cell["true_epsilon"])
    if cell["coded"]:
        true_epsilon = Stacked(f"{true_epsilon}\nas coded: {_epsilon(cell['coded_epsilon'])}")
    return [
        cell["mechanism"],
        cell["epsilon"],
        printed["alpha"],
        Stacked(f"{cell['alpha']:.4f}\n({cell['alpha_of_the_text']:.4f})"),
        MARKS[cell["agrees"]],
        true_epsilon,
        f"{cell['repaired_alpha']:.4f}",
        Stacked(f"{printed['error']}\n({printed['deviation']})"),
        _errors(cell["errors"]),
        _errors(cell["coded"]),
        _errors(cell["repaired"]),
    ]


def _lines_of_figures(result: Mapping[str, Any]) -> list[list[str]]:
    """Return a line for each statement on Figures 1 to 3, and for each curve of Figure 4."""
    lines = []
    for claim in result["claims"]:
        lines.append(
            [
                str(claim["figure"]),
                claim["what"],
                claim["published"],
                claim["reproduced"],
                MARKS[claim["agrees"]],
                claim["true"],
            ]
        )
    printed = gaps()["figure4"]
    published = f"{printed['runs']['100000']}; Eq. 20: {printed['theory']}"  # on the first line only
    for curve in result["figure4"]:
        lines.append(
            [
                "4",
                f"MSE of a group's mean by M_R, {curve['name']}",
                published,
                f"{curve['empirical'][-1]:.3f} over {curve['runs'][-1]:,} runs; "
                f"Eq. 20: {curve['theory']:.3f}",
                "",
                f"true ε {_epsilon(curve['epsilon'])}",
            ]
        )
        published = ""
    return lines


def _errors(errors: Row | None) -> str:
    if errors is None:
        return ""
    text = f"{errors['mean']:.2g} ({errors['deviation']:.2g})"
    if errors["fits_mean"] is None:
        return text
    return Stacked(f"{text}\nP = {errors['fits_mean']:.2g}")


def _epsilon(epsilon: Fraction | None) -> str:
    if epsilon is None:
        return "none"
    return digits_up(epsilon, 4)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}"
