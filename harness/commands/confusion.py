"""`confusion`: a DP confusion matrix per group."""

from __future__ import annotations

from harness import show_thresholds
from harness.cli import command
from harness.commands.release import ReleaseOptions
from harness.confusion import ConfusionStatistic
from harness.errors import OptionError
from harness.options import parse_threshold
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
