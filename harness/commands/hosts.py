"""`hosts.check`, `hosts.setup`: parties on several hosts."""

from __future__ import annotations

import json
from pathlib import Path

from harness import cli, show_hosts
from harness.cli import command
from harness.errors import HostUnfitError
from harness.hosts.checks import check_hosts
from harness.hosts.fleet import set_up
from harness.hosts.inventory import Host, default_model, hosts_for, read_hosts
from harness.models import Model, get_model


def chosen_hosts(path: str, model: str) -> tuple[list[Host], Model]:
    """Return a run's hosts, and the model: the named one, or what the number of hosts allows."""
    found = read_hosts(Path(path))
    chosen = get_model(model) if model else default_model(found)
    return hosts_for(chosen, found, Path(path)), chosen


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
