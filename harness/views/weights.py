"""Shows people what came out: tables, the privacy statement, the cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Column, Table

from harness.cli.terminal import out, plain, say
from harness.inputs.aggregation import described
from harness.pipeline.manifest import bounds_shown, privacy_statement
from harness.security_models import get_model
from protocols.accounting.rounding import interval_shown

if TYPE_CHECKING:  # their libraries take a second to load, and these functions get them loaded
    from harness.inputs.record_schema import RecordDomain
    from harness.pipeline.run import Run
    from harness.postprocessing.reweighing.revealed import OpenedWeights
    from harness.releases.weights import Weights

WEIGHT_STEPS = {
    "records": "read records",
    "share": "clients: split counts into shares",
    "aggregate": "parties: add up their own columns",
    "compile": "compile the program",
    "run": "parties: run π_RW",
    "read": "derive weights from the noisy counts",
}
HOST_STEPS = {
    "connect": "connect to the hosts",
    "look": "look at each host",
    "ports": "hosts: reach each other",
    "send": "send each party's shares to its host",
}
CAP_STEPS = {  # of a run that chooses a cap before another
    "cap share": "clients: split their numbers of records into shares",
    "cap aggregate": "parties: take the shares of sizes",
    "cap compile": "compile the choice of the cap",
    "cap run": "parties: run π_CAP",
    "cap read": "read the cap",
}
WEIGHTS_ONLY_STEPS = {**WEIGHT_STEPS, "read": "read the weights"}


def schemes(rows: list[dict[str, Any]]) -> None:
    """Print which models can run here, and why one cannot. Args: rows: of `engines.registry`."""
    table = Table("model", "engine", "parties", "adversary", "available")
    for row in rows:
        available = "[green]yes[/]" if row["available"] else "[red]no[/]"
        engine = plain(row["engine_version"] or row["engine"])
        table.add_row(row["model"], engine, str(row["parties"]), row["adversary"], available)
    out.print(table)
    missing: dict[str, list[str]] = {}
    for row in rows:
        if row["reason"]:
            missing.setdefault(row["reason"], []).append(row["model"])
    for reason, models in missing.items():
        say(f"{', '.join(models)}: {plain(reason)}")


def table_of(*names: str) -> Table:
    """Return a table whose first columns hold names, which a narrow terminal breaks but never cuts short."""
    return Table(*(Column(name, overflow="fold") for name in names))


def results(directory: Path) -> None:
    """Print where the result files are, last."""
    out.print(f"Results: {plain(str(directory))}", soft_wrap=True)


def chosen_cap(manifest: dict[str, Any], directory: Path) -> None:
    """Print what the first of two runs chose. Args: manifest: of both; directory: of the first's files."""
    epsilon, _ = bounds_shown(manifest["parts"]["cap"]["privacy"])
    say(
        f"The cap, {manifest['privacy']['cap']} of a client's records, was chosen by π_CAP, a release "
        f"of its own with ε = {epsilon} of the total. Its files:"
    )
    out.print(plain(str(directory)), soft_wrap=True)


def one_machine(saw_records: bool) -> None:
    """Print what a run with all parties on one machine does not protect."""
    seen = "and it saw all records" if saw_records else "and it held all shares"
    say(f"All parties ran on this machine, {seen}: the run protects nothing against the machine's owner.")


def on_hosts(held_shares: bool, invited: bool) -> None:
    """Print what a run with its parties on hosts does not protect."""
    seen = (
        "This machine held all shares, so the run protects nothing against its owner."
        if held_shares
        else "This machine saw no share, no key and no random bit of theirs."
    )
    if invited:
        seen += (
            " It made the clients' keys and could have sent in a client's place; that it could not read what "
            "they sent rests on certificates that clients and hosts' owners compared without it."
        )
    say(
        f"Each party ran on its own host. {seen} Whoever can act as the hosts' users on more of them than "
        "the model tolerates, by ssh for example, can see all records."
    )


def weights(run: Run[Weights]) -> None:
    """Print a finished run's weights, its privacy statement and its cost."""
    found, manifest = run.found.weights, run.manifest
    table = table_of("group", "label")
    for heading in ("noisy count", f"weight ({found.reweighing})", f"{float(found.confidence):.0%} interval"):
        table.add_column(heading, justify="right")
    step = "1" if found.unit == 1 else f"1/{found.unit}"
    for s, group in enumerate(found.domain.groups):
        for y, label in enumerate(found.domain.labels):
            low, high = found.interval[s, y]
            noisy = found.noisy_counts[s, y] / found.unit
            count = (f"below {step}, so {step}: " if found.floored[s, y] else "") + f"{noisy:,.1f}"
            weight = f"{found.weights[s, y]:,.4f}"
            table.add_row(plain(group), plain(label), count, weight, interval_shown(low, high, 4))
    out.print(table)
    halves = "Counts end in .5: half is added to what was opened, as the noise's mean is −½. "
    say(
        (halves if found.unit == 1 else f"Counts are of clients, in steps of {step}. ")
        + f"Each interval holds its weight of the true counts{of_what(found.domain)} with at least that "
        "probability, over the noise."
    )
    if found.floored.any():
        say(
            f"A noisy count below {step} was raised to that: its weight means little. More records or a "
            "larger ε help."
        )
    statement(manifest, "weights")


def opened_weights(run: Run[OpenedWeights]) -> None:
    """Print a run's weights that were opened alone, its privacy statement and its cost."""
    found = run.found
    table = table_of("group", "label")
    table.add_column(f"weight ({found.reweighing})", justify="right")
    if found.interval is not None:
        table.add_column("95% interval", justify="right")
    for s, group in enumerate(found.domain.groups):
        for y, label in enumerate(found.domain.labels):
            cells = [plain(group), plain(label), f"{found.weights[s, y]:,.4f}"]
            if found.interval is not None:
                low, high = found.interval[s, y]
                cells.append(interval_shown(low, high, 4))
            table.add_row(*cells)
    out.print(table)
    if found.interval is None:
        say("No intervals: Kamiran–Calders weights do not tell how many records there are.")
    else:
        say(
            f"Each interval holds its weight of the true counts{of_what(found.domain)} with at least that "
            "probability."
        )
    say(
        "No count was opened; one below 1 after the noise was raised to 1. But balanced weights tell "
        "all ratios of the noisy counts: opening weights alone guarantees no more than opening the counts."
    )
    statement(run.manifest, "weights")


def of_what(domain: RecordDomain) -> str:
    """Return which records an interval's true counts are of, where a cap leaves some out."""
    return ", of the records that the cap keeps," if domain.cap and not domain.cap.weight_one else ""


def privacy(manifest: dict[str, Any]) -> None:
    """Print a run's privacy statement."""
    say("\n[bold]Privacy of what the computation opened[/]")
    for sentence in privacy_statement(manifest["privacy"], get_model(manifest["model"])):
        say(plain(sentence))


def statement(manifest: dict[str, Any], result: str) -> None:
    """Print a run's privacy statement and its cost. Args: result: what it ended in."""
    privacy(manifest)
    if excluded := manifest["inputs"].get("excluded_because"):
        say(f"Uploads left out, by all parties alike: {described(excluded)}.")
    sent = sum(manifest["sent_bytes"])
    rounds = "" if manifest["rounds"] is None else f", {manifest['rounds']} rounds"
    engine = plain(manifest["engine_version"])
    say(
        f"Cost: {manifest['mpc_s']:.3f} s in the computation, {sent / 1e3:,.0f} kB sent by all parties"
        f"{rounds}; {manifest['wall_s']:.2f} s from sharing to {result} ({engine})."
    )
