"""`cap`: how many records of a client are to count, chosen with differential privacy."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

from harness import show_cap
from harness.chosen_cap import CapStatistic, NextRelease
from harness.cli import command
from harness.commands.release import ReleaseOptions
from harness.options import parse_choice, parse_epsilon, require
from harness.records import read_domain
from harness.scores import DEFAULT_THRESHOLDS
from protocols.budget import PrivacyUnit
from protocols.spec import PI_CAP

RELEASES = ["weights", "thresholds"]


@command
def cap(options: ReleaseOptions, release: str, release_epsilon: str) -> None:
    """Run π_CAP on a records file or on shares, all parties on this machine."""
    require({"--release-epsilon": release_epsilon})
    form = options.input_form if options.hosts else ""
    options = replace(options, privacy_unit=PrivacyUnit.CLIENT, input_form=form)
    settings = options.settings(PI_CAP)
    task = parse_choice("--release", release, RELEASES)
    grid = read_domain(Path(options.domain)).thresholds if options.domain else ()
    wanted = NextRelease(
        task,
        parse_epsilon(release_epsilon, "--release-epsilon"),
        settings.delta,
        len(grid) or DEFAULT_THRESHOLDS,
        settings.exchanged and task == "weights",  # clients' counts per bin, π_ROC's default, are added up
    )
    run, target = options.run(CapStatistic(wanted), settings, show_cap.STEPS)
    show_cap.cap(run, _next_command(options, wanted, release_epsilon, run.found.cap))
    options.conclude(run, target)


def _next_command(options: ReleaseOptions, release: NextRelease, epsilon: str, cap: int) -> str:
    """Return the command line of the release with this cap, on the same records."""
    same = ("records", "domain", "groups", "labels", "max_count", "model", "population", "ledger")
    given = {name.replace("_", "-"): getattr(options, name) for name in same}
    given |= {"epsilon": epsilon, "privacy-unit": PrivacyUnit.CLIENT, "cap": str(cap)}
    words = [word for name, value in given.items() if value for word in (f"--{name}", value)]
    return shlex.join(["./inv", release.task, *words])
