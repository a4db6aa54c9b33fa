"""What released score curves are worth: every method, against epsilon, records and groups."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator
from threadpoolctl import threadpool_limits

from benchmarks.figures import GRID, LOGARITHMIC, Mark, Panel, band, draw, level, line, shown, ticks
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

Floats = npt.NDArray[np.float64]

SEED = 20_221_119  # any; fixed, so that figures can be repeated

# As PrivFairFL's appendix D: 0.25 to 50.
EPSILONS = tuple(map(Fraction, ("1/4", "1/2", "1", "2", "5", "10", "20", "50")))
_FEW_EPSILONS = tuple(map(Fraction, ("1/4", "1", "5", "50")))

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
_MARGIN = 1.6
_INCHES = (2.75, 2.5)  # of a panel


@dataclass(frozen=True)
class Setting:
    """One population and how many of its records are counted, under several epsilons."""

    population: Population
    records: int
    epsilons: tuple[Fraction, ...] = EPSILONS


@dataclass(frozen=True, eq=False)
class Measured:
    """What one method did in one setting.

    Attributes: row: what identifies it, with upper bounds of ε and δ, and the gap that thresholds of 0.5
    leave; samples: by measure, one number per repetition.
    """

    row: Row
    samples: dict[str, list[float]]


Values = Callable[[Measured], Floats]
"""Returns a figure of an outcome, one number per repetition."""


def settings(quick: bool) -> tuple[Setting, ...]:
    """Return the suite: epsilon by records for two groups; more groups; real data.

    Args: quick: two small settings instead.
    """
    two = SyntheticPopulation(2)
    if quick:
        few, coarse = (Fraction(1), Fraction(10)), SyntheticPopulation(2, thresholds=101)
        return Setting(coarse, 10_000, few), Setting(LoanPopulation(), LoanPopulation.records(), few)
    return (
        *(Setting(two, records) for records in (1_000, 10_000, 100_000, 1_000_000)),
        *(Setting(SyntheticPopulation(groups), 100_000, _FEW_EPSILONS) for groups in (3, 5)),
        Setting(LoanPopulation(), LoanPopulation.records()),
    )


def run(
    suite: Sequence[Setting],
    repetitions: int,
    relation: NeighboringRelation,
    progress: Callable[[int, int], None],
) -> list[Measured]:
    """Measure every method in every setting.

    The methods of a setting see the same records. All is on one thread.
    Args: progress: called with how many outcomes there are, out of how many.
    """
    total = sum(1 + len(setting.epsilons) * len(METHODS) for setting in suite)
    outcomes: list[Measured] = []
    with threadpool_limits(limits=1):
        for setting in suite:
            for outcome in _outcomes(setting, repetitions, relation):
                outcomes.append(outcome)
                progress(len(outcomes), total)
    return outcomes


def _outcomes(setting: Setting, repetitions: int, relation: NeighboringRelation) -> Iterator[Measured]:
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
) -> Measured:
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
    row = {
        "population": setting.population.name,
        "records": setting.records,
        "groups": groups,
        "thresholds": bins,
        "method": method,
        "epsilon": None if epsilon is None else float(epsilon),
        "epsilon_exact": guarantee and float_up(guarantee.epsilon),
        "delta_exact": guarantee and float_up(guarantee.delta),
        "unmitigated_gap": rounded(unmitigated(whole)[0]),
    }
    return Measured(row, samples)


def generator(*what: object) -> np.random.Generator:
    """Return random numbers that depend on the seed and on what they are for, in whatever order it is run."""
    return np.random.default_rng([SEED, zlib.crc32(repr(what).encode())])


def summary_of(outcome: Measured) -> dict[str, Any]:
    """Return an outcome's parameters, how often thresholds were chosen, and each measure's quartiles."""
    row = dict(outcome.row)
    row["repetitions"] = len(outcome.samples["chosen"])
    row["chosen"] = int(sum(outcome.samples["chosen"]))
    for name in MEASURES:
        if name != "chosen":
            values = map(rounded, quartiles(outcome.samples[name]))
            row |= dict(zip((f"{name}_q1", f"{name}_median", f"{name}_q3"), values, strict=True))
    return row


def quartiles(values: npt.ArrayLike) -> list[float]:
    """Return the lower quartile, the median and the upper quartile."""
    found: list[float] = np.quantile(np.asarray(values), [0.25, 0.5, 0.75]).tolist()
    return found


def rate_errors(outcome: Measured) -> Floats:
    """Return the RMS error of both rates together, per repetition."""
    both = [np.array(outcome.samples[name]) for name in ("tpr_rmse", "fpr_rmse")]
    return np.asarray(np.sqrt(np.mean(np.square(both), axis=0)))


def _of(name: str) -> Values:
    return lambda outcome: np.array(outcome.samples[name])


_WHOLE = "Gap in the\npopulation"
FIGURES: Mapping[str, Values] = {
    "TPR and FPR,\nRMS error": rate_errors,
    "AUC,\nRMS error": _of("auc_error"),
    "Gap among\nthose counted": _of("gap_counted"),
    _WHOLE: _of("gap_whole"),
}


def title_of(outcome: Measured) -> str:
    """Name an outcome's setting."""
    kind = "real data: " if outcome.row["population"] == "loanapp" else ""
    return "{}{records:,} records,\n{groups} groups, {thresholds} thresholds".format(kind, **outcome.row)


