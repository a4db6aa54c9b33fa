"""`weights`: DP sample weights, of records at hand or of those that have arrived so far."""

from harness.cli import terminal as cli
from harness.cli.commands.releases import conclude, released
from harness.cli.release_options import WeightsOptions
from harness.pipeline.release import run_on_arrivals
from harness.system.result_files import default_out
from harness.views.releases import weights as view


def weights(options: WeightsOptions) -> None:
    """Run π_RW on a records file or on shares."""
    if options.hosts or options.plan is not None or not (options.arrivals or options.horizon):
        if (run := released(options, view.STEPS)) is not None:
            conclude(options, run, view.weights(run.found.weights), "weights")
        return
    with cli.steps(view.STEPS) as begin:
        out = options.out or default_out(options.task)
        epoch = run_on_arrivals(options, out, begin, cli.announce)
    conclude(options, epoch, view.weights(epoch.found.weights), "weights", [view.arrivals(epoch.manifest)])
