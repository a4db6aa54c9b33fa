"""What this machine and a host's agent say to each other over ssh: a JSON object per line.

Each side also sends an empty line from time to time, and takes silence for the end of the other: a host
that vanishes, or a network that does, closes no connection.
"""

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from harness.system.documents import strict_json

VERSION = 12  # of requests and answers: rises whenever one of them changes
BEAT_S = 2.0  # between signs of life
SILENT_BEATS = 10  # after which the other side counts as gone
SHORT = 1 << 16  # bytes of a line, before it is known that there is a run
LONGEST = 1 << 27  # the identities of a million uploads fit
_PIECE = 1 << 16


class Answers:
    """What answers requests at a host. By itself it runs nothing, and takes whatever anybody asks.

    Attributes: REQUESTS: the methods that are requests.
    """

    REQUESTS: tuple[str, ...] = ()

    @property
    def handlers(self) -> dict[str, Callable[..., Any]]:
        """What answers each request, by its name."""
        return {name: getattr(self, name) for name in self.REQUESTS}

    @property
    def longest(self) -> int:
        """How many bytes the next request may have."""
        return LONGEST

    @property
    def is_running(self) -> bool:
        """Whether `ended` is to be asked."""
        return False

    def admit(self, request: str) -> None:
        """Check that whoever asks may ask that. Raises: PolicyError."""

    def ended(self) -> dict[str, Any] | None:
        """Say how what runs has ended, None while it has not."""
        return None


class Line(ABC):
    """One end of a connection: hears what the other side says, and shows from time to time that it is there.

    Attributes: longest: bytes that a line of the other side may have by now; over: set when nothing more is
    said.
    """

    longest = LONGEST

    def __init__(self, silent: float = 0) -> None:
        self._silent = silent  # beats since the other side was heard
        self.writing = threading.Lock()
        self.over = threading.Event()

    def begin(self, incoming: BinaryIO) -> None:
        """Listen, and show that this side is there, until the connection is over."""
        threading.Thread(target=self._listen, args=[incoming], daemon=True).start()
        threading.Thread(target=self._beat, daemon=True).start()

    def send(self, message: dict[str, Any]) -> None:
        """Send a message."""
        with self.writing:
            self.write(encode(message))

    @abstractmethod
    def write(self, line: bytes) -> None:
        """Send a line; who does has `writing`. Does not raise where the other side is gone."""

    @abstractmethod
    def lose(self, why: str = "") -> None:
        """End the connection, as the other side is gone."""

    @abstractmethod
    def _listen(self, incoming: BinaryIO) -> None:
        """Take what the other side says until it ends."""

    def messages(self, incoming: BinaryIO) -> Iterator[dict[str, Any]]:
        """Yield what the other side says. Raises: OSError: it is gone; ValueError: it says no message."""
        while (line := read_line(incoming, self._hear, lambda: self.longest)) is not None:
            message = decode(line)
            if message is not None:
                yield message

    def _hear(self) -> None:
        self._silent = 0

    def _beat(self) -> None:
        """Show that this side is there, until the other is not. Beats are counted, as both may be slow."""
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
    """Return a line's message, None for a sign of life. Raises: ValueError: it is neither."""
    if not line.strip():
        return None
    try:
        message = strict_json(line)
    except RecursionError:
        message = None
    if not isinstance(message, dict):
        raise ValueError("not an object")
    return message


def read_line(
    stream: BinaryIO, heard: Callable[[], None], longest: Callable[[], int] = lambda: LONGEST
) -> bytes | None:
    """Return the next line; None at the end, also in the midst of one.

    Args: heard: called for each piece of it: a long line takes long; longest: how many bytes it may have by
    now. Raises: ValueError: it is longer.
    """
    line = bytearray()
    while not line.endswith(b"\n"):
        piece = stream.readline(_PIECE)
        if not piece:
            return None
        heard()
        line += piece
        if len(line) > longest():
            raise ValueError("a line is too long")
    return bytes(line)
