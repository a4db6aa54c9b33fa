"""Parts of views as one self-contained HTML file, by a jinja2 template."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness.views.parts import Bad, Figure, Good, Paragraph, Part, Stacked, View

PAGE = "report.html"
_DOTS_PER_INCH = 150
_CLASSES = {Good: "good", Bad: "bad"}


def write_page(title: str, subtitle: str, view: View, directory: Path) -> None:
    """Write `report.html`, and each figure as a PNG beside it, into a directory that is there.

    Guarantees: the file refers to nothing outside itself, and shows text as text, whatever is in it.
    [test: tests/harness/views/test_html.py]
    """
    parts = list(view)
    pictures = {part.name: _png(part) for part in parts if isinstance(part, Figure)}
    for name, picture in pictures.items():
        (directory / f"{name}.png").write_bytes(picture)
    text = _filled(PAGE, parts, pictures, title=title, subtitle=subtitle)
    (directory / PAGE).write_text(text + "\n", encoding="utf-8")


def fragment(view: View) -> str:
    """Return a view without figures as a piece of HTML, for a page that is not ours, such as a notebook."""
    return _filled("parts.html", list(view), {})


def _filled(template: str, parts: Sequence[Part], pictures: Mapping[str, bytes], **more: str) -> str:
    environment = Environment(
        autoescape=True,
        loader=FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {"toned": _toned, "marked": _marked}
    return environment.get_template(f"{template}.j2").render(
        parts=[(type(part).__name__, part) for part in parts],
        pictures={name: base64.b64encode(picture).decode() for name, picture in pictures.items()},
        **more,
    )


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
