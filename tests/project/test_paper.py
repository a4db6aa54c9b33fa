"""Pages that set the papers beside the project have the tables of the recorded results, all of them."""

import re

import numpy as np

from benchmarks.report.paper import PAGES, TABLES, appendix_d, filled
from benchmarks.validation.cells import RESULTS, Measured
from tests.support import synthetic as made_up


def test_the_pages_tables_are_those_of_the_recorded_results() -> None:
    recorded, names = Measured.read(RESULTS), list[str]()
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        assert filled(page, recorded) == page, "run python -m benchmarks.report.paper"
        names += re.findall(r"<!-- recorded: ([\w-]+) -->", page)
    assert list(dict.fromkeys(names)) == list(TABLES)  # a table may be on several pages


def test_literal_runs_take_their_places() -> None:
    """With a suite of literal runs: a median where it ran whole, a marked range where it did not."""
    page = "".join(f"<!-- recorded: {name} -->\n| |\n\n" for name in ("gain", "weights", "thresholds"))
    gain, weights, thresholds = filled(page, Measured.from_samples(made_up.samples())).split(
        "<!-- recorded: "
    )[1:]
    (ring,) = (line.split(" | ") for line in thresholds.splitlines() if line.startswith("| `ring`"))
    assert ring[1] == "7,994; 2,428" and ring[2].count("‡") == 2 and "‡" not in ring[3]
    assert ring[6] == "×1,600; ×480" and ring[7] == "not measured yet |"  # ours did not run in turn
    assert gain.splitlines()[4] == "| `ring` | ×1,600 | not measured yet |"
    assert all("×" in line for line in weights.splitlines() if line.startswith("| `"))


def test_the_picture_of_appendix_d_has_the_tables_numbers() -> None:
    recorded = Measured.read(RESULTS)
    shares, errors = appendix_d(recorded).axes
    shown = [f"{100 * share:.0f}%" for share in np.asarray(shares.lines[1].get_xdata())]
    assert shown == [row[1].rsplit(", ", 1)[1] for row in list(TABLES["online"](recorded))[1:]]
    shown = [f"{100 * error:.2g} %" for error in np.asarray(errors.lines[0].get_ydata())]
    assert shown == [row[2] for row in list(TABLES["weights-by-epsilon"](recorded))[1:]]
