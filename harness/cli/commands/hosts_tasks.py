"""The commands `./inv hosts.*`: parties on several hosts, over ssh."""

from __future__ import annotations

from typing import TYPE_CHECKING

from invoke import Collection, Context

from harness.cli.tasking import CAP_HELP, DOMAIN_HELP, releasing
from harness.cli.tasking import by_name as _task

if TYPE_CHECKING:
    from harness.cli.commands.release import ReleaseOptions

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
    from harness.cli.commands.hosts import check

    check(hosts, model, json)


@_task(
    help={
        "hosts": HOSTS_HELP,
        "renew": "make new keys everywhere, also where there are some",
    }
)
def setup(_c: Context, hosts: str = HOSTS_FILE, renew: bool = False) -> None:
    """Have every host make its own key, and hold on to the others' certificates."""
    from harness.cli.commands.hosts import setup

    setup(hosts, renew)


@releasing(
    {
        "task": "weights (default), confusion, thresholds, gap, count or cap",
        "hosts": HOSTS_HELP,
        "shares": "what `share` or `aggregate` wrote, on this machine; each party's files go to its host "
        "only. Without it, each host takes what is in its own directory `shares`",
        "model": "see `./inv schemes`; default: ring on three hosts or more, semi2k on two",
        "invite": "of weights, instead of shares: a directory on this machine; each client takes an "
        "invitation there, and sends to the hosts while they run",
        "clients": "with --invite: how many clients are invited",
        **{name: f"with --invite: {text}" for name, text in DOMAIN_HELP.items() if name != "records"},
        "domain": "JSON file with the domain that uploads have to be of, default: that of most; or, with "
        "--invite, clients' records",
        "cap": f"with --invite and {CAP_HELP['cap'].removeprefix('with ')}",
        "input-form": "as the shares were made; with --invite, as clients are to send; default: split",
        "json": "print the result as JSON, and nothing else, on standard output",
        "reweighing": "of weights; see `./inv weights --help`",
        "reveal": "of weights: counts (default) or weights",
        **dict.fromkeys(
            ("constraint", "objective", "tolerance", "deterministic", "blocks"),
            "of thresholds; see `./inv thresholds --help`",
        ),
        "variant": "of thresholds, and of cap for them; see `./inv thresholds --help`",
        "positive-label": "of thresholds; see `./inv thresholds --help`",
        **dict.fromkeys(("relative-error", "error-from", "error-to"), "of count; see `./inv count --help`"),
        **dict.fromkeys(("release", "release-epsilon", "counts"), "of cap; see `./inv cap --help`"),
    },
    without=("records",),
    input_form="",
    hosts=HOSTS_FILE,
    invite="",
    clients="",
    cap="",
)
def run(
    options: ReleaseOptions,
    task: str = "weights",
    reweighing: str = "",
    reveal: str = "",
    variant: str = "",
    constraint: str = "",
    objective: str = "",
    tolerance: str = "",
    deterministic: bool = False,
    positive_label: str = "",
    blocks: str = "",
    relative_error: str = "",
    error_from: str = "",
    error_to: str = "",
    release: str = "",
    release_epsilon: str = "",
    counts: str = "",
) -> None:
    """Run a release on shares, or on what clients send, each party on its own host."""
    from harness.cli.commands.hosts import run

    given: dict[str, str | bool] = {
        "reweighing": reweighing,
        "reveal": reveal,
        "variant": variant,
        "constraint": constraint,
        "objective": objective,
        "tolerance": tolerance,
        "deterministic": deterministic,
        "positive_label": positive_label,
        "blocks": blocks,
        "relative_error": relative_error,
        "error_from": error_from,
        "error_to": error_to,
        "release": release,
        "release_epsilon": release_epsilon,
        "counts": counts,
    }
    run(options, task, given)


@_task(
    help={
        "hosts": HOSTS_HELP,
        "out": "a new directory for a file per run; default: runs/hosts.collect-<time>",
    }
)
def collect(_c: Context, hosts: str = HOSTS_FILE, out: str = "") -> None:
    """Fetch what runs opened whose starter went away before it could read that."""
    from harness.cli.commands.hosts import collect

    collect(hosts, out)


@_task(help={"hosts": HOSTS_HELP})
def clean(_c: Context, hosts: str = HOSTS_FILE) -> None:
    """End what runs left running on the hosts, and remove what they left there."""
    from harness.cli.commands.hosts import clean

    clean(hosts)


hosts = Collection("hosts", check, setup, run, collect, clean)
