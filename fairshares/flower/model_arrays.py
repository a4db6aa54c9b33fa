"""A model's arrays as one vector, and back. Nothing here needs Flower."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fairshares.harness.errors import ModelArraysError
from fairshares.protocols.arrays import Floats

FloatArray = npt.NDArray[np.float16] | npt.NDArray[np.float32] | Floats
ModelArrays = Mapping[str, FloatArray]
"""The arrays of a model by name, of any shapes, in the order of the vector."""


def size_of(model: ModelArrays) -> int:
    """Return the number of a model's coordinates.

    Args:
        model: The model's arrays by name.
    Returns:
        The number of floats in all arrays.
    Raises:
        ModelArraysError: An array is not of floats: integers cannot take noise.
    """
    for name, array in model.items():
        if array.dtype.kind != "f":
            raise ModelArraysError(
                f"The model's array {name!r} is of type {array.dtype}, and noisy sums are of floats: "
                "leave it out of what is sent, as statistics of batches should be in private training."
            )
    return sum(array.size for array in model.values())


def change_of(before: ModelArrays, after: ModelArrays) -> Floats:
    """Return the change by training, after minus before, as one vector.

    Messages hold names and shapes, no numbers of the model.

    Args:
        before: The arrays that were sent to the client.
        after: The client's trained arrays, secret, of the same names and shapes.
    Returns:
        The change, secret, shape (coordinates,), in the order of the names.
    Raises:
        ModelArraysError: The arrays have other names or shapes, or are not of floats.
    """
    if list(before) != list(after):
        raise ModelArraysError(
            f"The trained model has the arrays {', '.join(after)}, and the one that was sent has "
            f"{', '.join(before)}: answer with the same, in the same order."
        )
    for name, array in before.items():
        if after[name].shape != array.shape:
            raise ModelArraysError(
                f"The trained model's array {name!r} has the shape {after[name].shape}, and had "
                f"{array.shape} when it was sent."
            )
    size_of(before)
    size_of(after)
    parts = [
        np.subtract(after[name], array, dtype=np.float64, casting="same_kind").ravel()
        for name, array in before.items()
    ]
    return np.concatenate([np.zeros(0), *parts])


def moved(model: ModelArrays, change: Floats) -> dict[str, FloatArray]:
    """Return the model, moved along a vector.

    Args:
        model: The model's arrays by name.
        change: The vector, shape (coordinates,), in the order of the names.
    Returns:
        The moved arrays by name, each in its own type.
    """
    arrays: dict[str, FloatArray] = {}
    begin = 0
    for name, array in model.items():
        part = change[begin : begin + array.size].reshape(array.shape)
        arrays[name] = np.empty_like(array)
        arrays[name][...] = array + part
        begin += array.size
    return arrays
