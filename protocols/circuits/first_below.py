"""Index of the first noisy count at or below a noisy bound."""

from __future__ import annotations


def counts_from_each_on(secret_integer, counts):
    """Return, per lane, the sum of this lane and all lanes after it.

    Args:
        secret_integer: MP-SPDZ's sint, or a stand-in.
        counts: A secret vector.
    Returns:
        A secret vector of the same length.
    """
    return counts.sum() - _prefixes(secret_integer, lambda a, b: a + b, counts) + counts


def first_below(secret_integer, check_point, counts, bound: int, noise):
    """Return how many counts come before the first with count + X_i <= bound + X_0.

    Source: AboveThreshold (Dwork and Roth 2014, Algorithm 1).
    Guarantees: bits that became integers are checked before shares of anything that depends on them are sent.
    [test: tests/programs/test_check_before_opening.py]
    Reveals: nothing.
    Edge cases: if there is no such count, the answer is the number of all counts.

    Args:
        secret_integer: MP-SPDZ's sint, or a stand-in.
        check_point: MP-SPDZ's function that ends the run if a share was tampered with, or a stand-in.
        counts: The secret counts, shape (n,).
        bound: The public bound.
        noise: Secret noise X, shape (n + 1,): the noise of the bound, then the noise of each count.
    Returns:
        The secret number, from 0 to n.
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
