"""Markdown reports: text stays text, tables are whole, figures are referred to."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from benchmarks.report.markdown import MarkdownReport


def test_parts_come_in_order(tmp_path: Path) -> None:
    report = MarkdownReport("A title", "and more")
    report.section("First")
    report.paragraph("Read this.", note=True)
    report.bullets(["one", "two"])
    report.table(["model", "seconds"], [["ring", "0.1"]], "Medians.")
    report.figure("growth", Figure(), "A line.", "It grows.")
    report.write(tmp_path)
    assert (tmp_path / "report.md").read_text() == (
        "# A title\n\nand more\n\n## First\n\n> Read this.\n\n- one\n- two\n\n"
        "| model | seconds |\n|---|---:|\n| ring | 0.1 |\n\nMedians.\n\n![A line.](growth.png)\n\nIt grows.\n"
    )


@pytest.mark.parametrize("text", ["a|b", "*bold*", "[link](x)", "<b>", "`code`", "pi_rw_x", "line\nbreak"])
def test_text_stays_text(text: str) -> None:
    report = MarkdownReport("t", "s")
    report.table(["h"], [[text]])
    row = report.text().splitlines()[-1]
    assert row.replace("\\", "") == f"| {' '.join(text.split())} |"
    for special in "|*[<`_":
        assert f"\\{special}" in row or special not in text


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="2 values where the header has 1"):
        MarkdownReport("t", "s").table(["h"], [["a", "b"]])
