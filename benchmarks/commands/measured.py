"""`bench.run`, and the commands that judge and show measured runs."""

import json
import secrets
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.commands.directories import directory_of, resumable
from benchmarks.commands.options import ExportOptions, RunOptions, ValidateOptions
from benchmarks.factors import MACHINE, PROGRAM
from benchmarks.measure import runner
from benchmarks.measure.cell import Place, over_hosts
from benchmarks.measure.samples import (
    CONFIDENCE,
    FAILED,
    OK,
    STATUSES,
    Level,
    Sample,
    by_cell,
    interval_of_median,
    load,
    measured_over,
    name_of,
    phases_of,
    ratios_in_turn,
    summary,
)
from benchmarks.measure.units import write_units
from benchmarks.suites import INPUTS, OURS, PROGRAMS, UNITS, Grid, Suite, read_experiment
from benchmarks.validation import multiplications, texts
from benchmarks.validation.cells import RESULTS, Measured
from benchmarks.validation.checks import Validation, validate as validate_runs
from benchmarks.validation.findings import Status
from fairshares.harness.cli import terminal as cli
from fairshares.harness.errors import OptionError, UnsupportedError, typed
from fairshares.harness.security_models import MODELS
from fairshares.harness.system.progress import listening
from fairshares.harness.system.result_files import default_out, new_directory
from fairshares.harness.system.spelling import similar
from fairshares.harness.views.parts import Bad, Good, Heading, Paragraph, Part, Table
from fairshares.harness.views.run_summary import results

# Options about a program's machine, and all options that are for a program alone.
_MACHINE_OPTIONS = ("parties", "batch_size", "bucket_size", "security_bits", "run_options")
_OF_PROGRAMS = (
    "args",
    "inputs",
    "threads",
    "compile_options",
    "against",
    "network",
    "machine",
    *_MACHINE_OPTIONS,
)


def run(options: RunOptions) -> None:
    """Run what is missing of an experiment, and show its results."""
    directory = directory_of(options, "bench.run")
    names_of_program = [name for name in _OF_PROGRAMS if not options.is_usual(name)]
    of_program = options.written(*names_of_program)
    if of_program and not (options.experiment or "").endswith(".mpc"):
        flag = options.declared[names_of_program[0]].flag
        raise OptionError(f"{flag} goes with a program's .mpc alone; leave it out.")
    if options.resume:
        wanted = _with_options(options, _earlier(options, directory), beside=directory)
    else:
        suite, text, beside = _experiment(options)
        seed = secrets.randbits(32) if suite.seed is None else suite.seed
        new = runner.Chosen(suite, told=f"bench.run {options.experiment}{typed(**of_program)}", seed=seed)
        wanted = _with_options(options, new, beside)
        runner.start(directory, wanted, text, beside, _inputs_elsewhere(options))
    programs = directory / PROGRAMS
    with (
        resumable("bench.run", directory),
        cli.steps({"measure": "measure"}) as begin,
        listening(lambda *_: None),  # hides the progress within a run
        over_hosts(Path(wanted.hosts), programs)
        if wanted.hosts
        else nullcontext(Place(programs, inputs=directory / INPUTS)) as place,
    ):
        begin("measure")
        runner.go_on(directory, wanted, partial(_say, begin), place)
    samples = load(directory)
    samples_by_cell = by_cell(samples)
    cells = [samples_by_cell[planned.key] for planned in wanted.plan() if planned.key in samples_by_cell]
    cli.show(*_view(wanted.suite.title, cells, over_hosts=bool(wanted.hosts)), *texts.iterations(cells))
    if wanted.suite.name == UNITS:
        models = ", ".join(write_units(directory, samples))
        cli.say(f"Unit costs of {models}: use them by --plan 100,units={cli.plain(str(directory))}.")
    elif wanted.suite.name == PROGRAM:
        cli.show(*_in_turn(cells))
    cli.show(results(directory))
    if cli.output.json:
        cli.print_json([_summary(cell_samples) for cell_samples in cells])
    failed = [sample for cell_samples in cells for sample in cell_samples if sample.status == FAILED]
    _say_what_failed(directory, failed)
    if not any(sample.status == OK for cell_samples in cells for sample in cell_samples):
        reasons = dict.fromkeys(str(cell_samples[-1].reason) for cell_samples in cells)
        raise UnsupportedError(f"Nothing was run. {' '.join(reasons)}")


