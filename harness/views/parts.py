"""What views are made of: headings, sentences, tables and figures, as plain text without any markup.

A view is a sequence of parts; a bare string in it is a paragraph. Whoever renders them takes care that text
stays text, whatever names and paths are in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # takes a second to load
    from matplotlib import axes


class Good(str):
    """A word of good news, which is green where there are colours."""


class Bad(str):
    """A word of bad news, which is red where there are colours."""


class Stacked(str):
    """A cell of two lines, whose second is in softer ink; other texts have one."""


@dataclass(frozen=True)
class Heading:
    """Begins a section. Attributes: detail: what follows in the same line, in plain type."""

    text: str
    detail: str = ""


@dataclass(frozen=True)
class Paragraph:
    """Prose. Attributes: strong: a piece of the text that stands out; note: set apart from the rest."""

    text: str
    strong: str = ""
    note: bool = False


@dataclass(frozen=True)
class Line:
    """A path or a command to be copied, which is never broken. Attributes: label: a word on it."""

    label: str
    text: str


@dataclass(frozen=True)
class Sentences:
    """Sentences that stand on a line of their own each."""

    texts: Sequence[str]


class Findings(Sentences):
    """What a page says above all else; a terminal shows none of it, as the numbers come first there."""


@dataclass(frozen=True)
class Table:
    """A table of texts.

    Attributes: rows: a text per column each; an empty row is a rule between the others; alignment: "l" or
    "r" for each column, all but the first to the right if left out; if_wide: columns that a narrow terminal
    goes without, if no word of the others has to be broken then.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    alignment: str = ""
    title: str = ""
    caption: str = ""
    if_wide: Sequence[str] = ()

    @property
    def aligned(self) -> str:
        """Return "l" or "r" for each column."""
        return self.alignment or "l" + "r" * (len(self.columns) - 1)


@dataclass(frozen=True)
class Picture:
    """A figure of one panel that is drawn where it is shown; a terminal draws and shows nothing of it.

    Attributes: name: of its file beside a page; draw: draws it on axes; description: for those who cannot see
    it; height: that it takes, in inches.
    """

    name: str
    draw: Callable[[axes.Axes], object]
    description: str
    caption: str
    height: float


def from_least_to_most(what: str, values: Mapping[str, float], decimals: int) -> Findings:
    """Say between which values all are, and whose these are; nothing of values that are no numbers."""
    ranked = sorted((value, name) for name, value in values.items() if not math.isnan(value))
    ends = [f"{value:,.{decimals}f} ({name})" for value, name in ranked]
    return Findings([f"{what} {ends[0]} to {ends[-1]}."] if ends else [])


PAGE = "report.html"  # the file of a page

Part = str | Heading | Paragraph | Line | Sentences | Table | Picture
View = Iterable[Part]
