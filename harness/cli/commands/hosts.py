"""`hosts.*`: parties on several hosts."""

from __future__ import annotations

import json

from harness.cli import terminal as cli
from harness.cli.command_line import function_at
from harness.cli.commands.choices import chosen_hosts
from harness.cli.options import (
    HostsCheckOptions,
    HostsCleanOptions,
    HostsCollectOptions,
    HostsSetupOptions,
)
from harness.cli.release_options import HostsRunOptions
from harness.cli.terminal import show
from harness.errors import HostUnfitError
from harness.hosts.checks import check_hosts
from harness.hosts.fleet import clean_up, leftover_runs, set_up
from harness.hosts.inventory import read_hosts
from harness.system.result_files import default_out, new_directory, write_json
from harness.views import hosts as view
from harness.views.run import results


def check(options: HostsCheckOptions) -> None:
    """Look at every host of a file."""
    hosts, chosen = chosen_hosts(options.hosts, options.model)
    with cli.steps(view.CHECK_STEPS) as begin:
        findings = check_hosts(hosts, chosen, begin)
    found = [finding.to_json() for finding in findings]
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        show(*view.findings(found, [finding.marks() for finding in findings], chosen.name))
    wrong = sum(bool(finding.faults) for finding in findings)
    if wrong:
        raise HostUnfitError(
            f"{wrong} of {len(hosts)} hosts cannot take their part in a run of model {chosen.name} yet."
        )


def setup(options: HostsSetupOptions) -> None:
    """Set up every host of a file."""
    hosts = read_hosts(options.hosts)
    with cli.steps(view.SETUP_STEPS) as begin:
        certificates = set_up(hosts, options.renew, begin)
    show(view.certificates({host.party: host.address for host in hosts}, certificates))


def run(options: HostsRunOptions) -> None:
    """Run a release on shares, or on what clients send, each party on its host."""
    chosen = options.of_the_release()
    function_at(chosen.place)(chosen)


def collect(options: HostsCollectOptions) -> None:
    """Write what runs opened that nobody has read, a file for each run."""
    hosts = read_hosts(options.hosts)
    with cli.steps(view.COLLECT_STEPS) as begin:
        runs = leftover_runs(hosts, begin)
    if not runs:
        show("No host has results of a run that nobody has read.")
        return
    target = options.out or default_out("hosts.collect")
    with new_directory(target) as partial:
        for found in runs:
            write_json(partial / f"{found['run']}.json", found)
    show(view.leftover_runs(runs), results(target))


def clean(options: HostsCleanOptions) -> None:
    """End processes that runs left behind on the hosts, and remove their files."""
    hosts = read_hosts(options.hosts)
    with cli.steps(view.CLEAN_STEPS) as begin:
        removed = clean_up(hosts, begin)
    show(view.removed({host.title: counts for host, counts in zip(hosts, removed, strict=True)}))
