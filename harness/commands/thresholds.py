"""`thresholds`: DP score curves per group, and the thresholds that treat groups alike."""

from __future__ import annotations

from harness import show, show_thresholds
from harness.cli import command
from harness.commands.ledger import show_charge
from harness.commands.release import ReleaseOptions
from harness.options import parse_choice, parse_tolerance
from harness.roc import CurvesStatistic, ThresholdChoice, ThresholdsStatistic
from harness.thresholds import CONSTRAINTS, OBJECTIVES
from protocols.spec import PI_ROC


@command
def thresholds(
    options: ReleaseOptions,
    constraint: str,
    objective: str,
    tolerance: str,
    deterministic: bool,
    positive_label: str,
    blocks: str,
) -> None:
    """Run π_ROC on a records file or on shares, all parties on this machine."""
    settings = options.settings(PI_ROC)
    choice = ThresholdChoice(
        parse_choice("--constraint", constraint, list(CONSTRAINTS)),
        parse_choice("--objective", objective, list(OBJECTIVES)),
        parse_tolerance(tolerance),
        deterministic,
    )
    flat = parse_choice("--blocks", blocks, ["tree", "flat"]) == "flat"
    statistic = ThresholdsStatistic(CurvesStatistic(settings, flat, positive_label), choice)
    run, target = options.run(statistic, settings, show_thresholds.STEPS)
    show_thresholds.thresholds(run)
    show.one_machine(bool(options.records))
    show_charge(run.charging)
    show.results(target)
    if run.found.problem is not None:
        raise run.found.problem
    if options.as_json:
        print((target / "thresholds.json").read_text(encoding="utf-8"), end="")
