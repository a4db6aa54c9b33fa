"""What this machine and a host's agent say to each other over ssh: a JSON object per line.

Each side also sends an empty line from time to time, and takes silence for the end of the other: a host
that vanishes, or a network that does, closes no connection.
"""

from __future__ import annotations

import json
from typing import Any, BinaryIO

from harness.system.documents import strict_json

VERSION = 6  # of requests and answers: rises whenever one of them changes
BEAT_S = 2.0  # between signs of life
SILENCE_S = 20.0  # after which the other side counts as gone
LONGEST = 1 << 27  # bytes of a line: the identities of a million uploads fit


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


def read_line(stream: BinaryIO) -> bytes | None:
    """Return the next line; None at the end. Raises: ValueError: it is too long."""
    line = stream.readline(LONGEST)
    if not line:
        return None
    if not line.endswith(b"\n"):
        if len(line) == LONGEST:
            raise ValueError("a line is too long")
        return None  # cut off
    return line
