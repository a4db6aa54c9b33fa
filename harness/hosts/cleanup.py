"""Remains of runs on a host whose coordinator went away, or whose process was killed."""

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, TypedDict

from msgspec import Meta

from harness.errors import HostUnfitError
from harness.hosts.signed_results import Signed
from harness.system.documents import Refusal, as_type, read_json
from harness.system.files import PREFIX, remove_unless_held, write_whole
from harness.system.processes import birth

RUN = re.compile(r"[0-9a-f]{32}")  # a run's name; also an agent's greeting at its port
RunName = Annotated[str, Meta(pattern=rf"^{RUN.pattern}\Z")]
_RESULTS, _SIGNATURE = "results", "agent"
_PATIENCE_S = 5.0


class Removed(TypedDict):
    """Numbers of removed things."""

    processes: int
    directories: int
    records: int


def place_of(directory: Path, run: str) -> Path:
    """Return where a run's opened values are kept until they are read."""
    (directory / _RESULTS).mkdir(mode=0o700, exist_ok=True)
    return directory / _RESULTS / f"{run}.json"


def signed_runs(directory: Path) -> list[Signed]:
    """Return the signed statements that are kept of runs."""
    paths = sorted((directory / _RESULTS).glob("*.json"))
    refusals = [Refusal(HostUnfitError, str(path), "what a run revealed", "remove it") for path in paths]
    return [as_type(Signed, read_json(path, one), one) for path, one in zip(paths, refusals, strict=True)]


@contextmanager
def signed(directory: Path, coordinator: str) -> Iterator[None]:
    """Name this agent and its coordinator in a directory meanwhile."""
    place = directory / _SIGNATURE
    write_whole(place, f"{os.getpid()} {birth(os.getpid())} {coordinator}".encode())
    try:
        yield
    finally:
        place.unlink(missing_ok=True)


def holder(directory: Path) -> str:
    """Return which agent has a directory, in words."""
    signature = _signed(directory)
    return (
        f"process {signature[0]}, for {signature[1] or 'a key without a name'}"
        if signature
        else "an agent that ends"
    )


def clean(directory: Path, own: Path | None) -> Removed:
    """End other agents of this directory with their parties; remove all that runs left.

    This agent's scratch directory, `own`, stays.
    """
    left = [path for path in directory.glob(f"{PREFIX}*") if path != own]
    agents = {signature[0] for path in (directory, *left) if (signature := _signed(path))} - {os.getpid()}
    for pid in agents:
        _end(pid)
    for path in left:
        remove_unless_held(path)
    if not _signed(directory):
        (directory / _SIGNATURE).unlink(missing_ok=True)
    kept = list((directory / _RESULTS).glob("*.json"))
    for path in kept:
        path.unlink(missing_ok=True)
    gone = sum(not path.exists() for path in left)
    return {"processes": len(agents), "directories": gone, "records": len(kept)}


def _signed(directory: Path) -> tuple[int, str] | None:
    try:
        pid, began, coordinator = (directory / _SIGNATURE).read_text().split(" ", 2)
    except (OSError, ValueError):
        return None
    return (int(pid), coordinator) if began == birth(int(pid)) else None


def _end(pid: int) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + _PATIENCE_S
        while birth(pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        if not birth(pid):
            return
