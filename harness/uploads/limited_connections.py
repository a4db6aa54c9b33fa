"""HTTPS connections that put files on a server, many of them in one thread.

A server decides neither how long they take nor how much it answers. A time limit of silence would not do, as
whoever sends a byte a second keeps within it for ever. So each step of a request has a limit as a whole, and
an answer's head has a greatest length. Of an answer only the head is read, as its body could have no end.
"""

import errno
import re
import socket
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector
from urllib.parse import urlsplit

from fairshares.harness.system.stores import LEAST_RATE

CONNECT_S = 30.0  # the time to reach any of a server's addresses, and for TLS
SEND_S = 30.0  # the time to send a request, and what LEAST_RATE allows in addition
ANSWER_S = 30.0  # the time to receive the head of the answer
MOST_HEAD_BYTES = 1 << 18  # bytes of an answer's head, with all that goes before it
LATE = "it did not answer in time"
BROKE = "the connection broke"
NOBODY = "nobody answers"
_AT_ONCE = 1 << 16  # bytes that are received
_RECORD_BYTES = 1 << 14  # bytes sent at once: one record of TLS, of which is known whether it went
_HTTPS_PORT = 443
_END_OF_HEAD = b"\r\n\r\n"
_STATUS = re.compile(rb"HTTP/1\.([01]) (\d{3})[ \r]")
_NO_BODY = re.compile(rb"\r\ncontent-length:[ \t]*0+[ \t]*\r\n", re.IGNORECASE)
_CLOSES = re.compile(rb"\r\nconnection:[ \t]*close", re.IGNORECASE)
_NOT_IN_HOSTS = {*' \t\r\n%<>"\\^`{|}'}
_VISIBLE = re.compile(r"[!-~]+")  # the characters of a URL that a request's first line may have

SocketAddress = tuple[int, int, int, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]
"""A family, a kind, a protocol, and an address, as `getaddrinfo` has them."""


class Broken(Enum):
    """The end of a request without a status."""

    UNTRUSTED = auto()  # the server's certificate is not trusted here
    UNREACHED = auto()  # nothing of the request was sent
    UNANSWERED = auto()  # the server may have taken the file


@dataclass(frozen=True)
class PutEnd:
    """The end of a request.

    Attributes:
        status: The status of the answer, or how the request ended without an answer.
        words: How the request ended, in words.
        is_late: Whether the server kept the request waiting until its time was over.
        was_dropped: Whether the connection had taken an earlier request, and ended before a byte of an
            answer. Servers end connections that were idle, or that took many requests.
    """

    status: int | Broken
    words: str
    is_late: bool = False
    was_dropped: bool = False


