"""Measures links between hosts, on the ports where parties will listen."""

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from statistics import median
from typing import BinaryIO

PATIENCE_S = 5.0
_TRANSFER_S = 60.0  # longest exchange, on a slow and long link
_SIZES = struct.Struct(">II")  # bytes that follow, and bytes wanted back
_ROUND_TRIPS = 15
_LEAST, _MOST = 1 << 16, 1 << 26  # bytes sent at once
_PROBE_S, _LONG_S = (
    0.2,
    1.0,
)  # least time of sending, which grows with the round trip until TCP is at full speed


def greet(reached: socket.socket, greeting: str) -> None:
    """Greet whoever connects; then receive and send as many bytes as they say.

    Guarantees: little memory for each, as anybody may connect, and often.
    [test: tests/harness/hosts/test_connection.py]
    """
    reached.settimeout(PATIENCE_S)
    with suppress(OSError), reached.makefile("rb") as incoming:
        reached.sendall(greeting.encode())
        reached.settimeout(_TRANSFER_S)
        while len(sizes := incoming.read(_SIZES.size)) == _SIZES.size:
            follow, wanted = _SIZES.unpack(sizes)
            for piece in _pieces(follow):
                incoming.read(piece)
            for piece in _pieces(wanted):
                reached.sendall(bytes(piece))


def _pieces(size: int) -> Iterator[int]:
    for begin in range(0, min(size, _MOST), _LEAST):
        yield min(_LEAST, min(size, _MOST) - begin)


def reach(address: str, port: int, greeting: str) -> str | None:
    """Connect; return the fault, None if the greeting comes back."""
    try:
        with socket.create_connection((address, port), PATIENCE_S) as reached:
            answer = reached.makefile("rb").read(len(greeting))
    except OSError as error:
        return error.strerror or str(error)
    return None if answer == greeting.encode() else "something else answers there"


def time_link(address: str, port: int, greeting: str) -> tuple[float, float] | None:
    """Return the median round-trip time in seconds, and bits per second of the slower direction.

    None if nobody answers as `greet` does.  [test: tests/harness/hosts/test_connection.py]
    """
    with suppress(OSError), socket.create_connection((address, port), PATIENCE_S) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with link.makefile("rb") as incoming:
            if incoming.read(len(greeting)) == greeting.encode():
                link.settimeout(_TRANSFER_S)
                rtt_s = median(_exchange(link, incoming, 0, 1) for _ in range(_ROUND_TRIPS))
                return rtt_s, min(_rate(link, incoming, rtt_s, outgoing) for outgoing in (True, False))
    return None


def _rate(link: socket.socket, incoming: BinaryIO, rtt_s: float, outgoing: bool) -> float:
    size, took = _LEAST // 4, 0.0
    while size < _MOST and took < max(_PROBE_S, min(20 * rtt_s, _LONG_S)):
        size *= 4
        took = _exchange(link, incoming, *((size, 1) if outgoing else (0, size)))
    return 8 * size / max(took - rtt_s, 1e-9)


def _exchange(link: socket.socket, incoming: BinaryIO, sent: int, wanted: int) -> float:
    started = time.perf_counter()
    link.sendall(_SIZES.pack(sent, wanted) + bytes(sent))
    if len(incoming.read(wanted)) < wanted:
        raise ConnectionResetError
    return time.perf_counter() - started
