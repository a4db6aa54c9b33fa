"""Tables and figures of pages, from recorded results: `python -m benchmarks.report.paper`."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from io import BytesIO
from itertools import product
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure

from benchmarks.figures import GRID, LOGARITHMIC, Mark, draw, line, place, shown
from benchmarks.measure.cell import error_ratio
from benchmarks.measure.samples import SAMPLES, load_lines
from benchmarks.papers import FigureClaim, privfairfl, table3
from benchmarks.report.export import drawings
from benchmarks.report.pictures import PICTURES, Drawing
from benchmarks.studies.outcome import SUMMARY
from benchmarks.studies.training.models import local_counts
from benchmarks.studies.training.people import wagepan
from benchmarks.studies.training.study import A_DRAW, Draw, shown_draws
from benchmarks.validation import texts
from benchmarks.validation.cells import RESULTS, CellRuns, Measured
from benchmarks.validation.checks import validate
from benchmarks.validation.differences import Reason, supposed
from benchmarks.validation.side_by_side import (
    AT_ONCE,
    NOT_YET,
    PRINTED,
    PROTOCOLS,
    cells_of_figure,
    table2_rows,
    took,
)
from fairshares.harness.evaluation.before_after import summary
from fairshares.harness.reweighing.formulas import weights_of_counts
from fairshares.harness.security_models import MODELS
from fairshares.harness.views.palette import COLOURS, GREY
from fairshares.harness.views.plan import bytes_in_words
from fairshares.harness.views.rendering.plots import figure_of, intervals
from fairshares.protocols.arrays import Floats

_PROJECT = Path(__file__).parents[2]
PAGES = (
    _PROJECT / "benchmarks" / "README.md",
    _PROJECT / "docs" / "paper.md",
    _PROJECT / "docs" / "explanation" / "costs.md",
    _PROJECT / "README.md",
)
IMAGES = _PROJECT / "docs" / "images"
_DRAWS = 200  # draws of noise, by which errors of weights are simulated
_MARKED = re.compile(r"(<!-- recorded: ([\w-]+) -->\n).*?\n(?=\n|\Z)", re.DOTALL)

Row = list[str]


def filled(page: str, measured: Measured) -> str:
    """Return a page with its tables marked `<!-- recorded: NAME -->` filled."""

    def recorded(marker: re.Match[str]) -> str:
        names, *found = TABLES[marker[2]](measured)
        lines = [_line_of_page(names), _line_of_page(["---"] * len(names))]
        lines += [_line_of_page(row) for row in found]
        return marker[1] + "\n".join(lines) + "\n"

    return _MARKED.sub(recorded, page)


def _line_of_page(cells: Row) -> str:
    return f"| {' | '.join(cells)} |"


def _recorded(study: str, name: str) -> Any:
    return json.loads((RESULTS / study / name).read_text(encoding="utf-8"))


def _judged(measured: Measured, shape: str) -> Iterator[Row]:
    names, *lines = texts.judged_rows(table2_rows(measured), shape)
    yield names
    for protocol, model, *figures in lines:
        yield [protocol, f"`{model}`", *figures]


def _differences(measured: Measured, protocol: str, reasons: Sequence[Reason]) -> Iterator[Row]:
    yield ["model", "here ÷ published", *map(str, reasons)]
    for row in table2_rows(measured):
        if (row.protocol, row.shape, row.beside) == (protocol, "ads", None):
            found = supposed(measured, row)
            here = texts.times(row.of_paper.median) if row.of_paper else NOT_YET
            yield [f"`{row.model}`", here, *(texts.left_by(found.get(reason)) for reason in reasons)]


def _beside_ours(measured: Measured, protocol: str, shape: str) -> Iterator[Row]:
    names, *lines = texts.beside_ours(table2_rows(measured), protocol, shape)
    yield names
    for model, *figures in lines:
        yield [f"`{model}`", *figures]


def _iterations(measured: Measured, form: str, shape: str) -> Iterator[Row]:
    names, *lines = texts.iterations_at([cell.runs for cell in measured.cells], form, shape)
    yield names
    for model, *figures in lines:
        yield [f"`{model}`", *figures]


def _gain(measured: Measured) -> Iterator[Row]:
    names, *lines = texts.gains(table2_rows(measured))
    yield names
    for model, *ratios in lines:
        yield [f"`{model}`", *ratios]


def _figure(measured: Measured, claim: FigureClaim) -> Iterator[Row]:
    forms = {PRINTED: "literal", AT_ONCE: "literal, all at once", "product": "by products", "default": "ours"}
    cells = [cell for cell in cells_of_figure(measured, claim) if cell["noise"] == "joint"]
    if claim.factor != "clients":
        del forms["product"]
    yield [claim.factor, "published", *forms.values()]
    for level in sorted({cell.number(claim.factor) for cell in cells}):
        low, high = claim.at
        published = texts.NONE
        if low <= level <= high:
            published = f"about {claim.seconds:,g}"
        here = {str(cell["variant"]): cell for cell in cells if cell.number(claim.factor) == level}
        seconds_of_forms = [_seconds(here.get(form)) for form in forms]
        yield [f"{level:,}", published, *seconds_of_forms]


def _seconds(cell: CellRuns | None) -> str:
    if cell is None or cell.median_s is None:
        return texts.NONE
    text = texts.seconds(cell.median_s, 2)
    thresholds = cell.number("thresholds")
    if thresholds and thresholds != privfairfl().thresholds:
        text += f" ({thresholds} thresholds)"
    return text


def _shares(measured: Measured) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """Yield each model, and for ADS the seconds online and in all, of weights and of curves."""
    for model in privfairfl().parties:
        where = {"security": model, "shape": "ads", "variant": "default", "noise": "joint"}
        cells = [measured.where("table2", protocol=protocol, **where)[0] for protocol in PROTOCOLS]
        pairs = [(cell.seconds("online_s"), cell.seconds()) for cell in cells]
        yield model, [(online.median, total.median) for online, total in pairs if online and total]


def _online(measured: Measured) -> Iterator[Row]:
    yield ["model", "weights, s: online, total, share", "curves, s: online, total, share"]
    for model, pairs in _shares(measured):
        row = [f"`{model}`"]
        for online, total in pairs:
            row.append(f"{texts.seconds(online, 2)}, {texts.seconds(total, 2)}, {online / total:.0%}")
        yield row


def _ahead(measured: Measured, protocol: str) -> Iterator[Row]:
    yield [
        "model",
        "joint now, s",
        "joint made ahead, s: offline, online",
        "distributed, s",
        "its error, ÷ joint",
    ]
    for model in MODELS:
        cells = measured.where("preprocessing", protocol=protocol, security=model, network="none")
        by_noise = {str(cell["noise"]): cell for cell in cells}
        if by_noise:
            distributed = by_noise.get("distributed")
            its_error = NOT_YET
            if distributed:
                its_error = f"×{error_ratio(distributed.runs[0].cell):.2f}"
            yield [
                f"`{model}`",
                _seconds(by_noise.get("joint")),
                _offline_and_online(by_noise.get("ahead")),
                _seconds(distributed),
                its_error,
            ]


def _offline_and_online(ahead: CellRuns | None) -> str:
    if ahead is None:
        return NOT_YET
    summaries = [ahead.seconds("offline_s"), ahead.seconds("online_s")]
    medians = [texts.seconds(summary.median, 2) for summary in summaries if summary]
    return ", ".join(medians) or NOT_YET


@cache
def _weight_errors() -> list[tuple[float, float, float]]:
    """Return for some ε the relative errors of the weights of `wagepan`.

    Returns:
        ε, the error with noise in the computation, and the error with local privacy at twice the ε.
    """
    people = wagepan()
    rng = np.random.default_rng(5)
    exact = people.counted(people.group, len(people.groups))

    exact_weights = weights_of_counts(exact, "balanced")

    def error(counts: list[Floats]) -> float:
        deviations = weights_of_counts(np.array(counts), "balanced") / exact_weights - 1
        return float(np.sqrt(np.mean(deviations**2)))

    errors = []
    for epsilon in (0.25, 1.0, 5.0, 10.0, 50.0):
        computed = [exact + rng.laplace(0, 1 / epsilon, exact.shape) for _ in range(_DRAWS)]
        local = [local_counts(people, epsilon, rng) for _ in range(_DRAWS)]
        errors.append((epsilon, error(computed), error(local)))
    return errors


def _weights(_: Measured) -> Iterator[Row]:
    yield ["ε", "noise in the computation", "local DP, twice the ε"]
    for epsilon, *errors in _weight_errors():
        yield [f"{epsilon:g}", *(f"{100 * error:.2g} %" for error in errors)]


def appendix_d(measured: Measured) -> Figure:
    """Draw the online share, and weights' errors by ε."""
    models, seconds_of_models = zip(*_shares(measured), strict=True)
    places = range(len(models))
    shares_of_weights = [online / total for (online, total), _ in seconds_of_models]
    shares_of_curves = [online / total for _, (online, total) in seconds_of_models]
    share: list[Mark] = [
        place(0.1, color=GREY, linestyle=":"),
        line(shares_of_weights, places, "o", color=COLOURS[0], label="weights"),
        line(shares_of_curves, places, "s", color=COLOURS[1], label="curves"),
        shown(xlim=(0, 1), ylim=(len(models) - 0.5, -0.5), xlabel="online share; dotted: the paper's tenth"),
        methodcaller("set_yticks", places, models),
    ]
    epsilons, computed, local = zip(*_weight_errors(), strict=True)
    errors: list[Mark] = [
        line(epsilons, local, "v-", color=COLOURS[2], label="local DP, twice the ε"),
        line(epsilons, computed, "D-", color=COLOURS[3], label="noise in the computation"),
        LOGARITHMIC,
        shown(xlabel="ε", ylabel="a weight's relative error"),
    ]
    share.append(GRID)
    errors.append(GRID)
    return draw([[share], [errors]], (5.5, 6.8), legend_columns=2)  # as wide as a phone can show


