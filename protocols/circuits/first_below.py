"""Where noisy counts first fall to a noisy bound: the index, of which nothing else is told."""

from __future__ import annotations


def counts_from_each_on(secret_integer, counts):
    """Return, per lane, the sum of that lane and all after it."""
    return counts.sum() - _prefixes(secret_integer, lambda a, b: a + b, counts) + counts


def first_below(secret_integer, check_point, counts, bound: int, noise):
    """Return how many counts come before the first with count + X_i <= bound + X_0; all of them if none is.

    Computes: one comparison of vectors, then the product of each with all before it: log2 of their number
    multiplications of vectors, one after the other.
    Bits that became integers are checked before shares of what follows from them are sent: those of counts
    and noise, and those of the comparison.  [test: tests/programs/test_check_before_opening.py]
    Args: secret_integer, check_point: MP-SPDZ's sint and check_point or what stands for them; counts: secret
    vector; noise: secret vector X_0 .. X_n, of one lane more. Returns: one secret value.
    """
    check_point()
    above = counts - bound + noise.get_vector(1, len(counts)) - noise[0] > 0
    check_point()
    return _prefixes(secret_integer, lambda a, b: a * b, above).sum()


def _prefixes(secret_integer, combine, values):
    """Combine each lane with all before it (Hillis and Steele)."""
    lanes, distance = len(values), 1
    while distance < lanes:
        combined = combine(
            values.get_vector(distance, lanes - distance), values.get_vector(0, lanes - distance)
        )
        values = secret_integer.concat([values.get_vector(0, distance), combined])
        distance *= 2
    return values
