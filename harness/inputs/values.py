"""The public grid of clients' performance values: a declared range, cut into steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from harness.errors import RecordDomainError, RecordsError

if TYPE_CHECKING:  # pandas takes a second to load: functions that need it load it
    import pandas as pd

DEFAULT_STEPS, MAX_STEPS = 1000, 10**5


@dataclass(frozen=True)
class ValueGrid:
    """Values from `low` to `high`, and as many steps on each side of the centre.

    The same for all clients, declared: never taken from values.
    """

    low: float
    high: float
    steps: int = DEFAULT_STEPS

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise RecordDomainError(
                f"A range of values has two finite ends, the lower first, not {self.low:g} and {self.high:g}."
            )
        if not 1 <= self.steps <= MAX_STEPS:
            raise RecordDomainError(f"Values have 1 to {MAX_STEPS} steps on each side, not {self.steps}.")

    @property
    def centre(self) -> float:
        return self.low / 2 + self.high / 2

    @property
    def radius(self) -> float:
        return self.high / 2 - self.low / 2

    def nearest(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Return the nearest step of values in the range: -steps at its lower end, steps at its upper."""
        scaled = np.clip((values - self.centre) / self.radius, -1.0, 1.0)
        return np.rint(scaled * self.steps).astype(np.int64)

    def to_json(self) -> dict[str, Any]:
        """Return what `values_from_json` reads."""
        return {"low": self.low, "high": self.high, "steps": self.steps}


def values_from_json(found: Any, where: str) -> ValueGrid:
    """Check a parsed grid. Raises: RecordDomainError: it has another shape; `where` is named."""
    known = {"low", "high", "steps"}
    if not isinstance(found, dict) or not {"low", "high"} <= set(found) <= known:
        raise RecordDomainError(f"values in {where} must have the keys low, high and, if wanted, steps.")
    ends, steps = (found["low"], found["high"]), found.get("steps", DEFAULT_STEPS)
    if any(type(end) not in (int, float) for end in ends) or type(steps) is not int:
        raise RecordDomainError(f"values in {where} must be numbers, steps a whole one.")
    try:
        return ValueGrid(float(ends[0]), float(ends[1]), steps)
    except OverflowError:
        raise RecordDomainError(f"values in {where} must be numbers that a float holds.") from None


def read_values(
    frame: pd.DataFrame, where: str, rows: Sequence[int], grid: ValueGrid
) -> npt.NDArray[np.int64]:
    """Return the nearest step of each number, or fraction of counts such as 17/20, in the column value.

    Raises: RecordsError: one is not in the range; names the row, as `records_from_frame` does.
    """
    import pandas as pd

    parts = frame["value"].str.partition("/")
    ends = (parts[0], parts[2].where(parts[1] == "/", "1"))
    top, bottom = (pd.to_numeric(end, errors="coerce").to_numpy(dtype=np.float64) for end in ends)
    with np.errstate(divide="ignore", invalid="ignore"):
        values: npt.NDArray[np.float64] = top / bottom
    wrong = np.flatnonzero(~((values >= grid.low) & (values <= grid.high)))  # NaN is neither
    if len(wrong):
        raise RecordsError(
            f"{where}, row {rows[wrong[0]]}: value {str(frame['value'].iloc[wrong[0]])!r} is not a number or "
            f"a fraction from {grid.low:g} to {grid.high:g}, the declared range."
        )
    return grid.nearest(values)
