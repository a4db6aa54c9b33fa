"""The HTML report: well-formed, self-contained, and text stays text."""

from __future__ import annotations

import base64
from html.parser import HTMLParser
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from harness.views.html import HtmlReport

VOID = {"meta", "img"}
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


def written(report: HtmlReport, directory: Path) -> Page:
    report.write(directory)
    return Page((directory / "report.html").read_text(encoding="utf-8"))


def test_a_report_is_well_formed_and_refers_to_nothing_outside(tmp_path: Path) -> None:
    report = HtmlReport("Title", "subtitle")
    report.section("One")
    report.paragraph("Prose.", note=True)
    report.bullets(["first", "second"])
    report.table(["group", "weight"], [["a", "1.0"], ["b", "2.0"]], "a caption")
    figure = Figure()
    figure.subplots().plot([0, 1])
    report.figure("curve", figure, "a line", "One line.")
    page = written(report, tmp_path)
    assert page.open == []
    assert page.tags.count("td") == 4
    (picture,) = page.references
    head, _, data = picture.partition(",")
    assert head == "data:image/png;base64"
    assert base64.b64decode(data) == (tmp_path / "curve.png").read_bytes()
    assert base64.b64decode(data).startswith(PNG)
    assert "url(" not in (tmp_path / "report.html").read_text() and "@import" not in page.texts[0]


HOSTILE = '<script>alert("x")</script>&\'"'


def test_text_stays_text(tmp_path: Path) -> None:
    report = HtmlReport(HOSTILE, HOSTILE)
    report.section(HOSTILE)
    report.paragraph(HOSTILE)
    report.bullets([HOSTILE])
    report.table([HOSTILE], [[HOSTILE]], HOSTILE)
    report.figure("curve", Figure(), HOSTILE, HOSTILE)
    page = written(report, tmp_path)
    assert "script" not in page.tags and page.open == []
    assert page.texts.count(HOSTILE) == 10


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="2 values where the header has 1"):
        HtmlReport("t", "s").table(["one"], [["a", "b"]])