def _with_options(options: RunOptions, known: runner.Chosen, beside: Path) -> runner.Chosen:
    """Return a choice with the options that are given in place of its own.

    Args:
        options: The options of the command.
        known: The choice so far.
        beside: The experiment's directory, from which it may name a file of hosts.
    """
    hosts = options.hosts or known.hosts
    if not hosts and known.suite.hosts:
        hosts = beside / known.suite.hosts
    return replace(
        known,
        quick=options.quick or known.quick,
        models=tuple(options.security or known.models),
        repetitions=options.repetitions or known.repetitions,
        timeout_s=options.timeout or known.timeout_s,
        hosts=str(hosts or ""),
    )


def _earlier(options: RunOptions, directory: Path) -> runner.Chosen:
    """Return the choice of an earlier command, or raise OptionError if options contradict it."""
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
    """Return the experiment that is named, its file's text, and its directory."""
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
    progress = f"{done} of {total}"
    if left_s is not None:
        progress += f", about {_duration(left_s)} left"
    text = f"{progress}: {name_of(planned.cell)}, repetition {repetition + 1}"
    begin.detail(text)
    if not cli.err.is_terminal:
        cli.say(cli.plain(text), cli.err)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _view(title: str, cells: Sequence[Sequence[Sample]], *, over_hosts: bool) -> Iterator[Part]:
    yield Heading(title)
    yield Table(
        ["cell", "seconds in the computation", "rounds", "sent by all", "most memory"],
        [[name_of(cell_samples[-1].cell), *_costs(cell_samples)] for cell_samples in cells],
    )
    yield from _phases(cells)
    samples = [sample for cell_samples in cells for sample in cell_samples]
    where = measured_over(samples) or ("over hosts" if over_hosts else "all parties on this machine")
    made_up = any(PROGRAM not in sample.cell for sample in samples)
    of_whom = "; clients and records are made up" if made_up else ""
    yield f"Medians (least – most), {where}{of_whom}."
    if any(sample.cell.get("input_path") == "clients" for sample in samples):
        yield "Where clients send, their connections are in these seconds."


def _phases(cells: Sequence[Sequence[Sample]]) -> Iterator[Part]:
    """View what a program's own timers and the two phases took, in each cell that has them."""
    rows = []
    for cell_samples in cells:
        good = [sample for sample in cell_samples if sample.status == OK]
        if not good or PROGRAM not in good[-1].cell:
            continue
        for name, phase in phases_of(good).items():
            rows.append(
                [
                    name_of(good[-1].cell),
                    name.replace("_", " "),
                    texts.seconds(median(phase.seconds)),
                    f"{phase.rounds:,}",
                    f"{median(phase.sent_bytes) / 1e6:,.3g} MB",
                ]
            )
    if rows:
        yield Table(["cell", "phase", "seconds (median)", "rounds", "sent by all"], rows)


def _costs(cell_samples: Sequence[Sample]) -> list[str]:
    """Return the costs of a cell's runs, or the reason why there are none."""
    seconds = summary(cell_samples)
    if seconds is None:
        last = cell_samples[-1]
        reason = f"{last.status}: {last.reason}"
        return [Bad(reason) if last.status == FAILED else reason, "", "", ""]
    good = next(sample for sample in cell_samples if sample.sent_bytes)
    rounds = texts.NONE
    if good.rounds is not None:
        rounds = f"{good.rounds:,}"
    memory = texts.NONE
    if good.peak_memory_bytes:
        memory = f"{max(good.peak_memory_bytes) / 1e6:,.0f} MB"
    return [texts.spread(seconds), rounds, f"{sum(good.sent_bytes) / 1e6:,.3g} MB", memory]


def _summary(cell_samples: Sequence[Sample]) -> dict[str, Any]:
    """Return a cell, its number of runs by status, the last reason, and its seconds, as JSON."""
    seconds = summary(cell_samples)
    reasons = [sample.reason for sample in cell_samples if sample.reason]
    numbers = Counter(sample.status for sample in cell_samples)
    return {
        "cell": dict(cell_samples[-1].cell),
        **{status: numbers[status] for status in STATUSES},
        "reason": reasons[-1] if reasons else None,
        "mpc_s": seconds and {"median": seconds.median, "low": seconds.low, "high": seconds.high},
    }


