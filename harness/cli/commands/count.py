"""`count`: counts with a relative error, and more privacy for larger groups."""

from __future__ import annotations

from harness.cli.commands.release import ReleaseOptions
from harness.cli.options import parse_error_target
from harness.cli.terminal import command
from harness.releases.counts import CountStatistic
from harness.views import counts as show_counts
from protocols.spec import PI_COUNT


@command
def count(options: ReleaseOptions, relative_error: str, error_from: str, error_to: str) -> None:
    """Run π_COUNT on a records file or on shares, all parties on this machine."""
    settings = options.settings(PI_COUNT)
    target = parse_error_target(relative_error, error_from, error_to)
    run, out = options.run(CountStatistic(settings, target), settings, show_counts.STEPS)
    show_counts.counts(run)
    options.conclude(run, out)
