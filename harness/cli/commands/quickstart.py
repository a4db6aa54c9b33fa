"""`quickstart`: weights and thresholds from shares of real data, and their effect on a model."""

from fairshares.harness import quickstart as job
from fairshares.harness.cli import terminal as cli
from fairshares.harness.cli.options import QuickstartOptions
from fairshares.harness.engines.registry import chosen_model
from fairshares.harness.system.result_files import default_out
from fairshares.harness.views import quickstart as view
from fairshares.harness.views.parts import Heading
from fairshares.harness.views.run_summary import results


def quickstart(options: QuickstartOptions) -> None:
    """Run the main job on mortgage applications."""
    model = chosen_model(options.trust.security, cli.announce, options.trust.parties)
    target = options.out or default_out(job.TASK)
    with cli.steps(view.STEPS) as begin:
        done = job.run(model, options.guarantee, target, begin, begin.count)
    shown = view.quickstart(done) if cli.output.verbose else view.in_short(done)
    cli.show(Heading(view.TITLE, f": {done.subtitle}"), *shown, results(target, page=True))
