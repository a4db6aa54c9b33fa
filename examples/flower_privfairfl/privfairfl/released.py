"""What clients seal for the parties, and what the parties reveal.

A directory stands for the parties' servers and hosts: it has the task, each party's keys, and what clients
have sealed. In production each party's part is on a machine of its own, as docs/tutorials/roles.md has it.
"""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd

import fairshares as fs
from fairshares.harness.inputs.records import read_records
from fairshares.harness.postprocessing.thresholds.rules import ThresholdRule
from fairshares.harness.uploads.client import share
from fairshares.harness.uploads.task import read_task
from fairshares.protocols.arrays import Floats

from .people import LABELS

PARTIES = 3
MOST_RECORDS = 10_000  # of a client
THRESHOLDS = 101
UNMITIGATED = ThresholdRule((0.5,))


def command(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    """Run a command of FairShares."""
    return subprocess.run(
        [sys.executable, "-m", "fairshares", *map(str, words)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def done(*words: str | Path) -> None:
    """Run a command that has to work; RuntimeError with its sentence if it does not."""
    ended = command(*words)
    if ended.returncode:
        raise RuntimeError(ended.stderr)


def declare(place: Path, release: str, groups: tuple[str, ...], epsilon: float, security: str) -> None:
    """Make the parties' keys, and the task that clients share for: of `weights` or `thresholds`."""
    place.mkdir(parents=True)
    until = ("--until", "2999-01-01")
    parties = []
    for party in range(PARTIES):
        keys = place / f"keys-{party}"
        done("keys", "--directory", keys, "--sealing", "x25519", *until)
        parties.append(str(keys / "party.json"))
    domain = {"groups": list(groups), "labels": list(LABELS), "max_count": MOST_RECORDS}
    if release == "thresholds":
        domain["thresholds"] = THRESHOLDS
    file = place / "domain.json"
    file.write_text(json.dumps(domain))
    task = ["task", str(place / "task.json"), "--parties", ",".join(parties), "--domain", str(file)]
    task += ["--for-tasks", release, "--epsilon", str(epsilon), "--least-uploads", "1"]
    done(*task, "--security", security, *until)


def seal(place: Path, records: pd.DataFrame) -> None:
    """Seal a client's records for the parties of the task."""
    task = read_task(place / "task.json")
    share(task, read_records(records, task.domain, kind=task.domain.kind), place)


def release(place: Path, name: str, epsilon: float, security: str, *more: str) -> str:
    """Have the parties reveal; return "", or the sentence of an error."""
    run = [name, "--shares", str(place), "--epsilon", str(epsilon), "--security", security]
    ended = command(*run, "--population", "none", "--out", str(place / "released"), *more)
    return ended.stderr if ended.returncode else ""


def weights_in(place: Path, groups: tuple[str, ...]) -> Floats:
    """Return the released weights by group and label, shape (k, 2)."""
    weights = fs.read_weights(place / "released")
    table = weights.reindex(pd.MultiIndex.from_product([groups, LABELS]))
    return table.to_numpy(dtype=float).reshape(len(groups), len(LABELS))


def rules_in(place: Path, groups: tuple[str, ...]) -> dict[str, ThresholdRule]:
    """Return the released thresholds by group, or 0.5 for all where noise hides a group."""
    if not (place / "released" / "thresholds.json").exists():
        return dict.fromkeys(groups, UNMITIGATED)
    rules = fs.GroupThresholdPredictor.load(place / "released").rules
    return {group: rules[group] for group in groups}
