"""The report on measured runs: what is in it, marked as what it is, nothing missing."""

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from benchmarks.measure.samples import Sample
from benchmarks.report import html as report
from benchmarks.validation import texts
from benchmarks.validation.cells import Measured
from benchmarks.validation.checks import validate
from harness.views.rendering.html import fragment
from tests.support import synthetic as made_up
from tests.support.synthetic import spoilt


def fail(sample: Sample) -> Sample:
    return replace(sample, status="failed", reason="Party 1 was killed by SIGKILL.")


def rows_of(page: str) -> list[list[str]]:
    """Return the cells of all rows of all tables of a page, as text."""
    rows = re.findall(r"<tr.*?</tr>", page, re.DOTALL)
    return [[unescape(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)] for row in rows]


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a rendered report of made-up suites with a failed cell and networks."""
    wanted = {"profile": "wan", "rtt_s": 0.04, "bandwidth_bits_per_s": 1e8}
    network = {**wanted, "measured_rtt_s": 0.0413, "measured_bandwidth_bits_per_s": 9.1e7}
    samples = spoilt(fail, suite="scale", clients=100, variant="default")
    cell = {"protocol": "pi_rw", "variant": "default", "security": "ring", "shape": "ads", "network": "wan"}
    samples += [replace(made_up.run("network", cell, 0, 2.0, 10, 3), network=network)]
    samples += [
        made_up.run(
            "noise",
            {"protocol": "pi_lap", "variant": "default", "security": "ring", "samples": n},
            0,
            n,
            n,
            3,
        )
        for n in (16, 256)
    ]
    measured = Measured.of(samples)
    found = validate(measured, ())
    directory = tmp_path_factory.mktemp("report")
    report.write(measured, found, directory)
    return directory


def test_files_are_whole(rendered: Path) -> None:
    names = {path.name for path in rendered.iterdir()}
    figures = {f"{name}.png" for name in ("table2", "figure1", "network", "noise")}
    assert names == {"report.html", *figures}
    html = (rendered / "report.html").read_text()
    assert html.count("data:image/svg+xml;base64,") == len(figures)
    assert len(html) < 2**20


def test_ranges_are_marked_and_have_no_residual(rendered: Path) -> None:
    page = (rendered / "report.html").read_text()
    rows = rows_of(page)
    header = next(row for row in rows if "literal, run here" in row)
    cells = [
        row[header.index("literal, run here")]
        for row in rows
        if row[:2] in (["semi2k", "0.10"], ["semi2k", "43,094; 13,089"])
    ]
    assert [each.count(" ‡") for each in cells] == [0, 2] and "±" not in page
    assert "by what each iteration took in runs with 1, 2, 4 thresholds" in unescape(page)
    assert any("an instance, µs" in row for row in rows)


def test_failed_runs_and_networks_are_shown(rendered: Path) -> None:
    rows = rows_of((rendered / "report.html").read_text())
    assert ["pi_rw.default.100.ring", "3", "Party 1 was killed by SIGKILL."] in rows
    assert ["40", "41.3", "100", "91", "2.00", "10"] in [row[1:] for row in rows]


def test_every_cell_is_there() -> None:
    measured = Measured.of(made_up.samples())
    rows = rows_of(fragment(report.report(measured, validate(measured, ()), [])))
    shown = [row[:2] for row in rows]
    assert all([cell.name, str(made_up.REPETITIONS)] in shown for cell in measured.cells)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.00403, "0.00403"),
        (0.0406, "0.0406"),
        (9.912, "9.91"),
        (30.2, "30.2"),
        (1202.4, "1,200"),
        (0, "0.00"),
    ],
)
def test_seconds_have_three_digits(value: float, shown: str) -> None:
    assert texts.seconds(value) == shown
