"""`cap`: how many records of a client are to count, chosen with differential privacy."""

from __future__ import annotations

import shlex
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from harness.cli.commands.choices import chosen_form
from harness.cli.commands.release import ReleaseOptions
from harness.cli.commands.thresholds import VARIANTS
from harness.cli.options import parse_choice, parse_epsilon, parse_whole, require
from harness.cli.terminal import command
from harness.errors import OptionError
from harness.inputs.record_schema import read_domain
from harness.pipeline.run import Settings, check_supported
from harness.releases.contribution_cap import CapStatistic, CapTarget
from harness.views import cap as show_cap
from protocols.accounting.calibration import PrivacyUnit
from protocols.circuits.coins import MIN_EPSILON
from protocols.spec import PI_CAP

THRESHOLDS, COUNTS = "thresholds", "counts"
RELEASES = ["weights", "confusion", THRESHOLDS, COUNTS]
CAPPED = ["histogram", "records"]  # variants of thresholds that clients can be capped for; the default first
MOST_COUNTS = 10**6


@command
def cap(options: ReleaseOptions, release: str, release_epsilon: str, counts: str, variant: str) -> None:
    """Run π_CAP on a records file or on shares, all parties on this machine."""
    form = options.input_form if options.hosts else ""
    options = replace(options, privacy_unit=PrivacyUnit.CLIENT, input_form=form)
    settings = options.settings(PI_CAP)
    wanted, variant = release_to_come(release, release_epsilon, counts, variant, settings.delta)
    grid = read_domain(Path(options.domain)).thresholds if options.domain else ()
    wanted = replace(
        wanted,
        thresholds=len(grid) or wanted.thresholds,
        malleable_slots=of_curves(settings, variant).malleable_slots if variant else settings.malleable_slots,
    )
    run, target = options.run(CapStatistic(wanted), settings, show_cap.STEPS)
    chosen, model = str(run.found.cap), run.manifest["model"]
    show_cap.cap(run, _following(options, wanted.task, release_epsilon, chosen, model, variant))
    options.conclude(run, target)


def release_to_come(
    release: str, epsilon: str, counts: str, variant: str, delta: Fraction
) -> tuple[CapTarget, str]:
    """Read what clients are to be capped for; return it, and the variant of thresholds, empty for others.

    Raises: OptionError.
    """
    require({"--release-epsilon": epsilon})
    task = parse_choice("--release", release, RELEASES)
    if (task == COUNTS) != bool(counts):
        raise OptionError("--release counts and --counts (how many; 1 for one sum) go together.")
    if variant and task != THRESHOLDS:
        raise OptionError("--variant goes with --release thresholds only.")
    parsed = parse_epsilon(epsilon, "--release-epsilon")
    if parsed < MIN_EPSILON:  # nor would so many clients fit an integer
        raise OptionError(f"No noise fits --release-epsilon {epsilon}; at least 1e-7 would do.")
    if task == THRESHOLDS:
        variant = parse_choice("--variant", variant or CAPPED[0], CAPPED)
    how_many = parse_whole("--counts", counts, 1, MOST_COUNTS) if counts else 1
    return CapTarget(task, parsed, delta, counts=how_many), variant


def of_curves(settings: Settings, variant: str) -> Settings:
    """Return the settings of the curves that a cap is for. Raises: UnsupportedError: the model has none."""
    spec = VARIANTS[variant]
    found = replace(settings, form=chosen_form(spec.input_forms, ""))
    check_supported(spec, found)
    return found


def _following(
    options: ReleaseOptions, task: str, epsilon: str, cap: str, model: str, variant: str
) -> list[tuple[str, str]]:
    """Return what to do with the cap: a word on each step, and its command line."""
    if task == COUNTS:
        return [("Next", f"name it where clients are the privacy unit: --privacy-unit client --cap {cap}")]
    kept = {name: getattr(options, name) for name in ("model", "population", "ledger")}
    unit = {"epsilon": epsilon, "privacy-unit": str(PrivacyUnit.CLIENT)}
    form = {}
    if variant and variant != CAPPED[0]:
        unit["variant"] = variant
        form = {"input-form": next(iter(VARIANTS[variant].input_forms))}
    if options.records:
        same = ("records", "domain", "groups", "labels", "max_count")
        own = {name.replace("_", "-"): getattr(options, name) for name in same}
        return [("Next", _line(task, {**own, **kept, **unit, "cap": cap}))]
    again = {"records": "FILE", "domain": "FILE", "task": task, "model": model, "cap": cap}
    where, run = ({"hosts": options.hosts, "task": task}, "hosts.run") if options.hosts else ({}, task)
    return [
        ("Next, each client, as what it shared for this is a cap's only", _line("share", {**again, **form})),
        ("Then, the parties", _line(run, {**where, "shares": "SHARES", **kept, **unit})),
    ]


def _line(command: str, options: dict[str, str]) -> str:
    words = [word for name, value in options.items() if value for word in (f"--{name}", value)]
    return shlex.join(["./inv", command, *words])
