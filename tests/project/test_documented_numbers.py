"""Numbers in the documents, computed anew or as they were recorded."""

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import exp, log2, sqrt

import pytest

from benchmarks.commands.tampering import summary
from benchmarks.studies.trust import (
    IN_COMPUTATION,
    NEEDED,
    PER_AGGREGATOR,
    REPAIRED,
    clients_of_one_bit,
    clients_of_one_sum,
    least_enough,
    trust_model,
)
from benchmarks.tampering import timing
from benchmarks.tampering.operations import family_in, name_of
from benchmarks.tampering.walk import load
from fairshares.protocols.accounting.exact_privacy import cost
from fairshares.protocols.accounting.rounding import digits_up
from fairshares.protocols.arrays import Floats
from fairshares.protocols.circuits.coins import NoiseFamily, design_coins, design_noise, edge_mass
from fairshares.protocols.circuits.noise import fair_bits_per_sample
from fairshares.protocols.local_dp.estimators import gap_weights, half_width
from fairshares.protocols.local_dp.randomizers import Mechanism, MechanismL, MechanismR
from fairshares.protocols.noise import truncated as noise
from fairshares.protocols.noise.truncated import probability_mass
from tests.conftest import PROJECT
from tests.support.local import chebyshev

LIMITATIONS = (PROJECT / "docs" / "explanation" / "limitations.md").read_text(encoding="utf-8")
SAMPLERS = (PROJECT / "docs" / "explanation" / "noise.md").read_text(encoding="utf-8")


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
    """The table of docs/explanation/noise.md."""
    default = design_coins(Fraction(1), 40)
    row = re.search(r"^\| `default` \| ([\d.]+) \| 2\^-([\d.]+) \| (\d+), (\d+), (\d+) \|", SAMPLERS, re.M)
    assert row is not None
    assert float(row[1]) == round(float(noise.mean_square_error(default)), 2)
    assert 0 <= -log2(edge_mass(default)) - float(row[2]) < 0.1
    ands = sum(coin.bits - 1 for coin in default)
    assert [int(row[i]) for i in (3, 4, 5)] == [fair_bits_per_sample(default), ands, len(default) + 1]


def rows_of(text: str, first: str) -> list[list[str]]:
    """Return the cells of the table rows that begin so."""
    lines = [line for line in text.splitlines() if line.lstrip("| ").startswith(first)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_headline_figures_are_those_of_the_studies() -> None:
    """The table of the page on costs, from the recorded utility of curves, the same page and the example."""
    costs = (PROJECT / "docs" / "explanation" / "costs.md").read_text(encoding="utf-8")
    (weights,), (thresholds,), (curves,) = (
        rows_of(costs, name) for name in ("Kamiran", "Thresholds, 1", "Score curves, the")
    )
    with (PROJECT / "benchmarks" / "results" / "utility" / "summary.csv").open(encoding="utf-8") as file:
        by_method = {
            line["method"]: {
                name: float(line[name] or 0) for name in line if name.endswith(("median", "gap"))
            }
            for line in csv.DictReader(file)
            if (line["records"], line["groups"], line["thresholds"]) == ("100000", "2", "1001")
            and line["epsilon"] in ("", "1.0")
        }
    tree, exact, local = (by_method[name] for name in ("tree", "noise-free", "local"))
    gap, accuracy = "gap_whole_median", "balanced_accuracy_median"
    assert thresholds[1] == (
        f"{tree['unmitigated_gap']:.3f} → {tree[gap]:.3f} (exact curves: {exact[gap]:.3f})"
    )
    assert thresholds[2].endswith(f"→ {tree[accuracy]:.3f} (exact curves: {exact[accuracy]:.3f})")
    errors = [figures["tpr_rmse_median"] for figures in (local, tree)]
    assert curves[1] == f"local DP {errors[0]:.2f} → {errors[1]:.3f}"

    flower = (PROJECT / "docs" / "how-to" / "flower.md").read_text(encoding="utf-8")
    of = {line.split()[0]: line.split()[1:] for line in flower.splitlines() if re.match(r"\w+ +\d\.", line)}
    gaps = of["demographic_parity_difference"]
    assert weights[1] == f"{gaps[1]} → {gaps[2]}, lower in {gaps[5]} of {gaps[7]}"
    losses = [of[name][3].replace("-", "−") for name in ("accuracy", "balanced_accuracy")]
    assert weights[2] == f"accuracy {losses[0]}, balanced accuracy {losses[1]}"

    for k, model in ((3, "ring"), (4, "spdz2k")):
        for row, of_model in zip((weights, thresholds), rows_of(costs, f"`{model}` |"), strict=False):
            seconds, sent = row[k].split(" s, ")
            assert of_model[1].startswith(seconds) and of_model[2].endswith(f", {sent}")


TEXT = (PROJECT / "docs" / "explanation" / "local-privacy.md").read_text(encoding="utf-8")
ERROR, FAILURE = 0.01, 0.01
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
epsilons = pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)])


def row(heading: str, epsilon: Fraction) -> list[float]:
    """Return the numbers after epsilon in the row of the table with this heading."""
    lines = TEXT[TEXT.index(heading) :].splitlines()
    (line_of_epsilon,) = [line for line in lines[2:5] if line.startswith(f"| {float(epsilon):g} |")]
    cells = [
        cell.strip().translate(SUPERSCRIPTS).replace("·10", "e") for cell in line_of_epsilon.split("|")[2:-1]
    ]
    return [float(cell.replace(",", "")) for cell in cells]


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
        recorded = on_file[name, float(epsilon), ERROR]
        assert cells[2 * i] == pytest.approx(int(recorded["clients_proven"]), rel=0.005)
        assert cells[2 * i + 1] == pytest.approx(int(recorded["clients_simulated"]), rel=0.005)


