"""Steps of the published protocols as printed, for `benchmarks/literal` alone.

Their noise protects nobody, so programs make up their records in the clear.
"""

from __future__ import annotations

import math
from fractions import Fraction

from fairshares.protocols.circuits.integers import sum_of_bits
from fairshares.protocols.circuits.noise import two_complement, xor_of_inputs

FRACTION_BITS, TOTAL_BITS = 16, 31  # the most that MP-SPDZ's division takes modulo 2^64
MADE_UP = "made-up"
ONE_BY_ONE, AT_ONCE = "one-by-one", "at-once"
_MOST_SCALE = 1000  # the largest scale of noise that fits 31 bits


def made_up(public_integer, data: str, number: int):
    """Return evenly spread public integers below 2^32.

    Args:
        public_integer: MP-SPDZ's regint.
        data: The program's first argument, which has to be `MADE_UP`.
        number: How many integers.
    Returns:
        A vector of the integers.
    Raises:
        ValueError: The argument is another text.
    """
    if data != MADE_UP:
        raise ValueError(
            "this program is for benchmarks and protects nobody: it makes its records up and takes no "
            f"shares, so its first argument must be {MADE_UP}, not {data}"
        )
    return public_integer.inc(number, 1) * 2654435769 % 2**32


def instances(form: str, for_range, number: int, step):
    """Take a step for each instance.

    Args:
        form: `ONE_BY_ONE`, as printed, or `AT_ONCE`.
        for_range: MP-SPDZ's function of this name.
        number: The number of instances.
        step: A function of the first instance, and of how many instances it takes.
    Raises:
        ValueError: The form is neither.
    """
    if form == AT_ONCE:
        step(0, number)
    elif form == ONE_BY_ONE:
        for_range(number)(lambda i: step(i, 1))
    else:
        raise ValueError(f"form must be {ONE_BY_ONE} or {AT_ONCE}, not {form}")


def laplace(secret_integer, secret_fixed, bit_vector, log, parties: int, lanes: int, epsilon: str):
    """Sample the published noise of scale b = 1 / epsilon, in fixed point.

    Source: PrivFairFL, Protocol 1, changed as in `benchmarks.papers.published_baselines`. It
    guarantees nothing to rely on.
    Edge cases: u = -1/2 asks for ln(0), for which MP-SPDZ returns about -4.03.

    Args:
        secret_integer: MP-SPDZ's sint.
        secret_fixed: MP-SPDZ's sfix.
        bit_vector: MP-SPDZ's sbitvec.
        log: MP-SPDZ's logarithm of a number to a base.
        parties: The number of parties.
        lanes: How many samples.
        epsilon: The epsilon, at least 1/1000, as a number in text.
    Returns:
        Secret samples, a lane each.
    Raises:
        ValueError: The scale is above 1000.
    """
    scale = 1 / Fraction(epsilon)
    if not 0 < scale <= _MOST_SCALE:
        raise ValueError(f"epsilon must be at least 1/{_MOST_SCALE}, not {epsilon}")
    bits = xor_of_inputs(secret_integer, bit_vector, parties, lanes, FRACTION_BITS)
    u = secret_fixed._new(sum_of_bits(two_complement(bits), secret_integer))
    sign = 2 * (u >= 0) - 1
    return log(1 - 2 * (u * sign), math.e) * sign * -float(scale)


def confusion(label, predicted, group):
    """Return an instance's TP, FP, FN and TN of the protected group, then of the other.

    Source: PrivFairFL, Protocol 3: four multiplications of vectors of bits, one lane an instance.

    Args:
        label: The secret labels, 0 or 1.
        predicted: The secret predicted labels, 0 or 1.
        group: Whether an instance is of the protected group, secret, 0 or 1.
    Returns:
        Eight secret vectors, a lane for each instance.
    """
    tp, ys, ps = label * predicted, label * group, predicted * group
    tps = tp * group
    protected = [tps, ps - tps, ys - tps, group - ys - ps + tps]
    everybody = [tp, predicted - tp, label - tp, 1 - label - predicted + tp]
    return [*protected, *(both - one for both, one in zip(everybody, protected))]


def add_to(totals, lanes):
    """Add each vector's sum to its total, in memory.

    Args:
        totals: An array of MP-SPDZ, with a total for each vector.
        lanes: The secret vectors.
    """
    totals.assign_vector(totals.get_vector() + totals.value_type.concat([lane.sum() for lane in lanes]))
