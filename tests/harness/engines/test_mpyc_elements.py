"""Field elements as bytes: each vector has one encoding, and nothing else is read."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import binary, integers, lists

from fairshares.harness.engines.mpyc.elements import ELEMENT_BYTES, decode, encode
from fairshares.harness.inputs.rings import FIELD

P = FIELD.modulus


def vector(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=object)


def test_elements_are_little_endian_one_after_the_other() -> None:
    assert encode(vector([1, P - 1])) == b"\1" + bytes(15) + b"\xfe" + b"\xff" * 14 + b"\x7f"
    assert encode(vector([])) == b""


@given(lists(integers(0, P - 1), max_size=20))
def test_what_was_encoded_is_decoded(values: list[int]) -> None:
    decoded = decode(encode(vector(values)), len(values))
    assert decoded.tolist() == values and decoded.dtype == object and decoded.shape == (len(values),)
    assert all(type(value) is int for value in decoded)


@pytest.mark.parametrize("value", [P, P + 1, 2**127, 2**128 - 1])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_integer_that_is_no_field_element_is_refused(value: int, place: int) -> None:
    values = [0, 1, P - 1]
    values[place] = value
    message = b"".join(value.to_bytes(ELEMENT_BYTES, "little") for value in values)
    with pytest.raises(ValueError, match="no field element"):
        decode(message, 3)


@pytest.mark.parametrize("length", [0, 1, 15, 17, 31, 33, 48])
def test_another_length_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match=f"{length} bytes where 32 are expected"):
        decode(bytes(length), 2)


@given(binary(max_size=100), integers(0, 6))
def test_what_is_decoded_has_one_encoding(message: bytes, count: int) -> None:
    try:
        decoded = decode(message, count)
    except ValueError:
        return
    assert encode(decoded) == message and len(decoded) == count


@pytest.mark.parametrize("value", [-1, 2**128])
def test_what_is_no_element_is_not_sent(value: int) -> None:
    with pytest.raises(OverflowError):
        encode(vector([value]))
