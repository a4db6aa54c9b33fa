"""Field elements as bytes, for messages between parties.

An element has `FIELD.value_bytes` bytes, little-endian. A message is elements one after the other, and
nothing else: no length, no type, no name. The receiver knows how many elements it expects.
"""

import numpy as np
import numpy.typing as npt

from fairshares.harness.inputs.rings import FIELD

ELEMENT_BYTES = FIELD.value_bytes


def encode(elements: npt.NDArray[np.object_]) -> bytes:
    """Return a vector of field elements, integers from 0 to p - 1, as bytes.

    Raises OverflowError for an integer that is negative or needs more bytes.
    """
    return b"".join([element.to_bytes(ELEMENT_BYTES, "little") for element in elements.tolist()])


def decode(message: bytes, count: int) -> npt.NDArray[np.object_]:
    """Return the vector of `count` field elements in a message.

    Guarantees: each element is an integer from 0 to p - 1, and each vector has one encoding.
    [test: tests/harness/engines/test_mpyc_elements.py]

    Raises ValueError if the message has another length, or an integer that is p or more.
    """
    if len(message) != count * ELEMENT_BYTES:
        raise ValueError(f"{len(message)} bytes where {count * ELEMENT_BYTES} are expected")
    from_bytes = int.from_bytes
    raw = np.frombuffer(message, dtype=f"V{ELEMENT_BYTES}").tolist()
    integers = [from_bytes(element, "little") for element in raw]
    if max(integers, default=0) >= FIELD.modulus:
        raise ValueError("an integer that is no field element")
    return np.fromiter(integers, object, count=count)