def weightings(_: Measured) -> Figure:
    """Draw each weighting's demographic parity difference, by data set."""
    found = pd.read_csv(RESULTS / "weightings" / SUMMARY).query("metric == 'demographic_parity_difference'")
    series = {}
    for name, lines in found.groupby("model", sort=False):
        mean = lines["mean"]
        deviation = lines["std"]
        series[str(name)] = np.column_stack([mean, mean - deviation, mean + deviation])
    what = "demographic parity difference, 0 is best"
    return figure_of(intervals("weightings", list(found["data"].unique()), series, what, "", at=0.0))


_GAPS_OF_MODELS = ("demographic_parity_difference", "equalized_odds_difference")
_MODELS_OF_QUICKSTART = {  # by their names in the evaluation
    "unmitigated": "unmitigated",
    "kamiran-calders": "weights",
    "thresholds": "thresholds",
}


@cache
def _evaluation() -> pd.DataFrame:
    """Return the quickstart's evaluation: mean and deviation over the splits, by metric and model."""
    evaluation = pd.read_csv(RESULTS / "quickstart" / "evaluation.csv")
    return summary(evaluation).set_index(["metric", "model"])


def _quickstart(_: Measured) -> Iterator[Row]:
    yield ["", *_MODELS_OF_QUICKSTART.values()]
    for metric in (*_GAPS_OF_MODELS, "balanced_accuracy", "accuracy"):
        found = _evaluation().loc[[(metric, model) for model in _MODELS_OF_QUICKSTART]]
        figures = zip(found["mean"], found["std"], strict=True)
        yield [metric.replace("_", " "), *(f"{mean:.3f} ± {deviation:.3f}" for mean, deviation in figures)]


