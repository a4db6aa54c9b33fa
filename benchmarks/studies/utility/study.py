"""What released score curves are worth: every method, against epsilon, records and groups."""

import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
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
from benchmarks.studies.arrays import Floats
from benchmarks.studies.outcome import SUMMARY, Outcome, Row, grouped, rounded
from benchmarks.studies.utility.curves import (
    CONSTRAINT,
    MEASURES,
    OBJECTIVE,
    LoanPopulation,
    Population,
    Sample,
    SyntheticPopulation,
    curves_of,
    measure,
    unmitigated,
)
from benchmarks.studies.utility.releases import (
    DELTA,
    FLAT,
    LOCAL,
    METHODS,
    NOISE_FREE,
    OWN_TREE,
    PER_THRESHOLD,
    TREE,
    release_for,
)
from harness.privacy.statement import SHIFTED
from harness.views.palette import COLOURS, GREY, MARKERS
from harness.views.parts import Part, Stacked
from protocols.accounting.calibration import NeighboringRelation
from protocols.accounting.rounding import float_up

SEED = 20_221_119  # any; fixed, so that figures can be repeated


_SHOWN = 1  # the epsilon of the table
NAMES = {
    TREE: "tree (default)",
    FLAT: "flat histogram",
    PER_THRESHOLD: "noise per threshold",
    LOCAL: "local DP",
    OWN_TREE: "own noise (3 parties)",
}
_COLOUR = dict(zip((TREE, LOCAL, FLAT, PER_THRESHOLD, OWN_TREE), COLOURS, strict=False))
_MARKER = dict(zip(METHODS, MARKERS, strict=False))


@dataclass(frozen=True)
class Setting:
    """One population and how many of its records are counted, under several epsilons."""

    population: Population
    records: int
    # As PrivFairFL's appendix D.
    epsilons: tuple[Fraction, ...] = tuple(map(Fraction, ("1/4", "1/2", "1", "2", "5", "10", "20", "50")))


def settings(quick: bool) -> tuple[Setting, ...]:
    """Return the suite: epsilon by records for two groups; more groups; real data.

    Args: quick: two small settings instead.
    """
    if quick:
        few, coarse = (Fraction(1), Fraction(10)), SyntheticPopulation(2, thresholds=101)
        return Setting(coarse, 10_000, few), Setting(LoanPopulation(), LoanPopulation.records(), few)
    some = tuple(map(Fraction, ("1/4", "1", "5", "50")))
    return (
        *(Setting(SyntheticPopulation(2), records) for records in (1_000, 10_000, 100_000, 1_000_000)),
        *(Setting(SyntheticPopulation(groups), 100_000, some) for groups in (3, 5)),
        Setting(LoanPopulation(), LoanPopulation.records()),
    )


def run(
    suite: Sequence[Setting],
    repetitions: int,
    relation: NeighboringRelation,
    progress: Callable[[int, int], None],
) -> list[Row]:
    """Measure every method in every setting.

    The methods of a setting see the same records. All is on one thread.
    Args: progress: called with how many outcomes there are, out of how many.
    Returns: of each what identifies it, with upper bounds of ε and δ, and the gap that thresholds of 0.5
    leave; and by measure, one number per repetition.
    """
    total = sum(1 + len(setting.epsilons) * len(METHODS) for setting in suite)
    outcomes: list[Row] = []
    with threadpool_limits(limits=1):
        for setting in suite:
            for outcome in _outcomes(setting, repetitions, relation):
                outcomes.append(outcome)
                progress(len(outcomes), total)
    return outcomes


def _outcomes(setting: Setting, repetitions: int, relation: NeighboringRelation) -> Iterator[Row]:
    population = setting.population
    what = (population.name, population.groups, setting.records)
    sample = population.sample(setting.records, repetitions, generator(*what))
    yield _outcome(setting, sample, NOISE_FREE, None, relation, generator(*what))
    for epsilon in setting.epsilons:
        for method in METHODS:
            yield _outcome(setting, sample, method, epsilon, relation, generator(*what, method, epsilon))


