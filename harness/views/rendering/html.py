"""Parts of views as one self-contained HTML file, by a jinja2 template."""

from __future__ import annotations

import base64
import io
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness.views.parts import Bad, Figure, Good, Paragraph, Stacked, View

PAGE = "report.html"
_DOTS_PER_INCH = 150
_CLASSES = {Good: "good", Bad: "bad"}


def write_page(title: str, subtitle: str, view: View, directory: Path) -> None:
    """Write `report.html`, and each figure as a PNG beside it, into a directory that is there.

    Guarantees: the file refers to nothing outside itself, and shows text as text, whatever is in it.
    [test: tests/harness/views/test_html.py]
    """
    parts = list(view)
    pictures = {}
    for part in parts:
        if isinstance(part, Figure):
            picture = _png(part)
            (directory / f"{part.name}.png").write_bytes(picture)
            pictures[part.name] = base64.b64encode(picture).decode()
    environment = Environment(
        autoescape=True,
        loader=FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {"toned": _toned, "marked": _marked}
    text = environment.get_template(f"{PAGE}.j2").render(
        title=title,
        subtitle=subtitle,
        parts=[(type(part).__name__, part) for part in parts],
        pictures=pictures,
    )
    (directory / PAGE).write_text(text + "\n", encoding="utf-8")


def _png(part: Figure) -> bytes:
    picture = io.BytesIO()
    part.drawn.savefig(
        picture, format="png", dpi=_DOTS_PER_INCH, bbox_inches="tight", metadata={"Software": None}
    )
    return picture.getvalue()


def _toned(text: str) -> Markup:
    """Return a cell's text in the tone that its type has."""
    if isinstance(text, Stacked):
        return Markup('{}<br><span class="below">{}</span>').format(*text.split("\n"))
    tone = _CLASSES.get(type(text))
    return Markup('<span class="{}">{}</span>').format(tone, text) if tone else Markup.escape(text)


def _marked(part: Paragraph) -> Markup:
    """Return a paragraph whose strong piece stands out."""
    before, strong, after = part.text.partition(part.strong or "\0")
    return (
        Markup("{}<strong>{}</strong>{}").format(before, strong, after) if strong else Markup.escape(before)
    )
