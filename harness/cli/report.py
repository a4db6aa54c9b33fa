"""Presents a command's outcome."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from fairshares.harness.cli import terminal
from fairshares.harness.errors import FairSharesError, WriteError, cannot
from fairshares.harness.privacy.manifest import ReleaseManifest
from fairshares.harness.system.files import copy_into, working_directory
from fairshares.harness.system.result_files import default_out, new_directory
from fairshares.harness.views import run as run_view
from fairshares.harness.views.parts import Part, View
from fairshares.harness.views.rendering.html import write_page
from fairshares.protocols.json_values import JsonObject


def tell(task: str, title: str, shown: View, fields: Callable[[], JsonObject], *, plot: bool) -> None:
    """Show the outcome of a command that runs nothing, or write its page, or raise WriteError."""
    target = default_out(task)
    if plot:
        shown = list(shown)
        with new_directory(target) as partial:
            write_page(title, "", shown, partial)
    if terminal.output.json:
        terminal.print_json(fields())
    else:
        terminal.show(*shown, *([run_view.results(target, page=True)] if plot else []))


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
    """Show an answer and its facts, in short or in full; write its report; raise a problem."""
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
