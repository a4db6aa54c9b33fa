"""What the tasks of measured suites do: run what is missing, show what there is."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.table import Table

from benchmarks.commands.options import SuiteOptions
from benchmarks.measure import runner
from benchmarks.measure.factors import Planned
from benchmarks.measure.runner import Chosen, Standing
from benchmarks.measure.samples import FAILED, SKIPPED, Level, Sample, by_cell, load, summary
from benchmarks.measure.units import write_units
from harness.cli import terminal as cli
from harness.cli.terminal import INTERRUPTED_EXIT, plain, say, show
from harness.errors import OptionError
from harness.system.result_files import default_out
from harness.views.run import results

_STEPS = {"measure": "measure"}


def measure(options: SuiteOptions) -> None:
    """Run what is missing of a suite, in a new directory or in that of an earlier command."""
    suite, resume = options.suite, options.resume
    if options.out and resume:
        raise OptionError("--out is for a new directory, --resume for an earlier one; give one of them.")
    directory = resume or options.out or default_out(f"bench.{suite}")
    known = runner.chosen_in(directory, suite) if resume else Chosen(suite)
    if options.quick and resume and not known.quick:
        raise OptionError(f"{directory} is of the whole suite, not of --quick; leave out --quick.")
    wanted = _chosen(known, options)
    if not resume:
        runner.start(directory, wanted)
    try:
        with cli.steps(_STEPS) as begin:
            begin("measure")
            runner.go_on(directory, wanted, lambda standing: _say(standing, begin), lambda _: None)
    except KeyboardInterrupt:
        say(
            f"Interrupted: {len(load(directory))} results are in {plain(str(directory))}, and no run is left "
            f"half-done. Go on by ./inv bench.{suite} --resume {plain(str(directory))}.",
            cli.err,
        )
        sys.exit(INTERRUPTED_EXIT)
    samples = _of(load(directory), wanted.plan())
    _show(wanted, samples)
    if suite == "units":
        write_units(directory, load(directory))
    show(results(directory))
    if options.json:
        print(json.dumps([_summary(of) for of in by_cell(samples).values()], indent=2, ensure_ascii=False))
    failed = len(runner.failures(samples))
    if failed:
        again = f"--resume {plain(str(directory))} runs them again"
        say(f"[bold red]{failed} failed[/], see above; {again}.", cli.err)
        sys.exit(1)


def _chosen(known: Chosen, options: SuiteOptions) -> Chosen:
    """Return what was asked for: what an earlier command was asked for, unless options say otherwise."""
    return replace(
        known,
        quick=options.quick or known.quick,
        models=tuple(options.models or known.models),
        repetitions=options.repetitions or known.repetitions,
        timeout_s=options.timeout or known.timeout_s,
    )


def _say(standing: Standing, begin: cli.Steps) -> None:
    planned, repetition = standing.next
    left = "" if standing.left_s is None else f", about {_duration(standing.left_s)} left"
    text = f"{standing.done} of {standing.total}{left}: {_name(planned.cell)}, repetition {repetition + 1}"
    begin.detail(text)
    if not cli.err.is_terminal:
        say(text, cli.err)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"


def _name(cell: Mapping[str, Level]) -> str:
    """Return a cell's levels in a line, without those that say nothing."""
    usual = {"variant": "default", "input_path": "shares", "network": "none", "shape": ""}
    return " ".join(
        f"{factor} {level}" if type(level) is not str or factor == "epsilon" else level
        for factor, level in cell.items()
        if usual.get(factor) != level
    )


def _of(samples: Sequence[Sample], plan: Sequence[Planned]) -> list[Sample]:
    """Return the results of what was asked for, in its order."""
    known = by_cell(samples)
    return [sample for planned in plan for sample in known.get(planned.key, [])]


def _show(chosen: Chosen, samples: Sequence[Sample]) -> None:
    table = Table(chosen.of.title, "seconds in the computation", "rounds", "sent by all", "most memory")
    for name in table.columns[1:]:
        name.justify = "right"
    for of in by_cell(samples).values():
        found, last = summary(of), of[-1]
        if found is None:
            what = {FAILED: "[bold red]failed[/]", SKIPPED: "[dim]skipped[/]"}[last.status]
            table.add_row(_name(last.cell), f"{what}: {plain(str(last.reason))}")
            continue
        good = next(sample for sample in of if sample.sent_bytes)
        spread = f" ({found.low:.3g} – {found.high:.3g})" if found.n > 1 else ""
        memory = f"{max(good.peak_memory_bytes) / 1e6:,.0f} MB" if good.peak_memory_bytes else "–"
        table.add_row(
            _name(last.cell),
            f"{found.median:.3g}{spread}",
            "–" if good.rounds is None else f"{good.rounds:,}",
            f"{sum(good.sent_bytes) / 1e6:,.3g} MB",
            memory,
        )
    cli.out.print(table)
    say("Medians (least – most). All parties on this machine; clients and records are made up.")


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