def quickstart(_: Measured) -> Figure:
    """Draw the differences between groups of the quickstart's models."""
    series = {}
    for model, name in _MODELS_OF_QUICKSTART.items():
        found = _evaluation().loc[[(metric, model) for metric in _GAPS_OF_MODELS]]
        mean = found["mean"]
        deviation = found["std"]
        series[name] = np.column_stack([mean, mean - deviation, mean + deviation])
    rows = [metric.replace("_", " ").removesuffix(" difference") for metric in _GAPS_OF_MODELS]
    what = "difference between the groups, 0 is best"
    return figure_of(intervals("quickstart", rows, series, what, "", at=0.0))


def _table3(_: Measured) -> Iterator[Row]:
    yield [
        "row",
        "published, ML-1M: accuracy; ΔEODD",
        "by its recipe, here, MovieLens 100K",
        "in Flower, two draws",
    ]
    schemes = pd.read_csv(RESULTS / "reproduce-training" / SUMMARY).query(
        "data == 'MovieLens 100K' and epsilon == 1"
    )
    redone = {}
    for row in schemes.to_dict("records"):
        text = f"{100 * row['accuracy']:.1f}; {row['odds']:.3f} ± {row['odds, half']:.3f}"
        redone[row["way"], row["scheme"]] = text
    in_flower = load_lines(RESULTS / "flower-privfairfl" / SAMPLES, Draw, A_DRAW)
    for name, printed in table3()["rows"].items():
        paper = printed["ml-1m"]
        published = f"{paper['accuracy']}; {paper['delta_eodd']}"
        yield [name, published, redone["paper", name], shown_draws(in_flower, name)]
    for name in ("training alone", "Kamiran–Calders weights", "thresholds"):
        yield [f"ours, ε = 1 for everything: {name}", texts.NONE, redone["joint", name], texts.NONE]


