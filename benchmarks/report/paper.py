"""Tables of pages, from recorded results: `python -m benchmarks.report.paper` writes them anew."""

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from benchmarks.measure.cell import error_ratio
from benchmarks.papers import FigureClaim, privfairfl, table3
from benchmarks.studies.training.models import local_counts
from benchmarks.studies.training.people import wagepan
from benchmarks.validation import texts
from benchmarks.validation.cells import RESULTS, CellRuns, Measured
from benchmarks.validation.side_by_side import AT_ONCE, NOT_YET, PRINTED, SCALE, TABLE2, Took, rows
from harness.postprocessing.reweighing.formulas import BALANCED, weights_of_counts
from harness.security_models import MODELS

PAGE = Path(__file__).parents[2] / "docs" / "paper.md"
PAGES = (PAGE, PAGE.parent / "how-to" / "preprocess.md")
_DRAWS = 200
_MARKED = re.compile(r"(<!-- recorded: ([\w-]+) -->\n).*?\n(?=\n|\Z)", re.DOTALL)

Row = list[str]


def filled(page: str, measured: Measured) -> str:
    """Return a page with each table that is marked `<!-- recorded: NAME -->` as the results have it."""

    def table(marker: re.Match[str]) -> str:
        return marker[1] + "\n".join(f"| {' | '.join(row)} |" for row in TABLES[marker[2]](measured)) + "\n"

    return _MARKED.sub(table, page)


def _headed(*columns: str) -> Iterator[Row]:
    yield list(columns)
    yield ["---"] * len(columns)


def _table2(measured: Measured, protocol: str) -> Iterator[Row]:
    """Yield a row for each model: seconds of the one federation, then of the other."""
    yield from _headed(
        *("model", "published", "literal, run here", "all instances at once, here"),
        *("ours", "ours, distributed noise", "at once ÷ ours"),
    )
    found = [row for row in rows(measured) if row.protocol == protocol]
    for of in zip(
        *([row for row in found if row.shape == shape] for shape in privfairfl().shapes), strict=True
    ):
        columns = (
            [
                "–" if row.beside else f"{row.paper.seconds:,.{2 if row.paper.seconds < 100 else 0}f}"
                for row in of
            ],
            [_took(row.printed) for row in of],
            [_took(row.at_once) for row in of],
            [texts.seconds(row.default.median, 2) if row.default else texts.NONE for row in of],
            [texts.seconds(row.own.median, 2) if row.own else texts.NONE for row in of],
            [texts.times(row.gain) if row.gain else NOT_YET for row in of],
        )
        yield [f"`{of[0].model}`", *("; ".join(dict.fromkeys(column)) for column in columns)]


def _took(form: Took | None) -> str:
    return NOT_YET if form is None else texts.took(form) + " ‡" * bool(form.basis)


def _figure(measured: Measured, claim: FigureClaim) -> Iterator[Row]:
    forms = {PRINTED: "literal", AT_ONCE: "literal, all at once", "product": "by products", "default": "ours"}
    where = {"protocol": claim.protocol, "security": claim.security, "shape": "", "noise": "joint"}
    cells = [cell for cell in measured.where(*SCALE, **where) if cell.ok]
    shown = {form: name for form, name in forms.items() if form != "product" or claim.factor == "clients"}
    yield from _headed(claim.factor, "published", *shown.values())
    for level in sorted({cell.number(claim.factor) for cell in cells}):
        low, high = claim.at
        said = f"about {claim.seconds:,g}" if low <= level <= high else texts.NONE
        here = {str(cell["variant"]): cell for cell in cells if cell.number(claim.factor) == level}
        yield [f"{level:,}", said, *(_seconds(here.get(form)) for form in shown)]


def _seconds(cell: CellRuns | None) -> str:
    if cell is None or cell.median_s is None:
        return NOT_YET
    few = cell.number("thresholds")
    some = f" ({few} thresholds)" if few and few != privfairfl().thresholds else ""
    return f"{texts.seconds(cell.median_s, 2)}{some}"


def _online(measured: Measured) -> Iterator[Row]:
    yield from _headed("model", "weights, s: online, total, share", "curves, s: online, total, share")
    for model in privfairfl().parties:
        row = [f"`{model}`"]
        for protocol in ("pi_rw", "pi_roc"):
            where = {"protocol": protocol, "security": model, "variant": "default", "noise": "joint"}
            (cell,) = measured.where(TABLE2[0], shape="ads", **where)
            online, total = cell.seconds("online_s"), cell.seconds()
            assert online and total
            both = ", ".join(texts.seconds(each.median, 2) for each in (online, total))
            row.append(f"{both}, {online.median / total.median:.0%}")
        yield row


def _ahead(measured: Measured) -> Iterator[Row]:
    """Yield what curves take by model and noise, and how many times as far off distributed noise is."""
    yield from _headed(
        *("model", "joint now, s", "joint made ahead, s: offline, online"),
        *("distributed, s", "its error, ÷ joint"),
    )
    for model in MODELS:
        where = {"protocol": "pi_roc", "security": model, "network": "none"}
        by_noise = {str(cell["noise"]): cell for cell in measured.where("preprocessing", **where)}
        if by_noise:
            ahead, distributed = by_noise["ahead"], by_noise["distributed"]
            both = (ahead.seconds("offline_s"), ahead.seconds("online_s"))
            yield [
                f"`{model}`",
                _seconds(by_noise["joint"]),
                ", ".join(texts.seconds(each.median, 2) for each in both if each),
                _seconds(distributed),
                f"×{error_ratio(distributed.runs[0].cell):.2f}",
            ]


