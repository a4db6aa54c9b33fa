"""The study of training: which runs there are, what they come to, beside the paper's Table 3, and targets.

A run is one draw of clients, split and noise, and a model by each scheme; a line of `samples.jsonl`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import t as students

from benchmarks.figures import GRID, Mark, Panel, draw, level, line, shown
from benchmarks.measure.samples import append, whole_lines
from benchmarks.papers import table3
from benchmarks.studies.outcome import SUMMARY, Outcome, rounded
from benchmarks.studies.training import recipe
from benchmarks.studies.training.joint import CHOSEN, DELTA, Scheme, Trained, rho_of, scores, train
from benchmarks.studies.training.people import MOVIELENS_CLIENTS, Floats, People
from benchmarks.studies.training.scores import PUBLISHED, figures, predictions, rules_of
from benchmarks.studies.utility.curves import cumulative, curves_of, histogram_of
from harness.inputs.record_schema import even_grid
from harness.postprocessing.reweighing.formulas import weights_of_counts
from harness.postprocessing.thresholds.rules import ThresholdRule
from harness.views.palette import COLOURS
from harness.views.parts import Bad, Good, Heading, Part, Table
from protocols.accounting.calibration import PrivacyUnit
from protocols.circuits.weights import BALANCED, KAMIRAN_CALDERS

CONFIDENCE = 0.95
GRID_OF_SCORES = even_grid(1001)  # the paper's

CL, FL, DP_SGD, LOCAL = "CL", "FL", "FL-DP-SGD", "Pre, local DP"
PRE, POST = "PrivFairFL Pre", "PrivFairFL Post"
RECIPES = (CL, FL, DP_SGD, LOCAL, PRE, POST)
SCHEMES = (
    NONE := Scheme("no DP", private=False),
    ALONE := Scheme("training alone"),
    BALANCE := Scheme("balanced weights", weights=BALANCED, largest_weight=3.0),
    RIGHTED := Scheme("Kamiran–Calders weights", weights=KAMIRAN_CALDERS, largest_weight=1.25),
    THRESHOLDS := Scheme("thresholds", thresholds=True),
)
BY_PAPER, JOINT = "paper", "joint"
ONE = 1.0  # the epsilon of Table 3, and of targets
EPSILONS = (ONE, 0.25, 0.5, 2.0, 5.0, 10.0, 20.0, 50.0)  # appendix D names the ends


@dataclass(frozen=True)
class Extent:
    """How much is run. Attributes: seeds: of the recipe; judged: of ours; swept: at other epsilons."""

    seeds: int
    judged: int
    swept: int
    epsilons: tuple[float, ...]
    recipe: recipe.Recipe


WHOLE = Extent(20, 100, 5, EPSILONS, recipe.PAPERS)
QUICK = Extent(2, 3, 2, (1.0, 10.0), recipe.Recipe(rounds=10, epochs=2))


@dataclass(frozen=True)
class Run:
    """One draw. Attributes: way: `paper` or `joint`; models: by scheme, what each does to test records."""

    data: str
    way: str
    epsilon: float
    seed: int
    models: Mapping[str, Mapping[str, float | None]]

    def to_json(self) -> dict[str, Any]:
        """Return a line of `samples.jsonl`."""
        return asdict(self)


def go_on(
    sets: Sequence[People], path: Path, extent: Extent, count: Callable[[int, int], object]
) -> list[Run]:
    """Carry out what the file does not have yet, a line each; return all runs. Args: count: told how far."""
    done = {(run.data, run.way, run.epsilon, run.seed): run for run in load(path)}
    wanted = [
        (people, way, epsilon, seed)
        for people in sets
        for epsilon in extent.epsilons
        for way in (JOINT, BY_PAPER)
        if way == JOINT or people.unit is PrivacyUnit.RECORD
        for seed in range(_seeds(way, epsilon, extent))
    ]
    found = []
    for number, (people, way, epsilon, seed) in enumerate(wanted):
        count(number, len(wanted))
        run = done.get((people.name, way, epsilon, seed))
        if run is None:
            run = carried_out(people, way, epsilon, seed, extent)
            append(path, run)
        found.append(run)
    return found


def load(path: Path) -> list[Run]:
    """Return what was run so far, but for a torn last line."""
    return [Run(**json.loads(each)) for each in whole_lines(path)] if path.exists() else []


def _seeds(way: str, epsilon: float, extent: Extent) -> int:
    if epsilon != ONE:
        return extent.swept
    return extent.judged if way == JOINT else extent.seeds


def carried_out(people: People, way: str, epsilon: float, seed: int, extent: Extent) -> Run:
    """Draw clients and a split by the seed, the same for all ways, and train each scheme's model."""
    rng = np.random.default_rng(seed)
    training, tests = drawn_and_split(people, rng)
    if way == JOINT:
        trained = _jointly(training, epsilon, rng)
    else:
        trained = by_recipe(training, epsilon, rng, extent.recipe, whole=epsilon == ONE)
    models = {name: judged(tests, model, rng) for name, model in trained}
    return Run(people.name, way, epsilon, seed, models)


