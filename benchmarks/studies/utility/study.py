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


RELATION = NeighboringRelation.REPLACE_ONE  # as local DP protects
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
    # As PrivFairFL's appendix D.
    epsilons: tuple[Fraction, ...] = tuple(map(Fraction, ("1/4", "1/2", "1", "2", "5", "10", "20", "50")))


def settings(quick: bool) -> tuple[Setting, ...]:
    """Return populations of two groups, of more, and of real data."""
    if quick:
        few, coarse = (Fraction(1), Fraction(10)), SyntheticPopulation(2, thresholds=101)
        return Setting(coarse, 10_000, few), Setting(LoanPopulation(), LoanPopulation.records(), few)
    some = tuple(map(Fraction, ("1/4", "1", "5", "50")))
    return (
        *(Setting(SyntheticPopulation(2), records) for records in (1_000, 10_000, 100_000, 1_000_000)),
        *(Setting(SyntheticPopulation(groups), 100_000, some) for groups in (3, 5)),
        Setting(LoanPopulation(), LoanPopulation.records()),
    )


def study(
    suite: Sequence[Setting],
    repetitions: int,
    progress: Callable[[int, int], None],
) -> StudyResult:
    """Measure every method in every setting, on the same records."""
    total = sum(1 + len(setting.epsilons) * len(METHODS) for setting in suite)
    outcomes = list[Row]()
    with threadpool_limits(limits=1):
        for setting in suite:
            what = (setting.population.name, setting.population.groups, setting.records)
            sample = setting.population.sample(setting.records, repetitions, generator(*what))
            outcomes.append(_outcome(setting, sample, NOISE_FREE, None, generator(*what)))
            for epsilon, method in product(setting.epsilons, METHODS):
                progress(len(outcomes), total)
                outcomes.append(_outcome(setting, sample, method, epsilon, generator(*what, method, epsilon)))
    summaries = [summary_of(outcome) for outcome in outcomes]
    table = pd.DataFrame(
        [
            summary
            | quartiles(_RATES, np.sqrt(np.mean([np.square(outcome[name]) for name in _BOTH], axis=0)))
            for summary, outcome in zip(summaries, outcomes, strict=True)
        ]
    )
    # By records, of two groups; then more groups and real data, after two groups with as many records.
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
    repetitions, groups, _, bins = sample.histograms.shape
    counts, guarantee, whole = cumulative(sample.histograms), None, sample.whole.points()
    if epsilon:
        release = release_for(
            method, bins, groups, records=setting.records, epsilon=epsilon, relation=RELATION
        )
        counts, guarantee = release.estimate(sample.histograms, rng), release.guarantee
    measured = [
        measure(
            curves_of(sample.whole.groups, sample.whole.thresholds, counts[repetition]),
            sample.counted(repetition),
            whole,
        )
        for repetition in range(repetitions)
    ]
    return {
        "population": setting.population.name,
        "records": setting.records,
        "groups": groups,
        "thresholds": bins,
        "method": method,
        "epsilon": None if epsilon is None else float(epsilon),
        "epsilon_exact": guarantee and float_up(guarantee.epsilon),
        "delta_exact": guarantee and float_up(guarantee.delta),
        "unmitigated_gap": rounded(gap(*rates_under(dict.fromkeys(whole.groups, UNMITIGATED), whole))),
        **{name: [rounded(measures[name]) for measures in measured] for name in MEASURES},
    }


def generator(*what: object) -> np.random.Generator:
    """Return random numbers that depend only on the seed and their purpose."""
    return np.random.default_rng([SEED, zlib.crc32(repr(what).encode())])


def summary_of(outcome: Row) -> dict[str, Any]:
    """Return an outcome's parameters, and each measure's quartiles."""
    of_measures = [quartiles(name, outcome[name]) for name in MEASURES if name != "chosen"]
    return {
        **{name: value for name, value in outcome.items() if name not in MEASURES},
        "repetitions": len(outcome["chosen"]),
        "chosen": int(sum(outcome["chosen"])),
        **{column: value for of_measure in of_measures for column, value in of_measure.items()},
    }


