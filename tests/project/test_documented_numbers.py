"""Numbers in the documents that follow from the noise, computed anew."""

from __future__ import annotations

import re
from fractions import Fraction
from math import log2

from protocols.accounting.rounding import digits_up
from protocols.circuits.coins import design_coins, edge_mass
from protocols.circuits.noise import fair_bits_per_sample
from protocols.circuits.symmetric import design_symmetric_coins, fair_bits_per_symmetric_sample
from protocols.noise import symmetric
from protocols.noise import truncated as noise
from protocols.noise.truncated import probability_mass
from protocols.published_baselines import laplace_law, mp_spdz_log
from tests.conftest import PROJECT

LIMITATIONS = (PROJECT / "docs" / "explanation" / "limitations.md").read_text(encoding="utf-8")
SAMPLERS = (PROJECT / "docs" / "explanation" / "samplers.md").read_text(encoding="utf-8")
COST = (PROJECT / "docs" / "decisions" / "0008-cost-of-noise.md").read_text(encoding="utf-8")


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


def test_cost_privacy_and_error_of_the_samplers() -> None:
    """The table of docs/explanation/samplers.md, and what a sample takes in the decision on its cost."""
    default, balanced = design_coins(Fraction(1), 40), design_symmetric_coins(Fraction(1), 40)
    rows = {
        "default": (
            noise.mean_square_error(default),
            edge_mass(default),
            fair_bits_per_sample(default),
            sum(coin.bits - 1 for coin in default),
            len(default) + 1,
        ),
        "symmetric": (
            symmetric.mean_square_error(balanced),
            symmetric.guarantee(balanced).delta,
            fair_bits_per_symmetric_sample(balanced),
            sum(coin.bits for coin in balanced.magnitude) + balanced.zero.bits - 1,
            len(balanced.magnitude) + 2,
        ),
    }
    for name, (error, delta, *counts) in rows.items():
        row = re.search(
            rf"^\| `{name}` \| ([\d.]+) \| 2\^-([\d.]+) \| (\d+), (\d+), (\d+) \|", SAMPLERS, re.M
        )
        assert row is not None
        assert float(row[1]) == round(float(error), 2)
        assert 0 <= -log2(delta) - float(row[2]) < 0.1
        assert [int(row[i]) for i in (3, 4, 5)] == counts
    published = laplace_law(Fraction(1), mp_spdz_log, rounded=False)
    assert round(float(sum(p * x * x for x, p in published.items())) / 2**32, 2) == 2.0

    coins = design_coins(Fraction(1, 3), 60)
    assert "a sample of the default noise is 81 ANDs of 89 fair bits, and 8 bits converted" in COST
    assert sum(coin.bits - 1 for coin in coins) == 81
    assert (fair_bits_per_sample(coins), len(coins) + 1) == (89, 8)
    assert [(coin.numerator, coin.bits) for coin in coins[-2:]] == [(1, 15), (1, 30)]
