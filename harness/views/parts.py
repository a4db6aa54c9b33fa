"""Parts of views: headings, sentences, tables and figures.

A view is a sequence of parts; a bare string is a paragraph. All text is plain, whatever names it holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairshares.protocols.accounting.rounding import interval_shown

if TYPE_CHECKING:  # takes a second to load
    from matplotlib import axes

    from fairshares.protocols.arrays import Floats


class Good(str):
    """Good news, green."""


class Bad(str):
    """Bad news, red."""


class Stacked(str):
    """A cell of two lines, the second softer."""


@dataclass(frozen=True)
class Heading:
    """A section's heading; `detail` follows in plain type."""

    text: str
    detail: str = ""


@dataclass(frozen=True)
class Paragraph:
    """Prose with `strong` emphasized; a note is set apart."""

    text: str
    strong: str = ""
    note: bool = False


@dataclass(frozen=True)
class Line:
    """A path or a command, never broken, after a label."""

    label: str
    text: str


@dataclass(frozen=True)
class Sentences:
    """Sentences on separate lines."""

    texts: Sequence[str]


class Findings(Sentences):
    """The main results, for the top of a page only."""


@dataclass(frozen=True)
class Table:
    """A table of texts.

    Attributes:
        rows: A text per column; an empty row is a rule.
        alignment: "l" or "r" per column; by default "r" for all but the first.
        if_wide: Columns that a narrow terminal omits if that keeps words of others whole.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    alignment: str = ""
    title: str = ""
    caption: str = ""
    if_wide: Sequence[str] = ()

    @property
    def aligned(self) -> str:
        """Each column's alignment, a letter for each."""
        if self.alignment:
            return self.alignment
        return "l" + "r" * (len(self.columns) - 1)


@dataclass(frozen=True)
class Picture:
    """A figure, `height` inches high, for pages; `description` is for readers who cannot see it."""

    name: str
    draw: Callable[[axes.Axes], None]
    description: str
    caption: str
    height: float


def from_least_to_most(what: str, values: Mapping[str, float], decimals: int) -> Findings:
    """Say which values are the least and the most, and whose they are; NaN is none.

    Args:
        what: The sentence's beginning.
        values: The values by whose they are.
        decimals: How many decimals are shown.

    Returns:
        The sentence; without a value nothing.
    """
    ranked = sorted((value, name) for name, value in values.items() if not math.isnan(value))
    if not ranked:
        return Findings([])
    least, whose_least = ranked[0]
    most, whose_most = ranked[-1]
    return Findings([f"{what} {least:,.{decimals}f} ({whose_least}) to {most:,.{decimals}f} ({whose_most})."])


_MUCH = 0.5  # a difference of rates; an interval from none to so much tells nothing


def difference_unknown(low: float, high: float) -> list[str]:
    """Say that nothing is known of a difference between groups whose interval holds none and a large one.

    Args:
        low: The lower end of the interval, from 0 to 1.
        high: The upper end.
    """
    if round(low, 3) > 0 or high < _MUCH:
        return []
    return [
        f"The interval {interval_shown(low, high, 3)} says nothing of the difference: there may be "
        "none, or a large one. More records or a larger ε help."
    ]


def rates_unknown(low: Floats, high: Floats) -> list[str]:
    """Say that a rate is unknown if its interval is as wide as rates allow; NaN is no rate.

    Args:
        low: The intervals' lower ends, of any shape.
        high: The upper ends of the intervals.
    """
    if not ((low.round(3) <= 0) & (high.round(3) >= 1)).any():
        return []
    return ["A rate whose interval goes from 0 to 1 is unknown."]


PAGE = "report.html"  # the file of a page

Part = str | Heading | Paragraph | Line | Sentences | Table | Picture
View = Iterable[Part]
