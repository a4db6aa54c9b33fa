"""`count`: counts with a relative error, and more privacy for larger groups."""

from __future__ import annotations

from harness import show_counts
from harness.cli import command
from harness.commands.release import ReleaseOptions
from harness.errors import OptionError
from harness.group_counts import CountStatistic
from harness.options import parse_relative_error, parse_whole
from protocols.groupwise import ErrorTarget
from protocols.spec import PI_COUNT

MOST_RECORDS = 1 << 24  # beyond, a unit of the logarithm has too little epsilon for the noise


@command
def count(options: ReleaseOptions, relative_error: str, error_from: str, error_to: str) -> None:
    """Run π_COUNT on a records file or on shares, all parties on this machine."""
    settings = options.settings(PI_COUNT)
    least = parse_whole("--error-from", error_from, 1, MOST_RECORDS)
    most = parse_whole("--error-to", error_to, 1, MOST_RECORDS)
    if least > most:
        raise OptionError(f"--error-from {least} is above --error-to {most}; give a range of counts.")
    target = ErrorTarget(parse_relative_error(relative_error), least, most)
    run, out = options.run(CountStatistic(settings, target), settings, show_counts.STEPS)
    show_counts.counts(run)
    options.conclude(run, out)
