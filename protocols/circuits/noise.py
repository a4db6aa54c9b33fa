"""Joint noise as a circuit: truncated geometric bits, a sign by complement, and a coin for zero.

Source: Dwork et al. 2006, "Our data, ourselves" (geometric bits); the sign and the coin for zero are ours.
"""

from __future__ import annotations

from fractions import Fraction

from fairshares.protocols.circuits.coins import (
    NoiseFamily,
    SymmetricCoins,
    coins_of_magnitude,
    design_noise,
    family_for,
)
from fairshares.protocols.circuits.counts import input_columns
from fairshares.protocols.circuits.integers import sum_of_bits
from fairshares.protocols.circuits.machine import may_enter_no_bits

MAX_INPUT_WIDTH = 63  # bits per lane of a binary input instruction; more become zeros


_SIGNED_AS_BEFORE = (
    "-signed"  # ends the bits of delta where version 1.0 chose signed noise for a large epsilon
)


def fair_bits_per_sample(coins) -> int:
    """Return the number of fair bits of a sample: the bits of all coins, and the sign.

    Args:
        coins: The coins of joint noise.
    Returns:
        The number of bits.
    """
    bits = 1 + sum(coin.bits for coin in coins_of_magnitude(coins))
    if isinstance(coins, SymmetricCoins):
        bits += coins.nonzero.bits
    return bits


def noise_arguments(epsilon: Fraction, delta_bits: int, family: NoiseFamily) -> tuple[str, str]:
    """Return the arguments of a program with this joint noise, which `coins_of_arguments` reads.

    A program of version 1.0 has the same arguments for the same noise, except for signed noise of a large
    epsilon.

    Args:
        epsilon: The epsilon of a value that moves by 1.
        delta_bits: The delta of such a value is at most 2^-delta_bits.
        family: The family of the noise.
    Returns:
        The program's last two arguments.
    """
    bits = str(delta_bits)
    if family is NoiseFamily.SIGNED and family_for(epsilon) is not NoiseFamily.SIGNED:
        bits += _SIGNED_AS_BEFORE
    return str(epsilon), bits


def coins_of_arguments(epsilon: str, delta_bits: str):
    """Return the coins of joint noise from a program's arguments.

    Args:
        epsilon: The program's argument, a rational number in text.
        delta_bits: The program's argument, as from `noise_arguments`.
    Returns:
        The coins, the same on every machine.
    Raises:
        ValueError: As `design_noise`.
    """
    bits = delta_bits.removesuffix(_SIGNED_AS_BEFORE)
    family = None
    if bits != delta_bits:
        family = NoiseFamily.SIGNED
    return design_noise(Fraction(epsilon), int(bits), family)


def input_widths(n_bits: int) -> list[int]:
    """Split the bits of a lane into widths of inputs.

    Args:
        n_bits: The number of bits.
    Returns:
        Widths of at most `MAX_INPUT_WIDTH`, which add up to `n_bits`.
    """
    full, rest = divmod(n_bits, MAX_INPUT_WIDTH)
    return [MAX_INPUT_WIDTH] * full + [rest] * (rest > 0)


OWN_ARGUMENTS = ("law", "rate", "edge")  # arguments of a program with distributed noise
KEPT_ARGUMENTS = ("kept",)  # the place at which noise made before begins in parties' files


