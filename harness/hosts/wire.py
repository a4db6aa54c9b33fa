"""The protocol between this machine and a host's agent over ssh: a JSON object per line.

Each side also sends empty lines: silence is the other's end.
"""

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from msgspec import to_builtins

from fairshares.harness.hosts.host_log import Event
from fairshares.harness.hosts.messages import LONGEST, Answering, Kind, Message, PartyEnd
from fairshares.harness.system.documents import MESSAGE, strict_json
from fairshares.protocols.json_values import JsonObject

VERSION = 15  # of requests and answers; rises with each change of them
BEAT_S = 2.0  # between signs of life
SILENT_BEATS = 10  # until the other side counts as gone


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


@dataclass(frozen=True)
class Received:
    """The fields of a message, and the bytes of its line."""

    fields: JsonObject
    size: int


class Answers:
    """What answers messages at a host.

    Attributes:
        known: The kinds of messages that it may be sent, by name.
    """

    known: Mapping[str, Kind] = {}

    @property
    def handlers(self) -> dict[str, Answering]:
        """The handlers of the messages that it can answer now, by name."""
        return {}

    @property
    def longest(self) -> int:
        """Most bytes of the next request."""
        return LONGEST

    @property
    def is_running(self) -> bool:
        """Whether a party runs."""
        return False

    def ended(self) -> PartyEnd | None:
        """Return the last state of a party that ran, None while it runs."""
        return None

    def admit(self, kind: Kind | None) -> None:
        """Raise PolicyError unless this coordinator may ask, HostUnfitError if not this now.

        Args:
            kind: None for a request that it does not know.
        """

    def limit_s(self, kind: Kind | None) -> float:  # noqa: ARG002
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

    def send(self, message: Mapping[str, object] | Message[object]) -> None:
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

    def messages(self, incoming: BinaryIO) -> Iterator[Received]:
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


def encode(message: Mapping[str, object] | Message[object]) -> bytes:
    """Return a message as it is sent."""
    return json.dumps(to_builtins(message)).encode() + b"\n"


def decode(line: bytes) -> Received | None:
    """Return a line's message, None for a sign of life, or raise ValueError."""
    if not line.strip():
        return None
    try:
        fields = strict_json(line, MESSAGE)
    except RecursionError:
        fields = None
    if not isinstance(fields, dict):
        raise ValueError("not an object")
    return Received(fields, len(line))


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
