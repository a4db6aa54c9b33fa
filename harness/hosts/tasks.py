"""The commands `./inv hosts.*`: parties on several hosts, over ssh."""

from __future__ import annotations

from invoke import Collection, Context

from harness.tasking import by_name as _task

# What a command needs is imported when it runs, so that each starts fast.

HOSTS_FILE = "hosts.toml"
HOSTS_HELP = "the file that describes the hosts; default: hosts.toml; see docs/hosts.md"


@_task(
    help={
        "hosts": HOSTS_HELP,
        "model": "what the hosts are to run; default: ring, or what the number of hosts allows",
        "json": "print JSON",
    }
)
def check(_c: Context, hosts: str = HOSTS_FILE, model: str = "", json: bool = False) -> None:
    """Look whether every host can take its part in a run; change nothing."""
    from harness.commands.hosts import check

    check(hosts, model, json)


@_task(
    help={
        "hosts": HOSTS_HELP,
        "renew": "make new keys everywhere, also where there are some",
    }
)
def setup(_c: Context, hosts: str = HOSTS_FILE, renew: bool = False) -> None:
    """Have every host make its own key, and hold on to the others' certificates."""
    from harness.commands.hosts import setup

    setup(hosts, renew)


hosts = Collection("hosts", check, setup)
