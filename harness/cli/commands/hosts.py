"""`hosts.*`: parties on several hosts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.cli import terminal as cli
from harness.cli.commands.cap import cap
from harness.cli.commands.choices import chosen_hosts
from harness.cli.commands.confusion import confusion
from harness.cli.commands.count import count
from harness.cli.commands.gap import gap
from harness.cli.commands.release import ReleaseOptions
from harness.cli.commands.thresholds import thresholds
from harness.cli.commands.weights import weights
from harness.cli.options import parse_choice
from harness.cli.terminal import command, say
from harness.errors import HostUnfitError, OptionError
from harness.hosts.checks import check_hosts
from harness.hosts.fleet import clean_up, leftover_runs, set_up
from harness.hosts.inventory import read_hosts
from harness.system.result_files import default_out, new_directory, write_json
from harness.views import hosts as show_hosts
from harness.views import weights as show


@command
def check(path: str, model: str, as_json: bool) -> None:
    """Look at every host of a file."""
    if as_json:
        cli.out.stderr = True
    hosts, chosen = chosen_hosts(path, model)
    with cli.steps(show_hosts.CHECK_STEPS) as begin:
        findings = check_hosts(hosts, chosen, begin)
    if as_json:
        print(json.dumps([finding.to_json() for finding in findings], indent=2))
    else:
        show_hosts.findings(findings, chosen)
    wrong = sum(bool(finding.faults) for finding in findings)
    if wrong:
        raise HostUnfitError(
            f"{wrong} of {len(hosts)} hosts cannot take their part in a run of model {chosen.name} yet."
        )


@command
def setup(path: str, renew: bool) -> None:
    """Set up every host of a file."""
    hosts = read_hosts(Path(path))
    with cli.steps(show_hosts.SETUP_STEPS) as begin:
        certificates = set_up(hosts, renew, begin)
    show_hosts.certificates(hosts, certificates)


# The options that only some releases have, by release, and what they are unless given.
RELEASES: dict[str, dict[str, str | bool]] = {
    "weights": {"reweighing": "balanced", "reveal": "counts"},
    "confusion": {},
    "thresholds": {
        "variant": "histogram",
        "constraint": "equalized_odds",
        "objective": "accuracy_score",
        "tolerance": "0",
        "deterministic": False,
        "positive_label": "",
        "blocks": "tree",
    },
    "gap": {},
    "cap": {"release": "weights", "release_epsilon": "", "counts": "", "variant": ""},
    "count": {"relative_error": "0.1", "error_from": "100", "error_to": "1048576"},
}


@command
def run(options: ReleaseOptions, task: str, given: dict[str, str | bool]) -> None:
    """Run a release on shares, each party on its host. Args: given: options of some releases only."""
    own = RELEASES[parse_choice("--task", task, list(RELEASES))]
    foreign = [name for name, value in given.items() if value and name not in own]
    if foreign:
        raise OptionError(f"--{foreign[0].replace('_', '-')} does not go with --task {task}.")
    chosen: dict[str, Any] = {name: given[name] or default for name, default in own.items()}
    if task == "weights":
        weights(options, **chosen)
    elif task == "confusion":
        confusion(options, threshold="")
    elif task == "thresholds":
        thresholds(options, **chosen)
    elif task == "gap":
        gap(options)
    elif task == "cap":
        cap(options, **chosen)
    else:
        count(options, **chosen)


@command
def collect(path: str, out: str) -> None:
    """Write what runs opened that nobody has read, a file for each run."""
    hosts = read_hosts(Path(path))
    with cli.steps(show_hosts.COLLECT_STEPS) as begin:
        runs = leftover_runs(hosts, begin)
    if not runs:
        say("No host has results of a run that nobody has read.")
        return
    target = Path(out) if out else default_out("hosts.collect")
    with new_directory(target) as partial:
        for found in runs:
            write_json(partial / f"{found['run']}.json", found)
    show_hosts.leftover_runs(runs)
    show.results(target)


@command
def clean(path: str) -> None:
    """End what runs left running on the hosts, and remove what they left there."""
    hosts = read_hosts(Path(path))
    with cli.steps(show_hosts.CLEAN_STEPS) as begin:
        removed = clean_up(hosts, begin)
    show_hosts.removed(hosts, removed)
