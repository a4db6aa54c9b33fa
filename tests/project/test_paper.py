"""The page that sets the papers beside the project has the tables of the recorded results, all of them."""

import re

from benchmarks.report.paper import PAGE, PAGES, TABLES, filled
from benchmarks.validation.cells import RESULTS, Measured
from tests.support import synthetic as made_up


def test_the_pages_tables_are_those_of_the_recorded_results() -> None:
    texts, measured = {page: page.read_text(encoding="utf-8") for page in PAGES}, Measured.read(RESULTS)
    assert all(filled(text, measured) == text for text in texts.values()), (
        "run python -m benchmarks.report.paper"
    )
    assert re.findall(r"<!-- recorded: ([\w-]+) -->", texts[PAGE]) == list(TABLES)


def test_literal_runs_take_their_places() -> None:
    """With a suite of literal runs: a median where it ran whole, a marked range where it did not."""
    page = "<!-- recorded: weights -->\n| |\n\n<!-- recorded: thresholds -->\n| |\n"
    weights, thresholds = filled(page, Measured.of(made_up.samples())).split("<!-- recorded: thresholds -->")
    assert "not measured yet" not in weights + thresholds
    (ring,) = (line.split(" | ") for line in thresholds.splitlines() if line.startswith("| `ring`"))
    assert ring[1] == "7,994; 2,428" and ring[2].count("‡") == 2 and "‡" not in ring[3]
    assert all("×" in line for line in (weights + thresholds).splitlines() if line.startswith("| `"))
