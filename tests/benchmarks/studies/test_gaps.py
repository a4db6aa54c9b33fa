"""Published tables and figures on gaps under local privacy: formulas, readings, labels, recordings."""

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.measure.samples import ABOUT
from benchmarks.papers import gaps, rounds_to
from benchmarks.studies.gaps.figures import FIGURES, RATIOS, biased_gap, claims, figure4, with_ratio
from benchmarks.studies.gaps.study import (
    QUICK,
    RATES,
    RESULT,
    activity_rates,
    close,
    printed_figures,
    reproduce,
    synthetic_rates,
)
from benchmarks.studies.gaps.tables import (
    M_L,
    M_R,
    PUBLISHED,
    RATE_RANGE,
    REPAIRED,
    SCALED,
    Budgets,
    agrees,
    chance_of,
    coded_l,
    errors_of,
    l_of_two,
    least_epsilon,
    private,
    published_l,
    published_r,
    repaired_r,
    resampled,
    table1,
)
from benchmarks.studies.local_simulation import PublishedL, Simulated
from benchmarks.studies.outcome import Outcome, Row
from harness.cli import terminal
from harness.errors import DataSetError
from protocols.local_dp.estimators import gap_weights, half_width, variance
from protocols.local_dp.randomizers import MechanismL, MechanismR


@pytest.fixture(scope="module")
def first() -> list[Row]:
    return table1()


@pytest.fixture(scope="module")
def found() -> Outcome:
    return reproduce(None, QUICK)


@pytest.mark.parametrize(
    ("value", "printed", "same"),
    [(1.8649, "1.86", True), (1.866, "1.86", False), (0.1206, "0.1206", True), (0.1, "0.10", True)],
)
def test_a_number_is_what_was_rounded_to_it(value: float, printed: str, same: bool) -> None:
    assert rounds_to(value, printed) == same


def test_the_paper_has_all_its_cells() -> None:
    assert sum(len(row[name]) for row in gaps()["table1"]["cells"] for name in ("m_r", "m_l")) == 30
    assert [row["epsilon"] for row in gaps()["table2"]["cells"]] == ["0.01", "0.10", "1.00", "10.00"]


def test_eq_19_by_hand() -> None:
    """a = 2/3; variances of the noise 8/4 = 2 and 2/4 = 1/2; ten clients each, with values of -1 or 1.

    Ten kept with 2/3, of variance 2/3 (1 + 2) - 4/9 = 14/9; ten moved, of 1/3 1/2; divided by (20/3)^2.
    """
    budgets = Budgets(math.log(2), 2.0, 1.0)
    assert budgets.variance_of_mean(10, 10, 1.0) == pytest.approx((140 / 9 + 15 / 9) / (400 / 9))


def test_eq_20_by_hand() -> None:
    """a = 2/3, b = 3/4: reports are -1 or 1; 2/3 1/2 of the value on average; the other group's: 0."""
    budgets = Budgets(math.log(2), math.log(3))
    each = 2 / 3 - (2 / 3 * 1 / 2 * 1 / 5) ** 2
    by_hand = (10 * each + 30 * 1 / 3) / (10 * 2 / 3 * 1 / 2) ** 2
    assert budgets.variance_of_mean(10, 30, 1 / 25) == pytest.approx(by_hand)


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


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 1.5, 10.0])
def test_the_code_exchanges_the_two_scales(epsilon: float) -> None:
    meant, coded = published_l(epsilon), coded_l(epsilon)
    assert meant.k is not None and coded.k is not None
    assert 2 / coded.epsilon_2 == pytest.approx(min(meant.k, 2) / epsilon)  # kept
    assert coded.k / coded.epsilon_2 == pytest.approx(2 / epsilon)  # moved
    assert coded.epsilon_1 == meant.epsilon_1


def test_what_is_simulated() -> None:
    assert isinstance(published_r(1.0).simulable(RATE_RANGE), MechanismR)
    assert isinstance(l_of_two(1.0).simulable(RATE_RANGE), MechanismL)
    coded = coded_l(0.1).simulable(RATE_RANGE)
    assert isinstance(coded, PublishedL)
    assert (coded.k, coded.at_two.epsilon_2) == (Fraction(6), Fraction(3, 10))


def test_least_epsilon() -> None:
    assert least_epsilon(lambda epsilon: 1 / epsilon, 0.25, 0.1, 10) == pytest.approx(4, rel=2e-6)
    assert least_epsilon(lambda epsilon: 1 / epsilon, 0.25, 0.1, 3.9) is None


def test_table1_is_as_published(first: list[Row]) -> None:
    assert len(first) == 30
    assert all(cell["agrees"] for cell in first)
    assert sum(cell["reproduced"] is None for cell in first) == 6


def test_table1_tells_apart_what_is_not_as_published(first: list[Row]) -> None:
    (cell,) = (c for c in first if (c["mechanism"], c["clients"], c["alpha"]) == (M_R, 10**7, 0.01))
    assert agrees(cell["reproduced"], "1.86") and not agrees(cell["reproduced"], "1.87")
    assert not agrees(cell["reproduced"], None) and agrees(None, None) and not agrees(None, "1.86")


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


