"""Renders views on a terminal."""

from collections.abc import Sequence

from rich import table
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from harness.command_name import as_called
from harness.views.parts import (
    Bad,
    Findings,
    Good,
    Heading,
    Line,
    Paragraph,
    Picture,
    Sentences,
    Stacked,
    Table,
    View,
)

_NO_BREAK = "\N{NO-BREAK SPACE}"
_TONES = {Good: "green", Bad: "red"}


def render(view: View, console: Console) -> None:
    """Print a view.

    Guarantees: names and paths are shown without markup and control characters.
    [test: tests/harness/views/test_html.py]
    """
    for part in view:
        match part:
            case Table():
                _table(part, console)
            case Heading():
                _say(Text("\n").append(printable(part.text), "bold").append(printable(part.detail)), console)
            case Paragraph():
                before, strong, after = part.text.partition(part.strong or "\0")
                text = Text(printable(before))
                text.append(printable(strong), _TONES.get(type(part.strong), "bold"))
                _say(text.append(printable(after)), console)
            case Line():
                text = Text(printable(f"{part.label}: {part.text}" if part.label else part.text))
                console.print(text, soft_wrap=True)
            case Findings() | Picture():
                pass
            case Sentences():
                render(part.texts, console)
            case _:
                _say(Text(printable(part)), console)


def printable(text: str) -> str:
    """Replace control characters, and name commands as here."""
    return as_called(
        "".join(c if c.isprintable() or c == _NO_BREAK else "\N{REPLACEMENT CHARACTER}" for c in text)
    )


def _say(text: Text, console: Console) -> None:
    console.print(text, soft_wrap=not console.is_terminal)


def _table(part: Table, console: Console) -> None:
    kept = every = list(range(len(part.columns)))
    if (widths := _widths(part, kept, console.width)) is None:
        kept = [k for k in every if part.columns[k] not in part.if_wide]
        widths = _widths(part, kept, console.width)
    if widths is None:
        kept = every
        _rows(part, console)
    else:
        shown = table.Table(title=Text(printable(part.title)) if part.title else None)
        for k, width in zip(kept, widths, strict=True):
            shown.add_column(
                Text(printable(part.columns[k])),
                justify="right" if part.aligned[k] == "r" else "left",
                width=width,
            )
        for row in part.rows:
            if row:
                shown.add_row(*(_cell(row[k]) for k in kept))
            else:
                shown.add_section()
        console.print(shown)
    if part.caption:
        _say(Text(printable(part.caption)), console)
    if len(kept) < len(part.columns):
        _say(Text(f"A wider terminal shows also: {', '.join(part.if_wide)}."), console)


def _widths(part: Table, kept: Sequence[int], room: int) -> list[int] | None:
    """Return columns' widths, at least their longest words'; None without room."""
    columns = [
        [line for cell in (part.columns[k], *(row[k] for row in part.rows if row)) for line in _lines(cell)]
        for k in kept
    ]
    widths = [max(cell_len(word) for line in lines for word in (*line.split(), "")) for lines in columns]
    spare = room - 3 * len(kept) - 1 - sum(widths)
    for first in (1, 0):  # rows before headers, and small needs first, so that most cells have no breaks
        whole = [max(map(cell_len, lines[first:]), default=0) for lines in columns]
        for k in sorted(range(len(kept)), key=lambda k: whole[k] - widths[k]):
            more = max(min(whole[k] - widths[k], spare), 0)
            widths[k], spare = widths[k] + more, spare - more
    return widths if spare >= 0 else None


def _rows(part: Table, console: Console) -> None:
    if part.title:
        _say(Text(printable(part.title)), console)
    for row in filter(None, part.rows):
        for name, cell in zip(part.columns, row, strict=True):
            label = f"{printable(name)}: " if name else ""
            _say(Text(label).append(", ".join(_lines(cell)), _TONES.get(type(cell), "")), console)
        console.print()


def _lines(text: str) -> list[str]:
    return [printable(line) for line in (text.split("\n") if isinstance(text, Stacked) else [text])]


def _cell(text: str) -> Text:
    first, *below = _lines(text)
    return Text(first, _TONES.get(type(text), "")).append("".join(f"\n{line}" for line in below), "dim")
