"""Published tables and figures on gaps under local privacy: formulas, readings, labels, recordings."""

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from benchmarks.papers import rounds_to
from benchmarks.studies.gaps.figures import FIGURES
from benchmarks.studies.gaps.study import (
    QUICK,
    RATES,
    activity_rates,
    printed_figures,
    reproduce,
)
from benchmarks.studies.gaps.tables import (
    M_L,
    M_R,
    REPAIRED,
    SCALED,
    Budgets,
    coded_l,
    l_of_two,
    private,
    published_l,
    published_r,
    table1,
)
from benchmarks.studies.outcome import Outcome, Row
from harness.errors import DataSetError
from protocols.local_dp.estimators import gap_weights, half_width, variance
from protocols.local_dp.randomizers import MechanismL, MechanismR


@pytest.fixture(scope="module")
def first() -> list[Row]:
    return table1()


@pytest.fixture(scope="module")
def found() -> Outcome:
    return reproduce(None, QUICK)


@pytest.mark.parametrize("sizes", [(500.0, 500.0), (25.0, 62.0)])
@pytest.mark.parametrize("squares", [None, (0.5, 0.1)])
def test_variances_are_those_of_the_client_library(
    sizes: tuple[float, float], squares: tuple[float, float] | None
) -> None:
    weights = gap_weights(sizes, 0, 1)
    ours = MechanismR.with_budgets(2, Fraction(1, 2), Fraction(2))
    assert Budgets(0.5, 2.0).variance(sizes, squares) == pytest.approx(
        variance(ours, sizes, weights, squares)
    )
    of_two = MechanismL.private(2, Fraction(3))  # its grid adds up to 10^-10 of the variance
    assert l_of_two(3.0).variance(sizes, squares) == pytest.approx(variance(of_two, sizes, weights, squares))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_repaired_budgets_are_those_of_the_client_library(epsilon: float) -> None:
    sizes = (1000.0, 500.0)
    for mechanism, allocation in REPAIRED.items():
        chosen = private(mechanism, Fraction(epsilon), SCALED)
        assert chosen.epsilon <= Fraction(epsilon)
        expected = variance(chosen, sizes, gap_weights(sizes, 0, 1))
        assert allocation(epsilon).variance(sizes) == pytest.approx(expected)


def test_true_epsilons() -> None:
    one = published_r(1.0).true_epsilon()
    assert one is not None and float(one) == pytest.approx(1 + math.log(2 * math.e / (1 + math.e)))
    assert all(published_l(epsilon).true_epsilon() is None for epsilon in (0.01, 1.0, 3.0, 178.89))
    assert published_l(2.0) == l_of_two(2.0) and l_of_two(2.0).true_epsilon() == 2
    ten = coded_l(10.0).true_epsilon()  # here the code has k = 2, but the budgets of k = 10
    assert ten is not None and float(ten) == pytest.approx(5 + math.log(0.2) + 9)


def test_table1_is_as_published(first: list[Row]) -> None:
    assert len(first) == 30
    assert all(cell["agrees"] for cell in first)
    assert sum(cell["reproduced"] is None for cell in first) == 6


def test_table1_says_what_it_takes(first: list[Row]) -> None:
    for cell in first:
        sizes = (cell["clients"] / 2, cell["clients"] / 2)
        if cell["reproduced"] is None:
            assert cell["published"] is None and cell["true_epsilon"] is None and cell["repaired"] is None
            continue
        if cell["mechanism"] == M_L:
            assert cell["true_epsilon"] is None
        else:
            assert cell["true_epsilon"] is not None and cell["true_epsilon"] > cell["reproduced"]
        assert cell["repaired"] is not None and cell["repaired_alpha"] is not None
        assert REPAIRED[cell["mechanism"]](cell["repaired"]).chebyshev(sizes, 0.01) == pytest.approx(
            cell["alpha"], rel=1e-5
        )
        assert (cell["repaired_alpha"] > cell["alpha"]) == (cell["repaired"] > cell["reproduced"])
        if cell["tight"] is not None:
            chosen = private(cell["mechanism"], Fraction(cell["tight"]), SCALED)
            assert half_width(chosen, sizes, gap_weights(sizes, 0, 1), 0.01) <= cell["alpha"]
            assert cell["tight"] < cell["repaired"]


