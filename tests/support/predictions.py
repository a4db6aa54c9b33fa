"""Predictions of which each rate is a visible fraction."""

import numpy as np
import numpy.typing as npt

from fairshares.protocols.arrays import Integers


def table(*cells: tuple[str, int, int, int]) -> tuple[Integers, Integers, npt.NDArray[np.str_]]:
    """Spell out (group, y_true, y_pred, how many) as y_true, y_pred, sensitive_feature."""
    groups, truth, predicted = zip(*[cell[:3] for cell in cells for _ in range(cell[3])], strict=True)
    return np.array(truth), np.array(predicted), np.array(groups)


# a: TPR 3/4, FPR 1/2, selected 4/6. b: TPR 1/2, FPR 0, selected 1/5.
RIGGED = table(
    ("a", 1, 1, 3), ("a", 1, 0, 1), ("a", 0, 1, 1), ("a", 0, 0, 1),
    ("b", 1, 1, 1), ("b", 1, 0, 1), ("b", 0, 0, 3),
)  # fmt: skip
