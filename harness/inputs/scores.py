"""Scores and thresholds: the public grid, and the bin of a score, which is all that is ever shared of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from harness.errors import RecordDomainError, RecordsError, ThresholdGridError

if TYPE_CHECKING:  # pandas takes a second to load: functions that need it load it
    import pandas as pd

DEFAULT_THRESHOLDS = 1001  # 0.000, 0.001 ... 1.000
MAX_THRESHOLDS = 4096

Grid = tuple[float, ...]


def check_grid(thresholds: npt.ArrayLike) -> None:
    """Raises: ThresholdGridError: empty, not strictly increasing, or not within [0, 1]."""
    grid = np.asarray(thresholds, dtype=float)
    if grid.ndim != 1 or not len(grid) or not ((grid >= 0) & (grid <= 1)).all():
        raise ThresholdGridError("The threshold grid must be a list of numbers from 0 to 1, at least one.")
    stuck = np.flatnonzero(np.diff(grid) <= 0)
    if len(stuck):
        first, second = grid[stuck[0]], grid[stuck[0] + 1]
        raise ThresholdGridError(
            f"The threshold grid must increase, but {first:g} is followed by {second:g}: "
            "sort the thresholds and leave out repeated ones."
        )


@lru_cache(maxsize=8)
def even_grid(count: int = DEFAULT_THRESHOLDS) -> Grid:
    """Return `count` thresholds from 0 to 1 in equal steps, each the float nearest to its fraction."""
    if not 2 <= count <= MAX_THRESHOLDS:
        raise ThresholdGridError(f"A grid has 2 to {MAX_THRESHOLDS} thresholds, not {count}.")
    return tuple(j / (count - 1) for j in range(count))


def as_grid(thresholds: Sequence[float]) -> Grid:
    """Check thresholds; return them with 0 in front if it was not there.

    At threshold 0 every score is positive: its counts are the totals that rates refer to.
    Raises: ThresholdGridError: they do not increase, are not within [0, 1], or are too many.
    """
    check_grid(thresholds)
    grid = tuple(map(float, thresholds))
    grid = grid if grid[0] == 0 else (0.0, *grid)
    if not 2 <= len(grid) <= MAX_THRESHOLDS:
        raise ThresholdGridError(
            f"A grid has 1 to {MAX_THRESHOLDS - 1} thresholds above 0, not {len(grid) - 1}."
        )
    return grid


def grid_from_json(found: Any, where: str) -> Grid:
    """Read a grid: a number of even steps' thresholds, or a list. Raises: RecordDomainError: neither."""
    if type(found) is int:
        return even_grid(found)
    if isinstance(found, list) and all(type(value) in (int, float) for value in found):
        with suppress(OverflowError):  # a whole number that no float holds
            return as_grid(found)
    raise RecordDomainError(f"thresholds in {where} must be a whole number or a list of numbers.")


def grid_to_json(grid: Grid) -> int | list[float]:
    """Return what `grid_from_json` reads: the number of thresholds, if they are even, else all."""
    return len(grid) if grid == even_grid(len(grid)) else list(grid)


def bins_of(scores: npt.NDArray[np.float64], grid: Grid) -> npt.NDArray[np.int64]:
    """Return each score's bin, from 0: the last threshold that it reaches. Scores lie in [0, 1]."""
    return np.searchsorted(np.asarray(grid), scores, side="right") - 1


def read_scores(frame: pd.DataFrame, where: str, rows: Sequence[int]) -> npt.NDArray[np.float64]:
    """Return the numbers in the column score. Raises: RecordsError: one is not from 0 to 1; names the row."""
    import pandas as pd

    scores = pd.to_numeric(frame["score"], errors="coerce").to_numpy(dtype=np.float64)
    wrong = np.flatnonzero(~((scores >= 0) & (scores <= 1)))  # NaN is neither
    if len(wrong):
        raise RecordsError(
            f"{where}, row {rows[wrong[0]]}: score {str(frame['score'].iloc[wrong[0]])!r} "
            "is not a number from 0 to 1."
        )
    return scores