def default_noise(secret_integer, bit_vector, parties: int, lanes: int, *law, turn=0):
    """Make the noise of a release: an independent secret sample for each revealed value.

    Source: PrivFairFL's π_GR-RANDOM for the fair bits, which all parties draw; the sampler is this module's.
    Guarantees: adding it to values of sensitivity 1 is (epsilon, 2^-delta_bits)-DP towards all who do not
    know every party's bits.
    [test: tests/protocols/test_programs.py, tests/protocols/test_truncated_noise.py]
    Distributed noise has the guarantee of honest parties' samples.
    [test: tests/harness/engines/test_distributed_noise.py]
    Parties may take shares of noise that was made before, after `turn` earlier rounds.
    [test: tests/harness/pipeline/test_preprocessing.py]
    Reveals: nothing.

    Args:
        secret_integer: MP-SPDZ's sint, or a stand-in.
        bit_vector: MP-SPDZ's sbitvec, or a stand-in.
        parties: The number of parties.
        lanes: The number of samples.
        law: A unit's epsilon and delta_bits, the `OWN_ARGUMENTS` or the `KEPT_ARGUMENTS`.
        turn: How many rounds took noise from the same file before.
    Returns:
        Secret samples, shape (lanes,).
    """
    if len(law) == len(OWN_ARGUMENTS):
        return input_columns(secret_integer, parties, lanes)
    if len(law) == len(KEPT_ARGUMENTS):
        _, (kept,) = secret_integer.read_from_file(turn * lanes + int(law[0]), size=lanes)
        return kept
    epsilon, delta_bits = law
    coins = coins_of_arguments(str(epsilon), str(delta_bits))
    fair = xor_of_inputs(secret_integer, bit_vector, parties, lanes, fair_bits_per_sample(coins))
    return joint_sample(coins, fair, secret_integer)


def xor_of_inputs(secret_integer, bit_vector, parties: int, lanes: int, n_bits: int) -> list:
    """XOR bits that all parties input, shared or drawn.

    Guarantees: every lane of every bit is uniform as long as one party's bits are, and authenticated where
    the model is active.
    [test: tests/programs/test_random_bits.py]
    Reveals: nothing.

    Args:
        secret_integer: MP-SPDZ's sint, or a stand-in.
        bit_vector: MP-SPDZ's sbitvec, or a stand-in.
        parties: The number of parties.
        lanes: The number of lanes.
        n_bits: The number of bits of each lane.
    Returns:
        Secret bits, each a vector of all lanes.
    """
    has_to_make_bits = may_enter_no_bits()
    drawn = []
    for width in input_widths(n_bits):
        columns = bit_vector.get_type(width)
        shared = [columns.get_input_from(i, size=lanes).v for i in range(parties)]
        for same_bit in zip(*shared):
            bit = same_bit[0]
            for other in same_bit[1:]:
                bit = bit ^ other
            if has_to_make_bits:
                bit = bit_of_element(secret_integer, bit, lanes)
            drawn.append(bit)
    return drawn


def bit_of_element(secret_integer, element, lanes: int):
    """Return the lowest bits of elements of GF(2^40), which malicious-shamir has in bits' place.

    Computes: r + (the lowest bit of element + r, opened), r a bit that the machine made and checked.
    Guarantees: the result is a bit, whatever a party has entered. What is opened is a uniform bit plus what
    a party added of its own, and so says nothing of others' bits.
    [test: tests/protocols/test_bits_of_elements.py, by enumeration]
    Reveals: nothing.

    Args:
        secret_integer: MP-SPDZ's sint.
        element: The secret elements, a vector of all lanes.
        lanes: The number of lanes.
    Returns:
        Secret bits, a vector of all lanes.
    """
    _, own = secret_integer.get_dabit(size=lanes)
    return own ^ (element ^ own).reveal()


def flip(coin, fair):
    """Return [r < numerator], r the integer of fair bits.

    Computes: the numerator's runs of equal bits, highest first, make a chain t_k = a_k & ~t_(k+1), a_k: the
    run's bits are all as the numerator's. With p_k = a_1 & ... & a_k, t_1 is p_1 ^ ... ^ p_k ^ (p_k &
    t_(k+1)) for any k; the k of least depth is taken. That is bits - 1 ANDs.
    [test: tests/protocols/test_truncated_noise.py]

    Args:
        coin: The coin.
        fair: As many secret fair bits as the coin has, lowest first.
    Returns:
        A secret bit that is 1 with the coin's probability.
    """
    assert len(fair) == coin.bits
    numerator = [coin.numerator >> i & 1 for i in range(coin.bits)]
    runs: list = []
    for i, one in enumerate(numerator):
        if i == 0 or one != numerator[i - 1]:
            runs.insert(0, [])
        runs[0].append((0, fair[i] if one else ~fair[i]))
    stand_ins = [[(0, 0)] * len(run) for run in runs]
    chain = _chain(runs, min(range(len(runs)), key=lambda k: _chain(stand_ins, k)[0]))[1]
    return ~chain if numerator[-1] else chain