def outcome(outcomes: Sequence[Measured], relation: NeighboringRelation) -> Outcome:
    """Return a line per outcome with its samples, and one with their quartiles."""
    about = {
        "seed": SEED,
        "repetitions": len(outcomes[0].samples["chosen"]),
        "neighboring_relation": {"of the noise made in the computation": relation, LOCAL: "replace_one"},
        "delta": float_up(DELTA),
        "constraint": CONSTRAINT,
        "objective": OBJECTIVE,
        "measures": MEASURES,
    }
    of_settings: dict[tuple[str, int, int], list[Measured]] = {}
    for each in outcomes:
        which = each.row["population"], each.row["records"], each.row["groups"]
        of_settings.setdefault(which, []).append(each)
    summaries = [summary_of(each) for each in outcomes]
    # By records, of two groups; then more groups and real data, after two groups with as many records.
    two = [column for (name, _, groups), column in of_settings.items() if (name, groups) == ("synthetic", 2)]
    rest = [column for column in of_settings.values() if column not in two]
    most = max((column[0].row["records"] for column in rest), default=0)
    others = [*(column for column in two if column[0].row["records"] == most), *rest]
    return Outcome(
        about,
        summaries,
        view(list(of_settings.values())),
        ({**each.row, **each.samples} for each in outcomes),
        {SUMMARY: summaries},
        figures={
            "utility.png": lambda: plot(two, "records"),
            "utility-groups.png": lambda: plot(others, "groups"),
        },
    )


def plot(columns: Sequence[Sequence[Measured]], by: str) -> Figure:
    """Draw medians over the repetitions, shaded between the quartiles, both axes logarithmic.

    Args: columns: the outcomes of one setting each; by: what the settings differ in.
    """
    width, height = _INCHES
    epsilons = sorted({o.row["epsilon"] for outcomes in columns for o in outcomes if o.row["epsilon"]})
    frame = [LOGARITHMIC, ticks({each: f"{each:g}" for each in epsilons}, fontsize=8), _heights, GRID]
    return draw(
        [
            [
                [*_marks(outcomes, label), *frame, shown(ylim=(_least(columns, values), None))]
                for outcomes in columns
            ]
            for label, values in FIGURES.items()
        ],
        (max(7.0, 1 + width * len(columns)), height * len(FIGURES)),
        f"Released score curves and thresholds from them, by ε and {by}",
        x="ε of the whole release",
        y=list(FIGURES),
        columns=[title_of(outcomes[0]) for outcomes in columns],
        legend_columns=min(3, len(columns)),
        sharex=True,
        sharey="row",
    )


