"""Messages: four bytes of length, little-endian, and bytes.

Before TLS a client sends its gateway a *knock*, by which the gateway tells it from strangers at no cost.
"""

import asyncio
import hashlib
import ssl
import struct
from collections.abc import Callable, Container
from contextlib import suppress
from pathlib import Path

from fairshares.harness.system.documents import SMALL, strict_json
from fairshares.protocols.json_values import JsonObject

PROTOCOL = "fairshares-client-3"
MAX_TERMS = 1 << 16  # bytes of the JSON that opens a conversation
ACCEPTED = b"accepted"
# From a gateway, or from a client about its masks, in place of a message whose length is a multiple of 8.
LEFT_OUT, COMPLAINT = b"left out.", b"complaint"


KNOCK_BYTES = 32
PAUSE_S = 0.02  # between attempts to connect


def knock(gateway: str, client: str) -> bytes:
    """Return what a client sends a gateway before TLS, by the certificates (PEM) of both.

    Nobody else knows it, unless he reads along: a client's certificate is for one run, and TLS encrypts it.
    It proves nothing, and only has the client's connection taken before those of strangers. It differs by
    gateway, so it does not tell which connections are of one client.
    """
    certificates = b"".join(ssl.PEM_cert_to_DER_cert(pem) for pem in (gateway, client))
    return hashlib.sha256(b"fairshares:client:3:knock\n" + certificates).digest()


class WrongLengthError(Exception):
    """A message has another length than expected."""


def context(
    protocol: int, certificate: Path, trusted: str, least: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
) -> ssl.SSLContext:
    """Return a TLS context of one side, which trusts certificates themselves and compares no names.

    The key is beside this side's `certificate`, and `trusted` (PEM) are those of the other side.
    """
    tls = ssl.SSLContext(protocol)
    tls.minimum_version, tls.check_hostname = least, False
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(cadata=trusted)
    tls.load_cert_chain(certificate, certificate.with_suffix(".key"))
    return tls


async def connected(
    host: str,
    port: int,
    is_awaited: Callable[[], bool],
    *,
    tls: ssl.SSLContext | None = None,
    knocks: bytes = b"",
    handshake_s: float | None = None,
) -> "Channel":
    """Connect; try again while the other side refuses or resets, as one that is busy does, and is awaited.

    Args:
        host: The other side's address.
        port: Its port.
        is_awaited: Whether to try again.
        tls: A context for TLS, if the connection is to be secured.
        knocks: What is sent before TLS.
        handshake_s: Seconds that TLS may take to begin.
    """
    while True:
        try:
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(knocks)
                if tls is not None:
                    await writer.start_tls(tls, ssl_handshake_timeout=handshake_s)
            except BaseException:
                writer.transport.abort()
                raise
            return Channel(reader, writer)
        except (ConnectionRefusedError, ConnectionResetError, BrokenPipeError):
            if not is_awaited():
                raise
            await asyncio.sleep(PAUSE_S)


class Channel:
    """One connection, which counts bytes of messages, without TLS's own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.received = self.sent = 0

    @property
    def peer_certificate(self) -> bytes | None:
        """The other side's certificate, DER."""
        secured: ssl.SSLObject | None = self.writer.get_extra_info("ssl_object")
        return secured.getpeercert(binary_form=True) if secured else None

    async def send(self, payload: bytes) -> None:
        """Send a message; OSError if the other side left."""
        self.writer.write(struct.pack("<I", len(payload)) + payload)
        self.sent += 4 + len(payload)
        await self.writer.drain()

    async def receive(self, length: int, instead: bytes = b"") -> bytes:
        """Return a message of this length, or of that of `instead`.

        Raises WrongLengthError, or asyncio.IncompleteReadError if the other side left.
        """
        return await self._receive((length, len(instead) or length))

    async def _receive(self, lengths: Container[int]) -> bytes:
        (length,) = struct.unpack("<I", await self.reader.readexactly(4))
        if length not in lengths:
            raise WrongLengthError
        self.received += 4 + length
        return await self.reader.readexactly(length)

    async def receive_terms(self) -> JsonObject:
        """Return a JSON object; WrongLengthError or ValueError without one."""
        try:
            terms = strict_json(await self._receive(range(MAX_TERMS + 1)), SMALL)
        except RecursionError:
            raise ValueError("too many values within values") from None
        if not isinstance(terms, dict):
            raise ValueError("no object")
        return terms

    def close(self) -> None:
        """Begin to close at once: waiting for a goodbye would keep the socket for 30 s."""
        self.writer.transport.abort()

    async def wait_closed(self) -> None:
        """Wait until the socket is closed, which takes a turn of the event loop after `close`."""
        with suppress(OSError):
            await self.writer.wait_closed()
