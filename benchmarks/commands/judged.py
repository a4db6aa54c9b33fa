"""What the tasks that read measured runs do: judge them, and render them."""

import sys
from collections import Counter
from collections.abc import Iterator

from benchmarks.commands.options import CompareOptions, ExportOptions, ValidateOptions
from benchmarks.measure.samples import CONFIDENCE, load, name_of
from benchmarks.report.compare import compare as changed
from benchmarks.validation import multiplications, texts
from benchmarks.validation.cells import RESULTS, Measured
from benchmarks.validation.checks import Validation, validate as validate_runs
from benchmarks.validation.findings import Status
from harness.cli import terminal
from harness.cli.terminal import print_json, show, steps
from harness.system.result_files import default_out, new_directory
from harness.views.parts import Bad, Good, Paragraph, Part, Table
from harness.views.run import results

_STEPS = {
    "read": "read measured runs",
    "count": "count multiplications with MP-SPDZ's compiler",
    "judge": "judge them",
    "draw": "write and draw",
}


def validate(options: ValidateOptions) -> None:
    """Judge measured runs; exit with 1 unless something was judged and nothing failed."""
    with steps(_STEPS) as begin:
        begin("read")
        measured = Measured.read(options.results or RESULTS)
        begin("count")
        programs = list(multiplications.checks())
        begin("judge")
        validation = validate_runs(measured, programs=programs)
    if terminal.output.json:
        print_json(validation.to_json())
    show(*_view(validation, measured.over))
    if not validation.passed:
        sys.exit(1)


def export(options: ExportOptions) -> None:
    """Write an experiment's results for other tools into a new directory."""
    from benchmarks.report.export import export as written

    directory = options.out or default_out("bench.export")
    with steps(_STEPS) as begin, new_directory(directory) as partial:
        begin("draw")
        written(options.results, partial)
    show(results(directory))


def compare(options: CompareOptions) -> None:
    """Say cell by cell what changed between two measurements."""
    changes = list(changed(load(options.before), load(options.after)))
    if terminal.output.json:
        print_json([vars(change) for change in changes])
    verdicts = Counter(change.verdict for change in changes)
    verdict_counts = ", ".join(f"{many} {verdict}" for verdict, many in verdicts.most_common())
    rows = []
    for change in changes:
        both = [texts.NONE if value is None else texts.seconds(value) for value in change.seconds]
        ratio = texts.NONE if change.ratio is None else f"{change.ratio:.3g}"
        interval = f"{change.interval[0]:.3g} – {change.interval[1]:.3g}" if change.interval else texts.NONE
        rows.append(
            [
                name_of(change.cell),
                *both,
                ratio,
                interval,
                change.verdict,
                change.others or texts.NONE,
            ]
        )
    columns = ["cell", "first, s", "second, s", "ratio", f"{CONFIDENCE:.0%} interval", "seconds", "and else"]
    show(Table(columns, rows), f"{verdict_counts}.")


def _view(validation: Validation, over: str) -> Iterator[Part]:
    yield from texts.table2_parts(validation.rows, over)
    yield texts.by_kind(validation.findings)
    for finding in texts.deviating(validation.findings):
        tone = Bad(finding.status) if finding.status is Status.FAILED else str(finding.status)
        sentence = f"{finding.status} {finding.check.key}: {finding.check.found}. {finding.reason}"
        yield Paragraph(sentence, strong=tone)
    yield from texts.unjudged(validation.findings)
    counted = texts.counts(validation.findings)
    yield Paragraph(f"{counted}.", strong=Good(counted) if validation.passed else Bad(counted))
