"""What the tasks that read measured runs do: judge them, and render them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rich.table import Table

from benchmarks.commands.options import ReportOptions, ValidateOptions
from benchmarks.papers import privfairfl
from benchmarks.validation import Validation, multiplications, texts
from benchmarks.validation import validate as validate_runs
from benchmarks.validation.cells import Measured
from benchmarks.validation.findings import Status
from benchmarks.validation.side_by_side import AS_PUBLISHED
from harness.cli import terminal as cli
from harness.cli.terminal import plain, say, show
from harness.system.result_files import default_out, new_directory
from harness.views import run as view

RESULTS = Path(__file__).parents[1] / "results"
_STEPS = {
    "read": "read measured runs",
    "count": "count multiplications with MP-SPDZ's compiler",
    "judge": "judge them",
    "draw": "write and draw",
}
_COLOURS = {Status.FAILED: "bold red", Status.EXPLAINED: "yellow"}


def validate(options: ValidateOptions) -> None:
    """Judge measured runs; exit with 1 unless something was judged and nothing failed."""
    found = _validated(options.results)[1]
    if options.json:
        print(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
    else:
        _show(found)
    if not found.passed:
        sys.exit(1)


def report(options: ReportOptions) -> None:
    """Render measured runs as Markdown, HTML and figures in a new directory."""
    measured, found = _validated(options.results)
    from benchmarks.report import html as rendering
    from benchmarks.report.plots import drawings

    directory = options.out or default_out("bench.report")
    with cli.steps(_STEPS) as begin, new_directory(directory) as partial:
        begin("draw")
        rendering.write(measured, found, list(drawings(measured, found)), partial)
    say(f"{texts.counts(found.findings)}.")
    show(view.results(directory))


def _validated(results: Path | None) -> tuple[Measured, Validation]:
    with cli.steps(_STEPS) as begin:
        begin("read")
        measured = Measured.read(results or RESULTS)
        begin("count")
        programs = list(multiplications.checks())
        begin("judge")
        return measured, validate_runs(measured, programs=programs)


def _show(found: Validation) -> None:
    for protocol in AS_PUBLISHED:
        for shape in privfairfl().shapes.values():
            header = texts.table2_header(protocol)
            table = Table(*header, title=f"{texts.TITLES[protocol]}, {shape.title}", title_justify="left")
            for column in table.columns[1:]:
                column.justify = "right"
            for row in texts.table2_rows(found.rows, protocol, shape.name):
                table.add_row(*row)
            cli.out.print(table)
        for note in texts.table2_notes([row for row in found.rows if row.protocol == protocol], protocol):
            say(plain(note))
    table = Table("checks", *map(str, Status))
    for kind in texts.by_kind(found.findings):
        table.add_row(*kind)
    cli.out.print(table)
    for finding in found.findings:
        if finding.status in _COLOURS:
            style, check = _COLOURS[finding.status], finding.check
            say(
                f"[{style}]{finding.status}[/] {plain(check.key)}: {plain(check.found)}. "
                f"{plain(finding.reason)}"
            )
    for reason, number, example in texts.unjudged(found.findings):
        say(f"[dim]not judged[/] ({number}, for example {plain(example)}): {plain(reason)}")
    style = "green" if found.passed else "bold red"
    say(f"[{style}]{texts.counts(found.findings)}[/].")
