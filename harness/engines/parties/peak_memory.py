"""How much memory a party takes: read from the kernel while it runs (Linux; unknown elsewhere)."""

import re
import time
from pathlib import Path

_PEAK = re.compile(rb"VmHWM:\s*(\d+) kB")
_PROCESSES = Path("/proc")

LEAST_PAUSE_S = 0.01
_SHARE = 0.01  # of the time that a party has run: what may pass between two looks


class PeakMemory:
    """Follows the peak resident memory of a process, and of its children if it has any.

    A program that a process becomes starts anew, so a party's preparation does not count for its virtual
    machine. What the usage that a finished process is billed for says cannot tell these apart.
    Guarantees: the peak is missed by no more than what came in the last hundredth of the time, or 10 ms.
    [test: tests/harness/engines/test_peak_memory.py]
    """

    def __init__(self, process: int, *, children: bool = False) -> None:
        self._process, self._with_children = process, children
        self._peaks: dict[int, int] = {}
        self._began = self._due = time.monotonic()

    def look_if_due(self) -> None:
        """Look, unless the last look was so short ago that little can have come since."""
        now = time.monotonic()
        if now >= self._due:
            self.look()
            self._due = now + pause_s(now - self._began)

    def look(self) -> None:
        """Read the peaks so far; a process that has ended keeps what was read last."""
        for process in (self._process, *(self._children() if self._with_children else ())):
            peak = _PEAK.search(_read(_PROCESSES / str(process) / "status"))
            if peak is not None:
                self._peaks[process] = int(peak[1]) * 1024

    def _children(self) -> list[int]:
        path = _PROCESSES / str(self._process) / "task" / str(self._process) / "children"
        return [int(word) for word in _read(path).split()]

    @property
    def bytes(self) -> int | None:
        """The sum of the processes' peaks; None if nothing could be read."""
        return sum(self._peaks.values()) or None


def pause_s(running_s: float) -> float:
    """Return how long to wait until the next look at a party that has run for so long."""
    return max(LEAST_PAUSE_S, _SHARE * running_s)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended, or there is no such file system
        return b""
