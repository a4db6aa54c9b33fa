"""Numbers in the documents that follow from the noise, computed anew."""

import csv
import re
from fractions import Fraction
from math import log2

from protocols.accounting.rounding import digits_up
from protocols.circuits.coins import design_coins, edge_mass
from protocols.circuits.noise import fair_bits_per_sample
from protocols.noise import truncated as noise
from protocols.noise.truncated import probability_mass
from protocols.published_baselines import laplace_distribution, mp_spdz_log
from tests.conftest import PROJECT

README = (PROJECT / "README.md").read_text(encoding="utf-8")
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
    default = design_coins(Fraction(1), 40)
    row = re.search(r"^\| `default` \| ([\d.]+) \| 2\^-([\d.]+) \| (\d+), (\d+), (\d+) \|", SAMPLERS, re.M)
    assert row is not None
    assert float(row[1]) == round(float(noise.mean_square_error(default)), 2)
    assert 0 <= -log2(edge_mass(default)) - float(row[2]) < 0.1
    ands = sum(coin.bits - 1 for coin in default)
    assert [int(row[i]) for i in (3, 4, 5)] == [fair_bits_per_sample(default), ands, len(default) + 1]
    published = laplace_distribution(Fraction(1), mp_spdz_log, rounded=False)
    assert round(float(sum(p * x * x for x, p in published.items())) / 2**32, 2) == 2.0

    coins = design_coins(Fraction(1, 3), 60)
    sample = sum(coin.bits - 1 for coin in coins), fair_bits_per_sample(coins), len(coins) + 1
    written = re.search(r"(\d+) ANDs of (\d+) fair bits, and (\d+) bits", COST)
    assert written is not None and tuple(map(int, written.groups())) == sample
    assert [(coin.numerator, coin.bits) for coin in coins[-2:]] == [(1, 15), (1, 30)]


def rows_of(text: str, first: str) -> list[list[str]]:
    """Return the cells of the table rows that begin so."""
    lines = [line for line in text.splitlines() if line.lstrip("| ").startswith(first)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_headline_figures_are_those_of_the_studies() -> None:
    """The README's table, from the recorded utility of curves, the page on costs and the example's output."""
    (weights,), (thresholds,), (curves,) = (
        rows_of(README, name) for name in ("Kamiran", "Thresholds, 1", "Score curves, the")
    )
    with (PROJECT / "benchmarks" / "results" / "utility" / "summary.csv").open(encoding="utf-8") as file:
        found = {
            each["method"]: {
                name: float(each[name] or 0) for name in each if name.endswith(("median", "gap"))
            }
            for each in csv.DictReader(file)
            if (each["records"], each["groups"], each["thresholds"]) == ("100000", "2", "1001")
            and each["epsilon"] in ("", "1.0")
        }
    tree, exact, local = (found[name] for name in ("tree", "noise-free", "local"))
    gap, accuracy = "gap_whole_median", "balanced_accuracy_median"
    assert thresholds[1] == (
        f"{tree['unmitigated_gap']:.3f} → {tree[gap]:.3f} (exact curves: {exact[gap]:.3f})"
    )
    assert thresholds[2].endswith(f"→ {tree[accuracy]:.3f} (exact curves: {exact[accuracy]:.3f})")
    errors = [each["tpr_rmse_median"] for each in (local, tree)]
    assert curves[1] == f"local DP {errors[0]:.2f} → {errors[1]:.3f}"

    flower = (PROJECT / "docs" / "how-to" / "flower.md").read_text(encoding="utf-8")
    of = {line.split()[0]: line.split()[1:] for line in flower.splitlines() if re.match(r"\w+ +\d\.", line)}
    gaps = of["demographic_parity_difference"]
    assert weights[1] == f"{gaps[1]} → {gaps[2]}, lower in {gaps[5]} of {gaps[7]}"
    losses = [of[name][3].replace("-", "−") for name in ("accuracy", "balanced_accuracy")]
    assert weights[2] == f"accuracy {losses[0]}, balanced accuracy {losses[1]}"

    costs = (PROJECT / "docs" / "explanation" / "costs.md").read_text(encoding="utf-8")
    for k, model in ((3, "ring"), (4, "spdz2k")):
        for row, of_model in zip((weights, thresholds), rows_of(costs, f"`{model}` |"), strict=False):
            seconds, sent = row[k].split(" s, ")
            assert of_model[1].startswith(seconds) and of_model[2].endswith(f", {sent}")
