"""Parts of views on a terminal, by rich."""

from __future__ import annotations

from rich import table
from rich.console import Console
from rich.text import Text

from harness.views.parts import Bad, Figure, Good, Heading, Line, Paragraph, Sentences, Stacked, Table, View

_WIDE = 110  # columns of a terminal that shows tables whole
_NO_BREAK = "\N{NO-BREAK SPACE}"
_TONES = {Good: "green", Bad: "red"}


def render(view: View, console: Console) -> None:
    """Print a view: prose wrapped between words on a terminal, a line each where the output goes elsewhere.

    Guarantees: names and paths are shown without markup and control characters.
    [test: tests/harness/views/test_text.py]
    """
    for part in view:
        match part:
            case Table():
                _table(part, console)
            case Heading():
                _say(Text("\n").append(printable(part.text), "bold").append(printable(part.detail)), console)
            case Paragraph():
                before, strong, after = part.text.partition(part.strong or "\0")
                style = _TONES.get(type(part.strong), "bold")
                text = Text(printable(before)).append(printable(strong), style).append(printable(after))
                _say(text, console)
            case Line():
                label = f"{part.label}: " if part.label else ""
                console.print(Text(printable(label + part.text)), soft_wrap=True)
            case Sentences():
                render(part.texts, console)
            case Figure():
                pass
            case _:
                _say(Text(printable(part)), console)


def printable(text: str) -> str:
    """Return a text with a sign in place of each control character."""
    return "".join(c if c.isprintable() or c == _NO_BREAK else "\N{REPLACEMENT CHARACTER}" for c in text)


def _say(text: Text, console: Console) -> None:
    console.print(text, soft_wrap=not console.is_terminal)


def _table(part: Table, console: Console) -> None:
    """Print a table that a narrow terminal breaks but never cuts short, then its caption."""
    kept = [k for k, name in enumerate(part.columns) if console.width >= _WIDE or name not in part.if_wide]
    shown = table.Table(title=Text(printable(part.title)) if part.title else None)
    for k in kept:
        right = part.aligned[k] == "r"
        shown.add_column(
            Text(printable(part.columns[k])),
            justify="right" if right else "left",
            no_wrap=right and bool(part.if_wide),
            overflow="fold",
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
        missing = ", ".join(part.if_wide)
        _say(Text(f"A terminal of {_WIDE} columns shows also: {missing}."), console)


def _cell(text: str) -> Text:
    if isinstance(text, Stacked):
        above, below = text.split("\n")
        return Text(printable(above)).append("\n" + printable(below), "dim")
    return Text(printable(text), _TONES.get(type(text), ""))