def quartiles(name: str, values: Sequence[float] | Floats) -> dict[str, float]:
    """Return the columns of a measure's quartiles."""
    places = zip(("q1", "median", "q3"), np.quantile(values, [0.25, 0.5, 0.75]), strict=True)
    return {f"{name}_{place}": rounded(float(value)) for place, value in places}


_RATES, _WHOLE, _BOTH = "rates", "gap_whole", ("tpr_rmse", "fpr_rmse")  # of both rates together
FIGURES = {
    "TPR and FPR,\nRMS error": _RATES,
    "AUC,\nRMS error": "auc_error",
    "Gap among\nthose counted": "gap_counted",
    "Gap in the\npopulation": _WHOLE,
}


def of_settings(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return each setting's rows, by its name for people."""
    rows = {}
    for (population, records, groups), of in table.groupby(["population", "records", "groups"], sort=False):
        kind = "real data: " if population == "loanapp" else ""
        bins = of["thresholds"].iloc[0]
        rows[f"{kind}{records:,} records,\n{groups} groups, {bins} thresholds"] = of
    return rows


def plot(table: pd.DataFrame, by: str) -> Figure:
    """Draw medians, shaded between the quartiles."""
    columns = of_settings(table)
    epsilons = {epsilon: f"{epsilon:g}" for epsilon in sorted(table["epsilon"].dropna().unique())}
    frame = [LOGARITHMIC, ticks(epsilons, fontsize=8), ones_and_threes, GRID]
    return draw(
        [
            [[*_marks(of, name), *frame, shown(ylim=(_least(table, name), None))] for of in columns.values()]
            for name in FIGURES.values()
        ],
        (max(7.0, 1 + 2.75 * len(columns)), 2.5 * len(FIGURES)),
        f"Released score curves and thresholds from them, by ε and {by}",
        x="ε of the whole release",
        y=list(FIGURES),
        columns=list(columns),
        legend_columns=min(3, len(columns)),
        sharex=True,
        sharey="row",
    )


def _marks(of: pd.DataFrame, name: str) -> Panel:
    marks = list[Mark]()
    for method, marker in zip(METHODS, MARKERS, strict=False):
        rows = of[of["method"] == method]
        low, middle, high = (rows[f"{name}_{place}"] for place in ("q1", "median", "q3"))
        marks += [
            band(rows["epsilon"], low, high, color=_COLOUR[method], alpha=0.18),
            line(
                rows["epsilon"],
                middle,
                color=_COLOUR[method],
                marker=marker,
                markersize=5,
                linewidth=1.8,
                label=NAMES[method],
            ),
        ]
    if name == _WHOLE:
        exact = of[of["method"] == NOISE_FREE].iloc[0]
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
    methods, rows = (*METHODS, NOISE_FREE), list[list[str]]()
    figures = {title.replace("\n", " "): name for title, name in FIGURES.items()}
    for title_of, of in of_settings(table).items():
        at = of[of["epsilon"].isin([_SHOWN]) | of["epsilon"].isna()].set_index("method").T
        setting = title_of.replace("\n", " ")
        for title, name in {**figures, "Balanced accuracy, population": "balanced_accuracy"}.items():
            rows.append([setting, title, *(_spread(at[method], name) for method in methods)])
        rows.append([setting, "Gap before", f"{at.loc['unmitigated_gap'].iloc[0]:.3g}", *[""] * len(METHODS)])
    yield grouped([f"ε = {_SHOWN}", "", *methods], rows, alignment="ll" + "r" * len(methods))
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
    low, middle, high = (row[f"{name}_{place}"] for place in ("q1", "median", "q3"))
    return Stacked(f"{middle:.2g}\n{low:.2g} – {high:.2g}") if high else "0"
