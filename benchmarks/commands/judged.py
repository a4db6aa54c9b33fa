"""What the tasks that read measured runs do: judge them, and render them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.commands.options import ReportOptions, ValidateOptions
from benchmarks.validation import Validation, multiplications, texts
from benchmarks.validation import validate as validate_runs
from benchmarks.validation.cells import Measured
from benchmarks.validation.findings import Status
from harness.cli.terminal import show, steps
from harness.system.result_files import default_out, new_directory
from harness.views.parts import Bad, Good, Paragraph, Part
from harness.views.run import results

RESULTS = Path(__file__).parents[1] / "results"
_STEPS = {
    "read": "read measured runs",
    "count": "count multiplications with MP-SPDZ's compiler",
    "judge": "judge them",
    "draw": "write and draw",
}


def validate(options: ValidateOptions) -> None:
    """Judge measured runs; exit with 1 unless something was judged and nothing failed."""
    found = _validated(options.results)[1]
    if options.json:
        print(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
    else:
        show(*_view(found))
    if not found.passed:
        sys.exit(1)


def report(options: ReportOptions) -> None:
    """Render measured runs as Markdown, HTML and figures in a new directory."""
    measured, found = _validated(options.results)
    from benchmarks.report import html as rendering
    from benchmarks.report.plots import drawings

    directory = options.out or default_out("bench.report")
    with steps(_STEPS) as begin, new_directory(directory) as partial:
        begin("draw")
        rendering.write(measured, found, list(drawings(measured, found)), partial)
    show(f"{texts.counts(found.findings)}.", results(directory))


def _validated(results: Path | None) -> tuple[Measured, Validation]:
    with steps(_STEPS) as begin:
        begin("read")
        measured = Measured.read(results or RESULTS)
        begin("count")
        programs = list(multiplications.checks())
        begin("judge")
        return measured, validate_runs(measured, programs=programs)


def _view(found: Validation) -> Iterator[Part]:
    yield from texts.table2(found.rows)
    yield texts.by_kind(found.findings)
    for finding in texts.deviating(found.findings):
        tone = Bad(finding.status) if finding.status is Status.FAILED else str(finding.status)
        said = f"{finding.status} {finding.check.key}: {finding.check.found}. {finding.reason}"
        yield Paragraph(said, strong=tone)
    yield from texts.unjudged(found.findings)
    counted = texts.counts(found.findings)
    yield Paragraph(f"{counted}.", strong=Good(counted) if found.passed else Bad(counted))
