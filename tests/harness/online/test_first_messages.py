"""The message that opens a client's conversation with a gateway: as in version 1.0, and read strictly."""

import json
from typing import Any

import pytest

from fairshares.harness.online.messages import PROTOCOL, Announced, FirstMessage, OtherProtocolError

ANNOUNCED = Announced(protocol=PROTOCOL, client=1, values=6, parts=2, sums=43)
FIELDS: dict[str, Any] = {"client": 1, "parts": 2, "protocol": PROTOCOL, "sums": 43, "values": 6}


def test_it_is_one_object_with_the_fields_of_version_1_0() -> None:
    message = FirstMessage(ANNOUNCED, {"epsilon": "1", "request": {"task": "weights"}})
    assert message.to_bytes() == (
        b'{"client": 1, "epsilon": "1", "parts": 2, "protocol": "fairshares-client-3", '
        b'"request": {"task": "weights"}, "sums": 43, "values": 6}'
    )
    assert FirstMessage.read(message.to_bytes()) == message


def test_terms_do_not_stand_in_for_what_the_gateway_says() -> None:
    message = FirstMessage(ANNOUNCED, {"client": 0, "epsilon": "1"})
    assert FirstMessage.read(message.to_bytes()) == FirstMessage(ANNOUNCED, {"epsilon": "1"})


@pytest.mark.parametrize("protocol", [None, True, "fairshares-client-2"])
def test_another_version_is_told_from_what_cannot_be(protocol: object) -> None:
    for fields in ({}, {"protocol": protocol}, {**FIELDS, "protocol": protocol}):
        with pytest.raises(OtherProtocolError):
            FirstMessage.read(json.dumps(fields).encode())


@pytest.mark.parametrize("name", sorted(FIELDS.keys() - {"protocol"}))
@pytest.mark.parametrize("value", [None, True, -1, 1.5, [], 1 << 63])
def test_what_cannot_be_is_no_first_message(name: str, value: object) -> None:
    with pytest.raises(ValueError, match="no message that opens"):
        FirstMessage.read(json.dumps({**FIELDS, name: value}).encode())
    lacking = {field: FIELDS[field] for field in FIELDS if field != name}
    with pytest.raises(ValueError, match="no message that opens"):
        FirstMessage.read(json.dumps(lacking).encode())


@pytest.mark.parametrize("text", [b"", b"[]", b"1", b"{", b'{"client": 1, "client": 2}', b"[" * 1000])
def test_what_is_no_object_is_no_first_message(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        FirstMessage.read(text)
