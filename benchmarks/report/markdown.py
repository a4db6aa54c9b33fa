"""Parts of views as Markdown; figures are files beside it."""

import re
from collections.abc import Iterable, Iterator

from harness.views.parts import Figure, Heading, Line, Paragraph, Picture, Sentences, Table, View


def markdown(title: str, subtitle: str, view: View) -> str:
    """Return a view as Markdown, with references to `<name>.png` of each figure.

    Guarantees: shows text as text, whatever is in it.  [test: tests/benchmarks/test_report.py]
    """
    return "\n\n".join([f"# {_plain(title)}", _plain(subtitle), *_rendered(view)]) + "\n"


def _rendered(view: View) -> Iterator[str]:
    for part in view:
        match part:
            case Heading():
                yield f"## {_plain(part.text + part.detail)}"
            case Paragraph():
                yield f"> {_plain(part.text)}" if part.note else _plain(part.text)
            case Sentences():
                yield "\n".join(f"- {_plain(text)}" for text in part.texts)
            case Table():
                yield from _table(part)
            case Figure() | Picture():
                yield f"![{_plain(part.description)}]({part.name}.png)"
                yield _plain(part.caption)
            case Line():
                yield _plain(f"{part.label}: {part.text}")
            case _:
                yield _plain(part)


def _table(part: Table) -> Iterator[str]:
    ruler = "|".join("---:" if side == "r" else "---" for side in part.aligned)
    yield "\n".join([_row(part.columns), f"|{ruler}|", *(_row(row) for row in part.rows if row)])
    if part.caption:
        yield _plain(part.caption)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(_plain(cell) for cell in cells)} |"


def _plain(text: str) -> str:
    """Return a text that Markdown shows as it is, in one line."""
    return re.sub(r"([\\`*_\[\]<>|#~])", r"\\\1", " ".join(text.split()))
