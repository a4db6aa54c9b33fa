"""`cap`: how many records of a client are to count, chosen with differential privacy."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

from harness import show_cap
from harness.chosen_cap import CapStatistic, NextRelease
from harness.cli import command
from harness.commands.release import ReleaseOptions
from harness.errors import OptionError
from harness.options import parse_choice, parse_epsilon, parse_whole, require
from harness.records import read_domain
from harness.scores import DEFAULT_THRESHOLDS
from protocols.budget import PrivacyUnit
from protocols.spec import PI_CAP

COUNTS = "counts"
RELEASES = ["weights", "thresholds", COUNTS]
MOST_COUNTS = 10**6


@command
def cap(options: ReleaseOptions, release: str, release_epsilon: str, counts: str) -> None:
    """Run π_CAP on a records file or on shares, all parties on this machine."""
    require({"--release-epsilon": release_epsilon})
    form = options.input_form if options.hosts else ""
    options = replace(options, privacy_unit=PrivacyUnit.CLIENT, input_form=form)
    settings = options.settings(PI_CAP)
    task = parse_choice("--release", release, RELEASES)
    if (task == COUNTS) != bool(counts):
        raise OptionError("--release counts and --counts (how many; 1 for one sum) go together.")
    grid = read_domain(Path(options.domain)).thresholds if options.domain else ()
    wanted = NextRelease(
        task,
        parse_epsilon(release_epsilon, "--release-epsilon"),
        settings.delta,
        len(grid) or DEFAULT_THRESHOLDS,
        settings.exchanged and task != "thresholds",  # clients' counts per bin, π_ROC's default, are added up
        parse_whole("--counts", counts, 1, MOST_COUNTS) if counts else 1,
    )
    run, target = options.run(CapStatistic(wanted), settings, show_cap.STEPS)
    show_cap.cap(run, _next_command(options, wanted, release_epsilon, run.found.cap), not options.records)
    options.conclude(run, target)


def _next_command(options: ReleaseOptions, release: NextRelease, epsilon: str, cap: int) -> str:
    """Return the command line of the release with this cap, on the same records; of counts, an option."""
    if release.task == COUNTS:
        return f"--cap {cap}"
    same = ("records", "domain", "groups", "labels", "max_count", "model", "population", "ledger")
    given = {name.replace("_", "-"): getattr(options, name) for name in same}
    given |= {"epsilon": epsilon, "privacy-unit": PrivacyUnit.CLIENT, "cap": str(cap)}
    words = [word for name, value in given.items() if value for word in (f"--{name}", value)]
    return shlex.join(["./inv", release.task, *words])
