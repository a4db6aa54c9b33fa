"""The cost of many uploads, from measurements of fewer."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairshares.harness.uploads.task import Task

RECORDED = Path(__file__).with_name("recorded_units") / "uploads.csv"


@dataclass(frozen=True)
class UploadCosts:
    """The cost of uploads in bytes and seconds of one core; clients seal, the party does all else."""

    seal_s: float
    list_s: float
    add_s: float
    disk_bytes: int
    sent_bytes: int
    memory_bytes: float


def recorded() -> list[dict[str, float]]:
    """Return the measured rows, for `costs_of`."""
    with RECORDED.open(encoding="utf-8", newline="") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def costs_of(uploads: int, task: Task, party: int, measured: Sequence[Mapping[str, float]]) -> UploadCosts:
    """Return the cost of so many uploads of a task.

    `measured` has a row of few counts for each kind of key, and for one kind a row of many. Seconds grow with
    counts, by the slope between these. Memory is as measured, plus further identities.
    """
    few, many = (
        [row for row in measured if (row["counts"] == max(rows["counts"] for rows in measured)) == is_most]
        for is_most in (False, True)
    )
    near = next(row for row in few if bool(row["hybrid"]) == task.parties[party].keys[0].hybrid)
    base = next(row for row in few if row["hybrid"] == many[0]["hybrid"])
    more = task.columns * len(task.pieces(party)) - near["counts"]

    def seconds(name: str) -> float:
        slope = many[0][name] / many[0]["uploads"] - base[name] / base["uploads"]
        return float(
            uploads
            * (near[name] / near["uploads"] + more * max(slope, 0) / (many[0]["counts"] - base["counts"]))
        )

    further = max(uploads - near["uploads"], 0) * (len(task.parties) + 1)  # in so many lists in memory
    return UploadCosts(
        seconds("seal_s"),
        seconds("list_s"),
        seconds("add_s"),
        uploads * task.envelope_bytes(party),
        uploads * 65,  # in a party's list
        near["add_mb"] * 1e6 + 32 * further,
    )
