"""`quickstart`: the main job on real data."""

from __future__ import annotations

from harness.cli import terminal as cli
from harness.cli.commands.choices import chosen_model
from harness.cli.options import QuickstartOptions
from harness.cli.parsers import parse_delta
from harness.cli.terminal import show
from harness.pipeline.run import DEFAULT_DELTA
from harness.releases.base import Release
from harness.system.result_files import default_out
from harness.views import quickstart as view
from harness.views.parts import Heading
from harness.views.run import results
from protocols.spec import SPLIT


def quickstart(options: QuickstartOptions) -> None:
    """Run the main job on the mortgage applications and show what weights and thresholds do."""
    from harness.cli.quickstart import quickstart as run_quickstart  # scikit-learn is slow to import

    release = Release(
        chosen_model(options.model), SPLIT, options.epsilon, parse_delta(DEFAULT_DELTA, "--delta")
    )
    target = options.out or default_out("quickstart")
    with cli.steps(view.STEPS) as begin:
        found = run_quickstart(release, target, begin)
    show(Heading(view.TITLE, f": {found.subtitle}"), *view.quickstart(found), results(target, page=True))
