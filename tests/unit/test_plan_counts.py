"""What programs use: counted on the circuit, and read from what MP-SPDZ's compiler prints."""

from __future__ import annotations

from fractions import Fraction

import pytest

from benchmarks.measuring import job_of
from harness.errors import PlanError
from harness.models import MODELS
from harness.planning import counts
from harness.planning.counts import Counts, counts_of, read_estimate
from protocols.circuits.coins import Coin, design_coins
from tests.conformance.estimates import recorded

CELL: dict[str, str | int] = {
    "protocol": "pi_rw",
    "variant": "default",
    "input_path": "shares",
    "epsilon": "1",
    "clients": 50,
    "records": 70,
    "groups": 3,
    "labels": 2,
    "network": "none",
}
RECORDS_AT_100 = "pi_roc_records 3 3000 2 2 101 "


def test_counts_of_a_split_form_are_inputs_and_noise() -> None:
    coins = design_coins(Fraction(1), 40)
    gates = sum(coin.bits - 1 for coin in coins)
    bits = 1 + sum(coin.bits for coin in coins)
    found = counts_of(job_of({**CELL, "model": "ring"}), MODELS["ring"])
    assert (found.inputs, found.lanes) == (3 * 6, 6)  # three parties, six cells
    assert (found.gates, found.ands, found.input_bits) == (gates, 6 * gates, 3 * 6 * bits)
    assert found.dabits == 6 * (len(coins) + 1)
    assert (found.decomposed, found.multiplications, found.products) == (0, 0, 0)


def test_products_are_counted_within_inner_products_and_one_by_one() -> None:
    weights = counts_of(job_of({**CELL, "variant": "product", "model": "ring"}), MODELS["ring"])
    assert (weights.inputs, weights.products) == (3 * (2 + 2) * 50, 2 * 2 * 50)


@pytest.mark.parametrize(
    ("coins", "gates", "depth"),
    [
        ((Coin(1, 1),), 0, 0),  # the fair bit itself
        ((Coin(1, 3),), 2, 2),  # less than 1: all three bits are 0; the run of two in one tree, then the last
        ((Coin(3, 2), Coin(1, 5)), 5, 3),
    ],
)
def test_gates_and_depth_of_coins(coins: tuple[Coin, ...], gates: int, depth: int) -> None:
    assert counts._noise_circuit(coins) == (gates, depth)


def test_reads_what_the_compiler_prints() -> None:
    text = """Hash: 12 ab
Program requires at most:
       10 integer inputs from player 0
       10 integer inputs from player 1
        7 bit inputs from player 1
      100 bit triples
       20 integer dabits
        5 loose edabits of length 4
        2 strict edabits of length 10
        3 integer 3-way splits
        1 integer 3-way split rounds
       30 integer triples
       12 integer simple multiplications
       48 bit opens
       99 virtual machine rounds
"""
    assert read_estimate(text, 8) == Counts(99, 0, 20, 7, 100, 20, 43, 12, 18, 8)
    with pytest.raises(PlanError, match="no estimate"):
        read_estimate("Hash: 12 ab\n", 8)


def executed_comparisons(place_bits: int, word_bits: int) -> tuple[int, int]:
    """Go through the loops of the sorting network: how often it compares, how often its body says so."""
    made = said = 0
    for p in range(1, word_bits + 1):
        for turn in range(word_bits):
            said += 1
            made += word_bits - 1 - turn < p
    for p in range(word_bits + 1, place_bits + 1):
        for turn in range(word_bits):
            said += 1
            made += place_bits - 1 - turn < p
        for turn in range(word_bits):
            said += 1
            made += word_bits - 1 - turn < 6
    return made, said


def test_comparisons_that_the_loops_leave_out_are_taken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    name, text = next(
        item for item in recorded().items() if item[0].startswith(RECORDS_AT_100) and "-Z 3" in item[0]
    )
    monkeypatch.setattr(counts, "estimate", lambda _job, _model: text)
    cell = {**CELL, "protocol": "pi_roc", "variant": "records", "groups": 2, "labels": 2}
    job = job_of({**cell, "model": "ring", "clients": 90, "records": 3000, "thresholds": 101})
    assert name.startswith(" ".join((job.spec.name, *job.arguments)))
    # 3,000 records and 404 markers are 64 * 54 elements, so 2^12 places, of which 6 bits number words; a key
    # below 405 has 9 bits, so an element 10.
    made, said = executed_comparisons(12, 6)
    assert made == 12 * 13 // 2
    whole, found = read_estimate(text, 4 * 101), counts_of(job, MODELS["ring"])
    assert whole.ands - found.ands == (said - made) * 2 * 10 * 2**11
    assert whole.rounds - found.rounds == (said - made) * 11


def test_without_a_compiler_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "find_installation", lambda: "MP-SPDZ was not found.")
    cell = {**CELL, "variant": "weights", "model": "ring"}
    with pytest.raises(PlanError, match=r"pi_rw_weights.*MP-SPDZ was not found"):
        counts_of(job_of(cell), MODELS["ring"])
    assert counts_of(job_of({**CELL, "model": "ring"}), MODELS["ring"]).lanes == 6
