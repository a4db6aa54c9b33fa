"""`weights`: DP sample weights, of records at hand or of those that have arrived so far."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from harness.cli import terminal as cli
from harness.cli.commands.choices import chosen_spec
from harness.cli.commands.releases import conclude, policy_of, released, settings_of
from harness.cli.release_options import WeightsOptions
from harness.engines.base import Progress
from harness.errors import OptionError
from harness.pipeline.arrivals import Arrivals, alone, read_arrivals, run_epoch
from harness.pipeline.party_inputs import SharesSource
from harness.pipeline.run import Run
from harness.releases.series import WeightsSeries
from harness.releases.weights import Weights
from harness.system.result_files import default_out
from harness.views.releases import weights as view

_FIXED = (  # by the first epoch, for all
    *("epsilon", "delta", "horizon", "model", "input_form", "input_path", "neighboring_relation"),
    *("privacy_unit", "noise", "law"),
)


def weights(options: WeightsOptions) -> None:
    """Run π_RW on a records file or on shares."""
    if options.arrivals or options.horizon:
        target = options.out or default_out(options.task)
        with cli.steps(view.STEPS) as begin:
            options, run = arrived(options, target, begin)
        shown = view.weights(run.found.weights)
        conclude(options, run, target, shown, "weights", [view.arrivals(run.manifest)])
    else:
        run, target = released(options, view.STEPS)
        conclude(options, run, target, view.weights(run.found.weights), "weights")


def arrived(options: WeightsOptions, target: Path, begin: Progress) -> tuple[WeightsOptions, Run[Weights]]:
    """Run one epoch of a series; return the options with those that the first epoch fixed.

    Args: target: a new directory for the files. Raises: FairSharesError: it cannot be run.
    """
    if options.hosts:
        raise OptionError(
            "Hosts keep no series of epochs (docs/decisions/0043-arrivals.md says why); leave out --arrivals "
            "and --horizon: each run on hosts then counts all uploads, and is charged by itself."
        )
    if not options.arrivals or not options.shares or options.records or options.invite:
        raise OptionError(
            "--arrivals counts uploads: give it, a folder, together with --shares, and neither --records nor "
            "--invite; --horizon is for the first epoch."
        )
    with alone(options.arrivals) as folder:
        state = read_arrivals(folder)
        options = _as_begun(options, state)
        if options.horizon is None or not options.texts["epsilon"]:
            raise OptionError(
                f"{options.arrivals} is new: give --horizon, the number of epochs, and --epsilon, for all of "
                "them together."
            )
        spec = chosen_spec(options)
        series, settings = options.statistic(spec), settings_of(options, spec)
        assert options.shares and isinstance(series, WeightsSeries)
        source = SharesSource(options.shares, policy_of(options, series, settings))
        if state is None:
            fixed = {**options.given(*_FIXED), "model": settings.release.model.name}
            state = Arrivals(fixed, series.schedule.to_json())
        series = replace(series, schedule=state.schedule)
        return options, run_epoch(series, source, settings, folder, state, target, begin)


def _as_begun(options: WeightsOptions, state: Arrivals | None) -> WeightsOptions:
    """Return the options with those that were fixed. Raises: OptionError: one contradicts them."""
    if state is None:
        return options
    fixed = {name: state.options.get(name, "") for name in _FIXED}
    for name, text in fixed.items():
        option, given = options.declared[name], options.texts[name]
        if given not in ("", option.default) and option.read(given) != option.read(text):
            raise OptionError(
                f"{options.arrivals} was begun with {option.flag} {text or option.default} for all epochs, "
                f"not {given}; leave {option.flag} out, or begin with another folder."
            )
    return WeightsOptions(**{**options.texts, **fixed})