def test_errors_are_of_absolute_gaps() -> None:
    """Means of 0.2 and 0.6 against 0.5: gaps of -0.3 and 0.1, where the true one is 0.2."""
    mechanism = MechanismR.private(2, Fraction(1), RATE_RANGE)
    kept = float(mechanism.grr.keep) * mechanism.gain
    sums = kept * np.array([[-0.6, 0.0], [0.2, 0.0]])
    simulated = Simulated(
        mechanism, np.array([1, 1]), np.array([0.7, 0.5]), np.ones((2, 2), dtype=np.int64), sums
    )
    assert errors_of(simulated) == pytest.approx([0.1, 0.1])


@pytest.mark.parametrize(
    ("printed", "chance"), [("0.02", 1.0), ("0.01", 0.5), ("0.04", 0.5), ("0.00", 0.0), ("0.05", 0.0)]
)
def test_chance_of_what_is_printed(printed: str, chance: float) -> None:
    assert chance_of(np.array([0.0149, 0.02, 0.03, 0.0351]), printed) == chance


def test_synthetic_rates_have_the_papers_means() -> None:
    rates = synthetic_rates()
    for name, means in zip(RATES, ((0.8901, 0.7177), (0.1526, 0.2490)), strict=True):
        assert [len(of_sex) for of_sex in rates.values[name]] == [25, 62]
        assert [of_sex.mean() for of_sex in rates.values[name]] == pytest.approx(means)
        assert all(of_sex.min() >= 0 and of_sex.max() <= 1 for of_sex in rates.values[name])


def test_resampled_clients_share_the_values_alike() -> None:
    population = resampled((np.array([0.5, 1.0]), np.array([0.0, 0.2, 0.4])), (8, 11))
    assert [each.tolist() for each in population.clients] == [[4, 4], [4, 4, 3]]


def test_claims_of_the_figures() -> None:
    judged = claims()
    assert [claim["agrees"] for claim in judged] == [False, False, False, True, True, False, True]
    assert judged[1]["reproduced"] == "0.36 to 3.53"
    assert biased_gap(0.6, 0.5) == pytest.approx(0.4 - 1.2)
    assert [sum(with_ratio(ratio)) for ratio in RATIOS] == pytest.approx([20_000] * len(RATIOS))


def test_published_budgets_are_no_better_at_their_true_epsilon() -> None:
    for epsilon in (0.05, 0.5, 1.0, 3.0):
        true = published_r(epsilon).true_epsilon()
        assert true is not None
        sizes = (1e4, 1e4)
        assert repaired_r(float(true)).variance(sizes) < published_r(epsilon).variance(sizes)


def test_figure4_states_the_closed_form_and_the_worst() -> None:
    published, repaired = figure4(100, np.random.default_rng(1))
    assert rounds_to(published["theory"], gaps()["figure4"]["theory"])
    assert (
        published["theory"] < published["worst"]
        and repaired["epsilon"] <= Fraction(1, 2) < published["epsilon"]
    )
    assert published["runs"] == (10, 100) and len(published["empirical"]) == 2


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_drawn(name: str, found: Outcome) -> None:
    figure = found.figures[f"{name}.png"]()
    assert name.replace("figure-", "Figure ") in (figure.get_suptitle() or figure.axes[0].get_title())
    assert all(axes.get_xlabel() and (axes.lines or axes.collections) for axes in figure.axes)


def test_synthetic_is_said_in_every_output(
    found: Outcome, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.show(*found.view)
    printed = capsys.readouterr().out
    assert "SYNTHETIC population" in printed and "10^7 clients — SYNTHETIC POPULATION" in printed
    found.write(tmp_path, "./inv reproduce gaps --quick", 1.0)
    result, about = (json.loads((tmp_path / name).read_text()) for name in (RESULT, ABOUT))
    assert result["population"]["source"] == about["population"]["source"] == "synthetic"
    assert "SYNTHETIC" in result["population"]["is"] and "SYNTHETIC" in about["population"]["is"]
    assert {cell["population"] for cell in result["table2"]} == {"synthetic"}
    assert result["activity"] == []


def test_figures_of_the_data_agree_within_three_deviations() -> None:
    def stated(printed: str, value: float, deviation: float | None) -> bool:
        return close(value, printed, deviation)

    assert stated("84.37", 84.0, 0.2) and not stated("84.37", 84.0, 0.1)
    assert stated("864", 863.54, None) and not stated("864", 863.4, None)


def test_result_is_json_with_rounded_up_epsilons(found: Outcome) -> None:
    result: dict[str, Any] = json.loads(json.dumps(found.json, allow_nan=False))
    (cell,) = (c for c in result["table2"] if (c["mechanism"], c["epsilon"]) == (M_R, "1.00"))
    exact = PUBLISHED[M_R](1.0).true_epsilon()
    assert exact is not None and exact <= Fraction(cell["true_epsilon"]) < exact + Fraction(1, 10**9)
    assert cell["agrees"] is True


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
