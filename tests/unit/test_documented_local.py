"""Numbers of clients in docs/local-privacy.md, computed anew."""

from __future__ import annotations

from fractions import Fraction

import pytest

from protocols.budget import NeighboringRelation, plan_noise
from protocols.local_dp import MechanismL, MechanismR
from protocols.local_estimates import chebyshev, clients_needed
from protocols.noise import error_bound
from protocols.release import sums_and_sizes
from tests.conftest import PROJECT

TEXT = (PROJECT / "docs" / "local-privacy.md").read_text(encoding="utf-8")
ERROR, FAILURE = 0.01, 0.01
STEPS = 1000
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
epsilons = pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)])


def row(heading: str, epsilon: Fraction) -> list[float]:
    """Return the numbers after epsilon in the row of the table with this heading."""
    lines = TEXT[TEXT.index(heading) :].splitlines()
    (found,) = [line for line in lines[2:5] if line.startswith(f"| {float(epsilon):g} |")]
    cells = [cell.strip().translate(SUPERSCRIPTS).replace("·10", "e") for cell in found.split("|")[2:-1]]
    return [float(cell) for cell in cells]


@epsilons
def test_clients_under_local_privacy(epsilon: Fraction) -> None:
    published, true, *ours = row("| ε | M_R as published |", epsilon)
    mechanism = MechanismR.with_budgets(2, epsilon, epsilon)
    assert true == pytest.approx(float(mechanism.epsilon), abs=5e-4)
    equal = (0.5, 0.5)
    assert published == pytest.approx(clients_needed(mechanism, equal, ERROR, FAILURE, chebyshev), rel=0.005)
    expected = [
        clients_needed(kind.private(2, epsilon), equal, ERROR, FAILURE, *bound)
        for kind in (MechanismR, MechanismL)
        for bound in ((chebyshev,), ())
    ]
    assert ours == pytest.approx(expected, rel=0.005)


@epsilons
def test_clients_with_servers(epsilon: Fraction) -> None:
    local, servers = row("| ε | M_R, repaired | noise in the computation |", epsilon)
    assert local == row("| ε | M_R as published |", epsilon)[3]
    release = sums_and_sizes(2, STEPS)
    plan = plan_noise(release, NeighboringRelation.REPLACE_ONE, epsilon, Fraction(1, 2**40))
    t = float(error_bound(plan.coins, Fraction(1, 400)))
    assert servers == pytest.approx(2 * (t + 4 * t / ERROR) / STEPS, rel=0.005)
