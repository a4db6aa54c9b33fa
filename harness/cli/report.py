"""Presents a command's outcome."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from fairshares.harness.cli import terminal
from fairshares.harness.errors import FairSharesError, WriteError, cannot
from fairshares.harness.privacy.manifest import ReleaseManifest
from fairshares.harness.system.files import copy_into, working_directory
from fairshares.harness.system.result_files import default_out, new_directory
from fairshares.harness.views import run_summary as run_view
from fairshares.harness.views.parts import Part, View
from fairshares.harness.views.rendering.html import write_page
from fairshares.protocols.json_values import JsonObject


def tell(task: str, title: str, shown: View, fields: Callable[[], JsonObject], *, plot: bool) -> None:
    """Show the outcome of a command that runs nothing.

    Args:
        task: The command's name, after which the page's directory is named.
        title: The page's title.
        shown: The sentences, tables and pictures that are shown.
        fields: A function that returns the value which `--json` prints.
        plot: Whether a page is written, too.

    Raises:
        WriteError: The page cannot be written.
    """
    target = default_out(task)
    if plot:
        shown = list(shown)
        with new_directory(target) as partial:
            write_page(title, "", shown, partial)
    if terminal.output.json:
        terminal.print_json(fields())
    else:
        terminal.show(*shown)
        if plot:
            terminal.show(run_view.results(target, page=True))


def write_beside(directory: Path, title: str, subtitle: str, view: Sequence[Part]) -> None:
    """Write a page beside results, whole, or raise WriteError."""
    with (
        cannot(f"write the report into {directory}", WriteError, "the results are there"),
        working_directory(directory) as partial,
    ):
        write_page(title, subtitle, view, partial)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            copy_into(partial, descriptor)
        finally:
            os.close(descriptor)


def present(
    plot: bool,
    manifest: ReleaseManifest,
    target: Path,
    title: str,
    *,
    answer: Sequence[Part],
    short: Sequence[Part],
    full: Sequence[Part],
    problem: FairSharesError | None = None,
    file: str = "",
) -> None:
    """Show a run's answer and its facts; write its report; raise its problem.

    Args:
        plot: Whether a report is written beside the results.
        manifest: The run's manifest.
        target: The directory of its results.
        title: The report's title.
        answer: The result.
        short: The facts of the run that are shown by default.
        full: The sentences and tables that `--verbose` and the report show.
        problem: Why the result falls short; raised after all else is shown.
        file: The results' file that `--json` prints; by default the task's.
    """
    terminal.show(*answer)
    if not terminal.output.quiet:
        terminal.show(*(full if terminal.output.verbose else short))
    if plot:
        write_beside(target, title, run_view.subtitle(manifest), [*answer, *full])
    results = run_view.results(target, plot)
    if not terminal.output.quiet:
        terminal.show(results)
    if terminal.output.json:
        terminal.announce(*run_view.left_out(manifest), f"{results.label}: {results.text}")
    if problem is not None:
        raise problem
    if terminal.output.json:
        results_file = target / (file or f"{manifest.task}.json")
        terminal.print_json_text(results_file.read_text(encoding="utf-8"))
