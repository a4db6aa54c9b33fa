"""A data set for an evaluation: features, labels, groups, and fixed splits."""

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairshares.protocols.arrays import Integers

TEST_SHARE = 0.3
FIXED_SPLIT = 0
SPLITS = range(20)

_HASHED = "loanapp"  # begins what gives a row its place; with another text, recorded splits would be others


@dataclass(frozen=True, eq=False)
class LabeledData:
    """A public data set, a row for each record.

    Args:
        features: The columns that a model may use, without label and group; missing values are NaN.
        y_true: The label of each row, as a place in `labels`.
        sensitive_feature: The group of each row, one of `groups`.
        categorical: Names of the features whose numbers are codes.
        groups: All groups.
        labels: All labels.
    """

    features: pd.DataFrame
    y_true: Integers
    sensitive_feature: npt.NDArray[np.str_]
    categorical: tuple[str, ...]
    groups: tuple[str, ...]
    labels: tuple[str, ...] = ("0", "1")

    def split(self, seed: int = FIXED_SPLIT) -> tuple[Integers, Integers]:
        """Return sorted row numbers of training (70 %) and test (30 %), stratified on group and label.

        Rows go by SHA-256(seed, row), so that a split never changes with a library.
        [test: tests/data/test_loanapp.py::test_split_is_stratified_and_complete]
        """
        train: list[int] = []
        test: list[int] = []
        for group in self.groups:
            for label in range(len(self.labels)):
                rows = np.flatnonzero((self.sensitive_feature == group) & (self.y_true == label))
                shuffled = sorted(
                    rows.tolist(), key=lambda row: hashlib.sha256(f"{_HASHED} {seed} {row}".encode()).digest()
                )
                cut = round(TEST_SHARE * len(shuffled))
                test += shuffled[:cut]
                train += shuffled[cut:]
        return np.array(sorted(train), dtype=np.int64), np.array(sorted(test), dtype=np.int64)
