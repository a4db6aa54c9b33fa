"""`thresholds`: DP score curves per group, and the thresholds that treat groups alike."""

from __future__ import annotations

from harness import show_thresholds
from harness.cli import command
from harness.commands.release import ReleaseOptions
from harness.options import parse_choice, parse_tolerance
from harness.roc import CurvesStatistic, PublishedCurvesStatistic, ThresholdChoice, ThresholdsStatistic
from harness.thresholds import CONSTRAINTS, OBJECTIVES
from protocols.spec import PI_ROC, PI_ROC_PUBLISHED, PI_ROC_RECORDS

VARIANTS = {"histogram": PI_ROC, "records": PI_ROC_RECORDS, "published": PI_ROC_PUBLISHED}


@command
def thresholds(
    options: ReleaseOptions,
    variant: str,
    constraint: str,
    objective: str,
    tolerance: str,
    deterministic: bool,
    positive_label: str,
    blocks: str,
) -> None:
    """Run π_ROC on a records file or on shares, all parties on this machine."""
    spec = VARIANTS[parse_choice("--variant", variant, list(VARIANTS))]
    settings = options.settings(spec)
    choice = ThresholdChoice(
        parse_choice("--constraint", constraint, list(CONSTRAINTS)),
        parse_choice("--objective", objective, list(OBJECTIVES)),
        parse_tolerance(tolerance),
        deterministic,
    )
    flat = parse_choice("--blocks", blocks, ["tree", "flat"]) == "flat"
    curves = PublishedCurvesStatistic if spec is PI_ROC_PUBLISHED else CurvesStatistic
    statistic = ThresholdsStatistic(curves(settings, flat, positive_label, spec), choice)
    run, target = options.run(statistic, settings, show_thresholds.STEPS)
    show_thresholds.thresholds(run)
    options.conclude(run, target, run.found.problem)
