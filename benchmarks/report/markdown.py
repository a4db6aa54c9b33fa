"""A report as Markdown, with the parts that an HTML report has; its figures are files beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Report(Protocol):
    """What a report is made of, whatever it becomes: `HtmlReport` and `MarkdownReport` are ones."""

    def section(self, heading: str) -> None: ...
    def paragraph(self, text: str, *, note: bool = False) -> None: ...
    def bullets(self, texts: Iterable[str]) -> None: ...
    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> None: ...
    def figure(self, name: str, figure: Figure, description: str, caption: str) -> None: ...


class MarkdownReport:
    """Collects a report's parts in order.

    Guarantees: shows text as text, whatever is in it.  [test: tests/benchmarks/test_report.py]
    """

    def __init__(self, title: str, subtitle: str) -> None:
        self._parts = [f"# {_plain(title)}", _plain(subtitle)]

    def section(self, heading: str) -> None:
        """Begin a section."""
        self._parts.append(f"## {_plain(heading)}")

    def paragraph(self, text: str, *, note: bool = False) -> None:
        """Add prose. Args: note: set apart from the rest."""
        self._parts.append(f"> {_plain(text)}" if note else _plain(text))

    def bullets(self, texts: Iterable[str]) -> None:
        """Add a list of sentences."""
        self._parts.append("\n".join(f"- {_plain(text)}" for text in texts))

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> None:
        """Add a table of texts; all but the first column are aligned right.

        Raises: ValueError: a row has another length than the header.
        """
        lines = [_row(header), "|" + "|".join(["---", *["---:"] * (len(header) - 1)]) + "|"]
        for row in rows:
            if len(row) != len(header):
                raise ValueError(f"a row has {len(row)} values where the header has {len(header)}")
            lines.append(_row(row))
        self._parts.append("\n".join(lines))
        if caption:
            self._parts.append(_plain(caption))

    def figure(self, name: str, figure: Figure, description: str, caption: str) -> None:  # noqa: ARG002
        """Add a reference to `<name>.png`, which somebody else writes."""
        self._parts.append(f"![{_plain(description)}]({name}.png)")
        self._parts.append(_plain(caption))

    def text(self) -> str:
        """Return the report."""
        return "\n\n".join(self._parts) + "\n"

    def write(self, directory: Path) -> None:
        """Write `report.md` into a directory that is there."""
        (directory / "report.md").write_text(self.text(), encoding="utf-8")


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(_plain(cell) for cell in cells)} |"


def _plain(text: str) -> str:
    """Return a text that Markdown shows as it is, in one line."""
    return re.sub(r"([\\`*_\[\]<>|#~])", r"\\\1", " ".join(text.split()))
