"""The worth of released score curves: every method, against epsilon, records and groups."""

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from benchmarks.studies.outcome import SUMMARY, Outcome, Row, grouped, rounded
from benchmarks.studies.utility.curves import (
    CONSTRAINT,
    DELTA,
    LOCAL,
    MEASURES,
    METHODS,
    NOISE_FREE,
    OBJECTIVE,
    LoanPopulation,
    Population,
    Sample,
    SyntheticPopulation,
    cumulative,
    curves_of,
    measure,
    release_for,
    unmitigated,
)
from harness.privacy.statement import SHIFTED
from harness.views.parts import Part, Stacked
from protocols.accounting.calibration import NeighboringRelation
from protocols.accounting.rounding import float_up

SEED = 20_221_119  # any; fixed, so that figures can be repeated


RELATION = NeighboringRelation.REPLACE_ONE  # as local DP protects
_SHOWN = 1  # the epsilon of the table


@dataclass(frozen=True)
class Setting:
    """One population, its number of records, and epsilons."""

    population: Population
    records: int
    # As PrivFairFL's appendix D.
    epsilons: tuple[Fraction, ...] = tuple(map(Fraction, ("1/4", "1/2", "1", "2", "5", "10", "20", "50")))


def settings(quick: bool) -> tuple[Setting, ...]:
    """Return the suite: two groups, more groups, and real data."""
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
) -> Outcome:
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
                rng = generator(*what, method, epsilon)
                outcomes.append(_outcome(setting, sample, method, epsilon, rng))
    summaries = [summary_of(outcome) for outcome in outcomes]
    return Outcome(
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
        view(summaries),
        outcomes,
        {SUMMARY: summaries},
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
        release = release_for(method, bins, groups, setting.records, epsilon, RELATION)
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
        "unmitigated_gap": rounded(unmitigated(whole)),
        **{name: [rounded(measures[name]) for measures in measured] for name in MEASURES},
    }


def generator(*what: object) -> np.random.Generator:
    """Return random numbers that depend on the seed and their purpose alone."""
    return np.random.default_rng([SEED, zlib.crc32(repr(what).encode())])


def summary_of(outcome: Row) -> dict[str, Any]:
    """Return an outcome's parameters, and each measure's quartiles."""
    row = {name: value for name, value in outcome.items() if name not in MEASURES}
    row |= {"repetitions": len(outcome["chosen"]), "chosen": int(sum(outcome["chosen"]))}
    for name in [name for name in MEASURES if name != "chosen"]:
        quartiles = np.quantile(np.asarray(outcome[name]), [0.25, 0.5, 0.75])
        places = zip(("q1", "median", "q3"), quartiles, strict=True)
        row |= {f"{name}_{place}": rounded(float(value)) for place, value in places}
    return row


FIGURES = {
    "TPR, RMS error": "tpr_rmse",
    "FPR, RMS error": "fpr_rmse",
    "AUC, RMS error": "auc_error",
    "Gap among those counted": "gap_counted",
    "Gap in the population": "gap_whole",
    "Balanced accuracy, population": "balanced_accuracy",
}


def view(summaries: Sequence[Row]) -> Iterator[Part]:
    """View medians and quartiles at one epsilon."""
    table, methods, rows = pd.DataFrame(summaries), (*METHODS, NOISE_FREE), list[list[str]]()
    shown = table[table["epsilon"].isin([_SHOWN]) | table["epsilon"].isna()]
    for (population, records, groups), of in shown.groupby(["population", "records", "groups"], sort=False):
        setting, at = f"{population}: {records:,} records, {groups} groups", of.set_index("method").T
        for title, name in FIGURES.items():
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
    yield "Computed in the clear, on synthetic and public data: nothing here needs or has a guarantee."


def _spread(row: "pd.Series[Any]", name: str) -> str:
    low, middle, high = (row[f"{name}_{place}"] for place in ("q1", "median", "q3"))
    return Stacked(f"{middle:.2g}\n{low:.2g} – {high:.2g}") if high else "0"
