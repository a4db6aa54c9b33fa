"""HTTPS connections of which a server decides neither how long they take nor how much it answers.

A time limit of a socket is one of silence: whoever sends a byte a second keeps within it for ever. So each
step of a request has a limit of its own as a whole, and an answer's head one of its length.
"""

import http.client
import io
import socket
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import urllib3
from urllib3.connection import HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError
from urllib3.response import HTTPResponse

from fairshares.harness.system.stores import LEAST_RATE
from fairshares.harness.system.threads import ContextTimer

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, SupportsRead

CONNECT_S = 30.0  # to reach any of a server's addresses, and for TLS
SEND_S = 30.0  # to send a request's head or body, and what LEAST_RATE allows in addition
ANSWER_S = 60.0  # to receive the head of the answer
MOST_HEAD_BYTES = 1 << 18  # of an answer's head, with all that goes before it


class _ResponseHead(io.BufferedReader):
    """What a server answers, of which no more lines are read than its head may have bytes."""

    def __init__(self, raw: io.RawIOBase) -> None:
        super().__init__(raw)
        self._left = MOST_HEAD_BYTES

    def readline(self, size: int | None = -1, /) -> bytes:
        """Return a line; raise HTTPException where the lines before it were too many."""
        line = super().readline(size)
        self._left -= len(line)
        if self._left < 0:
            raise http.client.HTTPException(f"a head of more than {MOST_HEAD_BYTES} bytes")
        return line


class _Answer(http.client.HTTPResponse):
    """An answer whose head has a greatest length.

    Python's own reader bounds one head, and takes any number of heads before the last, `100 Continue`.
    """

    def __init__(self, sock: socket.socket, debuglevel: int = 0, method: str | None = None) -> None:
        super().__init__(sock, debuglevel, method)
        self.fp = _ResponseHead(self.fp.detach())


class LimitedConnection(HTTPSConnection):
    """A connection whose steps raise TimeoutError, or ConnectTimeoutError, where one takes too long.

    A thread of its own ends the connection then, whatever this side waits for or computes.
    [test: tests/harness/uploads/test_limited_connections.py]
    """

    response_class = _Answer
    _line: socket.socket | None = None  # of the connection; ends it when shut down, in TLS or not
    _late = False  # whether the step's time is over
    _ends = 0.0  # when the time to connect is over

    def connect(self) -> None:
        """Connect, and begin TLS."""
        self._ends = time.monotonic() + CONNECT_S
        with self._within(CONNECT_S):
            super().connect()

    def send(self, data: "SupportsRead[bytes] | Iterable[ReadableBuffer] | ReadableBuffer | str") -> None:
        """Send bytes; TypeError for what does not say how many it has."""
        if not isinstance(data, Sized):
            raise TypeError("only bytes whose number is known are sent")
        if self.sock is None:
            self.connect()
        with self._within(SEND_S + len(data) / LEAST_RATE):
            super().send(data)

    def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # urllib3's answer is another, too
        """Return the answer, of which only the head was read."""
        with self._within(ANSWER_S):
            return super().getresponse()

    def close(self) -> None:
        """End the connection; the next request makes another."""
        super().close()
        if self._line is not None:
            self._line.close()
            self._line = None

    def _new_conn(self) -> socket.socket:
        """Connect to the first of the server's addresses that answers; all together have one time limit.

        Whoever answers for a name may give thousands of addresses, each of which keeps silent.
        """
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            raise NameResolutionError(self.host, self, error) from error
        except UnicodeError as error:
            raise NewConnectionError(self, f"{self.host} is no name of a server") from error
        failure: OSError | None = None
        for family, kind, protocol, _, address in found:
            left = self._ends - time.monotonic()
            if left <= 0:
                raise ConnectTimeoutError(self, f"none of {len(found)} addresses answered in time")
            sock = socket.socket(family, kind, protocol)
            try:
                for option in self.socket_options or ():
                    sock.setsockopt(*option)
                sock.settimeout(left)
                sock.connect(address)
                self._line = sock.dup()
            except OSError as error:
                failure = error
                sock.close()
                continue
            if self._late:  # the time was over before there was a connection to end
                sock.close()
                raise ConnectTimeoutError(self, "it did not answer in time")
            return sock
        if isinstance(failure, TimeoutError):
            raise ConnectTimeoutError(self, "it did not answer in time") from failure
        raise NewConnectionError(self, f"nobody answers: {failure}") from failure

    @contextmanager
    def _within(self, seconds: float) -> Iterator[None]:
        """End the connection if the block takes longer, and then raise TimeoutError."""
        self._late = False
        timer = ContextTimer(seconds, self._end)
        timer.daemon = True
        timer.start()
        try:
            yield
        except (OSError, http.client.HTTPException):
            if self._late:
                raise TimeoutError(f"it took longer than {seconds:g} s") from None
            raise
        finally:
            timer.cancel()
            timer.join()  # so that it ends no later step
        if self._late:
            raise TimeoutError(f"it took longer than {seconds:g} s")

    def _end(self) -> None:
        self._late = True
        line = self._line
        if line is not None:
            with suppress(OSError):  # the other side may have ended it first
                line.shutdown(socket.SHUT_RDWR)


def limit(pool: urllib3.PoolManager, url: str) -> None:
    """Have the connections that a pool makes for a URL from now on be limited."""
    pool.connection_from_url(url).ConnectionCls = LimitedConnection
