"""One self-contained HTML file for people: prose, tables and figures, as they are given."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # takes a second to load
    from matplotlib.figure import Figure

_DOTS_PER_INCH = 150

_STYLE = """
:root { color-scheme: light; --ink: #1d2430; --soft: #5a6575; --line: #d9dee6; --mark: #f4f6f9; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 54rem; background: #fff; color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0 0 .3rem; }
h2 { font-size: 1.25rem; margin: 2.4rem 0 .6rem; padding-top: 1rem; border-top: 1px solid var(--line); }
.subtitle, figcaption, caption { color: var(--soft); }
.subtitle { margin: 0 0 1.5rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; font-size: .95rem; }
.wide { overflow-x: auto; }
caption { caption-side: bottom; text-align: left; font-size: .9rem; padding-top: .4rem; }
th, td { padding: .35rem .75rem .35rem 0; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; min-width: 5.8rem; }
thead th { border-bottom: 2px solid var(--line); font-weight: 600; }
figure { margin: 1.2rem 0; }
img { max-width: 100%; height: auto; display: block; }
figcaption { font-size: .9rem; margin-top: .4rem; }
.note { background: var(--mark); padding: .7rem 1rem; border-radius: .4rem; }
@media print { body { max-width: none; padding: 0; } figure, table { break-inside: avoid; } }
"""


class HtmlReport:
    """Collects a report's parts in order, then writes it with its figures.

    Guarantees: the file refers to nothing outside itself, and shows text as text, whatever is in it.
    [test: tests/harness/views/test_html.py]
    """

    def __init__(self, title: str, subtitle: str) -> None:
        self._title = title
        self._parts = [f"<h1>{escape(title)}</h1>", f'<p class="subtitle">{escape(subtitle)}</p>']
        self._pictures: dict[str, bytes] = {}

    def section(self, heading: str) -> None:
        """Begin a section."""
        self._parts.append(f"<h2>{escape(heading)}</h2>")

    def paragraph(self, text: str, *, note: bool = False) -> None:
        """Add prose. Args: note: set apart from the rest."""
        self._parts.append(f'<p class="note">{escape(text)}</p>' if note else f"<p>{escape(text)}</p>")

    def bullets(self, texts: Iterable[str]) -> None:
        """Add a list of sentences."""
        self._parts.append("<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>")

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> None:
        """Add a table of texts; all but the first column are aligned right.

        Raises: ValueError: a row has another length than the header.
        """
        head = "".join(f"<th>{escape(name)}</th>" for name in header)
        body = []
        for row in rows:
            if len(row) != len(header):
                raise ValueError(f"a row has {len(row)} values where the header has {len(header)}")
            body.append("<tr>" + "".join(f"<td>{escape(value)}</td>" for value in row) + "</tr>")
        under = f"<caption>{escape(caption)}</caption>" if caption else ""
        self._parts.append(
            f'<div class="wide"><table>{under}<thead><tr>{head}</tr></thead>'
            f"<tbody>{''.join(body)}</tbody></table></div>"
        )

    def figure(self, name: str, figure: Figure, description: str, caption: str) -> None:
        """Add a figure, which becomes `<name>.png` beside the report as well.

        Args: description: for those who cannot see it.
        """
        picture = io.BytesIO()
        figure.savefig(
            picture, format="png", dpi=_DOTS_PER_INCH, bbox_inches="tight", metadata={"Software": None}
        )
        self._pictures[name] = picture.getvalue()
        data = base64.b64encode(self._pictures[name]).decode()
        self._parts.append(
            f'<figure><img src="data:image/png;base64,{data}" alt="{escape(description)}">'
            f"<figcaption>{escape(caption)}</figcaption></figure>"
        )

    def write(self, directory: Path) -> None:
        """Write `report.html`, and each figure as a PNG, into a directory that is there."""
        for name, picture in self._pictures.items():
            (directory / f"{name}.png").write_bytes(picture)
        text = (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self._title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
            + "\n".join(self._parts)
            + "\n</body>\n</html>\n"
        )
        (directory / "report.html").write_text(text, encoding="utf-8")
