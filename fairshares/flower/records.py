"""The content of Flower's messages, as both sides read it."""

from flwr.app import RecordDict

from fairshares.flower.model_arrays import FloatArray
from fairshares.harness.errors import FlowerMessageError

ASKED = "fairshares"
"""The record with a reveal's number, in a message that asks for a vector, and in its answer."""


def only_arrays(content: RecordDict) -> dict[str, FloatArray]:
    """Return the arrays of a message.

    Args:
        content: The message's content.
    Returns:
        The arrays by name.
    Raises:
        FlowerMessageError: The message has not exactly one record of arrays.
    """
    records = list(content.array_records.values())
    if len(records) != 1:
        raise FlowerMessageError(
            f"A message has one record of arrays, the model, and this one has {len(records)}."
        )
    return {name: array.numpy() for name, array in records[0].items()}
