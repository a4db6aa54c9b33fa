"""`weights`: DP sample weights per group and label."""

from __future__ import annotations

from harness import show
from harness.cli import command
from harness.commands.ledger import show_charge
from harness.commands.release import ReleaseOptions
from harness.options import parse_choice
from harness.postprocess import REWEIGHINGS
from harness.weights import WeightsStatistic
from protocols.spec import PI_RW


@command
def weights(options: ReleaseOptions, reweighing: str) -> None:
    """Run π_RW on a records file or on shares, all parties on this machine."""
    settings = options.settings(PI_RW)
    statistic = WeightsStatistic(parse_choice("--reweighing", reweighing, list(REWEIGHINGS)))
    run, target = options.run(statistic, settings, show.WEIGHT_STEPS)
    show.weights(run)
    show.one_machine(bool(options.records))
    show_charge(run.charging)
    show.results(target)
    if options.as_json:
        print((target / "weights.json").read_text(encoding="utf-8"), end="")
