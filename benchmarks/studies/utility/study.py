"""The worth of released score curves, by method, epsilon, records and groups."""

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

from benchmarks.figures import (
    GRID,
    LOGARITHMIC,
    Mark,
    Panel,
    band,
    draw,
    level,
    line,
    ones_and_threes,
    shown,
    ticks,
)
from benchmarks.studies.outcome import SUMMARY, Row, StudyResult, grouped, rounded
from benchmarks.studies.utility.curves import (
    CONSTRAINT,
    DELTA,
    DISTRIBUTED_TREE,
    FLAT,
    LOCAL,
    MEASURES,
    METHODS,
    NOISE_FREE,
    OBJECTIVE,
    PER_THRESHOLD,
    TREE,
    UNMITIGATED,
    LoanPopulation,
    Population,
    Sample,
    SyntheticPopulation,
    cumulative,
    curves_of,
    gap,
    measure,
    rates_under,
    release_for,
)
from fairshares.harness.privacy.statement import SHIFTED
from fairshares.harness.views.palette import COLOURS, GREY, MARKERS
from fairshares.harness.views.parts import Part, Stacked
from fairshares.protocols.accounting.calibration import NeighboringRelation
from fairshares.protocols.accounting.rounding import float_up
from fairshares.protocols.arrays import Floats

SEED = 20_221_119  # any; fixed, so that figures can be repeated


RELATION = NeighboringRelation.REPLACE_ONE  # the relation that local DP protects
_SHOWN = 1  # the epsilon of the table
NAMES = {
    TREE: "tree (default)",
    FLAT: "flat histogram",
    PER_THRESHOLD: "noise per threshold",
    LOCAL: "local DP",
    DISTRIBUTED_TREE: "distributed noise (3 parties)",
}
_COLOUR = dict(zip((TREE, LOCAL, FLAT, PER_THRESHOLD, DISTRIBUTED_TREE), COLOURS, strict=False))


@dataclass(frozen=True)
class Setting:
    """One population, its number of records, and epsilons."""

    population: Population
    records: int
    # The values of PrivFairFL's appendix D.
    epsilons: tuple[Fraction, ...] = tuple(map(Fraction, ("1/4", "1/2", "1", "2", "5", "10", "20", "50")))

    @property
    def key(self) -> tuple[str, int, int]:
        """The population's name and number of groups, and the number of records."""
        return self.population.name, self.population.groups, self.records


def settings(quick: bool) -> tuple[Setting, ...]:
    """Return settings with two groups, with more, and with real data."""
    if quick:
        epsilons = (Fraction(1), Fraction(10))
        coarse = SyntheticPopulation(2, thresholds=101)
        return (
            Setting(coarse, 10_000, epsilons),
            Setting(LoanPopulation(), LoanPopulation.records(), epsilons),
        )
    epsilons_of_more_groups = tuple(map(Fraction, ("1/4", "1", "5", "50")))
    return (
        Setting(SyntheticPopulation(2), 1_000),
        Setting(SyntheticPopulation(2), 10_000),
        Setting(SyntheticPopulation(2), 100_000),
        Setting(SyntheticPopulation(2), 1_000_000),
        Setting(SyntheticPopulation(3), 100_000, epsilons_of_more_groups),
        Setting(SyntheticPopulation(5), 100_000, epsilons_of_more_groups),
        Setting(LoanPopulation(), LoanPopulation.records()),
    )


def study(
    suite: Sequence[Setting],
    repetitions: int,
    progress: Callable[[int, int], None],
) -> StudyResult:
    """Measure every method in every setting, on the same records.

    Args:
        suite: The settings.
        repetitions: How often records are drawn, and noise is.
        progress: A function that is told how many measurements are done, and how many there are.
    """
    total = sum(1 + len(setting.epsilons) * len(METHODS) for setting in suite)
    outcomes = list[Row]()
    with threadpool_limits(limits=1):
        for setting in suite:
            sample = setting.population.sample(setting.records, repetitions, generator(*setting.key))
            outcomes.append(_outcome(setting, sample, NOISE_FREE, None, generator(*setting.key)))
            for epsilon, method in product(setting.epsilons, METHODS):
                progress(len(outcomes), total)
                rng = generator(*setting.key, method, epsilon)
                outcomes.append(_outcome(setting, sample, method, epsilon, rng))
    summaries = [summary_of(outcome) for outcome in outcomes]
    rows = []
    for summary, outcome in zip(summaries, outcomes, strict=True):
        squares = [np.square(outcome["tpr_rmse"]), np.square(outcome["fpr_rmse"])]
        rows.append(summary | quartiles(_RATES, np.sqrt(np.mean(squares, axis=0))))
    table = pd.DataFrame(rows)
    # A picture of two groups, by records. And a picture of more groups and real data, which begins with two
    # groups and as many records.
    of_two = (table["population"] == "synthetic") & (table["groups"] == 2)
    others = ~of_two | (table["records"] == table["records"][~of_two].max())
    return StudyResult(
        {
            "seed": SEED,
            "repetitions": repetitions,
            "neighboring_relation": {"of the noise made in the computation": RELATION, LOCAL: RELATION},
            "delta": float_up(DELTA),
            "constraint": CONSTRAINT,
            "objective": OBJECTIVE,
            "measures": MEASURES,
        },
        summaries,
        view(table),
        outcomes,
        {SUMMARY: summaries},
        figures={
            "utility.png": lambda: plot(table[of_two], "records"),
            "utility-groups.png": lambda: plot(table[others], "groups"),
        },
    )


