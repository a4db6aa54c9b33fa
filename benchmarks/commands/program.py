"""What `bench.program` does: an experiment for a program of the user's, and what its compiler counts."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median

from benchmarks.commands.measured import carry_out, drawn, finish, name_of_cell
from benchmarks.commands.options import ProgramOptions
from benchmarks.measure import runner
from benchmarks.measure.cell import HERE
from benchmarks.measure.programs import OwnPrograms
from benchmarks.measure.samples import CONFIDENCE, OK, Level, Sample, interval_of_median, summary
from benchmarks.suites import PROGRAM, PROGRAMS, Grid, Levels, Suite
from harness.cli.terminal import show
from harness.errors import OptionError
from harness.security_models import MODELS
from harness.system.result_files import default_out
from harness.views.parts import Part, Table

_PHASES = ("online_s", "offline_s")
_ROUNDS = "virtual machine rounds"  # as the compiler says it


def program(options: ProgramOptions) -> None:
    """Time a program of the user's, or two in turn, by an experiment that is written for it."""
    own, other, directory = options.program, options.against, options.out or default_out("bench.program")
    if other and (options.against_options or other.parent.resolve() != own.parent.resolve()):
        raise OptionError(f"--against names a program beside {own}, and goes without --against-options.")
    levels: dict[str, Levels] = {
        PROGRAM: [path.name for path in (own, other) if path],
        "arguments": options.args or "",
        "compile_options": [options.compile_options or "", *filter(None, [options.against_options])],
        "inputs": options.inputs,
        "model": list(options.models or [name for name, model in MODELS.items() if model.virtual_machine]),
        "network": options.network,
    }
    title = f"{own.name}: it opens what it opens, and no guarantee of FairShares covers it"
    suite = Suite(PROGRAM, title, [Grid(levels)], repetitions=options.repetitions, timeout_s=options.timeout)
    fields = {"name": PROGRAM, "title": title, "repetitions": suite.repetitions, "timeout_s": suite.timeout_s}
    lines = [f"{name} = {json.dumps(value)}" for name, value in fields.items()]
    lines += ["[[grid]]", "[grid.factors]", *(f"{name} = {json.dumps(of)}" for name, of in levels.items())]
    wanted = drawn(suite, " ".join([f"bench.program {own}", *_told(options)]))
    wanted = replace(wanted, hosts=str(options.hosts or ""))
    runner.start(directory, wanted, "\n".join([*lines, ""]), own.parent)
    cells = carry_out(directory, wanted)
    place = OwnPrograms(HERE, directory / PROGRAMS)
    show(*_counted([(of, place.estimate(of[-1].cell)) for of in cells if summary(of)]), *_in_turn(cells))
    finish(directory, cells, options.json)


def _told(options: ProgramOptions) -> Iterator[str]:
    """Yield the options that were given, as a shell takes them."""
    for name, option in options.declared.items():
        text = str(options.texts[name])
        if name not in ("program", "hosts", "out", "json") and text not in ("", option.default):
            yield f"{option.flag} {shlex.quote(text)}"


def _counted(cells: Sequence[tuple[Sequence[Sample], Mapping[str, int]]]) -> Iterator[Part]:
    """View what MP-SPDZ's compiler counts in programs, beside the rounds that there were."""
    rows = [
        [
            name_of_cell(of[-1].cell),
            f"{counts.get(_ROUNDS, 0):,}",
            f"{max((sample.rounds or 0) for sample in of):,}",
            *(f"{took.median:.3g}" if (took := summary(of, name)) else "–" for name in _PHASES),
            ", ".join(f"{number:,} {what}" for what, number in counts.items() if what != _ROUNDS) or "–",
        ]
        for of, counts in cells
        if counts
    ]
    if rows:
        yield Table(
            ["rounds", "by the compiler", "measured", "online, s", "offline, s", "it also counts, at most"],
            rows,
        )


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
            names = [name_of_cell({**of[-1].cell, "model": ""}) for of in of_model]
    if rows:
        yield Table(
            [" / ".join(reversed(names)), "pairs", "median ratio", f"{CONFIDENCE:.0%} interval"], rows
        )
