"""The choices that commands of hosts have in common."""

from pathlib import Path

from fairshares.harness.cli import terminal as cli
from fairshares.harness.hosts.inventory import Host, default_model, hosts_for, read_hosts
from fairshares.harness.request.request import Trust
from fairshares.harness.security_models import SecurityModel


def chosen_hosts(path: Path, trust: Trust) -> tuple[list[Host], SecurityModel]:
    """Return a run's hosts and its model, which is by default the usual model of so many hosts."""
    hosts = read_hosts(path)
    chosen = trust.security or default_model(hosts, trust.parties)
    if trust.security is None:
        cli.announce(f"Security model: {chosen.title} (choose another with --security)")
    return hosts_for(chosen, hosts, path), chosen
