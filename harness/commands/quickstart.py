"""`quickstart`: the main job on real data."""

from __future__ import annotations

from pathlib import Path

from harness import cli, show, show_quickstart
from harness.cli import command
from harness.commands.chosen import chosen_model
from harness.options import parse_delta, parse_epsilon
from harness.pipeline import DEFAULT_DELTA, Settings
from harness.results import default_out
from protocols.spec import SPLIT


@command
def quickstart(model: str, epsilon: str, out: str) -> None:
    """Run the main job on the mortgage applications and show what weights and thresholds do."""
    from harness.quickstart import quickstart as run_quickstart  # scikit-learn is slow to import

    settings = Settings(chosen_model(model), SPLIT, parse_epsilon(epsilon), parse_delta(DEFAULT_DELTA))
    target = Path(out) if out else default_out("quickstart")
    with cli.steps(show_quickstart.STEPS) as begin:
        shown = run_quickstart(settings, target, begin)
    show_quickstart.quickstart(shown)
    show.results(target)
