"""What this machine and a host's agent say to each other over ssh: a JSON object per line.

Each side also sends an empty line from time to time, and takes silence for the end of the other: a host
that vanishes, or a network that does, closes no connection.
"""

import json
from collections.abc import Callable
from typing import Any, BinaryIO

from harness.system.documents import strict_json

VERSION = 10  # of requests and answers: rises whenever one of them changes
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
