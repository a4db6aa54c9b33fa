"""`weights`: DP sample weights per group and label."""

from __future__ import annotations

from typing import Any

from harness import show
from harness.cli import command
from harness.commands.release import ReleaseOptions
from harness.options import parse_choice
from harness.pipeline import Run
from harness.postprocess import REWEIGHINGS
from harness.weights import WeightsOnlyStatistic, WeightsStatistic
from protocols.spec import PI_RW, PI_RW_SLOTS, PI_RW_WEIGHTS


@command
def weights(options: ReleaseOptions, reweighing: str, reveal: str) -> None:
    """Run π_RW on a records file or on shares, all parties on this machine."""
    revealed = parse_choice("--reveal", reveal, ["counts", "weights"])
    spec = PI_RW_WEIGHTS if revealed == "weights" else PI_RW_SLOTS if options.by_slots else PI_RW
    settings = options.settings(spec)
    scheme = parse_choice("--reweighing", reweighing, list(REWEIGHINGS))
    run: Run[Any]
    if revealed == "counts":
        run, target = options.run(WeightsStatistic(scheme, spec), settings, show.WEIGHT_STEPS)
        show.weights(run)
    else:
        run, target = options.run(WeightsOnlyStatistic(scheme), settings, show.WEIGHTS_ONLY_STEPS)
        show.opened_weights(run)
    options.conclude(run, target)
