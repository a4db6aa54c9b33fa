"""What many uploads would take a party, by what `./inv reproduce uploads` measured of fewer."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.inputs.shares.task import Task

RECORDED = Path(__file__).with_name("recorded_units") / "uploads.csv"
LISTED_BYTES = 65  # of an upload in a party's list
_IDENTITY_BYTES = 32  # of an upload in each list that is in memory


@dataclass(frozen=True)
class UploadCosts:
    """What uploads cost.

    Attributes:
        seal_s: Seconds of one core, of all clients together.
        list_s, add_s: Seconds of one core at the party, to list what it opens, and to add up what all have.
        disk_bytes, sent_bytes: Of uploads at the party, and of the list that it sends.
        memory_bytes: The most, while it adds up.
    """

    seal_s: float
    list_s: float
    add_s: float
    disk_bytes: int
    sent_bytes: int
    memory_bytes: float


def recorded() -> list[dict[str, float]]:
    """Return the measured rows, as `costs_of` takes them."""
    with RECORDED.open(encoding="utf-8", newline="") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def costs_of(uploads: int, task: Task, party: int, measured: Sequence[Mapping[str, Any]]) -> UploadCosts:
    """Return what so many uploads of a task would cost.

    An upload takes the seconds of one of few counts, and for each further count what one of many took more.
    Memory is what was measured, and identities of the uploads beyond, in each party's list and all have.
    Args: measured: For each kind of key a row of few counts, and for one of them a row of many.
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

    kept = _IDENTITY_BYTES * (len(task.parties) + 1)
    return UploadCosts(
        seconds("seal_s"),
        seconds("list_s"),
        seconds("add_s"),
        uploads * task.envelope_bytes(party),
        uploads * LISTED_BYTES,
        near["add_mb"] * 1e6 + kept * max(uploads - near["uploads"], 0),
    )
