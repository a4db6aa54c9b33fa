"""The report on measured runs: what is in it, marked as what it is, nothing missing; text stays text."""

from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure as Drawn

from benchmarks.measure.samples import Sample
from benchmarks.report import html as report
from benchmarks.report.markdown import markdown
from benchmarks.report.plots import drawings
from benchmarks.validation import texts
from benchmarks.validation.cells import Measured
from benchmarks.validation.checks import validate
from harness.views.parts import Figure, Heading, Line, Paragraph, Part, Sentences, Table
from tests.support import synthetic as made_up
from tests.support.synthetic import spoilt


def fail(sample: Sample) -> Sample:
    return replace(sample, status="failed", reason="Party 1 was killed by SIGKILL.")


def text_of(measured: Measured) -> str:
    return markdown(*report.titles(measured), report.report(measured, validate(measured, ()), []))


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a rendered report of made-up suites with a failed cell and networks."""
    wanted = {"profile": "wan", "rtt_s": 0.04, "bandwidth_bits_per_s": 1e8}
    network = {**wanted, "measured_rtt_s": 0.0413, "measured_bandwidth_bits_per_s": 9.1e7}
    samples = spoilt(fail, suite="scale", clients=100, variant="default")
    cell = {"protocol": "pi_rw", "variant": "default", "model": "ring", "shape": "ads", "network": "wan"}
    samples += [replace(made_up.run("network", cell, 0, 2.0, 10, 3), network=network)]
    samples += [
        made_up.run(
            "noise", {"protocol": "pi_lap", "variant": "default", "model": "ring", "samples": n}, 0, n, n, 3
        )
        for n in (16, 256)
    ]
    measured = Measured.of(samples)
    found = validate(measured, ())
    directory = tmp_path_factory.mktemp("report")
    report.write(measured, found, list(drawings(measured, found.rows)), directory)
    return directory


def test_files_are_whole(rendered: Path) -> None:
    names = {path.name for path in rendered.iterdir()}
    figures = {f"{name}.png" for name in ("table2", "extrapolation", "figure1", "network", "noise")}
    assert names == {"report.md", "report.html", *figures}
    markdown = (rendered / "report.md").read_text()
    assert all(f"]({figure})" in markdown for figure in figures)
    html = (rendered / "report.html").read_text()
    assert html.count("data:image/png;base64,") == len(figures)
    assert len(html) < 2**20


def test_extrapolated_figures_are_in_a_column_of_their_own(rendered: Path) -> None:
    lines = (rendered / "report.md").read_text().splitlines()
    header = next(line for line in lines if "extrapolated to 1,001" in line)
    column = header.split(" | ").index("extrapolated to 1,001")
    row = next(line for line in lines[lines.index(header) :] if line.startswith("| semi2k"))
    cells = [cell.strip(" |") for cell in row.split(" | ")]
    assert cells[column] == f"{texts.seconds(43093.79 * 1.01)} ± 0.0%"
    assert cells[column - 1] == "20"  # thresholds that were run


def test_failed_runs_and_networks_are_shown(rendered: Path) -> None:
    markdown = (rendered / "report.md").read_text()
    assert "| pi\\_rw.default.100.ring | 3 | Party 1 was killed by SIGKILL. |" in markdown
    assert "| 40 | 41.3 | 100 | 91 | 2.00 | 10 |" in markdown


def test_every_cell_is_there() -> None:
    measured = Measured.of(made_up.samples())
    text = text_of(measured).replace("\\", "")
    assert all(f"| {cell.name} | {made_up.REPETITIONS} |" in text for cell in measured.cells)


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


def test_parts_come_in_order() -> None:
    view: list[Part] = [
        Heading("First", " of two"),
        Paragraph("Read this.", note=True),
        "And this.",
        Sentences(["one", "two"]),
        Table(["model", "seconds"], [["ring", "0.1"], [], ["mpyc", "0.2"]], caption="Medians."),
        Figure("growth", Drawn(), "A line.", "It grows."),
        Line("Results", "runs"),
    ]
    assert markdown("A title", "and more", view) == (
        "# A title\n\nand more\n\n## First of two\n\n> Read this.\n\nAnd this.\n\n- one\n- two\n\n"
        "| model | seconds |\n|---|---:|\n| ring | 0.1 |\n| mpyc | 0.2 |\n\nMedians.\n\n"
        "![A line.](growth.png)\n\nIt grows.\n\nResults: runs\n"
    )


@pytest.mark.parametrize("text", ["a|b", "*bold*", "[link](x)", "<b>", "`code`", "pi_rw_x", "line\nbreak"])
def test_text_stays_text(text: str) -> None:
    row = markdown("t", "s", [Table(["h"], [[text]])]).splitlines()[-1]
    assert row.replace("\\", "") == f"| {' '.join(text.split())} |"
    for special in "|*[<`_":
        assert f"\\{special}" in row or special not in text
