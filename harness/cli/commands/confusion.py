"""`confusion`: a DP confusion matrix per group."""

from __future__ import annotations

from harness.cli.commands.release import ReleaseOptions
from harness.cli.options import parse_threshold
from harness.cli.terminal import command
from harness.errors import OptionError
from harness.releases.confusion import ConfusionStatistic
from harness.views import thresholds as show_thresholds
from protocols.spec import PI_CF, PI_CF_SLOTS


@command
def confusion(options: ReleaseOptions, threshold: str) -> None:
    """Run π_CF on a records file or on shares, all parties on this machine."""
    spec = PI_CF_SLOTS if options.by_slots else PI_CF
    settings = options.settings(spec)
    if threshold and options.shares:
        raise OptionError("With --shares the predictions are those that were shared; leave out --threshold.")
    score = parse_threshold(threshold) if threshold else None
    run, target = options.run(ConfusionStatistic(spec), settings, show_thresholds.CONFUSION_STEPS, score)
    show_thresholds.confusion(run)
    options.conclude(run, target)