def _weights(_: Measured) -> Iterator[Row]:
    """Yield the root mean square of each draw's weight over the exact one, less 1, of four weights.

    Computes: of `wagepan`; Laplace noise, in the computation or at each client, as in the study of training.
    """
    yield from _headed("ε", "noise in the computation", "local DP, twice the ε")
    people, rng = wagepan(), np.random.default_rng(5)
    exact = people.counted(people.group, len(people.groups))
    for epsilon in (0.25, 1.0, 5.0, 10.0, 50.0):
        drawn = (
            [exact + rng.laplace(0, 1 / epsilon, exact.shape) for _ in range(_DRAWS)],
            [local_counts(people, epsilon, rng) for _ in range(_DRAWS)],
        )
        spread = [
            weights_of_counts(np.array(of), BALANCED) / weights_of_counts(exact, BALANCED) - 1 for of in drawn
        ]
        yield [f"{epsilon:g}", *(f"{100 * float(np.sqrt(np.mean(each**2))):.2g} %" for each in spread)]


def _table3(_: Measured) -> Iterator[Row]:
    yield from _headed("row", "published, ML-1M: accuracy; ΔEODD", "by its recipe, here, MovieLens 100K")
    with (RESULTS / "reproduce-training" / "summary.csv").open(encoding="utf-8", newline="") as file:
        found = {
            (row["way"], row["scheme"]): row
            for row in csv.DictReader(file)
            if row["data"] == "MovieLens 100K" and row["epsilon"] == "1.0"
        }
    for name, printed in table3()["rows"].items():
        ours, paper = found["paper", name], printed["ml-1m"]
        yield [name, f"{paper['accuracy']}; {paper['delta_eodd']}", _of_study(ours)]
    for name in ("training alone", "Kamiran–Calders weights", "thresholds"):
        yield [f"ours, ε = 1 for everything: {name}", texts.NONE, _of_study(found["joint", name])]


def _of_study(row: Mapping[str, str]) -> str:
    accuracy, odds, half = (float(row[name]) for name in ("accuracy", "odds", "odds, half"))
    return f"{100 * accuracy:.1f}; {odds:.3f} ± {half:.3f}"


def _gaps(_: Measured) -> Iterator[Row]:
    yield from _headed("clients, error", "mechanism", "ε published", "redone", "its true ε", "ε, repaired")
    found = json.loads((RESULTS / "reproduce-gaps" / "gaps.json").read_text(encoding="utf-8"))["table1"]
    for cell in found:
        if cell["published"] and cell["clients"] in (10**5, 10**7) and cell["alpha"] >= 0.01:
            assert cell["agrees"]
            true = f"{cell['true_epsilon']:.3g}" if cell["true_epsilon"] else "none"
            size, redone = f"{cell['clients']:,}, {cell['alpha']:g}", f"{cell['reproduced']:.2f}"
            yield [size, cell["mechanism"], cell["published"], redone, true, f"{cell['repaired']:.2f}"]


def _capping(_: Measured) -> Iterator[Row]:
    yield from _headed("statement", "holds")
    found = json.loads((RESULTS / "reproduce-capping" / "capping.json").read_text(encoding="utf-8"))
    for claim in found["claims"]:
        yield [claim["where"], "yes" if claim["holds"] else "no"]


def _groups(_: Measured) -> Iterator[Row]:
    yield from _headed(
        *("records", "ε, logarithm", "ε, plain noise of that target", "error, logarithm"),
        *("ρ, Gaussian logarithm", "ρ, Algorithm 1 of the problem"),
    )
    found = json.loads((RESULTS / "reproduce-groupwise" / "groupwise.json").read_text(encoding="utf-8"))
    names = ("epsilon, logarithm", "epsilon, plain noise, same target", "relative error, logarithm")
    for row in found["rows"]:
        rho = (row["rho, Gaussian logarithm"], row["rho, Algorithm 1 (proven)"])
        yield [
            f"{row['records']:,}",
            *(f"{row[name]:.2g}" for name in names),
            *(f"{each:.2g}" for each in rho),
        ]


TABLES: Mapping[str, Callable[[Measured], Iterator[Row]]] = {
    "weights": lambda measured: _table2(measured, "pi_rw"),
    "thresholds": lambda measured: _table2(measured, "pi_roc"),
    "figure1": lambda measured: _figure(measured, privfairfl().figures["figure1"]),
    "figure2": lambda measured: _figure(measured, privfairfl().figures["figure2"]),
    "online": _online,
    "ahead": _ahead,
    "weights-by-epsilon": _weights,
    "table3": _table3,
    "gaps": _gaps,
    "capping": _capping,
    "groups": _groups,
}


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8"), Measured.read(RESULTS)), encoding="utf-8")
