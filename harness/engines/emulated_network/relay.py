"""One process between parties on one machine: what they send each other arrives later, at a link's rate.

Started as `python -m harness.engines.emulated_network.relay DELAY_S BYTES_PER_S A:B:PORT...`: for each
ordered pair of parties it listens on a port of its own, prints all of these in one line, and passes what
connects there on to B's PORT, until its input ends. Lines there change links while it runs, as faults do:
`cut A B` closes their connections; `link A B DELAY_S BYTES_PER_S` has other figures hold from now on, both
ways (with a delay of `inf` nothing arrives any more). In the end it prints the pairs whose link was cut.
There are no losses.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import selectors
import socket
import sys
from collections import deque
from dataclasses import dataclass, field
from itertools import chain

HOST = "127.0.0.1"
_MOST = 1 << 16  # bytes passed on at once
_LEAST = 1448  # those of a packet
_PIECE_S = 1e-3  # what a link carries meanwhile is passed on at once, between these limits
_AHEAD_S = 10e-3  # of traffic that a link takes in before it keeps its senders waiting
_LONGEST_S = 10.0  # delay for which there has to be room
_RETRY_S = 2e-3
_PR_SET_TIMERSLACK = 29


@dataclass
class Link:
    """From one party to another: one queue for all their connections, then a delay.

    Attributes: free_at: when all that was taken in has left the queue.
    """

    delay_s: float
    bytes_per_s: float
    free_at: float = 0.0
    connections: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def piece(self) -> int:
        """Bytes that are passed on at once, so that connections take turns."""
        return min(_MOST, max(_LEAST, int(self.bytes_per_s * _PIECE_S)))

    @property
    def room(self) -> float:
        """Bytes of one connection that are on their way at most."""
        return self.bytes_per_s * (min(self.delay_s, _LONGEST_S) + 2 * _AHEAD_S) + 2 * self.piece

    def arrival(self, size: int, now: float) -> float:
        """Return when the last of `size` bytes arrives that are sent now."""
        self.free_at = max(now, self.free_at) + size / self.bytes_per_s
        return self.free_at + self.delay_s


@dataclass
class _Way:
    """One direction of a connection; an empty piece is its end."""

    source: socket.socket
    target: socket.socket
    link: Link
    pieces: deque[tuple[float, bytes]] = field(default_factory=deque)
    bytes: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def take(self) -> None:
        """Take in what the source sends, no faster than the link carries it away."""
        loop, data = asyncio.get_running_loop(), b"-"
        while data:
            while self.bytes > self.link.room:
                self.changed.clear()
                await self.changed.wait()
            await _until(self.link.free_at - _AHEAD_S)
            try:
                data = await loop.sock_recv(self.source, self.link.piece)
            except OSError:  # reset
                data = b""
            self.pieces.append((self.link.arrival(len(data), loop.time()), data))
            self.bytes += len(data)
            self.changed.set()

    async def give(self) -> None:
        """Give each piece to the target when it is due."""
        loop, data = asyncio.get_running_loop(), b"-"
        while data:
            while not self.pieces:
                self.changed.clear()
                await self.changed.wait()
            due, data = self.pieces.popleft()
            await _until(due)
            with contextlib.suppress(OSError):  # it has left, which the source learns the other way
                await loop.sock_sendall(self.target, data)
            self.bytes -= len(data)
            self.changed.set()
        with contextlib.suppress(OSError):
            self.target.shutdown(socket.SHUT_WR)


class Relay:
    """The links between all parties; `cut` are the pairs between whom there was one."""

    def __init__(self, delay_s: float, bytes_per_s: float) -> None:
        self.cut: list[str] = []
        self._figures = delay_s, bytes_per_s
        self._links: dict[tuple[int, int], Link] = {}
        self._accepting: list[asyncio.Task[None]] = []

    def listen(self, a: int, b: int, port: int) -> int:
        """Pass on what connects for a to b's port; return where to connect."""
        listening = socket.create_server((HOST, 0), backlog=100)
        listening.setblocking(False)
        self._accepting.append(asyncio.create_task(self._accept(listening, a, b, port)))
        return int(listening.getsockname()[1])

    def obey(self, line: str) -> None:
        """Change what is between two parties."""
        what, *pair = line.split()[:3]
        a, b = map(int, pair)
        links = self._link(a, b), self._link(b, a)
        if what == "cut":
            self.cut.append(f"{a}-{b}")
            for connection in chain.from_iterable(link.connections for link in links):
                connection.cancel()
        else:
            for link in links:
                link.delay_s, link.bytes_per_s = map(float, line.split()[3:])

    def _link(self, a: int, b: int) -> Link:
        return self._links.setdefault((a, b), Link(*self._figures))

    async def _accept(self, listening: socket.socket, a: int, b: int, port: int) -> None:
        connections = self._link(a, b).connections
        while True:
            source, _ = await asyncio.get_running_loop().sock_accept(listening)
            task = asyncio.create_task(self._carry(source, a, b, port))
            connections.add(task)
            task.add_done_callback(connections.discard)

    async def _carry(self, source: socket.socket, a: int, b: int, port: int) -> None:
        with source, await _reach(port) as target:
            for one in (source, target):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                one.setblocking(False)
            async with asyncio.TaskGroup() as group:
                for way in (
                    _Way(source, target, self._link(a, b)),
                    _Way(target, source, self._link(b, a)),
                ):
                    group.create_task(way.take())
                    group.create_task(way.give())


async def _reach(port: int) -> socket.socket:
    """Connect to a party, which may listen only later."""
    while True:
        target = socket.socket()
        target.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(target, (HOST, port))
        except ConnectionRefusedError:
            target.close()
            await asyncio.sleep(_RETRY_S)
        else:
            return target


async def _until(time: float) -> None:
    await asyncio.sleep(time - asyncio.get_running_loop().time())


async def _main(delay_s: str, bytes_per_s: str, *pairs: str) -> None:
    relay = Relay(float(delay_s), float(bytes_per_s))
    print(*[relay.listen(*map(int, pair.split(":"))) for pair in pairs], flush=True)
    orders, loop = asyncio.StreamReader(), asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    while line := await orders.readline():
        relay.obey(line.decode())
    print(*relay.cut, flush=True)


def _punctual_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop that wakes in time: epoll's timeouts are whole milliseconds."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=_punctual_loop) as runner:
        runner.run(_main(*sys.argv[1:]))
