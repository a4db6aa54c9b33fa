"""Published tables and figures on gaps under local privacy: formulas, readings, labels, recordings."""

import math
from fractions import Fraction

import pytest

from benchmarks.papers import rounds_to
from benchmarks.studies.gaps.published import (
    M_R,
    Budgets,
    coded_l,
    l_of_two,
    published_l,
    published_r,
    table1,
)
from benchmarks.studies.gaps.study import (
    QUICK,
    reproduce,
)
from benchmarks.studies.outcome import Row, StudyResult
from fairshares.protocols.local_dp.estimators import gap_weights, variance
from fairshares.protocols.local_dp.randomizers import MechanismL, MechanismR


@pytest.fixture(scope="module")
def first() -> list[Row]:
    return table1()


@pytest.fixture(scope="module")
def outcome() -> StudyResult:
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


def test_table2_alphas_are_as_published_by_the_codes_reading_only(outcome: StudyResult) -> None:
    cells = outcome.json["table2"]
    assert len(cells) == 8 and all(cell["agrees"] for cell in cells)
    assert not any(rounds_to(cell["alpha_of_the_text"], cell["published"]["alpha"]) for cell in cells)
    (cell,) = (c for c in outcome.json["table2"] if (c["mechanism"], c["epsilon"]) == (M_R, "1.00"))
    assert (round(cell["alpha"], 4), round(cell["alpha_of_the_text"], 4)) == (0.0094, 0.0230)
    for cell in cells:
        assert (cell["coded"] is None) == (cell["mechanism"] == M_R)
        assert cell["repaired"]["fits_mean"] is None and cell["errors"]["fits_mean"] is not None
        assert cell["population"] == "synthetic"
    assert outcome.json["population"]["source"] == "synthetic" and outcome.json["activity"] == []
