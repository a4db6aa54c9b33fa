"""Messages between clients, gateways and virtual machines: four bytes of length, little-endian, and bytes."""

import asyncio
import json
import ssl
import struct
from typing import Any

PROTOCOL = "fairshares-client-2"
MAX_TERMS = 1 << 16  # bytes of the JSON that opens a conversation
ACCEPTED = b"accepted"
# In place of what is expected, whose length is a multiple of 8: by a gateway, or by a client of its masks.
LEFT_OUT, COMPLAINT = b"left out.", b"complaint"


class WrongLengthError(Exception):
    """A message is not as long as it has to be."""


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
        (size,) = struct.unpack("<I", await self.reader.readexactly(4))
        if size not in (length, len(instead) or length):
            raise WrongLengthError
        self.received += 4 + size
        return await self.reader.readexactly(size)

    async def receive_terms(self) -> dict[str, Any]:
        """Return a JSON object of at most MAX_TERMS bytes. Raises: WrongLengthError; ValueError."""
        (length,) = struct.unpack("<I", await self.reader.readexactly(4))
        if length > MAX_TERMS:
            raise WrongLengthError
        self.received += 4 + length
        terms = json.loads(await self.reader.readexactly(length))
        if not isinstance(terms, dict):
            raise ValueError("no object")
        return terms

    def close(self) -> None:
        """Close at once: a goodbye that the other side does not answer would keep the socket for 30 s."""
        self.writer.transport.abort()
