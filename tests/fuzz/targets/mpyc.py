"""What a peer of the embedded engine sends after TLS: its number and keys, then messages of any steps."""

import struct
from typing import Any

from fairshares.harness.engines.mpyc.connection import PeerConnection, Peers, not_elements
from fairshares.harness.engines.mpyc.elements import ELEMENT_BYTES, decode, encode
from fairshares.harness.errors import PeerMessageError
from fairshares.harness.inputs.rings import FIELD
from tests.fuzz.mutate import Target
from tests.support.mpyc_peers import Loop, Runtime, Transport

_KEYS = bytes(range(16))  # that party 0 shares with party 2
_ASKED = {11: 3, 12: 1, -13: 40, 14: 0}  # elements that the program waits for, by step
_LATER = {21: 2, 22: 5}  # and asks for when all bytes are there


def _message(step: int, content: bytes) -> bytes:
    return struct.pack("<qI", step, len(content)) + content


def _elements(count: int) -> bytes:
    values = [0, 1, FIELD.modulus - 1, *range(count)][:count]
    return b"".join(value.to_bytes(ELEMENT_BYTES, "little") for value in values)


def _read(data: bytes) -> None:
    """Feed a connection in two parts, then read as field elements what came."""
    loop = Loop()
    peers = Peers(loop, {0: b"certificate of party 0", 1: b"certificate of party 1"})  # type: ignore[arg-type]
    runtime: Any = Runtime(2, loop)
    connection = PeerConnection(runtime, peers)
    connection.connection_made(Transport(b"certificate of party 0"))
    waited = {step: connection.receive(step, count * ELEMENT_BYTES) for step, count in _ASKED.items()}
    middle = len(data) // 2
    connection.data_received(data[:middle])
    connection.data_received(data[middle:])
    if peers.failure is not None:
        raise peers.failure
    for step, count in _LATER.items():
        waited[step] = connection.receive(step, count * ELEMENT_BYTES)
    for step, count in (_ASKED | _LATER).items():
        message: Any = waited[step]
        if not isinstance(message, bytes):
            if not message.done():
                continue
            message = message.result()
        try:
            elements = decode(message, count)
        except ValueError as error:
            raise not_elements(0, error) from None
        assert encode(elements) == message
        assert all(type(element) is int and 0 <= element < FIELD.modulus for element in elements)


_WHOLE = (
    b"\0\0" + _KEYS + b"".join(_message(step, _elements(count)) for step, count in (_ASKED | _LATER).items())
)

TARGETS = [
    Target(
        "mpyc-wire",
        _read,
        [
            _WHOLE,
            b"\0\0" + _KEYS,
            b"\0\0" + _KEYS + _message(99, b"unasked") + _message(12, _elements(1)),
            b"\0\0" + _KEYS + _message(12, b"\xff" * 16),
        ],
        (PeerMessageError,),
    )
]
