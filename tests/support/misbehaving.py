"""What one client can do to its own upload, at one party or at all; tests see that no other suffers."""

import json
import os
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import harness.inputs.shares.party as why
from harness.inputs.shares.file_format import SALT_BYTES, SUFFIX

# Does something to a file, the upload of which one party is to have.
Change = Callable[[Path], object]


def _edit(file: Path, more: bytes = b"", **fields: Any) -> None:
    first, values = file.read_bytes().split(b"\n", 1)
    found = json.loads(first)
    file.write_bytes(json.dumps({**found, **fields}).encode() + b"\n" + values + more)


def _edit_domain(file: Path, **fields: Any) -> None:
    _edit(file, record_domain={**json.loads(file.read_bytes().split(b"\n", 1)[0])["record_domain"], **fields})


def _of_two_clients(file: Path) -> None:
    """As long as it says: a seed makes any number of words."""
    first, values = file.read_bytes().split(b"\n", 1)
    header = json.loads(first)
    _edit(file, values[SALT_BYTES:] if header["content"] == "values" else b"", clients=2 * header["clients"])


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


def _flipped(file: Path, at: int) -> None:
    """Flip a bit of what follows the header. Args: at: of which byte."""
    content = bytearray(file.read_bytes())
    content[at if at < 0 else content.index(b"\n") + 1 + at] ^= 1
    file.write_bytes(content)


MISBEHAVIOURS: dict[str, Misbehaviour] = {
    "nothing": Misbehaviour(Path.unlink, why.NOT_THE_SAME, ""),
    "longer": _alike(partial(_edit, more=b"12345678"), why.WRONG_SIZE),
    "shorter": _alike(lambda file: file.write_bytes(file.read_bytes()[:-1]), why.WRONG_SIZE),
    "no values": _alike(
        lambda file: file.write_bytes(file.read_bytes().split(b"\n", 1)[0] + b"\n"), why.WRONG_SIZE
    ),
    "cut in the header": _alike(lambda file: file.write_bytes(file.read_bytes()[:40]), why.UNREADABLE),
    "empty": _alike(lambda file: file.write_bytes(b""), why.UNREADABLE),
    "garbage": _alike(lambda file: file.write_bytes(secrets.token_bytes(500)), why.UNREADABLE),
    "text": _alike(lambda file: file.write_text("client_id,group,label\n"), why.UNREADABLE),
    "deep": _alike(lambda file: file.write_text("[" * 200_000), why.UNREADABLE),
    "no header": _alike(lambda file: file.write_bytes(b"\n" + file.read_bytes()), why.UNREADABLE),
    "another version": _alike(partial(_edit, schema=3), why.UNREADABLE),
    "an earlier version, as it says": _alike(partial(_edit, schema=1), why.UNREADABLE),
    "another payload": _alike(partial(_flipped, at=-1), why.CHANGED),
    "another salt": _alike(partial(_flipped, at=0), why.CHANGED),
    "another header": _alike(partial(_edit, records=1), why.CHANGED),
    "a cap of no number": _alike(partial(_edit_domain, cap=10**400), why.UNREADABLE),
    "a range that no float holds": _alike(
        partial(_edit_domain, labels=[], max_count=1, values={"low": 0, "high": 10**400}), why.UNREADABLE
    ),
    "a threshold that no float holds": _alike(partial(_edit_domain, thresholds=[0, 10**400]), why.UNREADABLE),
    "a link": _alike(_elsewhere, why.UNREADABLE),
    "a link to nothing": _alike(partial(_as, lambda file: file.symlink_to("nothing")), why.UNREADABLE),
    "a pipe": _alike(partial(_as, os.mkfifo), why.UNREADABLE),
    "a directory": _alike(partial(_as, Path.mkdir), why.UNREADABLE),
    "for another party": _alike(partial(_edit, party=7), why.MISDIRECTED),
    "an aggregate": _alike(partial(_edit, kind="aggregate"), why.MISDIRECTED),
    "another upload's name": _alike(partial(_edit, batch="0" * 32), why.RENAMED),
    "a billion clients": _alike(partial(_edit, clients=10**9), why.TOO_LARGE),
    "more clients": _alike(_of_two_clients, why.CHANGED),
    "another arithmetic": _alike(partial(_edit, arithmetic="ring64"), why.CHANGED),
    "another domain": _alike(partial(_edit_domain, groups=["a", "x"]), why.CHANGED),
}


def misbehave(change: Change, shares: Path, upload: str, parties: range) -> None:
    """Change an upload at some parties."""
    for party in parties:
        change(shares / f"party-{party}" / f"{upload}{SUFFIX}")


def copy_under_another_name(shares: Path, upload: str, party: int) -> None:
    """Send one party, under its identity, what somebody else shared; whoever knows that can do it."""
    own = shares / f"party-{party}"
    shutil.copy(own / f"{upload}{SUFFIX}", own / f"again{SUFFIX}")
