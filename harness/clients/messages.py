"""Messages between clients, gateways and virtual machines: four bytes of length, little-endian, and bytes."""

import asyncio
import json
import ssl
import struct
from collections.abc import Container
from pathlib import Path
from typing import Any

PROTOCOL = "fairshares-client-2"
MAX_TERMS = 1 << 16  # bytes of the JSON that opens a conversation
ACCEPTED = b"accepted"
# In place of what is expected, whose length is a multiple of 8: by a gateway, or by a client of its masks.
LEFT_OUT, COMPLAINT = b"left out.", b"complaint"


class WrongLengthError(Exception):
    """A message is not as long as it has to be."""


def context(
    protocol: int, certificate: Path, trusted: str, least: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
) -> ssl.SSLContext:
    """Return a TLS context of one side, which trusts certificates themselves and compares no names.

    Args: protocol: of `ssl`, whether this side is the server; certificate: its own, with the key beside it;
    trusted: the certificates that the other side may show, PEM; least: the TLS version.
    """
    tls = ssl.SSLContext(protocol)
    tls.minimum_version, tls.check_hostname = least, False
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(cadata=trusted)
    tls.load_cert_chain(certificate, certificate.with_suffix(".key"))
    return tls


class Channel:
    """One connection. Attributes: received, sent: bytes of messages so far, TLS's own left out."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.received = self.sent = 0

    @property
    def peer_certificate(self) -> bytes | None:
        """The certificate that the other side showed, DER."""
        secured: ssl.SSLObject | None = self.writer.get_extra_info("ssl_object")
        return secured.getpeercert(binary_form=True) if secured else None

    async def send(self, payload: bytes) -> None:
        """Send a message. Raises: OSError: the other side left."""
        self.writer.write(struct.pack("<I", len(payload)) + payload)
        self.sent += 4 + len(payload)
        await self.writer.drain()

    async def receive(self, length: int, instead: bytes = b"") -> bytes:
        """Return a message, so long or as long as what may come instead.

        Raises: WrongLengthError; asyncio.IncompleteReadError: the other side left.
        """
        return await self._receive((length, len(instead) or length))

    async def _receive(self, lengths: Container[int]) -> bytes:
        (length,) = struct.unpack("<I", await self.reader.readexactly(4))
        if length not in lengths:
            raise WrongLengthError
        self.received += 4 + length
        return await self.reader.readexactly(length)

    async def receive_terms(self) -> dict[str, Any]:
        """Return a JSON object of at most MAX_TERMS bytes. Raises: WrongLengthError; ValueError."""
        terms = json.loads(await self._receive(range(MAX_TERMS + 1)))
        if not isinstance(terms, dict):
            raise ValueError("no object")
        return terms

    def close(self) -> None:
        """Close at once: a goodbye that the other side does not answer would keep the socket for 30 s."""
        self.writer.transport.abort()
