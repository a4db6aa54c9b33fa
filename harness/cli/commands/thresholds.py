"""`thresholds`: DP score curves per group, and the thresholds that treat groups alike."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from harness.cli import terminal as cli
from harness.cli.commands.release import ReleaseOptions
from harness.cli.options import parse_choice, parse_tolerance
from harness.cli.tasking import RELEASE_OPTIONS
from harness.cli.terminal import command
from harness.errors import OptionError
from harness.pipeline.thresholds_again import choose_again, read_curves
from harness.postprocessing.thresholds.choose import CONSTRAINTS, OBJECTIVES
from harness.releases.score_curves import (
    CurvesStatistic,
    PublishedCurvesStatistic,
    ThresholdChoice,
    ThresholdsStatistic,
)
from harness.system.result_files import default_out
from harness.views import thresholds as show_thresholds
from harness.views import weights as show
from protocols.spec import PI_ROC, PI_ROC_PUBLISHED, PI_ROC_RECORDS

VARIANTS = {"histogram": PI_ROC, "records": PI_ROC_RECORDS, "published": PI_ROC_PUBLISHED}
_OF_ANY = ("out", "json")
OF_A_RUN: dict[str, str | bool] = {  # and what they are unless given
    **{name: default for name, default in RELEASE_OPTIONS.items() if name not in _OF_ANY},
    **dict.fromkeys(("input_form", "cap", "cap_epsilon"), ""),
    "variant": "histogram",
    "blocks": "tree",
}


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
    curves: str = "",
) -> None:
    """Run π_ROC on a records file or on shares, all parties here; or choose on its curves again."""
    choice = ThresholdChoice(
        parse_choice("--constraint", constraint, list(CONSTRAINTS)),
        parse_choice("--objective", objective, list(OBJECTIVES)),
        parse_tolerance(tolerance),
        deterministic,
    )
    if curves:
        _refuse_options_of_a_run({**asdict(options), "variant": variant, "blocks": blocks})
        _choose_again(Path(curves), choice, positive_label, options)
        return
    spec = VARIANTS[parse_choice("--variant", variant, list(VARIANTS))]
    settings = options.settings(spec)
    flat = parse_choice("--blocks", blocks, ["tree", "flat"]) == "flat"
    statistic_of = PublishedCurvesStatistic if spec is PI_ROC_PUBLISHED else CurvesStatistic
    statistic = ThresholdsStatistic(statistic_of(settings, flat, positive_label, spec), choice)
    run, target = options.run(statistic, settings, show_thresholds.STEPS)
    show_thresholds.thresholds(run)
    show_thresholds.another_choice(target)
    options.conclude(run, target, run.found.problem)


def _refuse_options_of_a_run(given: dict[str, str | bool]) -> None:
    """Raise OptionError for the first option that only a new run takes."""
    for name, default in OF_A_RUN.items():
        if given[name] != default:
            raise OptionError(
                f"--{name.replace('_', '-')} is for a new run; --curves chooses on the curves of an "
                "earlier one: leave one of them out."
            )


def _choose_again(directory: Path, choice: ThresholdChoice, positive: str, options: ReleaseOptions) -> None:
    if options.json:
        cli.out.stderr = True  # nothing but JSON on stdout
    target = Path(options.out) if options.out else default_out("thresholds")
    released = read_curves(directory)
    found = choose_again(released, choice, positive, target)
    show_thresholds.chosen_again(found, released)
    show.results(target)
    if options.json:
        print((target / "thresholds.json").read_text(encoding="utf-8"), end="")
