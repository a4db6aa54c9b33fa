"""Directories of results."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.measure.samples import SAMPLES, whole_lines
from fairshares.harness.cli.terminal import INTERRUPTED_EXIT, err, plain, say
from fairshares.harness.errors import OptionError
from fairshares.harness.system.result_files import default_out


def directory_of(options: Any, command: str) -> Path:
    """Return the directory of a command's results: a new one, or one of an earlier command.

    Args:
        options: The options of the command, of which `out` and `resume` are read.
        command: Begins the name of a directory that no option names.

    Raises:
        OptionError: Both options are given.
    """
    if options.out and options.resume:
        raise OptionError("--out is for a new directory, --resume for an earlier one; give one of them.")
    return Path(options.resume or options.out or default_out(command))


@contextmanager
def resumable(command: str, directory: Path) -> Iterator[None]:
    """End a command at an interrupt, and say how to go on with it."""
    try:
        yield
    except KeyboardInterrupt:
        results = len(whole_lines(directory / SAMPLES))
        where = plain(str(directory))
        say(
            f"Interrupted: {results} results are in {where}, and no run is left half-done. Go on by ./inv "
            f"{command} --resume {where}.",
            err,
        )
        sys.exit(INTERRUPTED_EXIT)
