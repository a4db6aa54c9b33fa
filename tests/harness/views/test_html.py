"""The HTML report: well-formed, self-contained, and text stays text."""

import base64
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

from matplotlib.figure import Figure as Drawn

from harness.views.parts import (
    Bad,
    Figure,
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
from harness.views.rendering.html import write_page
from harness.views.rendering.plots import intervals, with_ends

VOID = {"meta", "img", "br"}
PNG = b"\x89PNG\r\n"


class Page(HTMLParser):
    """Reads a page; notes its tags, texts and what it refers to. Tags have to be closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.references: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.references += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def written(title: str, subtitle: str, view: list[Part], directory: Path) -> Page:
    write_page(title, subtitle, view, directory)
    return Page((directory / "report.html").read_text(encoding="utf-8"))


def test_a_report_is_well_formed_and_refers_to_nothing_outside(tmp_path: Path) -> None:
    drawn = Drawn()
    drawn.subplots().plot([0, 1])
    rows = [["a", "1.0"], [], [Good("b"), Stacked("2.0\n3.0")]]
    view: list[Part] = [
        Findings(["It is 2.0."]),
        Heading("One", ", of two"),
        Paragraph("Prose.", note=True),
        Paragraph("Read this.", strong="Read"),
        Sentences(["first", "second"]),
        Table(["group", "weight"], rows, title="a title", caption="a caption"),
        Line("Results", "runs/1"),
        Figure("curve", drawn, "a line", "One line."),
        Picture("dots", lambda axes: axes.plot([1, 2], "o"), "dots", "Two dots.", 2.0),
    ]
    page = written("Title", "subtitle", view, tmp_path)
    assert page.open == []
    assert page.tags.count("td") == 5 and page.tags.count("tr") == 4
    assert page.tags.count("strong") == 1 and page.tags.count("br") == 1
    assert page.texts.index("It is 2.0.") < page.texts.index("One") and page.texts.count("It is 2.0.") == 1
    picture, of_dots = page.references
    for name, reference in (("curve", picture), ("dots", of_dots)):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(PNG)
        head, _, data = reference.partition(",")
        assert head == "data:image/svg+xml;base64"
        svg = ElementTree.fromstring(base64.b64decode(data))
        outside = [
            value for each in svg.iter() for name, value in each.attrib.items() if name.endswith("href")
        ]
        assert svg.tag == "{http://www.w3.org/2000/svg}svg" and all(each[0] == "#" for each in outside)
        text = base64.b64decode(data).decode()
        assert "prefers-color-scheme:dark" in text and "currentColor" in text
        assert "#000000" not in text and "#ffffff" not in text  # neither ink nor paper of one color scheme
    assert "url(" not in (tmp_path / "report.html").read_text() and "@import" not in page.texts[0]


def test_prose_has_code_and_powers_instead_of_signs(tmp_path: Path) -> None:
    page = written("t", "", ["`balanced` weighs e^ε, 2^-40 and a^b", Paragraph("at 10^6 `x`")], tmp_path)
    assert page.tags.count("code") == 2 and page.tags.count("sup") == 2
    assert "".join(page.texts).count("balanced weighs eε, 2^-40 and a^b") == 1


HOSTILE = '<script>alert("x")</script>&\'"'


def test_text_stays_text(tmp_path: Path) -> None:
    view: list[Part] = [
        HOSTILE,
        Findings([HOSTILE]),
        Heading(HOSTILE, HOSTILE),
        Paragraph(HOSTILE, strong=HOSTILE),
        Sentences([HOSTILE]),
        Line(HOSTILE, HOSTILE),
        Table([HOSTILE], [[HOSTILE], [Bad(HOSTILE)], [Stacked(f"{HOSTILE}\n{HOSTILE}")]], caption=HOSTILE),
        Figure("curve", Drawn(), HOSTILE, HOSTILE),
    ]
    page = written(HOSTILE, HOSTILE, view, tmp_path)
    assert "script" not in page.tags and page.open == []
    assert "".join(page.texts).count(HOSTILE) == 18


def test_a_name_that_no_font_has_is_drawn_without_a_warning(tmp_path: Path) -> None:
    """Warnings are errors here; the name is in the page as it is."""
    rows = ["\N{CJK UNIFIED IDEOGRAPH-7FA4}", "\N{ARABIC LETTER ALEF}"]
    picture = intervals("x", rows, {"": with_ends([1, 2], None)}, "count", "")
    page = written("", "", [picture, Table(["group"], [[row] for row in rows])], tmp_path)
    assert set(rows) <= set(page.texts)