def _outcome(
    setting: Setting,
    sample: Sample,
    method: str,
    epsilon: Fraction | None,
    relation: NeighboringRelation,
    rng: np.random.Generator,
) -> Row:
    repetitions, groups, _, bins = sample.histograms.shape
    release = release_for(method, bins, groups, setting.records, epsilon or Fraction(1), relation)
    counts = release.estimate(sample.histograms, rng)
    whole, names = sample.whole.points(), sample.whole.groups
    samples: dict[str, list[float]] = {name: [] for name in MEASURES}
    for repetition in range(repetitions):
        estimated = curves_of(names, sample.whole.thresholds, counts[repetition])
        for name, value in measure(estimated, sample.counted(repetition), whole).items():
            samples[name].append(rounded(value))
    guarantee = release.guarantee
    return {
        "population": setting.population.name,
        "records": setting.records,
        "groups": groups,
        "thresholds": bins,
        "method": method,
        "epsilon": None if epsilon is None else float(epsilon),
        "epsilon_exact": guarantee and float_up(guarantee.epsilon),
        "delta_exact": guarantee and float_up(guarantee.delta),
        "unmitigated_gap": rounded(unmitigated(whole)[0]),
        **samples,
    }


def generator(*what: object) -> np.random.Generator:
    """Return random numbers that depend on the seed and on what they are for, in whatever order it is run."""
    return np.random.default_rng([SEED, zlib.crc32(repr(what).encode())])


def summary_of(outcome: Row) -> dict[str, Any]:
    """Return an outcome's parameters, how often thresholds were chosen, and each measure's quartiles."""
    row = {name: value for name, value in outcome.items() if name not in MEASURES}
    row |= {"repetitions": len(outcome["chosen"]), "chosen": int(sum(outcome["chosen"]))}
    for name in [name for name in MEASURES if name != "chosen"]:
        for place, value in zip(("q1", "median", "q3"), quartiles(outcome[name]), strict=True):
            row[f"{name}_{place}"] = rounded(value)
    return row


def quartiles(values: npt.ArrayLike) -> list[float]:
    """Return the lower quartile, the median and the upper quartile."""
    return list(map(float, np.quantile(np.asarray(values), [0.25, 0.5, 0.75])))


def values_of(outcome: Row, name: str) -> Floats:
    """Return a measure, or the RMS error of both rates together, per repetition."""
    if name != _RATES:
        return np.array(outcome[name])
    both = np.array([outcome["tpr_rmse"], outcome["fpr_rmse"]])
    return np.asarray(np.sqrt(np.mean(both**2, axis=0)))


_RATES, _WHOLE = "rates", "gap_whole"
FIGURES = {
    "TPR and FPR,\nRMS error": _RATES,
    "AUC,\nRMS error": "auc_error",
    "Gap among\nthose counted": "gap_counted",
    "Gap in the\npopulation": _WHOLE,
}


def title_of(outcome: Row) -> str:
    """Name an outcome's setting."""
    kind = "real data: " if outcome["population"] == "loanapp" else ""
    return "{}{records:,} records,\n{groups} groups, {thresholds} thresholds".format(kind, **outcome)


def outcome(outcomes: Sequence[Row], relation: NeighboringRelation) -> Outcome:
    """Return a line per outcome with its samples, and one with their quartiles."""
    of_settings: dict[tuple[str, int, int], list[Row]] = {}
    for each in outcomes:
        of_settings.setdefault(itemgetter("population", "records", "groups")(each), []).append(each)
    summaries = [summary_of(each) for each in outcomes]
    # By records, of two groups; then more groups and real data, after two groups with as many records.
    two = [column for (name, _, groups), column in of_settings.items() if (name, groups) == ("synthetic", 2)]
    rest = [column for column in of_settings.values() if column not in two]
    most = max((column[0]["records"] for column in rest), default=0)
    others = [*(column for column in two if column[0]["records"] == most), *rest]
    return Outcome(
        {
            "seed": SEED,
            "repetitions": len(outcomes[0]["chosen"]),
            "neighboring_relation": {"of the noise made in the computation": relation, LOCAL: "replace_one"},
            "delta": float_up(DELTA),
            "constraint": CONSTRAINT,
            "objective": OBJECTIVE,
            "measures": MEASURES,
        },
        summaries,
        view(list(of_settings.values())),
        outcomes,
        {SUMMARY: summaries},
        figures={
            "utility.png": lambda: plot(two, "records"),
            "utility-groups.png": lambda: plot(others, "groups"),
        },
    )


def plot(columns: Sequence[Sequence[Row]], by: str) -> Figure:
    """Draw medians over the repetitions, shaded between the quartiles, both axes logarithmic.

    Args: columns: the outcomes of one setting each; by: what the settings differ in.
    """
    epsilons = sorted({o["epsilon"] for outcomes in columns for o in outcomes if o["epsilon"]})
    frame = [LOGARITHMIC, ticks({each: f"{each:g}" for each in epsilons}, fontsize=8), ones_and_threes, GRID]
    return draw(
        [
            [
                [*_marks(outcomes, name), *frame, shown(ylim=(_least(columns, name), None))]
                for outcomes in columns
            ]
            for name in FIGURES.values()
        ],
        (max(7.0, 1 + 2.75 * len(columns)), 2.5 * len(FIGURES)),
        f"Released score curves and thresholds from them, by ε and {by}",
        x="ε of the whole release",
        y=list(FIGURES),
        columns=[title_of(outcomes[0]) for outcomes in columns],
        legend_columns=min(3, len(columns)),
        sharex=True,
        sharey="row",
    )


