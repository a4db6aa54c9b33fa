"""What programs use: counted on the circuit, and read from what MP-SPDZ's compiler prints."""

from dataclasses import replace
from fractions import Fraction

import pytest

from benchmarks.measure.cell import job_of
from fairshares.harness.engines.execution import PROGRAMS, Job
from fairshares.harness.errors import PlanError
from fairshares.harness.forecast import operation_counts as counts
from fairshares.harness.forecast.operation_counts import Counts, counts_of, read_estimate, usage_of
from fairshares.harness.releases.count.spec import PI_COUNT
from fairshares.harness.security_models import MODELS
from fairshares.protocols.circuits.coins import design_coins

RING = MODELS["ring"]
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


def one_sample(job: Job) -> Counts:
    """Return what one sample of a job's noise takes, opened by one party."""
    return usage_of(PROGRAMS / "pi_lap.mpc", ("1", "1", *job.arguments[-2:]))


def test_counts_of_a_split_form_are_inputs_and_noise() -> None:
    coins = design_coins(Fraction(1), 40)
    gates = sum(coin.bits - 1 for coin in coins)
    bits = 1 + sum(coin.bits for coin in coins)
    counted = counts_of(job_of({**CELL, "security": "ring"}), MODELS["ring"])
    assert counted.inputs == 3 * 6  # three parties, six cells
    assert (counted.gates, counted.ands, counted.input_bits) == (gates, 6 * gates, 3 * 6 * bits)
    assert counted.dabits == 6 * (len(coins) + 1)
    assert (counted.decomposed, counted.multiplications, counted.products) == (0, 0, 0)


def test_products_are_counted_within_inner_products_and_one_by_one() -> None:
    weights = counts_of(job_of({**CELL, "variant": "product", "security": "ring"}), MODELS["ring"])
    assert (weights.inputs, weights.products) == (3 * (2 + 2) * 50, 2 * 2 * 50)


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
    assert read_estimate(text, 8) == Counts(
        inputs=20,
        input_bits=7,
        dabits=20,
        decomposed=43,
        multiplications=12,
        products=18,
        rounds=99,
        ands=100,
        batch=8,
    )
    with pytest.raises(PlanError, match="no estimate"):
        read_estimate("Hash: 12 ab\n", 8)


@pytest.mark.parametrize(
    ("model", "decomposed", "ands_of_a_cut_bit"), [("semi2k", 9, 3), ("ring", 1, 4), ("rep4-ring", 1, 5)]
)
def test_keys_are_sorted_among_markers(model: str, decomposed: int, ands_of_a_cut_bit: int) -> None:
    cell = {**CELL, "protocol": "pi_roc", "variant": "records", "groups": 2, "labels": 2, "records": 3000}
    job = job_of({**cell, "security": model, "clients": 90, "thresholds": 101})
    counted = counts_of(job, MODELS[model])
    noise = one_sample(job)
    # 3,000 records and 404 markers are 64 * 54 elements, so 2^12 places; a key below 405 has 9 bits, an
    # element 10. All are compared 78 times, then routed by 12 bits of the place, 9 of them the key's.
    padded, compared = 3008, 12 * 13 // 2
    routed = sum(max(10, 1 + bit) + 2 * (bit < 9) for bit in range(12))
    sorting = 2**11 * (20 * compared + routed) + padded * 9 * ands_of_a_cut_bit
    ands, batch = sorting + noise.ands * job.lanes, 3000 * 64 if model == "semi2k" else 1
    assert counted.ands == -(-ands // batch) * batch  # as the machine does not know how many, whole batches
    assert counted.rounds == 11 * compared + 9 * 3 + 3 + 8 + noise.depth + 4
    assert counted.decomposed == padded * decomposed
    assert counted.inputs == MODELS[model].parties * 3000


@pytest.mark.parametrize(
    ("offset", "most", "powers"),
    [(64, 63, 0), (4, 11, 1), (1, 62, 5), (1, 10**6, 19)],  # none: plain noise; a bend at 8 alone; …
)
def test_a_logarithm_takes_a_comparison_per_power_of_2(offset: int, most: int, powers: int) -> None:
    cells, compared = 400, 400 * powers
    like = job_of({**CELL, "groups": 20, "labels": 20, "security": "ring"})
    arguments = ("3", "20", "20", str(offset), str(most), *like.arguments[-2:])
    job = replace(like, spec=PI_COUNT, source=PROGRAMS / "pi_count.mpc", arguments=arguments)
    counted = counts_of(job, RING)
    noise = one_sample(like)
    assert counted.ands == cells * noise.ands + compared * 242
    assert counted.dabits == cells * noise.dabits + compared
    assert counted.inputs == 3 * cells and counted.decomposed == compared
    assert counted.multiplications == (cells if powers else 0)
    thousands = -(-compared // 1000)  # each after the one before
    assert counted.rounds == noise.depth + 4 + (10 + 8 * (thousands - 1) if powers else 0)


def test_mpyc_compares_integers_bit_by_bit() -> None:
    cell = {
        **CELL,
        "protocol": "pi_cap",
        "variant": "default",
        "clients": 50,
        "records": 700,
        "security": "mpyc",
    }
    counted, slots = counts_of(job_of(cell), MODELS["mpyc"]), 50 * 4
    noise = one_sample(job_of(cell))
    assert (counted.decomposed, counted.multiplications) == (7, 0)
    assert counted.ands == slots + 8 * noise.ands + 14  # to multiply is to AND
    assert counted.gates == noise.gates + 4 + 10 + 3  # operations on vectors, each a message


def test_without_a_compiler_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "find_installation", lambda: "MP-SPDZ was not found.")
    cell = {**CELL, "input_path": "clients", "security": "ring"}
    with pytest.raises(PlanError, match=r"pi_rw.*MP-SPDZ was not found"):
        counts_of(job_of(cell), MODELS["ring"])
    assert counts_of(job_of({**CELL, "security": "ring"}), MODELS["ring"]).inputs == 3 * 6
