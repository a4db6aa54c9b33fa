"""Views on a terminal: text stays text, tables are never cut short, tones are colours only."""

import io

import pytest
from rich.console import Console

from harness.views.parts import (
    Bad,
    Findings,
    Good,
    Heading,
    Line,
    Paragraph,
    Part,
    Picture,
    Sentences,
    Stacked,
    Table,
)
from harness.views.rendering.text import render

HOSTILE = "[bold]a\x1b[31m\nb\\"
SHOWN = "[bold]a\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}b\\"


def shown(*view: Part, width: int = 120, colours: bool = False) -> str:
    file = io.StringIO()
    render(view, Console(file=file, width=width, highlight=False, force_terminal=colours, emoji=False))
    return file.getvalue()


def test_text_stays_text() -> None:
    rows = [[HOSTILE, Good(HOSTILE)], [], [Bad(HOSTILE), HOSTILE]]
    text = shown(
        HOSTILE,
        Heading(HOSTILE, HOSTILE),
        Paragraph(HOSTILE, strong=HOSTILE),
        Sentences([HOSTILE]),
        Line(HOSTILE, HOSTILE),
        Table([HOSTILE, "x"], rows, title=HOSTILE, caption=HOSTILE),
    )
    assert text.count(SHOWN) == 14 and "\x1b" not in text


def test_pictures_and_findings_are_for_pages() -> None:
    def draw(_: object) -> None:
        raise AssertionError("nothing is drawn for a terminal")

    assert shown(Findings(["so"]), Picture("x", draw, "a picture", "a caption", 2.0)) == ""


@pytest.mark.parametrize("width", [30, 80, 120])
def test_a_narrow_terminal_breaks_cells_and_cuts_nothing(width: int) -> None:
    text = shown(Table(["group", "count"], [["x" * 40, "1" * 30]]), width=width)
    assert (text.count("x"), text.count("1")) == (40, 30)


def test_columns_that_a_narrow_terminal_goes_without() -> None:
    table = Table(["of", "ε", "max"], [["weights", "1", "2,048"]], if_wide=["max"])
    assert "2,048" in shown(table, width=23)
    narrow = shown(table, width=22)
    assert "2,048" not in narrow and narrow.endswith("shows also: max.\n")


def test_what_fits_no_table_is_a_list() -> None:
    """No word is broken, no number cut; a width of 1 less than the words take makes lists of the rows."""
    table = Table(
        ["group", "rate"], [["x" * 20, Stacked("0.5\n0.4 – 0.6")], [], [Bad("y"), "1"]], title="Rates"
    )
    assert shown(table, width=31).count("┃") == 3
    lists = "Rates\ngroup: " + "x" * 20 + "\nrate: 0.5, 0.4 – 0.6\n\ngroup: y\nrate: 1\n\n"
    assert shown(table, width=30) == lists
