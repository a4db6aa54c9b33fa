"""Pages that set the papers beside the project have the tables of the recorded results, all of them."""

import re

import numpy as np

from benchmarks.report.paper import PAGES, TABLES, appendix_d, filled
from benchmarks.validation import texts
from benchmarks.validation.cells import RESULTS, Measured
from benchmarks.validation.checks import validate
from benchmarks.validation.differences import explained
from benchmarks.validation.findings import Status
from benchmarks.validation.side_by_side import BAND, table2_rows
from tests.conftest import PROJECT
from tests.support import synthetic as made_up


def test_the_pages_tables_are_those_of_the_recorded_results() -> None:
    recorded, names = Measured.read(RESULTS), list[str]()
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        assert filled(page, recorded) == page, "run python -m benchmarks.report.paper"
        names += re.findall(r"<!-- recorded: ([\w-]+) -->", page)
    assert list(dict.fromkeys(names)) == list(TABLES)  # a table may be on several pages


def test_literal_runs_take_their_places() -> None:
    """With a suite of literal runs: a median where it ran whole, a marked figure where it did not."""
    names = ("gain", "table2-ads", "weights-ads", "thresholds-ml-1m", "table2-held")
    page = "".join(f"<!-- recorded: {name} -->\n| |\n\n" for name in names)
    filled_page = filled(page, Measured.from_samples(made_up.samples())).replace("\N{NO-BREAK SPACE}", " ")
    gain, table2, weights, thresholds, held = filled_page.split("<!-- recorded: ")[1:]
    (ring,) = (line for line in table2.splitlines() if line.startswith("| thresholds | `ring`"))
    assert ring == "| thresholds | `ring` | 7,994 | 8,070 ‡ | ×1 | yes |"
    assert "| `ring` | 0.000202 | 0.0040 | 0.0020 | not run |" in weights
    assert gain.splitlines()[4].startswith("| `ring` | ×1,600 ") and "instances at once |" in gain
    assert "| `ring` | 24.5 | 0.051 | 0.0050 | not run | – | ×490 (480 – 500) |" in thresholds
    assert "| all | 20 | 20 | 0 | 0 | 0 |" in held


def test_the_readme_says_what_the_records_say() -> None:
    """How long curves as printed take beside ours, by model and federation, and how many times hold.

    The page on papers begins with the same figures.
    """
    measured = Measured.read(RESULTS)
    rows = [row for row in table2_rows(measured) if row.protocol == "pi_roc"]
    gains = sorted(row.gain.median for row in rows if row.gain)
    assert len({row.model for row in rows}) == 6 and len(gains) == 12
    *_, (_, total, holding, *_) = texts.held(validate(measured).findings)
    readme = " ".join((PROJECT / "README.md").read_text(encoding="utf-8").split())
    words = f"take [{texts.times(gains[0])[1:]} to {texts.times(gains[-1])[1:]} times as long]"
    assert words in readme and "by model and federation" in readme
    assert f"Of its Table 2's {total} times [{holding} hold here]" in readme
    assert f"within a factor of {BAND:g}" in readme
    page = " ".join((PROJECT / "docs" / "paper.md").read_text(encoding="utf-8").split())
    assert f"{texts.times(gains[0])[1:]} to {texts.times(gains[-1])[1:]} times as long as ours]" in page
    assert f"Of the {total} times in PrivFairFL's Table 2, [{holding} hold here]" in page


def test_the_picture_of_appendix_d_has_the_tables_numbers() -> None:
    recorded = Measured.read(RESULTS)
    shares, errors = appendix_d(recorded).axes
    shown = [f"{100 * share:.0f}%" for share in np.asarray(shares.lines[1].get_xdata())]
    assert shown == [row[1].rsplit(", ", 1)[1] for row in list(TABLES["online"](recorded))[1:]]
    shown = [f"{100 * error:.2g} %" for error in np.asarray(errors.lines[0].get_ydata())]
    assert shown == [row[2] for row in list(TABLES["weights-by-epsilon"](recorded))[1:]]


def test_what_is_said_to_be_explained_is_what_experiments_explain() -> None:
    measured = Measured.read(RESULTS)
    rows = explained(measured, table2_rows(measured))
    findings = validate(measured).with_status(Status.EXPLAINED)
    said = {finding.check.key for finding in findings if finding.check.key.startswith("ratio.table2.")}
    assert said == {f"ratio.table2.{row.protocol}.{row.shape}.{row.model}" for row in rows}