def judged(tests: People, model: Trained, rng: np.random.Generator) -> dict[str, float | None]:
    """Return what a model does to test records."""
    found = scores(tests, model.parameters)
    return figures(tests, found, predictions(found, tests, model.rules, rng))


def drawn_and_split(people: People, rng: np.random.Generator) -> tuple[People, People]:
    """Return records for training and for tests; of MovieLens as many clients as in the paper."""
    if people.name.startswith("MovieLens"):
        people = people.drawn(MOVIELENS_CLIENTS, rng)
    return people.split(rng)


def by_recipe(
    people: People, epsilon: float, rng: np.random.Generator, by: recipe.Recipe, *, whole: bool
) -> Iterator[tuple[str, Trained]]:
    """Yield a model by each row of Table 3; of those without epsilon only if the `whole` table is wanted."""
    if whole:
        yield CL, Trained(recipe.centralised(people, rng, by))
        equal = np.ones((len(people.label), 1))
        yield FL, Trained(recipe.federated(people, equal, rng, private=False, recipe=by)[0])
    exact = people.counted(people.group, len(people.groups))
    told = recipe.local_counts(people, epsilon, rng), exact + rng.laplace(0, 1 / epsilon, exact.shape)
    weights = [weights_of_counts(table, BALANCED)[people.group, people.label] for table in told]
    weights.insert(0, np.ones(len(people.label)))
    plain, local, pre = recipe.federated(people, np.stack(weights, axis=1), rng, private=True, recipe=by)
    if whole:
        yield DP_SGD, Trained(plain)
    yield LOCAL, Trained(local)
    yield PRE, Trained(pre)
    yield POST, Trained(plain, published_rules(people, plain, epsilon, rng))


def published_rules(
    people: People, parameters: Floats, epsilon: float, rng: np.random.Generator
) -> Mapping[str, ThresholdRule]:
    """Choose thresholds by the training records' scores, with Laplace noise on both counts at each threshold.

    Source: Protocol 4: a record is in one of them at each of 1,001 thresholds, so that its epsilon is
    1,001 times the one that is named. Kinder than that: the totals are means over all thresholds.
    """
    histogram = histogram_of(
        people.group, people.label, scores(people, parameters), GRID_OF_SCORES, len(people.groups)
    )
    above = cumulative(histogram)
    noise = rng.laplace(0, 1 / epsilon, (2, *histogram.shape))
    counts = above.copy()
    counts[..., :-1] += noise[0]
    counts[..., -1] += noise.sum(axis=0).mean(axis=-1)
    return rules_of(curves_of(people.groups, np.array(GRID_OF_SCORES), counts))


def _jointly(people: People, epsilon: float, rng: np.random.Generator) -> Iterator[tuple[str, Trained]]:
    for scheme in SCHEMES:
        if (scheme.private or epsilon == ONE) and (
            not scheme.thresholds or people.unit is PrivacyUnit.RECORD
        ):
            yield scheme.name, train(people, scheme, epsilon, rng)


@dataclass(frozen=True)
class Mean:
    """A figure over seeds. Attributes: half: of its 95 % interval, by Student's t; undefined: in how many."""

    value: float
    half: float
    seeds: int
    undefined: int = 0

    def shown(self, percent: bool = False) -> str:
        """Return the mean and half its interval, or in how many seeds there is none."""
        if self.undefined:
            return f"undefined ({self.undefined} of {self.seeds})"
        factor, digits = (100, 1) if percent else (1, 3)
        return f"{factor * self.value:.{digits}f} ± {factor * self.half:.{digits}f}"


def mean(values: Sequence[float | None]) -> Mean:
    """Return the mean of those that are defined."""
    defined = [value for value in values if value is not None]
    n = len(defined)
    if n < 2:
        return Mean(float("nan"), float("nan"), len(values), len(values) - n)
    half = students.ppf((1 + CONFIDENCE) / 2, n - 1) * np.std(defined, ddof=1) / np.sqrt(n)
    return Mean(float(np.mean(defined)), float(half), len(values), len(values) - n)


