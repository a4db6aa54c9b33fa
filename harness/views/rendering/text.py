"""Renders views on a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich import table
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from fairshares.harness.command_name import as_called
from fairshares.harness.views.parts import (
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
    """Return a text with control characters replaced, and with commands named as the user calls them."""
    shown = [
        character if character.isprintable() or character == _NO_BREAK else "\N{REPLACEMENT CHARACTER}"
        for character in text
    ]
    return as_called("".join(shown))


def _say(text: Text, console: Console) -> None:
    console.print(text, soft_wrap=not console.is_terminal)


def _table(part: Table, console: Console) -> None:
    """Print a table, without some columns where the terminal has no room for all, or else as a list."""
    columns = list(range(len(part.columns)))
    widths = _widths(part, columns, console.width)
    if widths is None:
        columns = [place for place in columns if part.columns[place] not in part.if_wide]
        widths = _widths(part, columns, console.width)
    if widths is None:
        _rows(part, console)
    else:
        console.print(_as_table(part, columns, widths))
    if part.caption:
        _say(Text(printable(part.caption)), console)
    if widths is not None and len(columns) < len(part.columns):
        _say(Text(f"A wider terminal shows also: {', '.join(part.if_wide)}."), console)


def _as_table(part: Table, columns: Sequence[int], widths: Sequence[int]) -> table.Table:
    """Return Rich's table of some columns."""
    shown = table.Table(title=Text(printable(part.title)) if part.title else None)
    for place, width in zip(columns, widths, strict=True):
        is_right = part.aligned[place] == "r"
        shown.add_column(
            Text(printable(part.columns[place])), justify="right" if is_right else "left", width=width
        )
    for row in part.rows:
        if row:
            shown.add_row(*(_cell(row[place]) for place in columns))
        else:
            shown.add_section()
    return shown


@dataclass(frozen=True)
class _Needs:
    """The room that a column needs, in characters of a terminal.

    Attributes:
        longest_word: Below it a word would be broken.
        in_rows: The width from which on no row has a break.
        in_all: The width from which on the header has no break, either.
    """

    longest_word: int
    in_rows: int
    in_all: int


def _needs(part: Table, place: int) -> _Needs:
    header = _lines(part.columns[place])
    lines: list[str] = []
    for row in part.rows:
        if row:
            lines += _lines(row[place])
    words = " ".join(header + lines).split()
    in_rows = max(map(cell_len, lines), default=0)
    return _Needs(
        longest_word=max(map(cell_len, words), default=0),
        in_rows=in_rows,
        in_all=max(in_rows, *map(cell_len, header)),
    )


def _widths(part: Table, columns: Sequence[int], room: int) -> list[int] | None:
    """Return columns' widths, at least their longest words'; None without room.

    Rich shares out the room by how wide columns are, and breaks words and numbers where there is too little.
    """
    needs = [_needs(part, place) for place in columns]
    widths = [need.longest_word for need in needs]
    borders = 3 * len(columns) + 1
    spare = room - borders - sum(widths)
    if spare < 0:
        return None
    # Rows before headers, and small needs first, so that most cells have no breaks.
    for wanted in ([need.in_rows for need in needs], [need.in_all for need in needs]):
        lacking = [most - width for most, width in zip(wanted, widths, strict=True)]
        for column in sorted(range(len(columns)), key=lacking.__getitem__):
            more = min(max(lacking[column], 0), spare)
            widths[column] += more
            spare -= more
    return widths


def _rows(part: Table, console: Console) -> None:
    """Print a table as a list, a line for each cell, and an empty line after each row."""
    if part.title:
        _say(Text(printable(part.title)), console)
    for row in part.rows:
        if not row:
            continue  # a rule
        for name, cell in zip(part.columns, row, strict=True):
            label = f"{printable(name)}: " if name else ""
            _say(Text(label).append(", ".join(_lines(cell)), _TONES.get(type(cell), "")), console)
        console.print()


def _lines(text: str) -> list[str]:
    """Return a cell's lines; only a stacked cell has several."""
    lines = text.split("\n") if isinstance(text, Stacked) else [text]
    return [printable(line) for line in lines]


def _cell(text: str) -> Text:
    """Return a cell in its color, with all lines but the first dimmed."""
    first, *below = _lines(text)
    cell = Text(first, _TONES.get(type(text), ""))
    for line in below:
        cell.append(f"\n{line}", "dim")
    return cell