def _outcome(
    setting: Setting,
    sample: Sample,
    method: str,
    epsilon: Fraction | None,
    rng: np.random.Generator,
) -> Row:
    """Return each of `MEASURES` for every repetition. Without an epsilon the counts are exact."""
    repetitions, groups, _, bins = sample.histograms.shape
    whole = sample.whole.points()
    if epsilon is None:
        counts = cumulative(sample.histograms)
        of_guarantee: Row = {"epsilon": None, "epsilon_exact": None, "delta_exact": None}
    else:
        release = release_for(
            method, bins, groups, records=setting.records, epsilon=epsilon, relation=RELATION
        )
        counts = release.estimate(sample.histograms, rng)
        guarantee = release.guarantee
        of_guarantee = {
            "epsilon": float(epsilon),
            "epsilon_exact": float_up(guarantee.epsilon),
            "delta_exact": float_up(guarantee.delta),
        }
    measured = []
    for repetition in range(repetitions):
        estimated = curves_of(sample.whole.groups, sample.whole.thresholds, counts[repetition])
        measured.append(measure(estimated, sample.counted(repetition), whole))
    tpr, fpr = rates_under(dict.fromkeys(whole.groups, UNMITIGATED), whole)
    outcome: dict[str, Any] = {
        "population": setting.population.name,
        "records": setting.records,
        "groups": groups,
        "thresholds": bins,
        "method": method,
        **of_guarantee,
        "unmitigated_gap": rounded(gap(tpr, fpr)),
    }
    for name in MEASURES:
        outcome[name] = [rounded(measures[name]) for measures in measured]
    return outcome


def generator(*purpose: object) -> np.random.Generator:
    """Return random numbers that depend only on the seed and their purpose."""
    return np.random.default_rng([SEED, zlib.crc32(repr(purpose).encode())])


def summary_of(outcome: Row) -> dict[str, Any]:
    """Return an outcome's parameters, and each measure's quartiles."""
    summary = {name: value for name, value in outcome.items() if name not in MEASURES}
    summary["repetitions"] = len(outcome["chosen"])
    summary["chosen"] = int(sum(outcome["chosen"]))
    for name in MEASURES:
        if name != "chosen":
            summary |= quartiles(name, outcome[name])
    return summary


def quartiles(name: str, values: Sequence[float] | Floats) -> dict[str, float]:
    """Return the columns of a measure's quartiles."""
    first, median, third = np.quantile(values, [0.25, 0.5, 0.75])
    return {
        f"{name}_q1": rounded(float(first)),
        f"{name}_median": rounded(float(median)),
        f"{name}_q3": rounded(float(third)),
    }


_RATES = "rates"  # the true and the false positive rate together
_WHOLE = "gap_whole"
FIGURES = {
    "TPR and FPR,\nRMS error": _RATES,
    "AUC,\nRMS error": "auc_error",
    "Gap among\nthose counted": "gap_counted",
    "Gap in the\npopulation": _WHOLE,
}


