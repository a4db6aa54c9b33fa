"""The papers' figures as data: whole, what is said about them is so, and the page on costs has the same."""

import re

import pytest

from benchmarks.papers import Printed, privfairfl
from fairshares.harness.security_models import MODELS
from tests.conftest import PROJECT


def test_table_2_is_whole() -> None:
    paper = privfairfl()
    assert list(paper.schemes) == [name for name in MODELS if name in paper.schemes]
    assert paper.schemes["ring"] == "Replicated2k"
    assert paper.parties == {name: MODELS[name].parties for name in paper.schemes}
    assert len(paper.table2) == len(paper.schemes) * 2 * 2
    assert str(paper.table2["spdz2k", "ads", "pi_roc"]) == "1,199,060.00"
    assert paper.shapes["ads"].records == paper.shapes["ads"].clients * 300 * 8 // 10


def test_one_column_is_the_other_times_a_constant() -> None:
    """Why linearity cannot be judged by it, and where ML-1M's records come from."""
    paper = privfairfl()
    ratios = set()
    for model in paper.parties:
        ads, ml = (paper.table2[model, shape, "pi_roc"].seconds for shape in ("ads", "ml-1m"))
        ratios.add(f"{ads / ml:.5f}")
    assert ratios == {"3.29249"}
    assert any("3.29249" in caveat for caveat in paper.caveats)
    assert round(paper.shapes["ads"].records / 3.29249) == paper.shapes["ml-1m"].records


def test_figure_2_disagrees_with_table_2_by_that_constant() -> None:
    paper = privfairfl()
    claim, ads, ml = paper.figures["figure2"], paper.shapes["ads"], paper.shapes["ml-1m"]
    seconds = paper.table2["ring", "ads", "pi_roc"].seconds
    assert claim.seconds == 28 * 3600
    assert claim.seconds / (seconds / ads.records * claim.at[0]) == pytest.approx(3.30, abs=0.005)
    assert seconds / ml.records * claim.at[0] / 3600 == pytest.approx(28, abs=0.1)


@pytest.mark.parametrize(
    ("text", "low", "high"), [("0.02", 0.015, 0.025), ("7993.73", 7993.725, 7993.735), ("28", 27.5, 28.5)]
)
def test_what_may_have_been_rounded_to_a_printed_number(text: str, low: float, high: float) -> None:
    assert Printed(text).range == pytest.approx((low, high))


def test_the_page_on_costs_has_the_same_figures() -> None:
    paper, shown_figures = privfairfl(), set()
    of_paper = None
    for line in (PROJECT / "docs" / "explanation" / "costs.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            of_paper = None
        elif "PrivFairFL, Table 2" in cells:
            of_paper = cells.index("PrivFairFL, Table 2")
        elif of_paper is not None and (named := re.fullmatch(r"`([\w-]+)`", cells[0])):
            if named[1] not in paper.parties:
                assert cells[of_paper] == "–", line
                continue
            of_model = {p: paper.table2[named[1], "ads", p] for p in ("pi_rw", "pi_roc")}
            shown = {str(of_model["pi_rw"]): "pi_rw", f"{of_model['pi_roc'].seconds:,.0f}": "pi_roc"}
            assert cells[of_paper] in shown, line
            shown_figures.add((named[1], shown[cells[of_paper]]))
    assert shown_figures == {(model, protocol) for model in paper.parties for protocol in ("pi_rw", "pi_roc")}