def _marks(outcomes: Sequence[Row], name: str) -> Panel:
    """Return a line of each method; for the population also what exact curves and 1/2 for everybody leave."""
    marks = list[Mark]()
    for method in METHODS:
        by_epsilon = {o["epsilon"]: quartiles(values_of(o, name)) for o in outcomes if o["method"] == method}
        low, middle, high = np.array(list(by_epsilon.values())).T
        marks += [
            band(list(by_epsilon), low, high, color=_COLOUR[method], alpha=0.18),
            line(
                list(by_epsilon),
                middle,
                color=_COLOUR[method],
                marker=_MARKER[method],
                markersize=5,
                linewidth=1.8,
                label=NAMES[method],
            ),
        ]
    if name == _WHOLE:
        (exact,) = (outcome for outcome in outcomes if outcome["method"] == NOISE_FREE)
        marks += [
            level(
                float(np.median(values_of(exact, name))),
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


def _least(columns: Sequence[Sequence[Row]], name: str) -> float:
    """Return where a row of panels ends below: under all medians but local DP's at the largest epsilon.

    Local DP has hardly any noise there, and protects hardly anybody: its lines may leave the frame. So may
    those of the parties' own noise, which is 0 there, mostly.
    """
    medians = [
        middle
        for outcomes in columns
        for outcome in outcomes
        if outcome["method"] not in (NOISE_FREE, LOCAL)
        and (middle := float(np.median(values_of(outcome, name)))) > 0
    ]
    return min(medians) / 1.6


def view(columns: Sequence[Sequence[Row]]) -> Iterator[Part]:
    """View medians and quartiles at one epsilon, and which method is best how often.

    Args: columns: the outcomes of one setting each.
    """
    methods, rows = (*METHODS, NOISE_FREE), list[list[str]]()
    figures = {title.replace("\n", " "): name for title, name in FIGURES.items()}
    shown_figures = {**figures, "Balanced accuracy, population": "balanced_accuracy"}
    for outcomes in columns:
        at = {o["method"]: o for o in outcomes if o["epsilon"] in (_SHOWN, None)}
        setting = title_of(outcomes[0]).replace("\n", " ")
        for title, name in shown_figures.items():
            rows.append([setting, title, *(_spread(values_of(at[method], name)) for method in methods)])
        rows.append([setting, "Gap before", f"{outcomes[0]['unmitigated_gap']:.3g}", *[""] * len(METHODS)])
    yield grouped([f"ε = {_SHOWN}", "", *methods], rows, alignment="ll" + "r" * len(methods))
    yield (
        "Medians and quartiles. Errors: RMS over groups and thresholds, against the exact curves of the "
        "records that were counted. Gap: the equalized odds difference under thresholds chosen on the "
        "released curves, among the records that were counted and in the population (real data: among "
        "people who were not counted). Before: under 0.5 for all groups, which stays where a rate is 0/0. "
        "Decisions by lot have a small gap and a balanced accuracy of 0.5. With the parties' own noise "
        f"{SHIFTED}."
    )
    for title, name in figures.items():
        yield f"Best by the median, {title}: {_winners(columns, name)}."
    yield "Computed in the clear, on synthetic and public data: nothing here needs or has a guarantee."


def _spread(values: Floats) -> str:
    low, middle, high = quartiles(values)
    return Stacked(f"{middle:.2g}\n{low:.2g} – {high:.2g}") if high else "0"


def _winners(columns: Sequence[Sequence[Row]], name: str) -> str:
    """Say in how many of the settings and epsilons each method is best."""
    best: Counter[str] = Counter()
    for outcomes in columns:
        for epsilon in dict.fromkeys(o["epsilon"] for o in outcomes if o["epsilon"]):
            medians = {
                o["method"]: float(np.median(values_of(o, name))) for o in outcomes if o["epsilon"] == epsilon
            }
            best[min(medians, key=medians.__getitem__)] += 1
    counted = ", ".join(f"{NAMES[method]} {best[method]}" for method in METHODS)
    return f"{counted} (of {best.total()})"
