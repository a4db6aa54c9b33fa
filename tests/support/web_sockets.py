"""WebSockets (RFC 6455) as far as tests drive browsers by them: one conversation of texts in JSON."""

import base64
import json
import os
import socket
import struct
from typing import Any
from urllib.parse import urlsplit

_TEXT = 1
_CONTINUED = 0
_CLOSE = 8
_PING = 9


class WebSocket:
    """A connection to a server on loopback, without TLS."""

    def __init__(self, address: str, timeout_s: float) -> None:
        parts = urlsplit(address)
        assert parts.hostname is not None and parts.port is not None
        self._socket = socket.create_connection((parts.hostname, parts.port), timeout=timeout_s)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            f"GET {parts.path} HTTP/1.1",
            f"Host: {parts.netloc}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Version: 13",
        ]
        self._socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        self._received = b""
        while b"\r\n\r\n" not in self._received:
            self._receive()
        head, _, self._received = self._received.partition(b"\r\n\r\n")
        assert b" 101 " in head.splitlines()[0], head

    def close(self) -> None:
        self._socket.close()

    def send(self, value: object) -> None:
        """Send a value as JSON."""
        self._send(_TEXT, json.dumps(value).encode())

    def next(self) -> Any:
        """Return the next value; raise TimeoutError if none comes, ConnectionError at the end."""
        text = b""
        while True:
            is_last, kind, content = self._frame()
            if kind == _PING:
                self._send(10, content)
            elif kind == _CLOSE:
                raise ConnectionError("the browser closed the conversation")
            elif kind in (_TEXT, _CONTINUED):
                text += content
                if is_last:
                    return json.loads(text)

    def _send(self, kind: int, content: bytes) -> None:
        mask = os.urandom(4)
        size = len(content)
        if size < 126:
            head = struct.pack("!BB", 128 | kind, 128 | size)
        elif size < 1 << 16:
            head = struct.pack("!BBH", 128 | kind, 128 | 126, size)
        else:
            head = struct.pack("!BBQ", 128 | kind, 128 | 127, size)
        repeated = (mask * (size // 4 + 1))[:size]
        masked = (int.from_bytes(content) ^ int.from_bytes(repeated)).to_bytes(size)
        self._socket.sendall(head + mask + masked)

    def _frame(self) -> tuple[bool, int, bytes]:
        first, second = self._bytes(2)
        size = second & 127
        if size == 126:
            (size,) = struct.unpack("!H", self._bytes(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", self._bytes(8))
        return bool(first & 128), first & 15, self._bytes(size)

    def _bytes(self, number: int) -> bytes:
        while len(self._received) < number:
            self._receive()
        taken, self._received = self._received[:number], self._received[number:]
        return taken

    def _receive(self) -> None:
        more = self._socket.recv(1 << 20)
        if not more:
            raise ConnectionError("the browser ended")
        self._received += more