def _gaps(_: Measured) -> Iterator[Row]:
    yield ["clients, error", "mechanism", "ε published", "redone", "its true ε", "ε, repaired"]
    for cell in _recorded("reproduce-gaps", "gaps.json")["table1"]:
        if cell["published"] and cell["clients"] in (10**5, 10**7) and cell["alpha"] >= 0.01:
            assert cell["agrees"]
            yield [
                f"{cell['clients']:,}, {cell['alpha']:g}",
                cell["mechanism"],
                cell["published"],
                f"{cell['reproduced']:.2f}",
                f"{cell['true_epsilon']:.3g}" if cell["true_epsilon"] else "none",
                f"{cell['repaired']:.2f}",
            ]


def _capping(_: Measured) -> Iterator[Row]:
    yield ["statement", "holds"]
    for claim in _recorded("reproduce-capping", "capping.json")["claims"]:
        yield [claim["where"], "yes" if claim["holds"] else "no"]


def _groups(_: Measured) -> Iterator[Row]:
    yield [
        "records",
        "ε, logarithm",
        "ρ, logarithm",
        "ε, plain noise of that target",
        "error, logarithm",
        "ρ, Gaussian logarithm",
        "ρ, Algorithm 1 of the problem",
    ]
    names = (
        "epsilon, plain noise, same target",
        "relative error, logarithm",
        "rho, Gaussian logarithm",
        "rho, Algorithm 1 (proven)",
    )
    for row in _recorded("reproduce-groupwise", "groupwise.json")["rows"]:
        epsilon = row["epsilon, logarithm"]
        figures = [epsilon, float(_rho_of(Fraction(epsilon)))]
        figures += [row[name] for name in names]
        line_of_row = [f"{row['records']:,}"]
        line_of_row += [f"{figure:.2g}" for figure in figures]
        yield line_of_row


