"""Sample weights from noisy counts inside the computation: exact integers, rounded down to fixed point."""

from __future__ import annotations

from dataclasses import dataclass

from protocols.circuits.division import quotient

BALANCED, LABEL, KAMIRAN_CALDERS = "balanced", "label", "kamiran-calders"

MOST_FRACTION_BITS = 20  # 10^-6: finer than the noise for all but the largest counts
LEAST_FRACTION_BITS = 8
RADIX_BITS = 3
_WIDTH = 62  # of every integer of the computation


@dataclass(frozen=True)
class Layout:
    """What is public about one opening of weights, and follows from what is declared.

    Attributes: numerator, divisor: upper bounds; smallest: lower bound of the divisor; fraction_bits: a
    weight W is opened as floor(2^fraction_bits W).
    """

    groups: int
    labels: int
    reweighing: str
    numerator: int
    divisor: int
    smallest: int
    fraction_bits: int


def layout(groups: int, labels: int, reweighing: str, most_records: int, noise_bits: int) -> Layout:
    """Choose bounds and precision.

    Computes: twice a floored noisy count is at most 2 C + 2^(noise_bits + 1) for a count C, as noise is
    below 2^noise_bits, so all of them together at most T = 2 (most_records + cells 2^noise_bits).
    fraction_bits is the largest f <= 20 with 2^f T < 2^62.
    Guarantees: every integer of the computation and every opened one is below 2^62.
    [test: tests/protocols/test_weights_circuit.py]
    Args: most_records: of all clients together; noise_bits: how many coins the noise has.
    Raises: ValueError: the integers do not fit.
    """
    cells = groups * labels
    total = 2 * (most_records + (cells << noise_bits))
    if reweighing == BALANCED:
        numerator, divisor, smallest = total, cells * total, 2 * cells
    elif reweighing == LABEL:
        numerator, divisor, smallest = total, labels * total, 2 * cells
    elif reweighing == KAMIRAN_CALDERS:
        numerator, divisor, smallest = total * total, total * total, 4 * cells
    else:
        raise ValueError(f"there is no reweighing {reweighing}")
    fraction_bits = min(MOST_FRACTION_BITS, _WIDTH - total.bit_length())
    if fraction_bits < LEAST_FRACTION_BITS or divisor.bit_length() > _WIDTH:
        raise ValueError(f"{most_records} records at most are too many for weights of {_WIDTH} bits")
    return Layout(groups, labels, reweighing, numerator, divisor, smallest, fraction_bits)


def weights(secret_integer, bit_vector, noisy, chosen):
    """Compute every weight from noisy counts, as an integer.

    Source: PrivFairFL, Protocol 2, lines 10-20, and section 4.1; in exact integers instead of fixed point.
    Computes: with the unbiased count v + 1/2 of an opened v raised to 1, and t twice that,
    t = max(2 v + 1, 2): floor(2^f W) for W = N/(k m t(s, y)) ("balanced"), N/(m t(y)) ("label", one per
    label) or t(s) t(y)/(N t(s, y)) ("kamiran-calders"); the factor 2 cancels.
    Guarantees: exact, as integers are below 2^62 and `division.quotient` is.
    [test: tests/protocols/test_weights_circuit.py, tests/programs/test_weights_inside.py]
    Edge cases: counts beyond what was declared make wrong weights, which follow from the noisy counts
    all the same.
    Args: secret_integer, bit_vector: MP-SPDZ's sint and sbitvec, or what stands for them; noisy: secret
    vector of groups * labels noisy counts, label fastest; chosen: the layout.
    Returns: secret vector, groups * labels lanes, or `labels` lanes for "label".
    """
    low = noisy < 1
    twice = noisy * 2 + 1 + low * (1 - noisy * 2)
    numerators, divisors = _fractions(secret_integer, twice, chosen)
    found = quotient(
        _bits(bit_vector, numerators, chosen.numerator),
        _bits(bit_vector, divisors, chosen.divisor),
        chosen.fraction_bits,
        chosen.smallest,
        RADIX_BITS,
    )
    return sum(secret_integer(bit) * (1 << i) for i, bit in enumerate(found[:_WIDTH]))


def _fractions(secret_integer, twice, chosen):
    """Return numerators and divisors of all weights."""
    groups, labels = chosen.groups, chosen.labels
    count = [[twice.get_vector(s * labels + y, 1) for y in range(labels)] for s in range(groups)]
    of_group = [sum(row[1:], row[0]) for row in count]
    of_label = [sum(column[1:], column[0]) for column in zip(*count)]
    total = sum(of_group[1:], of_group[0])
    if chosen.reweighing == LABEL:
        return secret_integer.concat([total] * labels), secret_integer.concat(of_label) * labels
    totals = secret_integer.concat([total] * (groups * labels))
    if chosen.reweighing == BALANCED:
        return totals, twice * (groups * labels)
    rows = secret_integer.concat([of_group[s] for s in range(groups) for _ in range(labels)])
    columns = secret_integer.concat([of_label[y] for _ in range(groups) for y in range(labels)])
    return rows * columns, totals * twice


def _bits(bit_vector, values, bound: int) -> list:
    """Return the bits of secret integers in [0, bound]."""
    width = bound.bit_length()
    return bit_vector(values, width, width).v
