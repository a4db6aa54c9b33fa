"""Measured runs as tables for other tools: a row a run, a row a cell, and LaTeX."""

import shlex
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import pandas as pd

from benchmarks.measure.samples import (
    CONFIDENCE,
    OK,
    STATUSES,
    Level,
    Sample,
    Summary,
    interval_of_median,
    model_name,
    name_of,
    phases_of,
    summary,
)
from benchmarks.validation import texts
from fairshares.harness.engines.execution import TIMES
from fairshares.harness.security_models import MODELS

Value = str | int | float | bool | None
Line = dict[str, Value]

_BY_PARTY = ("party_mpc_s",)  # times that are lists, a number for each party
_OF_SEVERAL = ("client_sent_bytes", "network", "times.party_mpc_s")  # columns of their parts alone
_SINGLE_TIMES = [time for time in TIMES if time not in _BY_PARTY]
# Characters that LaTeX reads as commands.
_IN_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "\n": " ",
    "\t": " ",
}


def table_of_runs(samples: Sequence[Sample]) -> pd.DataFrame:
    """Return a row for each run, warm-ups and failed ones too, with a column for each number and text.

    What runs hold by party or host has a column for each, by its number: `sent_bytes.0`. Compile options are
    one text, as on a command line.
    """
    lines = []
    for sample in samples:
        line: Line = {"name": name_of(sample.cell, "security", "machine")}
        for field, value in asdict(sample).items():
            if field == "compile_options":
                line[field] = shlex.join(value)
            else:
                _flatten(line, field, value)
        lines.append(line)
    return _frame(lines)


def table_of_cells(cells: Sequence[Sequence[Sample]]) -> pd.DataFrame:
    """Return a row for each cell, with a column for each factor and each statistic.

    Args:
        cells: The last run of each repetition, by cell.

    Returns:
        `runs`, `failed` and `skipped` count repetitions. Of each time, in seconds: `median`, `least`, `most`,
        `quartile_1`, `quartile_3`, `mean`, `deviation` (of the sample), and `low` and `high`, the ends of the
        median's 95 % interval, which at least six runs have. Then `rounds`, `sent_bytes` (of all parties, the
        median) and `peak_memory_bytes` (of the largest party, the most). The same statistics of the slowest
        party's `seconds`, then `sent_bytes` and `rounds`, of each phase by its name: `timer_1.rounds`.
    """
    return _frame([_line_of_cell(runs) for runs in cells])


def _line_of_cell(runs: Sequence[Sample]) -> Line:
    cell = runs[-1].cell
    line: Line = {"name": name_of(cell, "security", "machine")}
    for factor, level in cell.items():
        line[f"cell.{factor}"] = level
    good = [run for run in runs if run.status == OK]
    for status in STATUSES:
        line["runs" if status == OK else status] = sum(run.status == status for run in runs)
    reasons = [run.reason for run in runs if run.reason]
    line["reason"] = reasons[-1] if reasons else None
    for time in _SINGLE_TIMES:
        values = [float(run.times[time]) for run in good if run.times[time] is not None]
        for statistic, value in _statistics(values).items():
            line[f"{time}.{statistic}"] = value
    rounds = [run.rounds for run in good if run.rounds is not None]
    sent = [sum(run.sent_bytes) for run in good if run.sent_bytes]
    memory = [max(run.peak_memory_bytes) for run in good if run.peak_memory_bytes]
    line["rounds"] = max(rounds, default=None)
    line["sent_bytes"] = statistics.median(sent) if sent else None
    line["peak_memory_bytes"] = max(memory, default=None)
    for name, phase in phases_of(good).items():
        for statistic, value in _statistics(phase.seconds).items():
            line[f"{name}.seconds.{statistic}"] = value
        line[f"{name}.sent_bytes"] = statistics.median(phase.sent_bytes)
        line[f"{name}.rounds"] = phase.rounds
    return line


def _statistics(values: Sequence[float]) -> dict[str, float | None]:
    """Return the statistics of some seconds by name; None where there are too few."""
    interval = interval_of_median(values, CONFIDENCE)
    quartiles = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else None
    return {
        "median": statistics.median(values) if values else None,
        "least": min(values, default=None),
        "most": max(values, default=None),
        "quartile_1": quartiles[0] if quartiles else None,
        "quartile_3": quartiles[2] if quartiles else None,
        "mean": statistics.fmean(values) if values else None,
        "deviation": statistics.stdev(values) if len(values) > 1 else None,
        "low": interval[0] if interval else None,
        "high": interval[1] if interval else None,
    }