def of_settings(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return each setting's rows, by its name for people."""
    by_name = {}
    for (population, records, groups), rows in table.groupby(["population", "records", "groups"], sort=False):
        bins = rows["thresholds"].iloc[0]
        name = f"{records:,} records,\n{groups} groups, {bins} thresholds"
        if population == "loanapp":
            name = f"real data: {name}"
        by_name[name] = rows
    return by_name


def plot(table: pd.DataFrame, by: str) -> Figure:
    """Draw medians by epsilon, shaded between the quartiles.

    Args:
        table: The rows to draw. There is a column of panels for each setting.
        by: The quantity by which the settings differ, for the title.
    """
    columns = of_settings(table)
    epsilons = {epsilon: f"{epsilon:g}" for epsilon in sorted(table["epsilon"].dropna().unique())}
    frame = [LOGARITHMIC, ticks(epsilons, fontsize=8), ones_and_threes, GRID]
    panels = []
    for name in FIGURES.values():
        limits = shown(ylim=(_least(table, name), None))
        panels.append([[*_marks(rows, name), *frame, limits] for rows in columns.values()])
    return draw(
        panels,
        (max(7.0, 1 + 2.75 * len(columns)), 2.5 * len(FIGURES)),
        f"Released score curves and thresholds from them, by ε and {by}",
        x="ε of the whole release",
        y=list(FIGURES),
        columns=list(columns),
        legend_columns=min(3, len(columns)),
        sharex=True,
        sharey="row",
    )


def _marks(of_setting: pd.DataFrame, name: str) -> Panel:
    marks = list[Mark]()
    for method, marker in zip(METHODS, MARKERS, strict=False):
        rows = of_setting[of_setting["method"] == method]
        marks += [
            band(rows["epsilon"], rows[f"{name}_q1"], rows[f"{name}_q3"], color=_COLOUR[method], alpha=0.18),
            line(
                rows["epsilon"],
                rows[f"{name}_median"],
                color=_COLOUR[method],
                marker=marker,
                markersize=5,
                linewidth=1.8,
                label=NAMES[method],
            ),
        ]
    if name == _WHOLE:
        exact = of_setting[of_setting["method"] == NOISE_FREE].iloc[0]
        marks += [
            level(
                exact[f"{name}_median"],
                color="black",
                linestyle=":",
                linewidth=1.6,
                label="no noise: what the sample leaves",
            ),
            level(
                exact["unmitigated_gap"],
                color=GREY,
                linestyle="--",
                linewidth=1.4,
                label="before: one threshold, 0.5, for all",
            ),
        ]
    return marks


def _least(table: pd.DataFrame, name: str) -> float:
    """Return a row's lower end, below all medians but those of local DP."""
    medians = table[f"{name}_median"][~table["method"].isin((NOISE_FREE, LOCAL))]
    return float(medians[medians > 0].min()) / 1.6


def view(table: pd.DataFrame) -> Iterator[Part]:
    """View quartiles, and how often each method is best."""
    figures = {title.replace("\n", " "): name for title, name in FIGURES.items()}
    methods = (*METHODS, NOISE_FREE)
    lines = list[list[str]]()
    for name_of_setting, of_setting in of_settings(table).items():
        setting = name_of_setting.replace("\n", " ")
        printed = of_setting["epsilon"].isin([_SHOWN]) | of_setting["epsilon"].isna()
        by_method = of_setting[printed].set_index("method").T
        for title, name in [*figures.items(), ("Balanced accuracy, population", "balanced_accuracy")]:
            spreads = [_spread(by_method[method], name) for method in methods]
            lines.append([setting, title, *spreads])
        gap_before = f"{by_method.loc['unmitigated_gap'].iloc[0]:.3g}"
        nothing = [""] * len(METHODS)  # the gap before is the same for all methods
        lines.append([setting, "Gap before", gap_before, *nothing])
    yield grouped([f"ε = {_SHOWN}", "", *methods], lines, alignment="ll" + "r" * len(methods))
    yield (
        "Medians and quartiles. Errors: RMS over groups and thresholds, against the exact curves of the "
        "records that were counted. Gap: the equalized odds difference under thresholds chosen on the "
        "released curves, among the records that were counted and in the population (real data: among "
        "people who were not counted). Before: under 0.5 for all groups, which stays where a rate is 0/0. "
        "Decisions by lot have a small gap and a balanced accuracy of 0.5. With distributed noise "
        f"{SHIFTED}."
    )
    noisy = table[table["epsilon"].notna()]
    for title, name in figures.items():
        cells = noisy.groupby(["population", "records", "groups", "epsilon"])[f"{name}_median"]
        best = noisy.loc[cells.idxmin(), "method"].value_counts()
        counted = ", ".join(f"{NAMES[method]} {best.get(method, 0)}" for method in METHODS)
        yield f"Best by the median, {title}: {counted} (of {best.sum()})."
    yield "Computed in the clear, on synthetic and public data: nothing here needs or has a guarantee."


def _spread(row: "pd.Series[Any]", name: str) -> str:
    low = row[f"{name}_q1"]
    median = row[f"{name}_median"]
    high = row[f"{name}_q3"]
    if not high:
        return "0"
    return Stacked(f"{median:.2g}\n{low:.2g} – {high:.2g}")
