"""`bench.run`, and the commands that judge and show measured runs."""

import json
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.commands.directories import directory_of, resumable
from benchmarks.commands.options import ExportOptions, RunOptions, ValidateOptions
from benchmarks.measure import runner
from benchmarks.measure.cell import Place, over_hosts
from benchmarks.measure.samples import (
    CONFIDENCE,
    FAILED,
    STATUSES,
    Level,
    Sample,
    by_cell,
    interval_of_median,
    load,
    measured_over,
    name_of,
    ratios_in_turn,
    summary,
)
from benchmarks.measure.units import write_units
from benchmarks.suites import OURS, PROGRAM, PROGRAMS, UNITS, Grid, Suite, read_experiment
from benchmarks.validation import multiplications, texts
from benchmarks.validation.cells import RESULTS, Measured
from benchmarks.validation.checks import Validation, validate as validate_runs
from benchmarks.validation.findings import Status
from harness.cli import terminal as cli
from harness.errors import OptionError
from harness.request.fields import typed
from harness.security_models import MODELS
from harness.system.progress import listening
from harness.system.result_files import default_out, new_directory
from harness.system.spelling import similar
from harness.views.parts import Bad, Good, Heading, Paragraph, Part, Table
from harness.views.run import results

_OF_PROGRAMS = ("args", "inputs", "compile_options", "against", "network")


def run(options: RunOptions) -> None:
    """Run what is missing of an experiment."""
    directory = directory_of(options, "bench.run")
    of_program = options.written(*(name for name in _OF_PROGRAMS if not options.is_usual(name)))
    if of_program and not (options.experiment or "").endswith(".mpc"):
        flag = options.declared[next(iter(of_program))].flag
        raise OptionError(f"{flag} goes with a program's .mpc alone; leave it out.")
    if options.resume:
        known, beside = _earlier(options, directory), directory
    else:
        suite, text, beside = _experiment(options)
        known = runner.Chosen(
            suite,
            told=f"bench.run {options.experiment}{typed(**of_program)}",
            seed=secrets.randbits(32) if suite.seed is None else suite.seed,
        )
    wanted = replace(
        known,
        quick=options.quick or known.quick,
        models=tuple(options.security or known.models),
        repetitions=options.repetitions or known.repetitions,
        timeout_s=options.timeout or known.timeout_s,
        hosts=str(options.hosts or known.hosts or (beside / known.suite.hosts if known.suite.hosts else "")),
    )
    if not options.resume:
        runner.start(directory, wanted, text, beside)
    programs = directory / PROGRAMS
    with (
        resumable("bench.run", directory),
        cli.steps({"measure": "measure"}) as begin,
        listening(lambda *_: None),  # hides the progress within a run
        over_hosts(Path(wanted.hosts), programs) if wanted.hosts else nullcontext(Place(programs)) as place,
    ):
        begin("measure")
        runner.go_on(directory, wanted, partial(_say, begin), place)
    samples = load(directory)
    of_cells = by_cell(samples)
    cells = [of_cells[planned.key] for planned in wanted.plan() if planned.key in of_cells]
    cli.show(*_view(wanted.suite.title, cells), *texts.iterations(cells))
    if known.suite.name == UNITS:
        models = ", ".join(write_units(directory, samples))
        cli.say(f"Unit costs of {models}: use them by --plan 100,units={cli.plain(str(directory))}.")
    elif known.suite.name == PROGRAM:
        cli.show(*_in_turn(cells))
    cli.show(results(directory))
    if cli.output.json:
        cli.print_json([_summary(of) for of in cells])
    _say_what_failed(directory, [sample for of in cells for sample in of if sample.status == FAILED])


def _earlier(options: RunOptions, directory: Path) -> runner.Chosen:
    if options.experiment:
        raise OptionError(
            f"--resume goes on with the experiment in {directory}; leave out {options.experiment}."
        )
    known = runner.chosen_in(directory)
    if options.quick and not known.quick:
        raise OptionError(f"{directory} is of the whole suite, not of --quick; leave out --quick.")
    if options.hosts and not known.hosts:
        raise OptionError(f"{directory} was measured on one machine; measure over hosts into a new --out.")
    return known


def _experiment(options: RunOptions) -> tuple[Suite, str, Path]:
    named = Path(options.experiment)
    if options.experiment.endswith(".mpc"):
        return *_experiment_of(options), named.parent
    ours = {path.stem: path for path in OURS.glob("*.toml")}
    file = ours.get(options.experiment, named)
    if not file.suffix and not file.exists():
        raise OptionError(
            f"There is no suite {options.experiment!r}{similar(options.experiment, ours)}; name "
            f"{', '.join(sorted(ours))}, or the file of an experiment (.toml) or of a program (.mpc)."
        )
    return read_experiment(file), file.read_text(encoding="utf-8"), file.parent


def _say_what_failed(directory: Path, failed: Sequence[Sample]) -> None:
    for sample in failed:
        what = f"{name_of(sample.cell)}, repetition {sample.repetition + 1}: {sample.reason}"
        cli.say(f"[bold red]failed[/] {cli.plain(what)}", cli.err)
    if failed:
        again = f"./inv bench.run --resume {cli.plain(str(directory))} runs them again"
        cli.say(f"[bold red]{len(failed)} failed[/], as above; {again}.", cli.err)
        sys.exit(1)


def _say(begin: cli.Steps, done: int, total: int, left_s: float | None, run: runner.Todo) -> None:
    planned, repetition = run
    left = "" if left_s is None else f", about {_duration(left_s)} left"
    text = f"{done} of {total}{left}: {name_of(planned.cell)}, repetition {repetition + 1}"
    begin.detail(text)
    if not cli.err.is_terminal:
        cli.say(cli.plain(text), cli.err)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"


