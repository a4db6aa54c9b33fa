"""`quickstart`: the main job on real data."""

from __future__ import annotations

from harness.cli import terminal as cli
from harness.cli.commands.choices import chosen_model
from harness.cli.options import QuickstartOptions
from harness.cli.parsers import parse_delta
from harness.pipeline.run import DEFAULT_DELTA, Settings
from harness.system.result_files import default_out
from harness.views import quickstart as show_quickstart
from harness.views import weights as show
from protocols.spec import SPLIT


def quickstart(options: QuickstartOptions) -> None:
    """Run the main job on the mortgage applications and show what weights and thresholds do."""
    from harness.cli.quickstart import quickstart as run_quickstart  # scikit-learn is slow to import

    settings = Settings(chosen_model(options.model), SPLIT, options.epsilon, parse_delta(DEFAULT_DELTA))
    target = options.out or default_out("quickstart")
    with cli.steps(show_quickstart.STEPS) as begin:
        shown = run_quickstart(settings, target, begin)
    show_quickstart.quickstart(shown)
    show.results(target)
