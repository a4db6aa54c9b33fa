"""What `bench.run` does for a program of the user's: writes an experiment, shows what its compiler counts."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.commands.options import RunOptions
from benchmarks.measure.cell import job_of, model_of
from benchmarks.measure.samples import CONFIDENCE, OK, Level, Sample, interval_of_median, name_of, summary
from benchmarks.suites import PROGRAM, Grid, Suite
from harness.engines.mpspdz.compiler import compile_options, compilers_estimate, counted
from harness.engines.mpspdz.discovery import Installation, find_installation
from harness.errors import OptionError
from harness.security_models import MODELS
from harness.views.parts import Part, Table

_OPTIONS = ("args", "inputs", "compile_options", "against", "network")
_ROUNDS = "virtual machine rounds"  # as the compiler says it


def is_program(text: str) -> bool:
    """Return whether that names a program."""
    return text.endswith(".mpc")


def given(options: RunOptions) -> dict[str, str]:
    """Return what was given of the options that are of programs alone."""
    return options.written(*(name for name in _OPTIONS if not options.is_usual(name)))


def experiment(options: RunOptions) -> tuple[Suite, str]:
    """Return an experiment that times a program, or two in turn, and its text.

    Raises: OptionError: the other program is elsewhere; ExperimentError.
    """
    own, against = Path(options.experiment), options.against or ""
    names, ways = [own.name], [options.compile_options or ""]
    if is_program(against):
        names.append(Path(against).name)
        if Path(against).parent.resolve() != own.parent.resolve():
            raise OptionError(f"--against names a program beside {own}, or compile options.")
    elif against:
        ways.append(against)
    levels: dict[str, Any] = {
        PROGRAM: names,
        "arguments": options.args or "",
        "compile_options": ways,
        "inputs": options.inputs,
        "model": options.models or [name for name, model in MODELS.items() if model.virtual_machine],
        "network": options.network,
    }
    title = f"{own.name}: it opens what it opens, and no guarantee of FairShares covers it"
    suite = Suite(PROGRAM, title, [Grid(levels)], repetitions=7, timeout_s=600.0)
    fields = {"name": PROGRAM, "title": title, "repetitions": suite.repetitions, "timeout_s": suite.timeout_s}
    lines = [f"{name} = {json.dumps(value)}" for name, value in fields.items()]
    lines += ["[[grid]]", "[grid.factors]", *(f"{name} = {json.dumps(of)}" for name, of in levels.items())]
    return suite, "\n".join([*lines, ""])


def view(cells: Sequence[Sequence[Sample]], programs: Path) -> Iterator[Part]:
    """View what MP-SPDZ's compiler counts in each cell's program, and how seconds of two compare.

    Args: programs: the directory of their texts.
    """
    rows = []
    for of in cells:
        if not summary(of) or not (counts := _estimate(of[-1].cell, programs)):
            continue
        phases = [summary(of, name) for name in ("online_s", "offline_s")]
        others = [f"{number:,} {what}" for what, number in counts.items() if what != _ROUNDS]
        rows.append(
            [
                name_of(of[-1].cell),
                f"{counts.get(_ROUNDS, 0):,}",
                f"{max((sample.rounds or 0) for sample in of):,}",
                *(f"{took.median:.3g}" if took else "–" for took in phases),
                ", ".join(others) or "–",
            ]
        )
    columns = ["rounds", "by the compiler", "measured", "online, s", "offline, s", "it also counts, at most"]
    if rows:
        yield Table(columns, rows)
    yield from _in_turn(cells)


def _estimate(cell: Mapping[str, Level], programs: Path) -> dict[str, int]:
    """Return what MP-SPDZ's compiler counts in a program, by its words; nothing without it."""
    found, model = find_installation(), model_of(cell)
    if not isinstance(found, Installation) or model.virtual_machine is None:
        return {}
    job = job_of(cell, programs)
    return counted(compilers_estimate(job, found.home, compile_options(job, model)))


def _in_turn(cells: Sequence[Sequence[Sample]]) -> Iterator[Part]:
    """View the ratio of seconds of cells that differ in program or compile options alone, pair by pair."""
    by_model: dict[Level, list[Sequence[Sample]]] = {}
    for of in cells:
        by_model.setdefault(of[-1].cell["model"], []).append(of)
    rows, names = [], ["", ""]
    for model, of_model in by_model.items():
        good = [{s.repetition: s.times["mpc_s"] for s in of if s.status == OK} for of in of_model]
        if len(good) == 2 and (both := sorted(set(good[0]) & set(good[1]))):
            ratios = [good[1][number] / good[0][number] for number in both]
            interval = interval_of_median(ratios, CONFIDENCE)
            said = f"{interval[0]:.3g} – {interval[1]:.3g}" if interval else "too few pairs to tell"
            rows.append([str(model), f"{len(both)}", f"{median(ratios):.3g}", said])
            names = [name_of(of[-1].cell, "model") for of in of_model]
    if rows:
        yield Table(
            [" / ".join(reversed(names)), "pairs", "median ratio", f"{CONFIDENCE:.0%} interval"], rows
        )