def _view(title: str, cells: Sequence[Sequence[Sample]]) -> Iterator[Part]:
    yield Heading(title)
    yield Table(
        ["cell", "seconds in the computation", "rounds", "sent by all", "most memory"],
        [[name_of(of[-1].cell), *_costs(of)] for of in cells],
    )
    where = measured_over([sample for of in cells for sample in of]) or "all parties on this machine"
    yield f"Medians (least – most), {where}; clients and records are made up."
    if any(of[-1].cell.get("input_path") == "clients" for of in cells):
        yield "Where clients send, their connections are in these seconds."


def _costs(of: Sequence[Sample]) -> list[str]:
    took, last = summary(of), of[-1]
    if took is None:
        reason = f"{last.status}: {last.reason}"
        return [Bad(reason) if last.status == FAILED else reason, "", "", ""]
    good = next(sample for sample in of if sample.sent_bytes)
    return [
        texts.spread(took),
        "–" if good.rounds is None else f"{good.rounds:,}",
        f"{sum(good.sent_bytes) / 1e6:,.3g} MB",
        f"{max(good.peak_memory_bytes) / 1e6:,.0f} MB" if good.peak_memory_bytes else "–",
    ]


def _summary(of: Sequence[Sample]) -> dict[str, Any]:
    took, reasons = summary(of), [sample.reason for sample in of if sample.reason]
    return {
        "cell": dict(of[-1].cell),
        **{status: sum(sample.status == status for sample in of) for status in STATUSES},
        "reason": reasons[-1] if reasons else None,
        "mpc_s": took and {"median": took.median, "low": took.low, "high": took.high},
    }


def _experiment_of(options: RunOptions) -> tuple[Suite, str]:
    experiment, against = Path(options.experiment), options.against or ""
    names, ways = [experiment.name], [options.compile_options or ""]
    if against.endswith(".mpc"):
        names.append(Path(against).name)
        if Path(against).parent.resolve() != experiment.parent.resolve():
            raise OptionError(f"--against names a program beside {experiment}, or compile options.")
    elif against:
        ways.append(against)
    levels: dict[str, Any] = {
        PROGRAM: names,
        "arguments": options.args or "",
        "compile_options": ways,
        "inputs": options.inputs,
        "security": options.security or [name for name, model in MODELS.items() if model.virtual_machine],
        "network": options.network,
    }
    title = f"{experiment.name}: it opens what it opens, and no guarantee of FairShares covers it"
    suite = Suite(PROGRAM, title, [Grid(levels)], repetitions=7, timeout_s=600.0)
    fields = {"name": PROGRAM, "title": title, "repetitions": suite.repetitions, "timeout_s": suite.timeout_s}
    lines = [
        *(f"{name} = {json.dumps(value)}" for name, value in fields.items()),
        *("[[grid]]", "[grid.factors]"),
        *(f"{name} = {json.dumps(of)}" for name, of in levels.items()),
    ]
    return suite, "\n".join([*lines, ""])


def _in_turn(cells: Sequence[Sequence[Sample]]) -> Iterator[Part]:
    by_model: dict[Level, list[Sequence[Sample]]] = {}
    for of in cells:
        by_model.setdefault(of[-1].cell["security"], []).append(of)
    rows, names = [], ["", ""]
    for model, of_model in by_model.items():
        if len(of_model) == 2 and (ratios := ratios_in_turn(of_model[1], of_model[0])):
            interval = interval_of_median(ratios, CONFIDENCE)
            ends = f"{interval[0]:.3g} – {interval[1]:.3g}" if interval else "too few pairs to tell"
            rows.append([str(model), f"{len(ratios)}", f"{median(ratios):.3g}", ends])
            names = [name_of(of[-1].cell, "security") for of in of_model]
    if rows:
        yield Table(
            [" / ".join(reversed(names)), "pairs", "median ratio", f"{CONFIDENCE:.0%} interval"], rows
        )


_STEPS = {
    "read": "read measured runs",
    "count": "count multiplications with MP-SPDZ's compiler",
    "judge": "judge them",
    "draw": "write and draw",
}


def validate(options: ValidateOptions) -> None:
    """Judge measured runs, and exit with 1 unless something was judged and nothing failed."""
    with cli.steps(_STEPS) as begin:
        begin("read")
        measured = Measured.read(options.results or RESULTS)
        begin("count")
        programs = list(multiplications.checks())
        begin("judge")
        validation = validate_runs(measured, programs=programs)
    if cli.output.json:
        cli.print_json(validation.to_json())
    cli.show(
        *_view_of_findings(validation, measured_over([run for cell in measured.cells for run in cell.ok]))
    )
    if not validation.passed:
        sys.exit(1)


def export(options: ExportOptions) -> None:
    """Write an experiment's results for other tools."""
    from benchmarks.report.export import export as written

    directory = options.out or default_out("bench.export")
    with cli.steps(_STEPS) as begin, new_directory(directory) as partial:
        begin("draw")
        written(options.results, partial)
    cli.show(results(directory))


def _view_of_findings(validation: Validation, over: str) -> Iterator[Part]:
    yield from texts.table2_parts(validation.rows, over)
    yield texts.by_kind(validation.findings)
    for finding in (*validation.of(Status.FAILED), *validation.of(Status.EXPLAINED)):
        yield Paragraph(
            f"{finding.status} {finding.check.key}: {finding.check.found}. {finding.reason}",
            strong=Bad(finding.status) if finding.status is Status.FAILED else str(finding.status),
        )
    yield from texts.unjudged(validation.findings)
    counted = texts.counts(validation.findings)
    yield Paragraph(f"{counted}.", strong=Good(counted) if validation.passed else Bad(counted))