def _experiment_of(options: RunOptions) -> tuple[Suite, str]:
    """Return the experiment of a user's program, and the text of its file."""
    experiment = Path(options.experiment)
    against = options.against or ""
    programs = [experiment.name]
    compile_options = [options.compile_options or ""]
    if against.endswith(".mpc"):
        programs.append(Path(against).name)
        if Path(against).parent.resolve() != experiment.parent.resolve():
            raise OptionError(f"--against names a program beside {experiment}, or compile options.")
    elif against:
        compile_options.append(against)
    inputs = options.inputs.name if isinstance(options.inputs, Path) else options.inputs
    levels: dict[str, Any] = {
        PROGRAM: programs,
        "arguments": options.args or "",
        "compile_options": compile_options,
        "inputs": inputs,
        "network": options.network,
    }
    if options.threads:
        levels["threads"] = options.threads
    grids = []
    if options.security or not options.machine:
        models = [name for name, model in MODELS.items() if model.virtual_machine]
        grids.append({**levels, "security": options.security or models})
    every: dict[str, Any] = {
        "parties": options.parties,
        "batch_size": options.batch_size,
        "bucket_size": options.bucket_size,
        "security_bits": options.security_bits,
        "run_options": options.run_options,
    }
    given = {name: level for name, level in every.items() if level}
    if options.machine:
        grids.append({**levels, MACHINE: options.machine, **given})
    elif given:
        flag = options.declared[next(iter(given))].flag
        raise OptionError(f"{flag} is for a machine of MP-SPDZ; name one by --machine, or leave it out.")
    title = f"{experiment.name}: it opens what it opens, and no guarantee of FairShares covers it"
    suite = Suite(PROGRAM, title, [Grid(grid) for grid in grids], repetitions=7, timeout_s=600.0)
    fields = {"name": PROGRAM, "title": title, "repetitions": suite.repetitions, "timeout_s": suite.timeout_s}
    lines = [f"{name} = {json.dumps(value)}" for name, value in fields.items()]
    for grid in grids:
        lines += ["[[grid]]", "[grid.factors]"]
        lines += [f"{name} = {json.dumps(value)}" for name, value in grid.items()]
    return suite, "".join(f"{line}\n" for line in lines)


def _inputs_elsewhere(options: RunOptions) -> dict[str, Path]:
    """Return the directory of inputs that a program is given by its name, if it is given one."""
    if isinstance(options.inputs, Path):
        return {options.inputs.name: options.inputs}
    return {}


_ALIKE = ("security", MACHINE, *_MACHINE_OPTIONS)  # alike in two programs that are compared


def _without_program(cell: Mapping[str, Level]) -> dict[str, Level]:
    """Return the factors that two programs, or two ways to compile one, have alike."""
    return {factor: level for factor, level in cell.items() if factor not in (PROGRAM, "compile_options")}


def _in_turn(cells: Sequence[Sequence[Sample]]) -> Iterator[Part]:
    """View by model the ratio of two programs' seconds, if a cell was run against another."""
    by_model: dict[str, list[Sequence[Sample]]] = {}
    for cell_samples in cells:
        by_model.setdefault(name_of(_without_program(cell_samples[-1].cell)), []).append(cell_samples)
    rows = []
    compared = ""
    for model, cells_of_model in by_model.items():
        if len(cells_of_model) != 2:
            continue
        first, second = cells_of_model
        ratios = ratios_in_turn(second, first)
        if not ratios:
            continue
        interval = interval_of_median(ratios, CONFIDENCE)
        ends = "too few pairs to tell"
        if interval:
            low, high = interval
            ends = f"{low:.3g} – {high:.3g}"
        rows.append([model, f"{len(ratios)}", f"{median(ratios):.3g}", ends])
        shown = [name_of(cell_samples[-1].cell, *_ALIKE) for cell_samples in (second, first)]
        compared = " / ".join(shown)
    if rows:
        yield Table([compared, "pairs", "median ratio", f"{CONFIDENCE:.0%} interval"], rows)


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
    over = measured_over([run for cell in measured.cells for run in cell.ok])
    cli.show(*_view_of_findings(validation, over))
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
    deviating = (Status.FAILED, Status.NOT_EXPLAINED, Status.EXPLAINED)
    for finding in [finding for status in deviating for finding in validation.with_status(status)]:
        yield Paragraph(
            f"{finding.status} {finding.check.key}: {finding.check.found}. {finding.reason}",
            strong=Bad(finding.status) if finding.status is Status.FAILED else str(finding.status),
        )
    yield from texts.unjudged(validation.findings)
    counted = texts.counts(validation.findings)
    yield Paragraph(f"{counted}.", strong=Good(counted) if validation.passed else Bad(counted))
