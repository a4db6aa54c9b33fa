"""The relay between parties with faults: lines of its input change links while it runs.

`cut A B` closes the connections between two parties; `link A B DELAY_S BYTES_PER_S` has other figures hold
from now on, both ways (with a delay of `inf` nothing arrives any more).
"""

import asyncio
import sys
from collections import defaultdict
from typing import Any

from harness.engines.emulated_network.relay import HOST, Ends, Relay, punctual_loop

__all__ = ["HOST"]  # what starts a relay takes this module for it


class FaultyRelay(Relay):
    """A relay that obeys."""

    def __init__(self, delay_s: float, bytes_per_s: float) -> None:
        super().__init__(delay_s, bytes_per_s)
        self.connections: dict[frozenset[int], list[asyncio.Task[Any] | None]] = defaultdict(list)

    async def carry(self, source: Ends, a: int, b: int, port: int) -> None:
        self.connections[frozenset((a, b))].append(asyncio.current_task())
        await super().carry(source, a, b, port)

    def obey(self, what: str, a: int, b: int, *figures: float) -> None:
        """Change what is between two parties."""
        if what == "cut":
            for connection in self.connections[frozenset((a, b))]:
                assert connection is not None
                connection.cancel()
        else:
            for link in (self.link(a, b), self.link(b, a)):
                link.delay_s, link.bytes_per_s = figures


async def main(delay_s: str, bytes_per_s: str, *pairs: str) -> None:
    relay = FaultyRelay(float(delay_s), float(bytes_per_s))
    print(*[await relay.listen(*map(int, pair.split(":"))) for pair in pairs], flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        what, a, b, *figures = line.split()
        relay.obey(what, int(a), int(b), *map(float, figures))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=punctual_loop) as runner:
        runner.run(main(*sys.argv[1:]))
