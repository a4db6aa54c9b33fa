"""Renders views as a self-contained HTML file."""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from fairshares.harness.command_name import as_called
from fairshares.harness.views.parts import PAGE, Bad, Findings, Good, Paragraph, Part, Picture, Stacked, View
from fairshares.harness.views.rendering.plots import WIDTH, figure_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DOTS_PER_INCH = 150  # dots of PNG files
_PIXELS_PER_INCH = 96  # pixels of pages, as CSS defines them
_INK = (
    "<style>svg{color:#1d2430}text{fill:currentColor}"
    "@media(prefers-color-scheme:dark){svg{color:#e4e8ee}}</style>"
)


def write_page(title: str, subtitle: str, view: View, directory: Path) -> None:
    """Write `report.html`, with findings on top and SVG figures, and each figure as a PNG.

    Guarantees: the file refers to nothing outside itself, and shows any text as text.
    [test: tests/harness/views/test_html.py]
    """
    parts = list(view)
    drawn = {part.name: figure_of(part) for part in parts if isinstance(part, Picture)}
    for name, figure in drawn.items():
        with _any_glyphs():
            figure.savefig(directory / f"{name}.png", bbox_inches="tight", dpi=_DOTS_PER_INCH)
    pictures = {}
    for name, figure in drawn.items():
        pictures[name] = base64.b64encode(_svg(name, figure).encode()).decode()
    findings: list[str] = []
    for part in parts:
        if isinstance(part, Findings):
            findings.extend(part.texts)
    text = _filled(
        PAGE,
        parts,
        title=title,
        subtitle=subtitle,
        pictures=pictures,
        width=int(_PIXELS_PER_INCH * WIDTH),
        findings=findings,
    )
    (directory / PAGE).write_text(text + "\n", encoding="utf-8")


def fragment(view: View) -> str:
    """Return a view's text and tables as HTML."""
    return _filled("parts.html", [part for part in view if not isinstance(part, Picture)])


def _filled(
    template: str, parts: Sequence[Part], **more: str | int | Sequence[str] | Mapping[str, str]
) -> str:
    """Return a template filled with parts, but for findings, which only a page's top shows."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # is slow to load

    environment = Environment(
        autoescape=True,
        loader=FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {"toned": _toned, "marked": _marked, "prose": _prose}
    named = [(type(part).__name__, part) for part in parts if not isinstance(part, Findings)]
    return as_called(environment.get_template(f"{template}.j2").render(parts=named, **more))


@contextmanager
def _any_glyphs() -> Iterator[None]:
    """Accept names with glyphs that the font lacks; a table beside the figure has the whole name."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        yield


def _svg(name: str, figure: Figure) -> str:
    """Return a figure as SVG, which has the same bytes each time, and the page's colors."""
    from matplotlib import rc_context

    drawn = io.StringIO()
    without_metadata = {"Creator": None, "Date": None, "Format": None, "Type": None}
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}), _any_glyphs():
        figure.savefig(drawn, bbox_inches="tight", format="svg", transparent=True, metadata=without_metadata)
    text = drawn.getvalue().replace("#000000", "currentColor").replace("#ffffff", "none")
    head, _, rest = text[text.index("<svg") :].partition(">")
    return f"{head}>{_INK}{rest}"


def _toned(text: str) -> Markup:
    if isinstance(text, Stacked):
        return Markup('{}<br><span class="below">{}</span>').format(*text.split("\n"))
    tone = {Good: "good", Bad: "bad"}.get(type(text))
    if tone is None:
        return Markup.escape(text)
    return Markup('<span class="{}">{}</span>').format(tone, text)


def _prose(text: str) -> Markup:
    """Return a text as HTML, with code between backticks, and powers of e, 2 and 10 raised."""
    code = re.sub("`([^`]+)`", r"<code>\1</code>", str(Markup.escape(text)))
    return Markup(re.sub(r"\b(e|2|10)\^(\w+)", r"\1<sup>\2</sup>", code))


def _marked(part: Paragraph) -> Markup:
    """Return a paragraph as HTML, with what is strong in it emphasized."""
    if not part.strong or part.strong not in part.text:
        return _prose(part.text)
    before, strong, after = part.text.partition(part.strong)
    return Markup("{}<strong>{}</strong>{}").format(before, strong, after)
