"""The logarithm as a circuit, on plain integers: against its definition by powers of 2, step by step."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from fairshares.protocols import reference
from fairshares.protocols.circuits.coins import Coin, worst_ratio
from fairshares.protocols.circuits.logarithm import scale_bits, shifted_log
from fairshares.protocols.mechanisms.shifted_log import ShiftedLog
from fairshares.protocols.noise.truncated import outer_mass, probability_mass
from tests.support.clear import Lanes, no_check, wrapped

CASES = [(1, 1), (1, 40), (5, 40), (16, 300), (20, 1000), (64, 3), (7, 57)]


def logarithms(counts: Sequence[int], offset: int, most: int) -> list[int]:
    return [int(value) for value in shifted_log(Lanes, no_check, Lanes.from_values(counts), offset, most)]


@pytest.mark.parametrize(("offset", "most"), CASES)
def test_is_mitchells_logarithm(offset: int, most: int) -> None:
    counts = range(most + 1)
    assert logarithms(counts, offset, most) == [reference.shifted_log(n, offset, most) for n in counts]
    assert 2 ** (scale_bits(offset, most) - 1) <= offset + most < 2 ** scale_bits(offset, most)


@pytest.mark.parametrize(("offset", "most"), CASES)
def test_steps_fall_everywhere_and_are_those_that_are_charged(offset: int, most: int) -> None:
    """Below 0 and far above the largest count too: whatever a client sends, no step is above the first."""
    distribution = ShiftedLog(offset, most)
    counts = range(-3 * offset - 3, 3 * most + 3)
    steps = np.diff(logarithms(counts, offset, most))
    assert (np.diff(steps) <= 0).all() and (steps >= 2).all()
    assert max(steps) == distribution.first_step
    by_count = dict(zip(counts, steps, strict=False))  # from n to n + 1
    for n in range(2 * most):
        assert distribution.step(n) == max(by_count[n], by_count[n - 1] if n else 0)


@pytest.mark.parametrize(("offset", "most"), CASES)
def test_no_step_is_above_the_first_anywhere_around_the_ring(offset: int, most: int) -> None:
    """Near every power of 2, of either sign, and what wraps there: wherever a client may shift a sum to."""
    powers = [0, *(1 << i for i in range(64))]
    around = {
        (sign * (power + more) - offset + near) % 2**64
        for power in powers
        for more in (0, 2**63)
        for sign in (1, -1)
        for near in range(-3, 3)
    }
    before = np.array(sorted(around), dtype=np.uint64)
    one, other = (
        np.asarray(
            shifted_log(
                Lanes, no_check, Lanes.from_values((before + np.uint64(i)).view(np.int64)), offset, most
            )
        )
        for i in (0, 1)
    )
    steps = other - one  # modulo 2^64, all of it
    assert steps.min() > 0 and steps.max() == ShiftedLog(offset, most).first_step


@pytest.mark.parametrize("bits", [4, 5, 6])
def test_every_step_of_whole_small_rings(bits: int) -> None:
    """Theorem 13: all sums that clients can make, all offsets and largest counts that the ring holds."""
    ring, size = wrapped(bits), 1 << bits
    for offset, most in product(range(1, size // 2), repeat=2):
        logarithms_of_ring = shifted_log(ring, no_check, ring(np.arange(size)), offset, most).values
        steps = (np.roll(logarithms_of_ring, -1) - logarithms_of_ring) % size
        first = 1 << (scale_bits(offset, most) - offset.bit_length() + 1)
        assert first == ShiftedLog(offset, most).first_step <= size
        assert ((steps - 2) % size <= first - 2).all()  # from 2 to the first, modulo the ring's size


def test_what_a_record_gives_away_wherever_others_shift_its_cell() -> None:
    """Theorem 13 on a ring of 8 bits, by enumeration: ε(0) holds at all 256 sums, ε(n) where others add."""
    coins, offset, most, bits = (Coin(3, 3), Coin(1, 2), Coin(1, 4), Coin(1, 9)), 2, 20, 8
    ring, size, distribution = wrapped(bits), 1 << bits, ShiftedLog(offset, most)
    value = shifted_log(ring, no_check, ring(np.arange(size)), offset, most).values

    mass = probability_mass(coins)
    scale = 2 * max(p.denominator for p in mass.values())
    noise = np.zeros(size, dtype=object)
    for x, p in mass.items():
        noise[x % size] += int(p * scale)

    def excess(at: int, units: int) -> Fraction:
        """Return delta of one record more where the sum is `at`, at so many units of epsilon."""
        one, other = (np.roll(noise, value[place % size]) for place in (at, at + 1))
        ratio = worst_ratio(coins) ** units
        both = [ratio.denominator * p - ratio.numerator * q for p, q in ((one, other), (other, one))]
        return max(
            Fraction(int(np.maximum(0, difference).sum()), scale * ratio.denominator) for difference in both
        )

    worst = [excess(at, distribution.first_step) for at in range(size)]
    assert max(worst) == outer_mass(coins, distribution.first_step)
    for honest in (3, 9, 19):
        units = distribution.step(honest + 1)
        claimed = outer_mass(coins, units)
        others = [excess((honest + lie) % size, units) for lie in range(size)]
        assert max(others[: size // 2 - offset - honest - 1]) <= claimed  # they share counts, or too many
        assert max(others) > 2 * claimed  # or negative numbers


def test_the_same_in_real_numbers() -> None:
    distribution = ShiftedLog(5, 57)
    counts = range(58)
    assert distribution.value(counts).tolist() == logarithms(counts, 5, 57)
    assert distribution.estimate(distribution.value(counts)).tolist() == pytest.approx(list(counts), abs=1e-9)
    assert [distribution.highest(n) for n in (57, 60)] == logarithms([57, 60], 5, 57)
