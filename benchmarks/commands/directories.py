"""Where a command's results go, and how to go on with those of one that was interrupted."""

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
    """Return where results go: a new directory, or that of an earlier command. Raises: OptionError: both."""
    if options.out and options.resume:
        raise OptionError("--out is for a new directory, --resume for an earlier one; give one of them.")
    return Path(options.resume or options.out or default_out(command))


@contextmanager
def resumable(command: str, directory: Path) -> Iterator[None]:
    """Have an interrupt in the block say how to go on, and end the command. Args: command: as it is typed."""
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
