"""`gap`: DP gaps between groups' mean performance."""

from __future__ import annotations

from harness import show_gaps
from harness.cli import command
from harness.commands.release import ReleaseOptions
from harness.gaps import GapStatistic
from protocols.spec import PI_GAP


@command
def gap(options: ReleaseOptions) -> None:
    """Run π_GAP on a file of clients' values or on shares, all parties on this machine."""
    settings = options.settings(PI_GAP)
    run, target = options.run(GapStatistic(), settings, show_gaps.STEPS)
    show_gaps.gaps(run)
    options.conclude(run, target)
