"""Messages between a client and a gateway: four bytes for the length, little-endian, and so many bytes.

Before TLS a client sends its gateway a *knock*, by which the gateway tells it from strangers at no cost.
"""

import asyncio
import hashlib
import json
import ssl
import struct
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

import msgspec
from msgspec import Struct

from fairshares.harness.bounds import Size
from fairshares.harness.system.documents import SMALL, as_json, strict_json
from fairshares.protocols.json_values import JsonObject

PROTOCOL = "fairshares-client-3"
MAX_TERMS = 1 << 16  # bytes of the JSON that opens a conversation
ACCEPTED = b"accepted"
# A gateway, or a client about its masks, sends it in place of a message whose length is a multiple of 8.
LEFT_OUT = b"left out."
COMPLAINT = b"complaint"
_LENGTH = struct.Struct("<I")  # the length of a message


KNOCK_BYTES = 32
PAUSE_S = 0.02  # between attempts to connect


def knock(gateway: str, client: str) -> bytes:
    """Return the bytes that a client sends a gateway before TLS, from the certificates (PEM) of both.

    Only somebody who reads along can know them: a client's certificate is for one run, and TLS encrypts it.
    They prove nothing. They only have the client's connection taken before strangers' connections. They
    differ between gateways, so they do not tell which connections are of one client.
    """
    certificates = b"".join(ssl.PEM_cert_to_DER_cert(pem) for pem in (gateway, client))
    return hashlib.sha256(b"fairshares:client:3:knock\n" + certificates).digest()


class Announced(Struct, frozen=True, kw_only=True):
    """A gateway's facts about one client, beside the terms of the run, as a conversation begins.

    Attributes:
        protocol: The version of the conversation, `PROTOCOL`.
        client: The client's number.
        values: The number of its values.
        parts: The number of equally long parts of these.
        sums: The number of sums of masks for each part.
    """

    protocol: str
    client: Size
    values: Size
    parts: Size
    sums: Size


class FirstMessage(NamedTuple):
    """The message that opens a conversation.

    On the wire it is one object in JSON, with the fields of both.

    Attributes:
        announced: The facts that concern one client.
        terms: The terms of the run, which the client compares with what it was told.
    """

    announced: Announced
    terms: JsonObject

    def to_bytes(self) -> bytes:
        """Return the message."""
        return json.dumps({**self.terms, **as_json(self.announced)}, sort_keys=True).encode()

    @classmethod
    def read(cls, message: bytes) -> Self:
        """Return the message that a gateway has sent.

        Raises:
            OtherProtocolError: The gateway speaks another version, whose further fields may be others.
            ValueError: The bytes are no such message.
        """
        wrong = ValueError("no message that opens a conversation")
        try:
            fields = strict_json(message, SMALL)
        except RecursionError:
            raise wrong from None
        if not isinstance(fields, dict):
            raise wrong
        if fields.get("protocol") != PROTOCOL:
            raise OtherProtocolError
        try:
            announced = msgspec.convert(fields, Announced)
        except msgspec.ValidationError:
            raise wrong from None
        own = Announced.__struct_fields__
        return cls(announced, {name: value for name, value in fields.items() if name not in own})


class OtherProtocolError(Exception):
    """The other side speaks another version of the conversation."""


class WrongLengthError(Exception):
    """A message has another length than expected."""


def context(
    protocol: int, certificate: Path, trusted: str, least: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
) -> ssl.SSLContext:
    """Return a TLS context of one side, which trusts certificates themselves and compares no names.

    Args:
        protocol: Whether this side is the client or the server, as `ssl` names it.
        certificate: The file of this side's certificate, with the key beside it.
        trusted: The certificates (PEM) that the other side may have.
        least: The least version of TLS.
    """
    tls = ssl.SSLContext(protocol)
    tls.minimum_version = least
    tls.check_hostname = False
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
    """Connect to a port, again and again while the other side refuses or resets and is still awaited.

    A side that is busy refuses or resets, too.

    Args:
        host: The other side's address.
        port: The other side's port.
        is_awaited: Whether to try again.
        tls: A context for TLS, if the connection is to be secured.
        knocks: The bytes that are sent before TLS.
        handshake_s: The seconds that TLS may take to begin.
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
    """One connection between a client and a gateway, or a gateway and its virtual machine.

    Attributes:
        reader: The stream from which messages come.
        writer: The stream into which messages go.
        received: The bytes of the messages that came, with their lengths and without what TLS adds.
        sent: The bytes of the messages that went, with their lengths and without what TLS adds.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.received = 0
        self.sent = 0

    @property
    def peer_certificate(self) -> bytes | None:
        """The other side's certificate (DER), or None without TLS."""
        secured: ssl.SSLObject | None = self.writer.get_extra_info("ssl_object")
        return secured.getpeercert(binary_form=True) if secured else None

    async def send(self, payload: bytes) -> None:
        """Send a message. Raises OSError if the other side left."""
        self.writer.write(_LENGTH.pack(len(payload)) + payload)
        self.sent += _LENGTH.size + len(payload)
        await self.writer.drain()

    async def receive(self, length: int, instead: bytes | None = None) -> bytes:
        """Return a message of this length, or of the length of a message that may come instead.

        Args:
            length: The length of the message.
            instead: The other message, if there may be one.

        Raises:
            WrongLengthError: The message has another length.
            asyncio.IncompleteReadError: The other side left.
        """
        lengths = [length]
        if instead is not None:
            lengths.append(len(instead))
        return await self._receive(lengths)

    async def _receive(self, lengths: Container[int]) -> bytes:
        """Return a message of one of these lengths, as `receive`."""
        (length,) = _LENGTH.unpack(await self.reader.readexactly(_LENGTH.size))
        if length not in lengths:
            raise WrongLengthError
        self.received += _LENGTH.size + length
        return await self.reader.readexactly(length)

    async def receive_first(self) -> FirstMessage:
        """Return the message that opens a conversation.

        Raises:
            WrongLengthError: The message is too long.
            OtherProtocolError, ValueError: As `FirstMessage.read`.
        """
        return FirstMessage.read(await self._receive(range(MAX_TERMS + 1)))

    def close(self) -> None:
        """Begin to close the connection without a goodbye of TLS, which could keep the socket for 30 s."""
        self.writer.transport.abort()

    async def wait_closed(self) -> None:
        """Wait until the socket is closed, which takes a turn of the event loop after `close`."""
        with suppress(OSError):
            await self.writer.wait_closed()


async def close_all(channels: Sequence[Channel]) -> None:
    """End connections, and wait until all their sockets are closed, whatever each says of its end."""
    for channel in channels:
        channel.close()
    await asyncio.gather(*(channel.wait_closed() for channel in channels))
