"""Presents a command's outcome: on the terminal, as JSON, or with `--plot` as a page."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness.cli import terminal
from harness.cli.terminal import announce, print_json, show
from harness.errors import FairSharesError, WriteError
from harness.system.files import scratch_directory
from harness.system.result_files import default_out, new_directory
from harness.views import run as run_view
from harness.views.parts import Part, View
from harness.views.rendering.html import write_page


def tell(task: str, title: str, shown: View, fields: Callable[[], dict[str, Any]], *, plot: bool) -> None:
    """Show or print the outcome of a command that runs nothing; write at most a page.

    Raises:
        WriteError: The page cannot be written.
    """
    target = default_out(task)
    if plot:
        shown = list(shown)
        with new_directory(target) as partial:
            write_page(title, "", shown, partial)
    if terminal.output.json:
        print_json(fields())
    else:
        show(*shown, *([run_view.results(target, page=True)] if plot else []))


def write_beside(directory: Path, title: str, subtitle: str, view: Sequence[Part]) -> None:
    """Write a page beside existing results.

    Raises:
        WriteError: It cannot be written; no file is half-written.
    """
    try:
        with scratch_directory(directory) as partial:
            write_page(title, subtitle, view, partial)
            for path in partial.iterdir():
                path.rename(directory / path.name)
    except OSError as error:
        message = f"Cannot write the report into {directory}: {error.strerror}; the results are there."
        raise WriteError(message) from None


def present(
    options: Any,
    manifest: dict[str, Any],
    target: Path,
    title: str,
    answer: Sequence[Part],
    short: Sequence[Part],
    full: Sequence[Part],
    problem: FairSharesError | None = None,
    file: str = "",
) -> None:
    """Show the answer and, in short or in full, its facts; write the report, if asked to.

    `file` is needed if the answer's is not named for the manifest's task. A `problem` is raised at the end.
    """
    show(*answer)
    if not terminal.output.quiet:
        show(*(full if terminal.output.verbose else short))
    if options.plot:
        write_beside(target, title, run_view.subtitle(manifest), [*answer, *full])
    results = run_view.results(target, options.plot)
    if not terminal.output.quiet:
        show(results)
    if terminal.output.json:
        announce(*run_view.left_out(manifest), f"{results.label}: {results.text}")
    if problem is not None:
        raise problem
    if terminal.output.json:
        print((target / (file or f"{manifest['task']}.json")).read_text(encoding="utf-8"), end="")