@dataclass(frozen=True)
class ServerAddress:
    """The address of a server, by a URL.

    Attributes:
        host: The server's name or address.
        port: The server's port.
    """

    host: str
    port: int

    @classmethod
    def from_url(cls, url: str) -> "ServerAddress":
        """Return the site of an https URL. Raises ValueError if it names no host, or a port that is none."""
        parts = urlsplit(url)
        if not parts.hostname or set(parts.hostname) & _NOT_IN_HOSTS:
            raise ValueError("it names no host")
        parts.hostname.encode("idna")  # a UnicodeError is a ValueError
        return cls(parts.hostname, parts.port or _HTTPS_PORT)

    @property
    def named(self) -> str:
        """The host, and the port unless it is the usual one, as requests and messages name it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _HTTPS_PORT else f"{host}:{self.port}"

    def addresses(self) -> list[SocketAddress]:
        """Look the addresses up. Raises OSError if there are none."""
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        return [(family, kind, protocol, address) for family, kind, protocol, _, address in found]


@dataclass(frozen=True)
class Destination:
    """The place of files on a server, by a URL.

    Attributes:
        site: The server.
        target: The path and query of the server's URLs, without a file's name.
    """

    site: ServerAddress
    target: bytes

    @classmethod
    def from_url(cls, url: str) -> "Destination":
        """Return the address in an https URL.

        Raises ValueError if it has characters that a request cannot have, or as `ServerAddress.from_url`.
        """
        parts = urlsplit(url)
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        if not _VISIBLE.fullmatch(target):
            raise ValueError("it has characters that a request cannot have")
        return cls(ServerAddress.from_url(url), target.encode())

    def request_to_put(self, name: bytes, body: bytes) -> bytes:
        """Return a request that puts a file there, unless something is there.

        Args:
            name: Goes after the URL; of visible ASCII characters.
            body: The file.
        """
        host = self.site.named
        return b"".join(
            [
                b"PUT %b%b HTTP/1.1\r\n" % (self.target, name),
                b"Host: %b\r\n" % host.encode("ascii" if host.isascii() else "idna"),
                b"Content-Type: application/octet-stream\r\n",
                b"If-None-Match: *\r\n",
                b"Content-Length: %d\r\n\r\n" % len(body),
                body,
            ]
        )


class Owner(ABC):
    """The owner of a connection."""

    @abstractmethod
    def ready(self, connection: "Connection") -> None:
        """Go on with a connection whose socket is ready."""


class _Step(Enum):
    """The step that a connection is in."""

    NEW = auto()
    CONNECTING = auto()
    SECURING = auto()
    SENDING = auto()
    ANSWERING = auto()
    IDLE = auto()
    CLOSED = auto()


class Connection:
    """One connection to a server, which takes one request after another and never waits.

    `put` begins a request. `go_on` is called when the selector has the socket as ready, and `check_time` now
    and then; each returns how the request ended, None before it did.
    [test: tests/harness/uploads/test_limited_connections.py]

    Attributes:
        owner: The object that is told that the socket is ready.
        has_sent: Whether a byte of the request may have reached the server.
        moved: The time at which bytes last went to the server, by the monotonic clock.
    """

    def __init__(
        self,
        owner: Owner,
        site: ServerAddress,
        addresses: Sequence[SocketAddress],
        context: ssl.SSLContext,
        selector: BaseSelector,
    ) -> None:
        """Make a connection that connects at the first request.

        Args:
            owner: The object that is told that the socket is ready.
            site: The server.
            addresses: The server's addresses. All of them have one time limit, as whoever answers for a name
                may give thousands, each of which keeps silent.
            context: The context of TLS.
            selector: The selector that has this connection as the data of its socket.
        """
        self.owner = owner
        self.has_sent = False
        self.moved = 0.0
        self._site = site
        self._context = context
        self._selector = selector
        self._step = _Step.NEW
        self._addresses = list(addresses)  # those not tried yet
        self._line: socket.socket | None = None
        self._tls: ssl.SSLSocket | None = None
        self._watched = 0  # the events that the selector waits for
        self._request = memoryview(b"")  # the bytes that are left to send
        self._length = 0  # the length of the request
        self._received = b""
        self._head_bytes = 0
        self._requests = 0
        self._deadline = 0.0
        self._address_deadline = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether it can take another request without connecting again."""
        return self._step is _Step.IDLE

    def put(self, request: bytes) -> PutEnd | None:
        """Begin a request, where there is none under way."""
        now = time.monotonic()
        self._request = memoryview(request)
        self._length = len(request)
        self.has_sent = False
        self._received = b""
        self._head_bytes = 0
        self._requests += 1
        if self._step is _Step.IDLE:
            self._begin_to_send(now)
        else:
            self._deadline = now + CONNECT_S
            try:
                self._try_next_address(now)
            except OSError:
                return self._broken(NOBODY)
        return self.go_on()

    def go_on(self) -> PutEnd | None:
        """Do what can be done without waiting."""
        now = time.monotonic()
        try:
            return self._next_steps(now)
        except ssl.SSLWantReadError:
            self._watch(EVENT_READ)
        except ssl.SSLWantWriteError:
            self._watch(EVENT_READ | EVENT_WRITE)
        except ssl.SSLCertVerificationError as error:
            self.close()
            return PutEnd(Broken.UNTRUSTED, f"its certificate is not trusted here: {error.verify_message}")
        except OSError:
            return self._broken(NOBODY if self._step is _Step.CONNECTING else BROKE)
        return None

    def _next_steps(self, now: float) -> PutEnd | None:
        """Take one step after another, until one of them ends the request or would have to wait."""
        if self._step is _Step.CONNECTING:
            self._connect(now)
        if self._step is _Step.SECURING:
            self._secure(now)
        if self._step is _Step.SENDING:
            answer = self._send(now)
            if answer is not None:
                return answer
        if self._step is _Step.ANSWERING:
            return self._receive()
        if self._step is _Step.IDLE:
            self._stay_idle()
        return None

    def check_time(self, now: float) -> PutEnd | None:
        """End a request whose step takes too long."""
        if self._step in (_Step.NEW, _Step.IDLE, _Step.CLOSED):
            return None
        if now >= self._deadline:
            is_reached = self._step is not _Step.CONNECTING
            return self._broken(LATE if is_reached else NOBODY, is_late=is_reached)
        if self._step is _Step.CONNECTING and now >= self._address_deadline and self._addresses:
            try:
                self._try_next_address(now)
            except OSError:
                return self._broken(NOBODY)
        return None

    def close(self) -> None:
        """End the connection."""
        self._step = _Step.CLOSED
        self._leave()

    def _leave(self) -> None:
        """Close the socket, if any, and wait for it no longer."""
        line = self._tls or self._line
        if line is not None:
            if self._watched:
                self._selector.unregister(line)
            with suppress(OSError):
                line.close()
        self._watched = 0
        self._line = None
        self._tls = None

    def _watch(self, events: int) -> None:
        """Have the selector wait for the socket."""
        line = self._tls or self._line
        assert line is not None
        if not self._watched:
            self._selector.register(line, events, self)
        elif self._watched != events:
            self._selector.modify(line, events, self)
        self._watched = events

    def _try_next_address(self, now: float) -> None:
        """Begin to connect to the next address that can be begun with. Raises OSError if none is left."""
        self._leave()
        failure = OSError(errno.EHOSTUNREACH, "no address is left")
        while self._addresses:
            left = len(self._addresses)
            family, kind, protocol, address = self._addresses.pop(0)
            try:
                line = socket.socket(family, kind, protocol)
            except OSError as error:
                failure = error
                continue
            self._line = line
            line.setblocking(False)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            code = line.connect_ex(address)
            if code in (0, errno.EINPROGRESS):
                self._step = _Step.CONNECTING
                self._address_deadline = now + (self._deadline - now) / left
                self._watch(EVENT_READ | EVENT_WRITE)
                return
            failure = OSError(code, "it cannot be reached")
            self._leave()
        self._step = _Step.CONNECTING
        raise failure

    def _connect(self, now: float) -> None:
        """Begin TLS if the line is there; turn to the next address if this one refuses."""
        assert self._line is not None
        if self._line.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._try_next_address(now)
            return
        try:
            self._line.getpeername()
        except OSError:  # not yet
            return
        self._selector.unregister(self._line)
        self._watched = 0
        line = self._line
        self._line = None
        self._tls = self._context.wrap_socket(
            line, server_hostname=self._site.host, do_handshake_on_connect=False
        )
        self._step = _Step.SECURING

    def _secure(self, now: float) -> None:
        """Go on with the TLS handshake."""
        assert self._tls is not None
        self._tls.do_handshake()
        self._begin_to_send(now)

    def _begin_to_send(self, now: float) -> None:
        self._step = _Step.SENDING
        self._deadline = now + SEND_S + self._length / LEAST_RATE

    def _send(self, now: float) -> PutEnd | None:
        """Send what the line takes; return an answer that comes before all was sent."""
        assert self._tls is not None
        while self._request:
            self.has_sent = True
            try:
                sent = self._tls.send(self._request[:_RECORD_BYTES])
            except ssl.SSLWantWriteError:
                with suppress(ssl.SSLWantReadError):
                    return self._receive()
                raise
            self.moved = now
            self._request = self._request[sent:]
        self._step = _Step.ANSWERING
        self._deadline = now + ANSWER_S
        self._watch(EVENT_READ)
        return None

    def _receive(self) -> PutEnd:
        """Return the answer. Raises SSLWantReadError if more of it has to come, or OSError if it is none."""
        assert self._tls is not None
        start = 0  # the start of the next head, in what was received
        while True:
            end = self._received.find(_END_OF_HEAD, start)
            seen = end if end >= 0 else len(self._received)
            if self._head_bytes + seen > MOST_HEAD_BYTES:
                raise ConnectionError(f"a head of more than {MOST_HEAD_BYTES} bytes")
            if end < 0:
                self._received = self._received[start:]
                self._head_bytes += start
                start = 0
                received = self._tls.recv(_AT_ONCE)
                if not received:
                    raise ConnectionError("it ended the connection")
                self._received += received
                continue
            head = self._received[start : end + 2]
            start = end + len(_END_OF_HEAD)
            line = _STATUS.match(head)
            if line is None:
                raise ConnectionError("it does not answer by HTTP/1")
            status = int(line[2])
            if status < 200 and status != 101:  # a head before the head
                continue
            is_all = status == 204 or _NO_BODY.search(head) is not None
            goes_on = line[1] == b"1" and _CLOSES.search(head) is None
            if is_all and goes_on and start == len(self._received) and not self._request:
                self._step = _Step.IDLE
                self._watch(EVENT_READ)
            else:
                self.close()
            return PutEnd(status, f"HTTP {status}")

    def _stay_idle(self) -> None:
        """End the connection if the server did, or if it says something that nobody asked for."""
        assert self._tls is not None
        self._tls.recv(_AT_ONCE)  # raises SSLWantReadError where TLS alone had something to say
        self.close()

    def _broken(self, words: str, *, is_late: bool = False) -> PutEnd:
        """End a request that has no answer."""
        was_dropped = (
            self._requests > 1
            and not is_late
            and not self._received
            and self._step in (_Step.SENDING, _Step.ANSWERING)
        )
        self.close()
        status = Broken.UNANSWERED if self.has_sent else Broken.UNREACHED
        return PutEnd(status, words, is_late, was_dropped)
