"""Numbers in the documents that follow from the noise, computed anew."""

from __future__ import annotations

import re
from fractions import Fraction

from harness.rounding import digits_up
from protocols.circuits.coins import design_coins
from protocols.noise import probability_mass
from tests.conftest import PROJECT

LIMITATIONS = (PROJECT / "docs" / "limitations.md").read_text(encoding="utf-8")


def test_delta_of_a_client_with_many_records() -> None:
    """Of two releases that differ by m in one count: by definition, at m times epsilon, exactly.

    On the values that both can take the ratio keeps to e^(m epsilon); the others are the m outermost.
    """
    row = re.search(r"records of one client \|(.*)\|\n.*\n *\| δ, at m·ε \|(.*)\|\n", LIMITATIONS)
    assert row is not None
    records, deltas = ([word.strip() for word in cells.split("|")] for cells in row.groups())
    mass = probability_mass(design_coins(Fraction(1), 40))
    assert records == ["1", "2", "8", "16", "24", "32", "64"]
    for m, written in zip(map(int, records), deltas, strict=True):
        exact = sum((p for x, p in mass.items() if x + m not in mass), Fraction(0))
        ratios = [mass[x] / mass[x + m] for x in mass if x + m in mass]
        assert all(ratio <= Fraction(27182818, 10**7) ** m for ratio in ratios)
        assert Fraction(written) == Fraction(digits_up(exact, 2))