def _rho_of(epsilon: Fraction) -> Fraction:
    """Return rho of zCDP, if neighbors' likelihood ratios are within e^(+-epsilon): theorem 18.

    If they are so only up to a delta, as with a logarithm's noise, which ends, it is delta-approximate zCDP.
    [test: tests/protocols/test_shifted_log.py]
    """
    return epsilon**2 / 2


def _algorithm_1(_: Measured) -> Iterator[Row]:
    yield ["1,000,000 outputs for a count of 10,000", "published", "redone"]
    figure1 = _recorded("reproduce-groupwise", "groupwise.json")["figure1"]
    for name in ("mean", "standard_deviation"):
        published = figure1[f"published_{name}"]
        redone = figure1[name]
        yield [name.replace("_", " "), f"{published:,.1f}", f"{redone:,.1f}"]


def _intervals(_: Measured) -> Iterator[Row]:
    table = pd.read_csv(RESULTS / "intervals" / SUMMARY)
    sizes = [f"{size:,}" for size in table["size"].unique()]
    yield ["half-width over error", "ε", *sizes]
    for (interval, epsilon), rows_of_sizes in table.groupby(["of", "epsilon"], sort=False):
        ratios = [f"{ratio:.2f}" for ratio in rows_of_sizes["ratio"]]
        yield [str(interval), f"{epsilon:g}", *ratios]


_NUMBERS_OF_PARTIES = (2, 3, 5, 8, 9, 10)
_RELEASES = {"pi_rw": "weights", "pi_roc": "curves", "pi_gap": "gap", "pi_rounds": "a round of training"}
_NOISES = {"joint": "joint", "ahead": "made ahead", "distributed": "distributed"}


def _parties(measured: Measured) -> Iterator[Row]:
    """Yield seconds while clients wait by the number of parties, and of joint noise what all parties sent."""
    yield ["", "model", "noise", *map(str, _NUMBERS_OF_PARTIES)]
    for protocol, release in _RELEASES.items():
        for model, noise in product(MODELS, _NOISES):
            where = {"protocol": protocol, "security": model, "noise": noise, "network": "none"}
            by_number = {cell["parties"]: cell for cell in measured.where("parties", **where) if cell.ok}
            if by_number:
                figures = [_with_bytes(by_number.get(number)) for number in _NUMBERS_OF_PARTIES]
                yield [release, f"`{model}`", _NOISES[noise], *figures]


def _with_bytes(cell: CellRuns | None) -> str:
    """Return the seconds while clients wait, and all bytes for joint noise; for training, of a round."""
    if cell is None or cell.median_s is None:
        return texts.NONE
    text = texts.seconds(cell.median_s, 2)
    if cell["noise"] == "joint" and cell.sent_bytes:
        text += f", {bytes_in_words(cell.sent_bytes / max(cell.number('rounds'), 1))}"
    return text


def _parties_over_networks(measured: Measured) -> Iterator[Row]:
    yield ["", "model", "noise", "network", *map(str, _NUMBERS_OF_PARTIES)]
    for protocol in ("pi_rw", "pi_roc"):
        for model, noise, network in product(MODELS, _NOISES, ("lan", "wan")):
            where = {"protocol": protocol, "security": model, "noise": noise, "network": network}
            by_number = {cell["parties"]: cell for cell in measured.where("parties", **where) if cell.ok}
            if by_number:
                seconds = [_seconds_alone(by_number.get(number)) for number in _NUMBERS_OF_PARTIES]
                yield [_RELEASES[protocol], f"`{model}`", _NOISES[noise], f"`{network}`", *seconds]


def _seconds_alone(cell: CellRuns | None) -> str:
    if cell is None or cell.median_s is None:
        return texts.NONE
    return texts.seconds(cell.median_s, 2)


