"""Pictures that `benchmarks.report.paper` draws are those of the recorded results, and pages show them."""

import re
from collections import Counter

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from benchmarks.report.paper import DRAWN, IMAGES, picture
from benchmarks.report.pictures import (
    attempts,
    consortium,
    decisions,
    flower,
    gain,
    network,
    tampering,
    uploads,
)
from benchmarks.tampering.attack import Reaction
from benchmarks.validation import texts
from benchmarks.validation.cells import RESULTS, Measured
from benchmarks.validation.side_by_side import table2_rows
from tests.conftest import PROJECT

MOST_BYTES = 60_000
DOCUMENTS = (*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md"), *PROJECT.glob("benchmarks/**/*.md"))


@pytest.fixture(scope="module")
def measured() -> Measured:
    return Measured.read(RESULTS)


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_of_the_recorded_results(name: str, measured: Measured) -> None:
    drawn = picture(name, measured)
    assert (IMAGES / f"{name}.svg").read_bytes() == drawn, "run python -m benchmarks.report.paper"
    assert len(drawn) < MOST_BYTES


@pytest.mark.parametrize("name", DRAWN)
def test_a_page_shows_the_picture_and_says_what_is_to_be_seen(name: str) -> None:
    shown = rf"!\[([^\]]+)\]\([^)]*images/{name}\.svg\)"
    texts_of_pages = [found for path in DOCUMENTS for found in re.findall(shown, path.read_text("utf-8"))]
    assert texts_of_pages
    for text in texts_of_pages:
        assert text.endswith(".") and len(text.split()) >= 8


def test_the_consortiums_picture_has_the_pages_weights(measured: Measured) -> None:
    page = (PROJECT / "docs" / "tutorials" / "consortium.md").read_text(encoding="utf-8")
    first_table, _, _ = page.partition("└")
    weights = [float(line.split("│")[4]) for line in first_table.splitlines() if line.startswith("│")]
    (axes,) = consortium(measured).axes
    assert len(weights) == 4
    assert list(np.asarray(axes.lines[-1].get_xdata())) == weights


def test_the_gains_picture_has_the_tables_numbers(measured: Measured) -> None:
    (axes,) = gain(measured).axes
    names, *rows = texts.gains(table2_rows(measured))
    for column, line in enumerate([line for line in axes.lines if line.get_linestyle() == "None"], 1):
        medians = np.asarray(line.get_xdata(), dtype=float)
        shown = [texts.NONE if np.isnan(median) else texts.times(median) for median in medians]
        assert shown == [row[column].split()[0] for row in rows], names[column]


def test_the_networks_picture_has_the_suites_medians(measured: Measured) -> None:
    weights, curves = network(measured).axes
    for axes, protocol in ((weights, "pi_rw"), (curves, "pi_roc")):
        marks = [line for line in axes.lines if line.get_marker() != "None"]
        drawn = Counter(float(x) for line in marks for x in np.asarray(line.get_xdata()))
        cells = measured.where("network", protocol=protocol, variant="default", noise="joint")
        assert drawn == Counter(cell.median_s for cell in cells if cell.median_s is not None)


def test_the_pictures_of_decisions_and_uploads_have_their_tables_numbers(measured: Measured) -> None:
    page = (RESULTS / "decisions" / "README.md").read_text(encoding="utf-8")
    (axes,) = decisions(measured).axes
    for bars in axes.containers:
        (gap,), (accuracy,) = (np.asarray(ends, dtype=float) for ends in bars[0].get_data())
        assert re.search(rf"\| {bars.get_label()} \|.*\| {accuracy:.3f} ± .*\| {gap:.3f} ± .*\|", page)
    page = (RESULTS / "uploads" / "README.md").read_text(encoding="utf-8")
    (axes,) = uploads(measured).axes
    rows = [re.split(r" *\| *", line) for line in page.splitlines() if re.match(r"\| [\d,]+ \| \d", line)]
    lines = [line for line in axes.lines if line.get_linestyle() == "None"]
    assert len(lines) == len(rows)
    for line, row in zip(lines, rows, strict=True):
        written = [float(row[column]) for column in (4, 5, 6, 9)]
        assert np.allclose(np.asarray(line.get_xdata(), dtype=float), written, rtol=0.03)


def test_the_picture_of_flower_has_both_draws(measured: Measured) -> None:
    page = (PROJECT / "docs" / "how-to" / "flower.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]+ \| [\d., ]+; ([\d., ]+) \| [\d., ]+; ([\d., ]+) \|$", page, re.MULTILINE)
    (axes,) = flower(measured).axes
    ends = [line for line in axes.lines if line.get_marker() == "|"]
    assert len(rows) == 6 and len(ends) == 12
    written = [column for way in zip(*rows, strict=True) for column in way]
    for line, draws in zip(ends, written, strict=True):
        expected = sorted(map(float, draws.split(", ")))
        assert np.allclose(np.asarray(line.get_xdata(), dtype=float), expected, atol=0.0006)


def test_the_picture_of_tampering_counts_every_change(measured: Measured) -> None:
    """Each bar is whole, and its text has the sums of the table's rows of that model."""
    (axes,) = tampering(measured).axes
    page = (PROJECT / "docs" / "explanation" / "active-security.md").read_text(encoding="utf-8")
    of_model = r"^\| [a-z, ]+ \| `([^`]+)` \| ([\d,]+) \|(?: [\d,]+ \|){3} (\d+) \|"
    rows = re.findall(of_model, page, re.MULTILINE)
    changed, wrong = Counter[str](), Counter[str]()
    for model, changed_there, wrong_there in rows:
        changed[model] += int(changed_there.replace(",", ""))
        wrong[model] += int(wrong_there)
    models = [label.get_text().replace("\n", " ") for label in axes.get_yticklabels()]
    assert {*models} == {*changed}
    counts = [text.get_text() for text in axes.texts if " of " in text.get_text()]
    assert counts == [f"{wrong[model]:,} of {changed[model]:,}" for model in models]
    assert {attempt.outcome for attempt in attempts()} <= {*Reaction} - {Reaction.SHIFTED}
    widths = np.zeros(len(models))
    for bar in axes.patches:
        assert isinstance(bar, Rectangle)
        widths[round(bar.get_y() + bar.get_height() / 2)] += bar.get_width()
    assert np.allclose(widths, 100)
