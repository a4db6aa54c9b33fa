"""Shows people which cap was chosen, and what to do with it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from harness.cli.terminal import err, out, plain, say
from harness.pipeline.run import Run
from harness.releases.contribution_cap import CONFIDENCE, ChosenCap
from harness.views.weights import WEIGHT_STEPS, statement
from protocols.noise.truncated import Guarantee

STEPS = {
    **WEIGHT_STEPS,
    "share": "clients: share how many caps they exceed",
    "aggregate": "parties: put uploads together",
    "run": "parties: run π_CAP",
    "read": "read the cap",
}


def cap(run: Run[ChosenCap], following: Sequence[tuple[str, str]]) -> None:
    """Print a finished run's cap, what to do with it, its privacy statement and its cost.

    Args: following: what comes next, a word on each step and its command line.
    """
    found, clients = run.found, run.manifest["inputs"]["clients"]
    table = Table()
    for heading in ("cap", "clients above it, wanted", f"noise, {float(CONFIDENCE):.0%}"):
        table.add_column(heading, justify="right")
    table.add_row(f"{found.cap:,}", f"{found.above:,} at most", f"± {found.noise:,}")
    out.print(table)
    say(
        f"Caps to choose from: {', '.join(map(str, found.caps))}. "
        + (
            "This is the largest: by counts with noise, too many clients exceed all others."
            if found.index == len(found.caps) - 1
            else f"This is the first that, by counts with noise, {found.above:,} clients or fewer exceed."
        )
    )
    say(
        f"Noise moves such a comparison by up to {found.noise:,} clients, with at least "
        f"{float(CONFIDENCE):.0%} probability; another run may choose another cap."
    )
    if doubt := doubt_of(found.above, found.noise, clients):
        say(doubt)
    for word, command in following:
        out.print(f"{word}: {plain(command)}", soft_wrap=True)  # in one piece, to be copied
    say("What choosing the cap spent adds to what the release spends.")
    statement(run.manifest, "the cap")


def going_on_with(found: ChosenCap, clients: int, left: Guarantee) -> None:
    """Say on stderr what the first of two runs chose, since its epsilon is spent whatever the other does.

    Args: left: epsilon and delta of the other, which spends them when its parties start.
    """
    rest = f"--cap {found.cap} --epsilon {left.epsilon} --delta {left.delta}"
    say(
        f"Cap: {found.cap} of a client's records, by counts with noise; its part of ε is spent. If the run "
        f"that follows fails, repeat it with {rest}: as much in all as was asked for if its parties had not "
        "started, else that ε and δ come on top.",
        err,
    )
    if doubt := doubt_of(found.above, found.noise, clients):
        say(doubt, err)


def doubt_of(above: int, noise: int, clients: int) -> str:
    """Return what is to be said of a cap that hardly depends on the clients; of others, nothing."""
    if above >= clients:
        return (
            f"As all {clients:,} clients may exceed it, 1 is best whatever they hold, and which cap was "
            "chosen shows noise alone."
        )
    if noise >= clients:
        return f"There are {clients:,} clients, so the cap is mostly noise; a larger ε for it helps."
    return ""