def test_table2_alphas_are_as_published_by_the_codes_reading_only(found: Outcome) -> None:
    cells = found.json["table2"]
    assert len(cells) == 8 and all(cell["agrees"] for cell in cells)
    assert not any(rounds_to(cell["alpha_of_the_text"], cell["published"]["alpha"]) for cell in cells)
    (cell,) = (c for c in found.json["table2"] if (c["mechanism"], c["epsilon"]) == (M_R, "1.00"))
    assert (round(cell["alpha"], 4), round(cell["alpha_of_the_text"], 4)) == (0.0094, 0.0230)
    for cell in cells:
        assert (cell["coded"] is None) == (cell["mechanism"] == M_R)
        assert cell["repaired"]["fits_mean"] is None and cell["errors"]["fits_mean"] is not None
        assert cell["population"] == "synthetic"
    assert found.json["population"]["source"] == "synthetic" and found.json["activity"] == []


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_drawn(name: str, found: Outcome) -> None:
    figure = found.figures[f"{name}.png"]()
    assert name.replace("figure-", "Figure ") in (figure.get_suptitle() or figure.axes[0].get_title())
    assert all(axes.get_xlabel() and (axes.lines or axes.collections) for axes in figure.axes)


ROWS = 60


def recording(lying: int, rows: int, *, lost: int = 0) -> str:
    """Return a recording whose first rows lie; the vertical axis tells, but in the first `lost` of them."""
    lines = []
    for row in range(rows):
        vertical = 5.0 if row < lost or row >= lying else -5.0
        lines.append(f"0,0,{vertical},0,1,0,0,1,{3 if row < lying else 1}")
    return "\n".join(lines) + "\n"


def write(directory: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (directory / name).write_text(text)
    return directory


def test_rates_are_those_that_were_planted(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {
            "d1p01M": recording(30, ROWS),
            "d1p02M": recording(40, ROWS),
            "d1p03F": recording(30, ROWS),
            "d2p01F": recording(30, ROWS, lost=30),  # lies, and never looks like it
            "d2p02F": recording(24, 49),  # too short
            "d2p03M": recording(5, ROWS),  # lies too seldom
        },
    )
    seen: list[int] = []
    rates = activity_rates(path, 2, seen.append)
    true, false = (rates.values[name] for name in RATES)
    assert [of_sex.tolist() for of_sex in true] == [[1.0, 1.0], [1.0, 0.0]]
    assert [of_sex.tolist() for of_sex in false] == [[0.0, 0.0], [0.0, 0.0]]
    figures = rates.figures
    assert set(figures) == set(printed_figures())
    assert (figures["recordings_M"][0], figures["recordings_F"][0]) == (3, 3)
    assert figures["readings_per_recording"][0] == pytest.approx((5 * ROWS + 49) / 6)
    assert figures["mean_true_positive_rate_M"][0] == 100
    assert figures["mean_true_positive_rate_F"][0] == 50
    assert figures["true_positive_rate_gap"][0] == 50
    assert figures["false_positive_rate"][0] == 0
    assert 70 < figures["accuracy"][0] < 100 and np.isfinite(figures["accuracy"][1] or np.nan)
    assert rates.about["source"] == "activity" and not rates.about["same_as_described_in_data_README"]
    assert seen == [1, 2]


def test_both_sexes_are_needed(tmp_path: Path) -> None:
    with pytest.raises(DataSetError, match="no recording of each sex"):
        activity_rates(write(tmp_path, {"d1p01M": recording(30, ROWS), "d1p03F": recording(3, ROWS)}), 1)