def _literal_by_parties(measured: Measured) -> Iterator[Row]:
    """Yield seconds of the printed protocols and of ours, by the number of parties of `semi2k`."""
    cells = measured.where("five-parties", variant="default")
    numbers = sorted({cell.number("parties") for cell in cells})
    yield ["", "form", *map(str, numbers)]
    for protocol in PROTOCOLS:
        for form, words in {PRINTED: "literal", AT_ONCE: "literal, all at once"}.items():
            forms = [took(measured, form, protocol, "ml-1m", "semi2k", parties=number) for number in numbers]
            if any(forms):
                yield [_RELEASES[protocol], words, *map(texts.median_took, forms)]
        ours = {cell.number("parties"): cell for cell in cells if cell["protocol"] == protocol}
        yield [_RELEASES[protocol], "ours", *(_with_bytes(ours.get(number)) for number in numbers)]


TABLES: Mapping[str, Callable[[Measured], Iterator[Row]]] = {
    "gain": _gain,
    "table2-held": lambda measured: texts.held(validate(measured).findings),
    "table2-ads": lambda measured: _judged(measured, "ads"),
    "table2-ml-1m": lambda measured: _judged(measured, "ml-1m"),
    "differences-weights": lambda measured: _differences(
        measured, "pi_rw", [Reason.DEFAULTS, Reason.SIDE_BY_SIDE]
    ),
    "differences-thresholds": lambda measured: _differences(measured, "pi_roc", [*Reason]),
    "weights-ads": lambda measured: _beside_ours(measured, "pi_rw", "ads"),
    "weights-ml-1m": lambda measured: _beside_ours(measured, "pi_rw", "ml-1m"),
    "thresholds-ads": lambda measured: _beside_ours(measured, "pi_roc", "ads"),
    "thresholds-ml-1m": lambda measured: _beside_ours(measured, "pi_roc", "ml-1m"),
    "literal-by-parties": _literal_by_parties,
    "iterations-in-turn": lambda measured: _iterations(measured, PRINTED, "ml-1m"),
    "iterations-ads": lambda measured: _iterations(measured, AT_ONCE, "ads"),
    "iterations-ml-1m": lambda measured: _iterations(measured, AT_ONCE, "ml-1m"),
    "figure1": lambda measured: _figure(measured, privfairfl().figures["figure1"]),
    "figure2": lambda measured: _figure(measured, privfairfl().figures["figure2"]),
    "online": _online,
    "ahead": lambda measured: _ahead(measured, "pi_roc"),
    "round-ahead": lambda measured: _ahead(measured, "pi_rounds"),
    "weights-by-epsilon": _weights,
    "table3": _table3,
    "gaps": _gaps,
    "capping": _capping,
    "groups": _groups,
    "algorithm-1": _algorithm_1,
    "parties": _parties,
    "parties-over-networks": _parties_over_networks,
    "intervals": _intervals,
    "quickstart": _quickstart,
}


DRAWN: Mapping[str, Drawing] = {"weightings": weightings, "quickstart": quickstart, **PICTURES}
"""The pictures in `docs/images` that recorded results fill, by the names of their files."""


def picture(name: str, measured: Measured) -> bytes:
    """Return a picture's file, an SVG: the same bytes each time.

    Args:
        name: The name in `DRAWN`.
        measured: The recorded runs.
    """
    file = BytesIO()
    with rc_context({"svg.hashsalt": name}):
        DRAWN[name](measured).savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


if __name__ == "__main__":
    recorded_runs = Measured.read(RESULTS)
    appendix_d(recorded_runs).savefig(RESULTS / "table2" / "appendix-d.png", dpi=110)
    for file_name in DRAWN:
        (IMAGES / f"{file_name}.svg").write_bytes(picture(file_name, recorded_runs))
    for name, figure in drawings(recorded_runs, table2_rows(recorded_runs)):
        figure.savefig(RESULTS / "report" / f"{name}.png", dpi=110)
    for path in PAGES:
        path.write_text(filled(path.read_text(encoding="utf-8"), recorded_runs), encoding="utf-8")
