"""The cost of many uploads, from measurements of fewer."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairshares.harness.uploads.task import Task

RECORDED = Path(__file__).with_name("recorded_units") / "uploads.csv"
_LINE_BYTES = 65  # bytes of an upload in a party's list
_IDENTITY_BYTES = 32  # bytes of an upload in memory


@dataclass(frozen=True)
class UploadCosts:
    """The cost of uploads, in bytes and in seconds of one core.

    Attributes:
        seal_s: The seconds in which clients seal them.
        list_s: The seconds in which a party lists them.
        add_s: The seconds in which a party adds them up.
        disk_bytes: The bytes that a party stores.
        sent_bytes: The bytes of the party's list, which it sends.
        memory_bytes: The memory that a party takes to add them up.
    """

    seal_s: float
    list_s: float
    add_s: float
    disk_bytes: int
    sent_bytes: int
    memory_bytes: float


def recorded() -> list[dict[str, float]]:
    """Return the measured rows, for `costs_of`."""
    rows = []
    with RECORDED.open(encoding="utf-8", newline="") as file:
        for texts in csv.DictReader(file):
            rows.append({name: float(text) for name, text in texts.items()})
    return rows


def costs_of(uploads: int, task: Task, party: int, measured: Sequence[Mapping[str, float]]) -> UploadCosts:
    """Return the cost of `uploads` uploads of a task for one party.

    Seconds per upload grow with the counts in it, by the slope between the two rows of `measured` that
    differ in counts alone. Memory is as measured, plus the memory of further identities.

    Args:
        uploads: The number of uploads.
        task: The task of the uploads.
        party: The number of the party.
        measured: A row of few counts for each kind of key, and for one kind a row of many counts.
    """
    most_counts = max(row["counts"] for row in measured)
    few = [row for row in measured if row["counts"] != most_counts]
    many = next(row for row in measured if row["counts"] == most_counts)
    near = next(row for row in few if bool(row["hybrid"]) == task.parties[party].keys[0].hybrid)
    base = next(row for row in few if row["hybrid"] == many["hybrid"])
    further_counts = task.columns * len(task.pieces(party)) - near["counts"]

    def seconds(name: str) -> float:
        slope = many[name] / many["uploads"] - base[name] / base["uploads"]
        for_counts = further_counts * max(slope, 0) / (many["counts"] - base["counts"])
        return float(uploads * (near[name] / near["uploads"] + for_counts))

    lists = len(task.parties) + 1  # lists that hold each identity in memory
    further_identities = max(uploads - near["uploads"], 0) * lists
    return UploadCosts(
        seal_s=seconds("seal_s"),
        list_s=seconds("list_s"),
        add_s=seconds("add_s"),
        disk_bytes=uploads * task.envelope_bytes(party),
        sent_bytes=uploads * _LINE_BYTES,
        memory_bytes=near["add_mb"] * 1e6 + _IDENTITY_BYTES * further_identities,
    )
