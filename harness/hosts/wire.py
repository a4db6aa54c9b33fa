"""The protocol between this machine and a host's agent over ssh: a JSON object per line.

Each side also sends empty lines: silence is the other's end.
"""

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from harness.hosts.host_log import Event
from harness.system.documents import MESSAGE, strict_json

VERSION = 13  # of requests and answers; rises with each change of them
BEAT_S = 2.0  # between signs of life
SILENT_BEATS = 10  # until the other side counts as gone
SHORT = 1 << 16  # bytes of a line before a run is accepted
LONGEST = 1 << 27  # the identities of a million uploads fit


@contextmanager
def limited(seconds: float, over: Callable[[str], object], why: str) -> Iterator[None]:
    """Call `over` with a sentence if the block takes longer, in another thread."""
    timer = threading.Timer(seconds, over, [why])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Answers:
    """The handlers of requests at a host, with the connection's `PartyRun`, if any."""

    REQUESTS: tuple[str, ...] = ()
    run: Any = None

    @property
    def handlers(self) -> dict[str, Callable[..., Any]]:
        """The handlers, by request."""
        return {name: getattr(self, name) for name in self.REQUESTS}

    @property
    def longest(self) -> int:
        """Most bytes of the next request."""
        return LONGEST

    @property
    def is_running(self) -> bool:
        """Whether a party runs."""
        return self.run is not None and self.run.is_running

    def admit(self, request: str) -> None:
        """Raise PolicyError unless this coordinator may send this, HostUnfitError if not now."""

    def limit_s(self, request: str) -> float:  # noqa: ARG002
        """Return the seconds in which a request is answered, or else the connection ends."""
        return 3600.0

    def note(self, event: Event, request: str, said: str) -> None:
        """Tell this machine's owner what was refused, failed or ended, and why."""

    def ends(self, request: str, how: str) -> None:
        """Learn how the connection ends, before what it holds is closed; what is told first counts.

        Args:
            request: The coordinator's request that ends it, or "".
            how: The end of a sentence about what is ended with the connection.
        """


class Line(ABC):
    """One end of a connection: messages of at most `longest` bytes, and signs of life."""

    longest = LONGEST

    def __init__(self, silent: float = 0) -> None:
        self._silent = silent  # beats since the other side was heard
        self.writing = threading.Lock()
        self.over = threading.Event()

    def begin(self, incoming: BinaryIO) -> None:
        """Listen, and send signs of life, until it is over."""
        threading.Thread(target=self._listen, args=[incoming], daemon=True).start()
        threading.Thread(target=self._beat, daemon=True).start()

    def send(self, message: dict[str, Any]) -> None:
        """Send a message."""
        with self.writing:
            self.write(encode(message))

    @abstractmethod
    def write(self, line: bytes) -> None:
        """Send a line while holding `writing`; raise nothing."""

    @abstractmethod
    def lose(self, why: str = "") -> None:
        """End the connection."""

    @abstractmethod
    def _listen(self, incoming: BinaryIO) -> None:
        """Read until the other side ends."""

    def messages(self, incoming: BinaryIO) -> Iterator[dict[str, Any]]:
        """Yield messages; OSError at the other side's end, ValueError for anything else."""
        while (line := read_line(incoming, self._hear, lambda: self.longest)) is not None:
            message = decode(line)
            if message is not None:
                yield message

    def _hear(self) -> None:
        self._silent = 0

    def _beat(self) -> None:
        """Send signs of life; count silent beats, not seconds, as both sides may be slow."""
        while not self.over.wait(BEAT_S):
            self._silent += 1
            if self._silent > SILENT_BEATS:
                self.lose(f"nothing came from it for {SILENT_BEATS * BEAT_S:g} s")
            elif not self.writing.locked():
                with self.writing:
                    self.write(b"\n")


def encode(message: dict[str, Any]) -> bytes:
    """Return a message as it is sent."""
    return json.dumps(message).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any] | None:
    """Return a line's message, None for a sign of life, or raise ValueError."""
    if not line.strip():
        return None
    try:
        message = strict_json(line, MESSAGE)
    except RecursionError:
        message = None
    if not isinstance(message, dict):
        raise ValueError("not an object")
    return message


def read_line(
    stream: BinaryIO, heard: Callable[[], None], longest: Callable[[], int] = lambda: LONGEST
) -> bytes | None:
    """Return the next line, None at the end; call `heard` for each piece of it.

    Raises ValueError if the line is longer than `longest()` bytes.
    """
    line = bytearray()
    while not line.endswith(b"\n"):
        piece = stream.readline(1 << 16)
        if not piece:
            return None
        heard()
        line += piece
        if len(line) > longest():
            raise ValueError("a line is too long")
    return bytes(line)