@epsilons
def test_clients_where_sizes_are_known(epsilon: Fraction) -> None:
    one_bit, one_sum, times = row("| ε | one bit, local |", epsilon)
    assert one_bit == pytest.approx(clients_of_one_bit(epsilon, ERROR, FAILURE), rel=0.005)
    assert one_sum == pytest.approx(clients_of_one_sum(epsilon, ERROR, FAILURE), rel=0.005)
    assert times == pytest.approx(one_bit / one_sum, rel=0.01)


def test_the_readme_compares_methods_and_bests() -> None:
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"local DP, with \[(\d+) to ([\d,]+) times as many clients\]", readme)
    assert found is not None
    methods, bests = (int(number.replace(",", "")) for number in found.groups())
    assert methods == pytest.approx(
        needed(REPAIRED, Fraction(1)) / needed(IN_COMPUTATION, Fraction(1)), rel=0.01
    )
    assert bests == row("| ε | one bit, local |", Fraction(1))[2]


def needed(name: str, epsilon: Fraction) -> int:
    model = trust_model(name, epsilon)
    return least_enough(lambda clients: model.half_width(clients, FAILURE) <= ERROR)


PAGE = (PROJECT / "docs" / "explanation" / "active-security.md").read_text(encoding="utf-8")
MOST_USED = ("pi_rw", "pi_cf", "pi_roc", "pi_gap", "pi_lap", "pi_sum")
RESULTS = PROJECT / "benchmarks" / "results"


ACTIVE = ("spdz2k", "ps-rep-ring", "rep4-ring")


@pytest.mark.parametrize(
    ("directory", "first", "models"),
    [
        ("operations", "small programs", ACTIVE),
        ("more-parties", "small programs", ["spdz2k of 3 parties", "malicious-shamir of 5 parties"]),
        ("programs", "programs", ACTIVE),
        ("programs-symmetric", "programs, symmetric", ACTIVE),
        ("noise", "noise", ACTIVE),
        ("noise-symmetric", "noise, symmetric", ACTIVE),
        ("stock", "noise made ahead", ACTIVE),
        ("stock-symmetric", "noise made ahead, symmetric", ACTIVE),
    ],
)
def test_counts_of_changes(directory: str, first: str, models: Sequence[str]) -> None:
    """A row for each model, all its operations together."""
    attempts = load(RESULTS / "tampering" / directory / "samples.jsonl")
    family = NoiseFamily.SYMMETRIC if directory.endswith("-symmetric") else NoiseFamily.SIGNED
    assert {family_in(attempt.operation) for attempt in attempts} == {family}
    tried = name_of(first, family)
    rows = summary([replace(attempt, operation=tried) for attempt in attempts])
    assert {row["security"] for row in rows} >= {*models}
    for row in rows:
        changed = sum(row[name] for name in ("aborted", "opened", "right", "wrong"))
        counts = (changed, row["aborted"], row["opened"], row["right"], row["wrong"])
        assert row["shifted"] == 0  # "whatever was revealed before a run was ended was right as well"
        cells = " | ".join(f"{count:,}" for count in counts)
        line = f"| {first} | `{row['security']}` | {cells} | {100 * row['wrong_at_most']:.2g} % |"
        assert line in PAGE, line
        assert "noise" not in row or row["distance"] <= row["by_chance"]


def test_times() -> None:
    rows = timing.summary(timing.load(RESULTS / "timing" / "samples.jsonl"))
    assert not any(row["sizes_differ"] or row["found"] for row in rows)
    most_used = [row for row in rows if row["operation"].split()[0] in MOST_USED]
    for of in (
        [row for row in most_used if row["security"] != "spdz2k"],
        [row for row in most_used if row["security"] == "spdz2k"],
        [row for row in rows if row not in most_used],
    ):
        long = [row["difference_s"][1] - row["difference_s"][0] for row in of]
        parts = [100 * length / row["seconds"] for length, row in zip(long, of, strict=True)]
        cells = (
            span("", *(row["pairs"] for row in of)),
            span(".3g", *(row["seconds"] for row in of)),
            f"{span('.3g', *(1e3 * length for length in long))} ms",
            f"{span('.0f', *parts)} %",
        )
        assert " | ".join(cells) in PAGE, cells


def span(form: str, *values: float) -> str:
    return f"{min(values):{form}}–{max(values):{form}}"


def test_error_and_cost_of_joint_noise_by_epsilon() -> None:
    """The second table of docs/explanation/noise.md."""
    (head,), (errors,), (ands,), (before,) = (
        rows_of(SAMPLERS, name)
        for name in ("ε | 0.1", "error over", "ANDs of a sample", "error of signed noise")
    )
    for written, error, cost_of_sample, signed in zip(head, errors, ands, before, strict=True):
        if written == "ε":
            continue
        epsilon = Fraction(written)
        q = exp(-float(epsilon))
        least = sqrt(2 * q) / (1 - q)
        coins = design_noise(epsilon, 40)
        assert f"{sqrt(noise.mean_square_error(coins)) / least:.3f}" == error
        assert float(error) <= 1.1
        assert cost(coins).ands == int(cost_of_sample)
        of_signed = sqrt(noise.mean_square_error(design_coins(epsilon, 40))) / least
        assert of_signed == pytest.approx(float(signed), rel=0.005)