def _chain(runs, k):
    """Return (depth, t_1) of a chain of (depth, bit) runs, cut below its k-th."""
    below = _and_all(runs[-1])
    for run in runs[-2 : k - len(runs) - 1 : -1]:
        below = _and_all([*run, (below[0], ~below[1])])
    products: list = []
    for run in runs[:k]:
        products.append(_and_all([*products[-1:], *run]))
    depth, chain = _and_all([*products[-1:], below])
    for _, product in products:
        chain = chain ^ product
    return depth, chain


def joint_sample(coins, fair, secret_integer):
    """Map fair bits to a sample of joint noise per lane, as secret integers.

    Computes: as `two_sided_geometric` or `symmetric_geometric`.
    Guarantees: `coins.check` gives its (epsilon, delta).
    [test: tests/protocols/test_truncated_noise.py, tests/protocols/test_symmetric_noise.py, by enumeration]

    Args:
        coins: The coins of the noise.
        fair: Secret fair bits, as many as `fair_bits_per_sample`.
        secret_integer: MP-SPDZ's sint, or a stand-in.
    Returns:
        Secret samples, a lane each.
    """
    if isinstance(coins, SymmetricCoins):
        bits, added = symmetric_geometric(coins, fair)
        return sum_of_bits([*two_complement(bits), (added, 1)], secret_integer)
    return sum_of_bits(two_complement(two_sided_geometric(coins, fair)), secret_integer)


def two_sided_geometric(coins, fair) -> list:
    """Map fair bits to a sample of signed noise per lane.

    Computes: G = sum of 2^i flip(coin_i); X = G if the sign bit is 0, -1-G if it is 1.
    [test: tests/protocols/test_truncated_noise.py, by full enumeration]

    Args:
        coins: The coin of each bit of G, lowest first.
        fair: Secret fair bits: the sign, then the bits of each coin.
    Returns:
        Secret bits of a two's complement number, lowest first.
    """
    sign = fair[0]
    used = 1
    magnitude = []
    for coin in coins:
        magnitude.append(flip(coin, fair[used : used + coin.bits]))
        used += coin.bits
    assert used == len(fair)
    return [bit ^ sign for bit in magnitude] + [sign]


def symmetric_geometric(coins, fair) -> tuple:
    """Map fair bits to a sample of symmetric noise per lane.

    Computes: N = flip(nonzero); G as above; H = G if N is 1, else 0. The two's complement number is H if the
    sign bit is 0, and -1-H if it is 1. The bit to add is 1 where sign and N differ:
        N = 1: G + 1 or -1-G + 0.    N = 0: 0 + 0 or -1 + 1.
    [test: tests/protocols/test_symmetric_noise.py, by full enumeration]

    Args:
        coins: The coins of the noise.
        fair: Secret fair bits: the sign, the bits of each coin of G, then the bits of the coin for zero.
    Returns:
        Secret bits of a two's complement number, lowest first, and a secret bit to add to it.
    """
    last = len(fair) - coins.nonzero.bits
    signed = two_sided_geometric(coins.magnitude, fair[:last])
    sign = signed[-1]
    nonzero = flip(coins.nonzero, fair[last:])
    bits = []
    for bit in signed[:-1]:
        masked = (bit ^ sign) & nonzero
        bits.append(masked ^ sign)
    return [*bits, sign], sign ^ nonzero


def two_complement(bits) -> list:
    """Return the terms of which a two's complement number is the sum.

    Args:
        bits: The number's bits, lowest first.
    Returns:
        Pairs of a bit and its weight; the weight of the highest bit is negative.
    """
    weights = [1 << i for i in range(len(bits))]
    weights[-1] = -weights[-1]
    return list(zip(bits, weights))


def _and_all(bits):
    while len(bits) > 1:
        (_, a), (depth, b), *bits = sorted(bits, key=lambda pair: pair[0])
        bits.append((depth + 1, a & b))
    return bits[0]
