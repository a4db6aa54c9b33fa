"""`gap`: DP gaps between groups' mean performance."""

from __future__ import annotations

from harness.cli.commands.release import ReleaseOptions
from harness.cli.terminal import command
from harness.releases.gaps import GapStatistic
from harness.views import gaps as show_gaps
from protocols.spec import PI_GAP, PI_GAP_SLOTS


@command
def gap(options: ReleaseOptions) -> None:
    """Run π_GAP on a file of clients' values or on shares, all parties on this machine."""
    spec = PI_GAP_SLOTS if options.by_slots else PI_GAP
    settings = options.settings(spec)
    run, target = options.run(GapStatistic(spec), settings, show_gaps.STEPS)
    show_gaps.gaps(run)
    options.conclude(run, target)