def rows_of(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return a row per data set, way, epsilon and scheme: each figure's mean over seeds."""
    cells: dict[tuple[str, str, float, str], list[Mapping[str, float | None]]] = {}
    for run in runs:
        for scheme, found in run.models.items():
            cells.setdefault((run.data, run.way, run.epsilon, scheme), []).append(found)
    return [
        {"data": data, "way": way, "epsilon": epsilon, "scheme": scheme, "seeds": len(found)}
        | {figure: mean([each[figure] for each in found]) for figure in found[0]}
        for (data, way, epsilon, scheme), found in cells.items()
    ]


@dataclass(frozen=True)
class Target:
    """What was set beforehand. Attributes: bound: of the mean; less: than without DP, seed by seed."""

    data: str
    scheme: Scheme
    figure: str
    bound: float
    less: bool

    def judged(self, runs: Sequence[Run]) -> tuple[Mean, bool] | None:
        """Return the mean and whether it keeps to the bound; None: there are no such runs."""
        of = [
            run.models
            for run in runs
            if run.data.startswith(self.data) and run.way == JOINT and run.epsilon == ONE
        ]
        if not of:
            return None
        found = mean(
            [
                (each[self.scheme.name][self.figure] or 0) - (each[NONE.name][self.figure] or 0) * self.less
                for each in of
            ]
        )
        return found, found.value >= self.bound if self.less else found.value <= self.bound


TARGETS = (
    Target("MovieLens", RIGHTED, "accuracy", -0.005, less=True),
    Target("MovieLens", RIGHTED, "odds", 0.07, less=False),
    Target("MovieLens", THRESHOLDS, "odds", 0.04, less=False),
    Target("MovieLens", THRESHOLDS, "accuracy", -0.025, less=True),
    Target("RandHIE", ALONE, "accuracy", -0.005, less=True),
    Target("RandHIE", RIGHTED, "accuracy", -0.005, less=True),
)


def spent(scheme: str, epsilon: float, records: int, by: recipe.Recipe) -> float:
    """Return epsilon of a row of Table 3 for so many records of a client; 0: there is none.

    Computes: at delta = 10^-5. Of training, Gaussian noise at each client, on all its records, in each step;
    and of statistics, of which thresholds take epsilon 1,001 times, local DP as much again for a client's
    group.
    """
    if scheme in (CL, FL):
        return 0.0
    steps = by.rounds * by.local_epochs
    times = {DP_SGD: 0, LOCAL: records, PRE: records, POST: records * len(GRID_OF_SCORES)}[scheme]
    group = epsilon if scheme == LOCAL and records > 1 else 0.0
    return recipe.epsilon_of_gaussians(by.noise / records, steps) + times * epsilon + group


def outcome(runs: Sequence[Run], sets: Sequence[People], extent: Extent, left_out: str) -> Outcome:
    """Return means, intervals, targets and pictures; `left_out` says which data there were none of."""
    rows = rows_of(runs)
    judged = [(target, found) for target in TARGETS if (found := target.judged(runs))]
    about = {
        "data": {people.name: {"records": len(people.label), "clients": people.clients} for people in sets},
        "choices": asdict(CHOSEN),
        "delta": float(DELTA),
        "rho": rounded(rho_of(ONE)),
        "recipe": asdict(extent.recipe),
    }
    more = [
        {"data": each.data, "scheme": each.scheme.name, "figure": each.figure, "bound": each.bound}
        | {"less_no_dp": each.less, "mean": rounded(found.value), "half": rounded(found.half), "met": met}
        for each, (found, met) in judged
    ]
    return Outcome(
        about | {"targets": more},
        {"rows": [*map(_flat, rows)], "targets": more},
        view(rows, judged, sets, extent, left_out),
        tables={SUMMARY: summary(rows)},
        figures={
            f"{people.name.lower().replace(' ', '-')}.png": partial(figure, rows, people) for people in sets
        },
    )


def summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of `summary.csv`, all with the same columns."""
    told = [*map(_flat, rows)]
    columns = dict.fromkeys(name for row in told for name in row)
    return [{name: row.get(name, "") for name in columns} for row in told]


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of `summary.csv`: of each figure the mean, half its interval and the undefined seeds."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mean):
            defined = value.undefined < value.seeds - 1
            found[name] = rounded(value.value) if defined else None
            found[f"{name}, half"] = rounded(value.half) if defined else None
            found[f"{name}, undefined"] = value.undefined
        else:
            found[name] = value
    return found


def view(
    rows: Sequence[Mapping[str, Any]],
    judged: Sequence[tuple[Target, tuple[Mean, bool]]],
    sets: Sequence[People],
    extent: Extent,
    left_out: str,
) -> Iterator[Part]:
    """View Table 3 by the paper's recipe and at a joint epsilon, data set by data set, and targets."""
    for people in sets:
        of = [row for row in rows if row["data"] == people.name and row["epsilon"] == ONE]
        groups = [f"{rate}, {group}" for rate in ("tpr", "selected") for group in people.groups]
        yield Heading(people.name, f"a {people.unit} is protected; {' and '.join(people.groups)}")
        printed = table3()["rows"] if people.name.startswith("MovieLens") else {}
        cells: list[Sequence[str]] = []
        for row in of:
            cells.append(_cells(row, people, extent, groups))
            if row["scheme"] in printed and row["way"] == BY_PAPER:
                cells.append(
                    ["  as printed", *_printed(printed[row["scheme"]]["ml-1m"]), *[""] * len(groups)]
                )
        columns = ("scheme", "ε: record", "ε: client", "accuracy, %", "balanced, %", "AUC", *HEADS, *groups)
        constant = of[0]["constant"].shown(percent=True)
        yield Table(columns, cells, caption=f"The better constant's accuracy: {constant} %.", if_wide=groups)
    if judged:
        heads = ("target", "data", "bound of the mean", "found", "")
        yield Table(heads, [_target(target, *found) for target, found in judged])
    yield (
        "Means over seeds, with 95 % intervals. By the paper's recipe noise is added at each client, and its "
        "ε = 1 is of the statistics alone; ε is what a record, or all of the largest client's, lose at "
        "δ = 10^-5. ΔEODD is the mean of both differences; the others are by the paper's formulas."
    )
    if left_out:
        yield left_out


HEADS = ("|1 − DI|", "ΔEOP", "ΔEODD", "ΔSP")
_FIGURES = (PUBLISHED[0], PUBLISHED[1], "odds", PUBLISHED[3])


def _cells(row: Mapping[str, Any], people: People, extent: Extent, groups: Sequence[str]) -> list[str]:
    name, epsilon = row["scheme"], row["epsilon"]
    if row["way"] == JOINT:
        of = people.unit is PrivacyUnit.RECORD
        told = ["–", "–"] if name == NONE.name else [f"{epsilon:g}", "–"] if of else ["–", f"{epsilon:g}"]
    else:
        most = int(np.bincount(people.client).max() * 0.8)
        values = [spent(name, epsilon, records, extent.recipe) for records in (1, most)]
        told = [f"{value:,.0f}" if value else "∞" for value in values]
    shown_ = [row[each].shown(percent=True) for each in ("accuracy", "balanced")]
    return [name, *told, *shown_, *(row[each].shown() for each in ("auc", *_FIGURES, *groups))]


def _printed(cells: Mapping[str, str]) -> list[str]:
    return ["", "", cells["accuracy"], "", "", *(cells[name] for name in PUBLISHED)]


def _target(target: Target, found: Mean, met: bool) -> list[str]:
    sign = "≥" if target.less else "≤"
    what = f"{target.figure}{', less that without DP' if target.less else ''}"
    shown_ = f"{found.value:.4f} ± {found.half:.4f}"
    verdict = Good("met") if met else Bad("missed")
    return [f"{target.scheme.name}: {what}", target.data, f"{sign} {target.bound:g}", shown_, verdict]


def figure(rows: Sequence[Mapping[str, Any]], people: People) -> Figure:
    """Draw accuracy against the equalized odds difference at epsilon = 1, and both by epsilon."""
    of = [row for row in rows if row["data"] == people.name]
    points: list[Mark] = [
        methodcaller(
            "errorbar",
            row["odds"].value,
            100 * row["accuracy"].value,
            xerr=row["odds"].half,
            yerr=100 * row["accuracy"].half,
            fmt="o" if row["way"] == JOINT else "s",
            color=COLOURS[number % len(COLOURS)],
            label=f"{row['scheme']} ({row['way']})",
        )
        for number, row in enumerate(row for row in of if row["epsilon"] == ONE)
    ]
    names = [scheme.name for scheme in SCHEMES]

    def by_epsilon(name: str, factor: float) -> Panel:
        marks: list[Mark] = []
        for number, scheme in enumerate(names):
            along = sorted(
                (row for row in of if row["scheme"] == scheme), key=lambda row: float(row["epsilon"])
            )
            heights = [factor * row[name].value for row in along]
            if scheme == NONE.name:
                marks.append(level(heights[0], color=COLOURS[number], linestyle=":", label=scheme))
                continue
            marks.append(
                line(
                    [row["epsilon"] for row in along],
                    heights,
                    marker="o",
                    color=COLOURS[number],
                    label=scheme,
                )
            )
        return [*marks, shown(xscale="log", xlabel="joint ε"), GRID]

    return draw(
        [
            [
                [
                    *points,
                    shown(xlabel="ΔEODD", ylabel="accuracy, %", title="ε = 1: joint, or the paper's"),
                    GRID,
                ],
                [*by_epsilon("accuracy", 100), shown(ylabel="accuracy, %")],
                [*by_epsilon("odds", 1), shown(ylabel="ΔEODD")],
            ]
        ],
        (13, 6),
        people.name,
        legend_columns=4,
    )
