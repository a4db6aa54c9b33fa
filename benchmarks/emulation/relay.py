"""A relay between parties on one machine that delays their traffic and limits its rate, without loss.

Started with `DELAY_S BYTES_PER_S A:B:PORT...`, it listens on a port for each ordered pair of parties, relays
connections to B's PORT, prints its ports in one line, and ends with its input.
"""

import asyncio
import contextlib
import ctypes
import selectors
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial

HOST = "127.0.0.1"
_AHEAD_S = 10e-3  # the traffic that a link takes in before it keeps its senders waiting
_LONGEST_S = 10.0  # delay for which there has to be room
_PR_SET_TIMERSLACK = 29


@dataclass
class Link:
    """A queue for all connections from one party to another, empty at `free_at`, then a delay."""

    delay_s: float
    bytes_per_s: float
    free_at: float = 0.0

    @property
    def piece(self) -> int:
        """Bytes passed on at once, so that connections take turns."""
        return min(1 << 16, max(1448, int(self.bytes_per_s * 1e-3)))

    @property
    def room(self) -> float:
        """The most bytes of a connection on their way."""
        return self.bytes_per_s * (min(self.delay_s, _LONGEST_S) + 2 * _AHEAD_S) + 2 * self.piece

    def arrival(self, size: int, now: float) -> float:
        """Return when the last of `size` bytes sent now arrives."""
        self.free_at = max(now, self.free_at) + size / self.bytes_per_s
        return self.free_at + self.delay_s


Links = dict[tuple[int, int], Link]  # links by the party that sends and the party that receives


@dataclass
class _Way:
    """One direction of a connection; an empty piece is its end."""

    source: asyncio.StreamReader
    target: asyncio.StreamWriter
    link: Link
    pieces: asyncio.Queue[tuple[float, bytes]] = field(default_factory=asyncio.Queue)
    bytes: int = 0
    given: asyncio.Event = field(default_factory=asyncio.Event)

    async def take(self) -> None:
        data = b"-"
        while data:
            while self.bytes > self.link.room:
                self.given.clear()
                await self.given.wait()
            await _until(self.link.free_at - _AHEAD_S)
            try:
                data = await self.source.read(self.link.piece)
            except OSError:  # reset
                data = b""
            self.pieces.put_nowait((self.link.arrival(len(data), _now()), data))
            self.bytes += len(data)

    async def give(self) -> None:
        data = b"-"
        while data:
            due, data = await self.pieces.get()
            await _until(due)
            with contextlib.suppress(OSError):  # the target has left; the source learns it the other way
                self.target.write(data)
                await self.target.drain()
            self.bytes -= len(data)
            self.given.set()
        with contextlib.suppress(OSError):
            self.target.write_eof()


async def _listen(links: Links, a: int, b: int, port: int) -> int:
    server = await asyncio.start_server(partial(carry, links[a, b], links[b, a], (HOST, port)), HOST, 0)
    return int(server.sockets[0].getsockname()[1])


async def carry(
    there: Link,
    back: Link,
    address: tuple[str, int],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Relay a connection to whoever listens at an address, once somebody does.

    Args:
        there: The link to that address.
        back: The link from it.
        address: The address, and the port there.
        reader: The stream of bytes that the connection brings.
        writer: The stream of bytes that come back.
    """
    target_reader, target_writer = await _reach(address)
    to_target = _Way(reader, target_writer, there)
    from_target = _Way(target_reader, writer, back)
    try:
        await asyncio.gather(to_target.take(), to_target.give(), from_target.take(), from_target.give())
    finally:
        writer.close()
        target_writer.close()


async def _reach(address: tuple[str, int]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            return await asyncio.open_connection(*address)
        await asyncio.sleep(2e-3)


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _until(time: float) -> None:
    await asyncio.sleep(time - _now())


async def _main(delay_s: str, bytes_per_s: str, *pairs: str) -> None:
    links: Links = defaultdict(lambda: Link(float(delay_s), float(bytes_per_s)))
    print(*[await _listen(links, *map(int, pair.split(":"))) for pair in pairs], flush=True)
    await asyncio.to_thread(sys.stdin.read)


def punctual_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop that wakes in time; epoll's timeouts are whole milliseconds."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=punctual_loop) as runner:
        runner.run(_main(*sys.argv[1:]))