def _marks(outcomes: Sequence[Measured], label: str) -> Panel:
    """Return a line of each method; for the population also what exact curves and 1/2 for everybody leave."""
    marks, values = list[Mark](), FIGURES[label]
    for method in METHODS:
        by_epsilon = {o.row["epsilon"]: quartiles(values(o)) for o in outcomes if o.row["method"] == method}
        low, middle, high = np.array(list(by_epsilon.values())).T
        signs = {"marker": _MARKER[method], "markersize": 5, "linewidth": 1.8, "label": NAMES[method]}
        marks += [
            band(list(by_epsilon), low, high, color=_COLOUR[method], alpha=0.18),
            line(list(by_epsilon), middle, color=_COLOUR[method], **signs),
        ]
    if label == _WHOLE:
        (exact,) = (outcome for outcome in outcomes if outcome.row["method"] == NOISE_FREE)
        left, before = float(np.median(values(exact))), exact.row["unmitigated_gap"]
        names = ("no noise: what the sample leaves", "before: one threshold, 0.5, for all")
        marks += [
            level(left, color="black", linestyle=":", linewidth=1.6, label=names[0]),
            level(before, color=GREY, linestyle="--", linewidth=1.4, label=names[1]),
        ]
    return marks


def _heights(axes: Axes) -> None:
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0), numticks=20))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())


def _least(columns: Sequence[Sequence[Measured]], values: Values) -> float:
    """Return where a row of panels ends below: under all medians but local DP's at the largest epsilon.

    Local DP has hardly any noise there, and protects hardly anybody: its lines may leave the frame. So may
    those of the parties' own noise, which is 0 there, mostly.
    """
    medians = [
        middle
        for outcomes in columns
        for outcome in outcomes
        if outcome.row["method"] not in (NOISE_FREE, LOCAL)
        and (middle := float(np.median(values(outcome)))) > 0
    ]
    return min(medians) / _MARGIN


def view(columns: Sequence[Sequence[Measured]]) -> Iterator[Part]:
    """View medians and quartiles at one epsilon, and which method is best how often.

    Args: columns: the outcomes of one setting each.
    """
    methods, rows = (*METHODS, NOISE_FREE), list[list[str]]()
    figures = {name.replace("\n", " "): values for name, values in FIGURES.items()}
    shown_figures = {**figures, "Balanced accuracy, population": _of("balanced_accuracy")}
    for outcomes in columns:
        at = {o.row["method"]: o for o in outcomes if o.row["epsilon"] in (_SHOWN, None)}
        setting = title_of(outcomes[0]).replace("\n", " ")
        for name, values in shown_figures.items():
            rows.append([setting, name, *(_spread(values(at[method])) for method in methods)])
        rows.append(
            [setting, "Gap before", f"{outcomes[0].row['unmitigated_gap']:.3g}", *[""] * len(METHODS)]
        )
    yield grouped([f"ε = {_SHOWN}", "", *methods], rows, alignment="ll" + "r" * len(methods))
    yield (
        "Medians and quartiles. Errors: RMS over groups and thresholds, against the exact curves of the "
        "records that were counted. Gap: the equalized odds difference under thresholds chosen on the "
        "released curves, among the records that were counted and in the population (real data: among "
        "people who were not counted). Before: under 0.5 for all groups, which stays where a rate is 0/0. "
        "Decisions by lot have a small gap and a balanced accuracy of 0.5. With the parties' own noise "
        f"{SHIFTED}."
    )
    for name, values in figures.items():
        yield f"Best by the median, {name}: {_winners(columns, values)}."
    yield "Computed in the clear, on synthetic and public data: nothing here needs or has a guarantee."


def _spread(values: Floats) -> str:
    low, middle, high = quartiles(values)
    return Stacked(f"{middle:.2g}\n{low:.2g} – {high:.2g}") if high else "0"


def _winners(columns: Sequence[Sequence[Measured]], values: Values) -> str:
    """Say in how many of the settings and epsilons each method is best."""
    best: Counter[str] = Counter()
    for outcomes in columns:
        for epsilon in dict.fromkeys(o.row["epsilon"] for o in outcomes if o.row["epsilon"]):
            rivals = [o for o in outcomes if o.row["epsilon"] == epsilon]
            best[min(rivals, key=lambda o: float(np.median(values(o)))).row["method"]] += 1
    counted = [f"{NAMES[method]} {best[method]}" for method in METHODS]
    return f"{', '.join(counted)} (of {best.total()})"
