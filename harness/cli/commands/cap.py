"""`cap`: how many records of a client are to count, chosen with differential privacy."""

from __future__ import annotations

import shlex
from dataclasses import replace
from fractions import Fraction

from harness.cli.commands.choices import chosen_form
from harness.cli.commands.releases import conclude, release, settings_of
from harness.cli.commands.thresholds import VARIANTS
from harness.cli.options import CapOptions, CapTargetOptions
from harness.cli.parsers import parse_choice
from harness.cli.terminal import show
from harness.errors import OptionError
from harness.inputs.record_schema import read_domain
from harness.pipeline.run import RunSettings
from harness.releases.base import Release
from harness.releases.contribution_cap import CapStatistic, CapTarget
from harness.views.parts import Line
from harness.views.releases import cap as view
from harness.views.run import statement
from protocols.accounting.calibration import PrivacyUnit
from protocols.circuits.coins import MIN_EPSILON
from protocols.spec import PI_CAP

THRESHOLDS, COUNTS = "thresholds", "counts"
RELEASES = ["weights", "confusion", THRESHOLDS, COUNTS]
CAPPED = ["histogram", "records"]  # variants of thresholds that clients can be capped for; the default first


def cap(options: CapOptions) -> None:
    """Run π_CAP on a records file or on shares."""
    form = options.input_form if options.hosts else None
    options = options.but(privacy_unit=PrivacyUnit.CLIENT, input_form=form)
    settings = settings_of(options, PI_CAP)
    target, variant = cap_target(options, settings.release.delta)
    grid = read_domain(options.domain).thresholds if options.domain else ()
    target = replace(
        target,
        thresholds=len(grid) or target.thresholds,
        malleable_slots=(of_curves(settings, variant) if variant else settings.release).malleable_slots,
    )
    run, out = release(options, CapStatistic(target), settings, view.STEPS)
    chosen, manifest = run.found, run.manifest
    following = _following(options, target.task, str(chosen.cap), manifest["model"], variant)
    clients = manifest["inputs"]["clients"]
    show(*view.cap(chosen, clients, following), *statement(manifest, "the cap"))
    conclude(options, run, out)


def cap_target(options: CapTargetOptions, delta: Fraction) -> tuple[CapTarget, str]:
    """Return what clients are to be capped for, and the variant of thresholds, empty for others.

    Raises: OptionError: the options do not go together, or no noise fits.
    """
    task, variant = options.release, options.variant or ""
    if (task == COUNTS) != bool(options.counts):
        raise OptionError("--release counts and --counts (how many; 1 for one sum) go together.")
    if variant and task != THRESHOLDS:
        raise OptionError("--variant goes with --release thresholds only.")
    if options.release_epsilon < MIN_EPSILON:  # nor would so many clients fit an integer
        raise OptionError(
            f"No noise fits --release-epsilon {options.texts['release_epsilon']}; at least 1e-7 would do."
        )
    if task == THRESHOLDS:
        variant = parse_choice("--variant", variant or CAPPED[0], CAPPED)
    return CapTarget(task, options.release_epsilon, delta, counts=options.counts or 1), variant


def of_curves(settings: RunSettings, variant: str) -> Release:
    """Return the release of the curves that a cap is for. Raises: UnsupportedError: the model has none."""
    spec = VARIANTS[variant]
    release = replace(settings.release, form=chosen_form(spec.input_forms, ""))
    replace(settings, release=release).check_supported(spec)
    return release


def _following(options: CapOptions, task: str, cap: str, model: str, variant: str) -> list[Line]:
    """Return what to do with the cap: the command line of each step."""
    if task == COUNTS:
        return [
            Line("Next", f"name it where clients are the privacy unit: --privacy-unit client --cap {cap}")
        ]
    kept = options.given("model", "population", "ledger")
    unit = {
        "epsilon": options.given("release_epsilon")["release_epsilon"],
        "privacy-unit": str(PrivacyUnit.CLIENT),
    }
    form = {}
    if variant and variant != CAPPED[0]:
        unit["variant"] = variant
        form = {"input-form": next(iter(VARIANTS[variant].input_forms))}
    if options.records:
        own = options.given("records", "domain", "groups", "labels", "max_count")
        return [Line("Next", _line(task, {**own, **kept, **unit, "cap": cap}))]
    again = {"records": "FILE", "domain": "FILE", "task": task, "model": model, "cap": cap}
    where, run = ({**options.given("hosts"), "task": task}, "hosts.run") if options.hosts else ({}, task)
    return [
        Line(
            "Next, each client, as what it shared for this is a cap's only", _line("share", {**again, **form})
        ),
        Line("Then, the parties", _line(run, {**where, "shares": "SHARES", **kept, **unit})),
    ]


def _line(command: str, options: dict[str, str]) -> str:
    words = [
        word for name, value in options.items() if value for word in (f"--{name.replace('_', '-')}", value)
    ]
    return shlex.join(["./inv", command, *words])