def latex_table(cells: Sequence[Sequence[Sample]]) -> str:
    """Return LaTeX tables of the cells' median seconds, one for each protocol or program.

    A table needs the package booktabs alone. It has a column for each factor whose levels differ and one for
    each model. Below a median of several runs are the least and the most. What is alike in all rows of a
    table is in a comment before it.

    Args:
        cells: The last run of each repetition, by cell.
    """
    by_subject: dict[str, list[Sequence[Sample]]] = {}
    for runs in cells:
        cell = runs[-1].cell
        by_subject.setdefault(str(cell.get("protocol") or cell.get("program") or ""), []).append(runs)
    lines = [
        r"% Needs \usepackage{booktabs}. Median seconds in the computation. Below, in brackets, are",
        "% the least and the most of several runs.",
    ]
    for subject in sorted(by_subject):
        lines += ["", *_tabular(by_subject[subject])]
    return "".join(f"{line}\n" for line in lines)


def _tabular(cells: Sequence[Sequence[Sample]]) -> list[str]:
    """Return the lines of the table of some cells."""
    factors: dict[str, set[Level]] = {}
    for runs in cells:
        for factor in runs[-1].cell:
            factors[factor] = {some[-1].cell.get(factor, "") for some in cells}
    if "" not in factors.get("shape", {""}):  # the shape tells the numbers of clients and records
        factors = {
            factor: levels for factor, levels in factors.items() if factor not in ("clients", "records")
        }
    of_columns = ("security", "machine")
    varying = [name for name, levels in factors.items() if len(levels) > 1 and name not in of_columns]
    alike = ", ".join(
        f"{name} {min(map(str, levels))}" for name, levels in factors.items() if len(levels) == 1
    )
    present = {model_name(runs[-1].cell) for runs in cells}
    models = [*(model for model in MODELS if model in present), *sorted(present - MODELS.keys())]
    rows: dict[tuple[Level, ...], dict[str, Summary]] = {}
    for runs in cells:
        cell = runs[-1].cell
        row = rows.setdefault(tuple(cell.get(factor, "") for factor in varying), {})
        found = summary(runs)
        if found is not None:
            row[model_name(cell)] = found
    lines = [
        f"% In all rows: {' '.join(alike.split())}.",
        rf"\begin{{tabular}}{{{'l' * len(varying)}{'r' * len(models)}}}",
        r"\toprule",
        _latex_line([_escaped(name) for name in (*varying, *models)]),
        r"\midrule",
    ]
    for levels in sorted(rows, key=_in_order):
        row = rows[levels]
        medians = [texts.seconds(row[model].median) if model in row else "--" for model in models]
        lines.append(_latex_line([*(_escaped(str(level)) for level in levels), *medians]))
        if any(found.n > 1 for found in row.values()):
            spreads = [_spread_in_latex(row.get(model)) for model in models]
            lines.append(_latex_line([*[""] * len(varying), *spreads]))
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def _in_order(levels: Sequence[Level]) -> list[tuple[bool, float, str]]:
    """Return a key by which numbers are sorted by size and before texts."""
    keys = []
    for level in levels:
        if isinstance(level, str):
            keys.append((True, 0.0, level))
        else:
            keys.append((False, float(level), ""))
    return keys


def _spread_in_latex(found: Summary | None) -> str:
    if found is None or found.n < 2:
        return ""
    return rf"{{\scriptsize [{texts.seconds(found.low, 2)}, {texts.seconds(found.high, 2)}]}}"


def _latex_line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _escaped(text: str) -> str:
    escaped = "".join(_IN_LATEX.get(character, character) for character in text)
    return escaped.replace("--", "-{}-")  # which would be a dash


def _flatten(line: Line, name: str, value: object) -> None:
    """Add a value to a line: parts of a mapping or a list under their names or numbers."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            _flatten(line, f"{name}.{key}", part)
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            _flatten(line, f"{name}.{number}", part)
    elif value is None and name in _OF_SEVERAL:
        pass  # columns of a run that has some hold nothing here
    elif value is None or isinstance(value, str | int | float):
        line[name] = value
    else:
        raise TypeError(f"a run's {name} is no number or text, but {type(value).__name__}")


def _frame(lines: Sequence[Line]) -> pd.DataFrame:
    """Return a table of lines, of which some may lack columns. A column of texts and numbers is text."""
    names = list(dict.fromkeys(name for line in lines for name in line))
    columns = {}
    for name in names:
        values = [line.get(name) for line in lines]
        kinds = {type(value) for value in values if value is not None}
        if kinds == {bool}:
            columns[name] = pd.Series(values, dtype="boolean")
        elif kinds == {int}:
            columns[name] = pd.Series(values, dtype="Int64")
        elif kinds and kinds <= {int, float}:
            columns[name] = pd.Series(values, dtype="Float64")
        else:
            in_words = [None if value is None else str(value) for value in values]
            columns[name] = pd.Series(in_words, dtype="string")
    return pd.DataFrame(columns)
