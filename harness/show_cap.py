"""Shows people which cap was chosen, and what to do with it."""

from __future__ import annotations

from rich.table import Table

from harness.chosen_cap import ChosenCap
from harness.cli import out, plain, say
from harness.pipeline import Run
from harness.show import WEIGHT_STEPS, statement

STEPS = {
    **WEIGHT_STEPS,
    "share": "clients: share how many caps they exceed",
    "aggregate": "parties: put uploads together",
    "run": "parties: run π_CAP",
    "read": "read the cap",
}


def cap(run: Run[ChosenCap], command: str, again: bool) -> None:
    """Print a finished run's cap, the next command, its privacy statement and its cost.

    Args: again: whether clients have to share again for it.
    """
    found = run.found
    table = Table()
    for heading in ("cap", "clients that may exceed it, up to noise"):
        table.add_column(heading, justify="right")
    table.add_row(f"{found.cap:,}", f"{found.above:,}")
    out.print(table)
    say(f"The least that so few clients exceed, of {', '.join(map(str, found.caps))}.")
    if found.index == len(found.caps) - 1:
        say("It is the largest: by the noisy counts, too many clients exceed all others.")
    say(f"Next: {plain(command)}")
    if again:
        say(f"There, clients share again, with --cap {found.cap}; what they shared for this is a cap's only.")
    statement(run.manifest, "the cap")
