"""What the tasks of measured suites do: run what is missing, show what there is."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.commands.options import RunOptions, SuiteOptions, directory_of
from benchmarks.measure import runner
from benchmarks.measure.cell import HERE
from benchmarks.measure.over_hosts import over_hosts
from benchmarks.measure.programs import OwnPrograms
from benchmarks.measure.runner import Chosen, Standing
from benchmarks.measure.samples import (
    AT_FIRST,
    FAILED,
    SKIPPED,
    Level,
    Sample,
    by_cell,
    load,
    measured_over,
    summary,
)
from benchmarks.measure.units import write_units
from benchmarks.suites import OURS, PROGRAM, PROGRAMS, UNITS, Planned, Suite, read_experiment
from benchmarks.validation.texts import spread
from harness.cli import terminal as cli
from harness.cli.terminal import INTERRUPTED_EXIT, plain, print_json, say, show
from harness.errors import OptionError
from harness.system.progress import listening
from harness.views.parts import Bad, Part, Table
from harness.views.run import results

_STEPS = {"measure": "measure"}


def measure(options: SuiteOptions) -> None:
    """Run what is missing of an experiment, in a new directory or in that of an earlier command."""
    resume, directory = options.resume, directory_of(options, f"bench.{options.suite or 'run'}")
    if resume:
        known, text, beside = runner.chosen_in(resume), "", resume
        if options.suite not in ("", known.suite.name):
            raise OptionError(
                f"{resume} has no results of suite {options.suite}; name another directory to --resume."
            )
        if options.quick and not known.quick:
            raise OptionError(f"{resume} is of the whole suite, not of --quick; leave out --quick.")
        if options.hosts and not known.hosts:
            raise OptionError(f"{resume} was measured on one machine; measure over hosts into a new --out.")
    else:
        file = options.experiment if isinstance(options, RunOptions) else OURS / f"{options.suite}.toml"
        known = drawn(read_experiment(file), f"bench.{options.suite or f'run {file}'}")
        text, beside = file.read_text(encoding="utf-8"), file.parent
    wanted = replace(
        known,
        quick=options.quick or known.quick,
        models=tuple(options.models or known.models),
        repetitions=options.repetitions or known.repetitions,
        timeout_s=options.timeout or known.timeout_s,
        hosts=str(options.hosts or known.hosts or (beside / known.suite.hosts if known.suite.hosts else "")),
    )
    if not resume:
        runner.start(directory, wanted, text, beside)
    cells = carry_out(directory, wanted)
    if known.suite.name == UNITS:
        write_units(directory, load(directory))
    finish(directory, cells, options.json)


def drawn(suite: Suite, told: str) -> Chosen:
    """Return the whole suite, in the order of its seed, or of one from the operating system."""
    return Chosen(suite, told=told, seed=secrets.randbits(32) if suite.seed is None else suite.seed)


def carry_out(directory: Path, wanted: Chosen) -> list[list[Sample]]:
    """Run what is missing; show and return the results of all that was asked for."""
    own = any(PROGRAM in planned.cell for planned in wanted.plan())
    try:
        with (
            cli.steps(_STEPS) as begin,
            listening(lambda *_: None),  # how far one run is says nothing of the experiment
            over_hosts(Path(wanted.hosts)) if wanted.hosts else nullcontext(HERE) as there,
        ):
            place = OwnPrograms(there, directory / PROGRAMS) if own else there
            begin("measure")
            runner.go_on(directory, wanted, lambda standing: _say(standing, begin), lambda _: None, place)
    except KeyboardInterrupt:
        say(
            f"Interrupted: {len(load(directory))} results are in {plain(str(directory))}, and no run is left "
            f"half-done. Go on by ./inv bench.run --resume {plain(str(directory))}.",
            cli.err,
        )
        sys.exit(INTERRUPTED_EXIT)
    cells = _of(load(directory), wanted.plan())
    show(*_view(wanted.suite.title, cells))
    return cells


def finish(directory: Path, cells: Sequence[Sequence[Sample]], as_json: bool) -> None:
    """Say where results are; exit with 1 if a run failed."""
    show(results(directory))
    if as_json:
        print_json([_summary(of) for of in cells])
    if failed := [sample for of in cells for sample in of if sample.status == FAILED]:
        for sample in failed:
            name = f"{name_of_cell(sample.cell)}, repetition {sample.repetition + 1}"
            say(f"[bold red]failed[/] {plain(name)}: {plain(str(sample.reason))}", cli.err)
        again = f"./inv bench.run --resume {plain(str(directory))} runs them again"
        say(f"[bold red]{len(failed)} failed[/], as above; {again}.", cli.err)
        sys.exit(1)


def _say(standing: Standing, begin: cli.Steps) -> None:
    planned, repetition = standing.next
    about = "at most" if planned.until else "about"
    left = "" if standing.left_s is None else f", {about} {_duration(standing.left_s)} left"
    what = f"{name_of_cell(planned.cell)}, repetition {repetition + 1}"
    text = f"{standing.done} of {standing.total}{left}: {what}"
    begin.detail(text)
    if not cli.err.is_terminal:
        say(text, cli.err)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"


def name_of_cell(cell: Mapping[str, Level]) -> str:
    """Return a cell's levels in a line, without those that say nothing."""
    usual = {"variant": "default", "input_path": "shares", "network": "none", **AT_FIRST}
    return " ".join(
        f"{factor} {level}" if type(level) is not str or factor == "epsilon" else level
        for factor, level in cell.items()
        if level not in ("", usual.get(factor))
    )


def _of(samples: Sequence[Sample], plan: Sequence[Planned]) -> list[list[Sample]]:
    """Return the results of each cell of what was asked for, in its order."""
    known = by_cell(samples)
    return [known[planned.key] for planned in plan if planned.key in known]


def _view(title: str, cells: Sequence[Sequence[Sample]]) -> Iterator[Part]:
    columns = [title, "seconds in the computation", "rounds", "sent by all", "most memory"]
    yield Table(columns, [[name_of_cell(of[-1].cell), *_costs(of)] for of in cells])
    where = measured_over([sample for of in cells for sample in of]) or "all parties on this machine"
    yield f"Medians (least – most), {where}; clients and records are made up."


def _costs(of: Sequence[Sample]) -> list[str]:
    found, last = summary(of), of[-1]
    if found is None:
        said = f"{last.status}: {last.reason}"
        return [Bad(said) if last.status == FAILED else said, "", "", ""]
    good = next(sample for sample in of if sample.sent_bytes)
    return [
        spread(found),
        "–" if good.rounds is None else f"{good.rounds:,}",
        f"{sum(good.sent_bytes) / 1e6:,.3g} MB",
        f"{max(good.peak_memory_bytes) / 1e6:,.0f} MB" if good.peak_memory_bytes else "–",
    ]


def _summary(of: Sequence[Sample]) -> dict[str, Any]:
    """Return a cell's results as JSON."""
    found, last = summary(of), of[-1]
    counted = {status: sum(sample.status == status for sample in of) for status in ("ok", FAILED, SKIPPED)}
    return {
        "cell": dict(last.cell),
        **counted,
        "reason": next((sample.reason for sample in reversed(of) if sample.reason), None),
        "mpc_s": None if found is None else {"median": found.median, "low": found.low, "high": found.high},
    }
