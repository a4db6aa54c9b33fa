"""The lines between a coordinator and a host's agent, over ssh: each is an object in JSON, or a sign of life.

`messages.py` has the objects that the coordinator sends, `frames.py` those that the agent sends.

Signs of life are empty lines. A side that hears nothing for long concludes that the other
side is gone.
"""

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from msgspec import to_builtins

from fairshares.harness.hosts.frames import HostFrame, Role
from fairshares.harness.hosts.host_log import Event
from fairshares.harness.hosts.messages import LONGEST, Answering, Kind, Message, PartyEnd
from fairshares.harness.system.documents import MESSAGE, number_as_text, strict_json
from fairshares.harness.system.threads import ContextThread, ContextTimer
from fairshares.protocols.json_values import JsonObject, JsonValue

BEAT_S = 2.0  # between two signs of life
SILENT_BEATS = 10  # after so many without a sign of life, the other side counts as gone
_PIECE_BYTES = 1 << 16  # bytes of a line that are read at once


@contextmanager
def limited(seconds: float, over: Callable[[str], object], why: str) -> Iterator[None]:
    """Call a function, in another thread, if the block takes too long.

    Args:
        seconds: The time that the block may take.
        over: The function, which gets the sentence.
        why: The sentence.
    """
    timer = ContextTimer(seconds, over, [why])
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
    """An object that answers messages at a host.

    Attributes:
        role: The role of the process whose answers they are.
        known: The kinds of messages that the other side may send, by name.
    """

    role = Role.AGENT
    known: Mapping[str, Kind] = {}

    @property
    def handlers(self) -> dict[str, Answering]:
        """The handlers of the messages that it can answer now, by name."""
        return {}

    @property
    def longest(self) -> int:
        """The most bytes of the next request."""
        return LONGEST

    @property
    def is_running(self) -> bool:
        """Whether a party runs."""
        return False

    def ended(self) -> PartyEnd | None:
        """Return the last state of a party that ran, or None while it runs."""
        return None

    def admit(self, kind: Kind | None) -> None:
        """Raise an error unless this coordinator may ask for this now.

        Args:
            kind: The kind of the request, or None for a request of an unknown name.

        Raises:
            PolicyError: This coordinator may not ask.
            HostUnfitError: The coordinator may not ask for this now.
        """

    def limit_s(self, kind: Kind | None) -> float:  # noqa: ARG002
        """Return the most seconds that an answer to a request may take before the connection ends."""
        return 3600.0

    def note(self, event: Event, request: str | None, said: str) -> None:
        """Tell this machine's owner what was refused, failed or ended, and why."""

    def ends(self, request: str | None, how: str) -> None:
        """Learn how the connection ends, before what it holds is closed. Of several calls the first counts.

        Args:
            request: The coordinator's request that ends it; None if none does.
            how: The end of a sentence about what is ended with the connection.
        """


class Endpoint(ABC):
    """One end of a connection: messages of at most `longest` bytes, and signs of life."""

    longest = LONGEST

    def __init__(self, silent: float = 0) -> None:
        """Begin with a number of beats since the other side was heard, which may be negative."""
        self._silent = silent
        self.writing = threading.Lock()
        self.over = threading.Event()

    def begin(self, incoming: BinaryIO) -> None:
        """Listen, and send signs of life, until it is over."""
        ContextThread(target=self._listen, args=[incoming], daemon=True).start()
        ContextThread(target=self._beat, daemon=True).start()

    def send(self, message: JsonObject | Message[object] | HostFrame) -> None:
        """Send a message to the other side."""
        with self.writing:
            self.write(encode(message))

    @abstractmethod
    def write(self, line: bytes) -> None:
        """Send a line while holding `writing`; raise nothing."""

    @abstractmethod
    def lose(self, why: str | None = None) -> None:
        """End the connection, for a reason if there is more to say than that it broke."""

    @abstractmethod
    def _listen(self, incoming: BinaryIO) -> None:
        """Read until the other side ends."""

    def messages(self, incoming: BinaryIO) -> Iterator[Received]:
        """Yield the other side's messages until it ends.

        Raises:
            OSError: The connection broke.
            ValueError: The other side sends something else than messages.
        """
        while True:
            line = read_line(incoming, self._hear, lambda: self.longest)
            if line is None:
                return
            message = decode(line)
            if message is not None:
                yield message

    def _hear(self) -> None:
        """Note that something came from the other side."""
        self._silent = 0

    def _beat(self) -> None:
        """Send signs of life, and end the connection after too many beats in which nothing came.

        It counts beats and not seconds, as a machine that is slow beats slowly, too.
        """
        while not self.over.wait(BEAT_S):
            self._silent += 1
            if self._silent > SILENT_BEATS:
                self.lose(f"nothing came from it for {SILENT_BEATS * BEAT_S:g} s")
            elif not self.writing.locked():
                with self.writing:
                    self.write(b"\n")


def as_sent(value: object) -> JsonValue:
    """Return a value, such as an answer, as JSON has it."""
    sent: JsonValue = to_builtins(value, enc_hook=number_as_text)
    return sent


def encode(message: JsonObject | Message[object] | HostFrame) -> bytes:
    """Return a message as it is sent."""
    return json.dumps(as_sent(message)).encode() + b"\n"


def decode(line: bytes) -> Received | None:
    """Return a line's message, or None for a sign of life. Raises ValueError for anything else."""
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
    """Return the next line, or None at the end of the stream.

    Args:
        stream: The stream from which the line comes.
        heard: A function that is called for each piece of the line.
        longest: A function that returns the most bytes of the line, and is asked after each piece.

    Raises:
        ValueError: The line is longer.
    """
    line = bytearray()
    while not line.endswith(b"\n"):
        piece = stream.readline(_PIECE_BYTES)
        if not piece:
            return None
        heard()
        line += piece
        if len(line) > longest():
            raise ValueError("a line is too long")
    return bytes(line)
