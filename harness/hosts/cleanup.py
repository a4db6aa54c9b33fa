"""What runs leave on a host when whoever started them went away, or the host's own process was killed."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.errors import HostUnfitError
from harness.system.documents import Refusal, as_type, read_json
from harness.system.files import PREFIX, remove_unless_held
from harness.system.processes import birth

_RESULTS, _SIGNATURE = "results", "agent"
_PATIENCE_S = 5.0


def place_of(directory: Path, run: str) -> Path:
    """Return where a run's opened values are kept until somebody has read them."""
    (directory / _RESULTS).mkdir(mode=0o700, exist_ok=True)
    return directory / _RESULTS / f"{run}.json"


def records(directory: Path) -> list[dict[str, Any]]:
    """Return what is kept of runs, the oldest first."""
    kept = []
    for path in (directory / _RESULTS).glob("*.json"):
        refusal = Refusal(HostUnfitError, str(path), "what a run revealed", "remove it")
        kept.append(as_type(dict[str, Any], read_json(path, refusal), refusal))
    return sorted(kept, key=lambda record: str(record.get("ended")))


def sign(scratch: Path) -> None:
    """Write into an agent's scratch directory which process it is."""
    (scratch / _SIGNATURE).write_text(f"{os.getpid()} {birth(os.getpid())}")


def clean(directory: Path, own: Path | None) -> dict[str, int]:
    """End other agents of this directory, and with them their parties; remove all that runs left.

    Args: own: this agent's scratch directory, which stays.
    Returns: how many processes were ended, directories and records removed.
    """
    left = [path for path in directory.glob(f"{PREFIX}*") if path != own]
    agents = [pid for path in left if (pid := _signed(path)) is not None]
    for pid in agents:
        _end(pid)
    for path in left:
        remove_unless_held(path)
    kept = list((directory / _RESULTS).glob("*.json"))
    for path in kept:
        path.unlink(missing_ok=True)
    gone = sum(not path.exists() for path in left)
    return {"processes": len(agents), "directories": gone, "records": len(kept)}


def _signed(scratch: Path) -> int | None:
    """Return the process that works in a scratch directory, None if it has ended."""
    try:
        pid, began = (scratch / _SIGNATURE).read_text().split()
    except (OSError, ValueError):
        return None
    return int(pid) if began == birth(int(pid)) else None


def _end(pid: int) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + _PATIENCE_S
        while birth(pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        if not birth(pid):
            return
