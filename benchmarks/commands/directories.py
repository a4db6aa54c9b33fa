"""Directories of results."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.measure.samples import SAMPLES, whole_lines
from harness.cli.terminal import INTERRUPTED_EXIT, err, plain, say
from harness.errors import OptionError
from harness.system.result_files import default_out


def directory_of(options: Any, command: str) -> Path:
    """Return a new directory, or that of an earlier command."""
    if options.out and options.resume:
        raise OptionError("--out is for a new directory, --resume for an earlier one; give one of them.")
    return Path(options.resume or options.out or default_out(command))


@contextmanager
def resumable(command: str, directory: Path) -> Iterator[None]:
    """Have an interrupt say how to resume the command, and end it."""
    try:
        yield
    except KeyboardInterrupt:
        results, where = len(whole_lines(directory / SAMPLES)), plain(str(directory))
        say(
            f"Interrupted: {results} results are in {where}, and no run is left half-done. Go on by ./inv "
            f"{command} --resume {where}.",
            err,
        )
        sys.exit(INTERRUPTED_EXIT)
