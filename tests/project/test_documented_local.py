"""Numbers of clients in docs/explanation/local-privacy.md, computed anew."""

import csv
from collections.abc import Callable
from fractions import Fraction

import pytest

from benchmarks.studies.trust import IN_COMPUTATION, NEEDED, PER_AGGREGATOR, REPAIRED, trust_model
from protocols.arrays import Floats
from protocols.local_dp.estimators import gap_weights, half_width, least_enough
from protocols.local_dp.randomizers import Mechanism, MechanismL, MechanismR
from tests.conftest import PROJECT
from tests.support.local import chebyshev

TEXT = (PROJECT / "docs" / "explanation" / "local-privacy.md").read_text(encoding="utf-8")
ERROR, FAILURE = 0.01, 0.01
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
epsilons = pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)])


def row(heading: str, epsilon: Fraction) -> list[float]:
    """Return the numbers after epsilon in the row of the table with this heading."""
    lines = TEXT[TEXT.index(heading) :].splitlines()
    (found,) = [line for line in lines[2:5] if line.startswith(f"| {float(epsilon):g} |")]
    cells = [cell.strip().translate(SUPERSCRIPTS).replace("·10", "e") for cell in found.split("|")[2:-1]]
    return [float(cell) for cell in cells]


def clients_needed(
    mechanism: Mechanism, bound: Callable[[Mechanism, list[float], Floats, float], float]
) -> int:
    """Return how many clients put the gap of two equal groups within the error, by this bound."""

    def enough(clients: float) -> bool:
        sizes = [clients / 2] * 2
        return bound(mechanism, sizes, gap_weights(sizes, 0, 1), FAILURE) <= ERROR

    return least_enough(enough)


@epsilons
def test_clients_under_local_privacy(epsilon: Fraction) -> None:
    published, true, *ours = row("| ε | M_R as published |", epsilon)
    mechanism = MechanismR.with_budgets(2, epsilon, epsilon)
    assert true == pytest.approx(float(mechanism.epsilon), abs=5e-4)
    assert published == pytest.approx(clients_needed(mechanism, chebyshev), rel=0.005)
    expected = [
        clients_needed(kind.private(2, epsilon), bound)
        for kind in (MechanismR, MechanismL)
        for bound in (chebyshev, half_width)
    ]
    assert ours == pytest.approx(expected, rel=0.005)


@epsilons
def test_clients_under_each_trust_model(epsilon: Fraction) -> None:
    """What is proved is computed anew, what was simulated is the result on file."""
    cells = row("| ε | M_R, repaired | simulated |", epsilon)
    assert cells[0] == row("| ε | M_R as published |", epsilon)[3]
    with (PROJECT / "benchmarks" / "results" / "trust" / NEEDED).open(newline="") as file:
        on_file = {(r["model"], float(r["epsilon"]), float(r["error"])): r for r in csv.DictReader(file)}
    for i, name in enumerate((REPAIRED, PER_AGGREGATOR, IN_COMPUTATION)):
        assert cells[2 * i] == pytest.approx(needed(name, epsilon), rel=0.005)
        found = on_file[name, float(epsilon), ERROR]
        assert cells[2 * i] == pytest.approx(int(found["clients_proven"]), rel=0.005)
        assert cells[2 * i + 1] == pytest.approx(int(found["clients_simulated"]), rel=0.005)


def needed(name: str, epsilon: Fraction) -> int:
    model = trust_model(name, epsilon)
    return least_enough(lambda clients: model.half_width(clients, FAILURE) <= ERROR)
