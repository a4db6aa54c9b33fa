"""What a client, or who carries its envelopes, can do to its own upload; tests see that no other suffers."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import fairshares.harness.uploads.reasons as why
from fairshares.harness.uploads.envelope import BOUNDS_BYTES
from fairshares.harness.uploads.files import SUFFIX
from fairshares.harness.uploads.task import read_task
from tests.support.envelopes import changed, resealed

# Does something to an envelope's file, which one party is to have.
Change = Callable[[Path], object]


def _rewritten(change: Callable[[bytes], bytes], file: Path) -> None:
    file.write_bytes(change(file.read_bytes()))


def _other_byte(at: int) -> Change:
    return partial(_rewritten, lambda envelope: changed(envelope, at % len(envelope)))


def _sealed_otherwise(at: int, file: Path) -> None:
    """Have the client seal something else under the same identity."""
    shares, party = file.parent.parent, int(file.parent.name.removeprefix("party-"))
    task = read_task(shares / "task.json")
    _rewritten(lambda envelope: resealed(task, party, envelope, shares / f"keys-{party}", at), file)


def _elsewhere(file: Path) -> None:
    """Put a link in its place, to what it was."""
    (file.parent / "elsewhere").mkdir(exist_ok=True)
    file.symlink_to(file.rename(file.parent / "elsewhere" / file.name))


def _as(made: Callable[[Path], object], file: Path) -> None:
    """Put something else in its place."""
    file.unlink()
    made(file)


@dataclass(frozen=True)
class Misbehaviour:
    """Attributes: at_one, at_all: why the upload is left out, if one party has it so, or all have."""

    change: Change
    at_one: str
    at_all: str


def _alike(change: Change, reason: str) -> Misbehaviour:
    return Misbehaviour(change, reason, reason)


MISBEHAVIOURS: dict[str, Misbehaviour] = {
    "nothing": Misbehaviour(Path.unlink, why.NOT_THE_SAME, ""),
    "empty": _alike(lambda file: file.write_bytes(b""), why.WRONG_SIZE),
    "shorter": _alike(partial(_rewritten, lambda envelope: envelope[:-1]), why.WRONG_SIZE),
    "text": _alike(lambda file: file.write_text("client_id,group,label\n"), why.WRONG_SIZE),
    "another version": _alike(_other_byte(3), why.UNREADABLE),
    "another task": _alike(_other_byte(4), why.OTHER_TASK),
    "another key": _alike(_other_byte(68), why.OTHER_KEY),
    "another encapsulated key": _alike(_other_byte(76), why.UNOPENED),
    "another end": _alike(_other_byte(-1), why.UNOPENED),
    "other bounds": _alike(partial(_sealed_otherwise, 0), why.CHANGED),
    "another commitment": _alike(partial(_sealed_otherwise, BOUNDS_BYTES), why.CHANGED),
    "another payload": _alike(partial(_sealed_otherwise, -1), why.CHANGED),
    "a link": _alike(_elsewhere, why.UNREADABLE),
    "a link to nothing": _alike(partial(_as, lambda file: file.symlink_to("nothing")), why.UNREADABLE),
    "a pipe": _alike(partial(_as, os.mkfifo), why.UNREADABLE),
    "a directory": _alike(partial(_as, Path.mkdir), why.UNREADABLE),
}


def misbehave(change: Change, shares: Path, upload: str, parties: range) -> None:
    """Change an upload at some parties."""
    for party in parties:
        change(shares / f"party-{party}" / f"{upload}{SUFFIX}")


def copy_under_another_name(shares: Path, upload: str, party: int) -> None:
    """Send one party, under another name, what somebody else shared; whoever carries it can do that."""
    own = shares / f"party-{party}"
    shutil.copy(own / f"{upload}{SUFFIX}", own / f"again{SUFFIX}")
