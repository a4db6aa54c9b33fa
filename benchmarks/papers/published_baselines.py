"""The published protocols to the last bit, for audits and comparison only: their noise protects nobody.

π_LAP is emulated on integers as MP-SPDZ computes it with `sfix.round_nearest = True`.
"""

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import gmpy2
import numpy as np

from benchmarks.papers.empirical import Tally
from fairshares.protocols.accounting.calibration import LinearQueries

# MP-SPDZ's defaults for sfix
FRACTION_BITS = 16
TOTAL_BITS = 31
ONE = 1 << FRACTION_BITS
_RING_BITS = 64

# MP-SPDZ's rational approximation of log2 on [1/2, 1]: Hart et al., "Computer Approximations" (1968), index
# LOG2 2524; lowest coefficient first.
_NUMERATOR = (-2.05466671951, -8.8626599391, 6.10585199015, 4.81147460989)
_DENOMINATOR = (0.353553425277, 4.54517087629, 6.42784209029, 1.0)

Logarithm = Callable[[int], int]  # a function from and to units of 2^-16


def laplace_distribution(scale: Fraction, logarithm: Logarithm, *, rounded: bool) -> dict[int, Fraction]:
    """Return the exact distribution of the published π_LAP: integers if rounded, else in units of 2^-16.

    Source: PrivFairFL, Protocol 1, with sgn(u) = 2 GTE(u, 0) - 1 for its GTE(u, 0), which would make every
    negative u 0.
    Computes: -b sgn(u) ln(1 - 2|u|) for u uniform on the multiples of 2^-16 in [-1/2, 1/2). Rounding is half
    up. u = -1/2, which asks for ln(0), is left out if the logarithm raises ValueError.
    [test: tests/benchmarks/papers/test_published_baselines.py]

    Raises:
        OverflowError: MP-SPDZ's numbers cannot hold the noise.
    """
    draws: Counter[int] = Counter()
    for u in range(-ONE // 2, ONE // 2):
        sign = 1 if u >= 0 else -1
        try:
            log = logarithm(ONE - 2 * abs(u))
        except ValueError:
            continue
        x = nearest(log * sign * -round(scale * ONE), FRACTION_BITS)
        if not -(1 << TOTAL_BITS - 1) <= x < 1 << TOTAL_BITS - 1:
            raise OverflowError(f"noise of scale {float(scale):g} does not fit {TOTAL_BITS} bits")
        if rounded:
            x = nearest(x, FRACTION_BITS)
        draws[x] += 1
    total = draws.total()
    return {x: Fraction(n, total) for x, n in sorted(draws.items())}


@lru_cache(maxsize=4)
def protocol_4(groups: int, thresholds: int) -> LinearQueries:
    """Return Protocol 4's release: TP, FN, FP, TN per group and threshold, each with its own noise.

    Source: PrivFairFL, for two labels. A score of at least 0 passes the first threshold, 0.
    """
    return each_threshold(2 * groups, thresholds)


def each_threshold(histograms: int, thresholds: int) -> LinearQueries:
    """Return the release of counts at or above, and below, every threshold.

    The cell (histogram, b) holds the records that pass b >= 1 thresholds.
    """
    columns = []
    for histogram in range(histograms):
        at_or_above = 2 * histogram * thresholds  # the first of the counts at or above a threshold
        below = at_or_above + thresholds  # the first of the counts below a threshold
        for passed in range(1, thresholds + 1):
            changed = [at_or_above + t for t in range(passed)]
            changed += [below + t for t in range(passed, thresholds)]
            columns.append(tuple(changed))
    return LinearQueries(2 * histograms * thresholds, tuple(columns))


def composed_laplace(epsilon: float, times: int, delta: float) -> float:
    """Return an epsilon of `times` values with ideal Laplace noise of `epsilon` each, at delta, in floats.

    Source: Doroshenko et al. 2022, "Connect the dots".
    Guarantees: the result is at most 0.01 too large, for delta not much below 10^-9.
    [test: tests/benchmarks/papers/test_published_baselines.py]
    """
    steps = 200
    x = np.linspace(0, epsilon, steps + 1)  # noise in units of its scale; the loss is epsilon - 2x
    loss = epsilon - 2 * x
    loss_step = 2 * epsilon / steps
    # The mass between two neighboring x under a data set, and under its neighbor.
    p = -np.diff(np.exp(-x)) / 2
    q = np.diff(np.exp(x - epsilon)) / 2
    upper = (p - q * np.exp(loss[1:])) / -np.expm1(-loss_step)  # the part of p that gets the larger loss
    # Masses of a value's losses, the largest first. The first has the noise below 0, the last the noise above
    # the other data set's mean.
    masses = np.append(upper, np.exp(-epsilon) / 2) + np.append(0.5, p - upper)
    size = times * steps + 1
    padded = 1 << size.bit_length()
    total = np.fft.irfft(np.fft.rfft(masses, padded) ** times, padded)[:size]
    losses = times * epsilon - loss_step * np.arange(size)
    low = 0.0
    high = times * epsilon
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        reached = float(total @ -np.expm1(np.minimum(middle - losses, 0)))
        if reached <= delta:
            high = middle
        else:
            low = middle
    return high


@lru_cache(maxsize=ONE)
def ideal_log(x: int) -> int:
    """Return ln(x / 2^16) * 2^16, rounded to nearest, or raise ValueError."""
    if x <= 0:
        raise ValueError("there is no logarithm of 0")
    with gmpy2.context(precision=160):  # no argument's logarithm is so near the middle of two integers
        return int(gmpy2.rint(gmpy2.log(gmpy2.mpfr(x) / ONE) * ONE))


@lru_cache(maxsize=ONE)
def mp_spdz_log(x: int) -> int:
    """Return MP-SPDZ's `log_fx(x, e)` with `sfix.round_nearest = True`, to the last bit, in units of 2^-16.

    Source: MP-SPDZ's `Compiler/mpc_math.py` and `Compiler/library.py` at 16 of 31 bits in a ring of 64.
    Guarantees: equal to MP-SPDZ's, for every argument that π_LAP has.

    Raises:
        ValueError: x, in units of 2^-16, is not from 0 to 2^30 - 1.
    [test: tests/programs/test_published.py]
    """
    if not 0 <= x < 1 << TOTAL_BITS - 1:
        raise ValueError(f"the logarithm's argument must be in [0, 2^30), not {x}")
    length = x.bit_length()
    mantissa = (x << TOTAL_BITS - 1 - length) >> TOTAL_BITS - 1 - FRACTION_BITS
    exponent = 0
    if x:
        exponent = length - FRACTION_BITS
    log2 = _divide(_cubic(_NUMERATOR, mantissa), _cubic(_DENOMINATOR, mantissa)) + (exponent << FRACTION_BITS)
    return nearest(log2 * round(math.log(2) * ONE), FRACTION_BITS)


# The event of tests/statistical/test_published_truncation.py, in noise of scale 1 that the model `ring` of
# MP-SPDZ 3a0a7b1d opened with its default truncation, which is probabilistic. Every draw was taken 32 times.
TRUNCATED = Tally(samples=2_097_152, hits=988_069, moved=83_640)


def nearest(value: int, bits: int) -> int:
    """Return value / 2^bits rounded half up; raise OverflowError beyond MP-SPDZ's ring."""
    if not -(1 << _RING_BITS - 2) <= value < 1 << _RING_BITS - 2:
        raise OverflowError("a product does not fit MP-SPDZ's ring of 64 bits")
    return (value + (1 << bits - 1)) >> bits


def _cubic(coefficients: tuple[float, ...], x: int) -> int:
    """Evaluate a cubic. Each power is rounded, and the sum of the terms with x is rounded once."""
    square = nearest(x * x, FRACTION_BITS)
    powers = (x, square, nearest(square * x, FRACTION_BITS))
    terms = sum(round(c * ONE) * power for c, power in zip(coefficients[1:], powers, strict=True))
    return nearest(terms, FRACTION_BITS) + round(coefficients[0] * ONE)


def _divide(a: int, b: int) -> int:
    """Return a / b for b > 0 as MP-SPDZ does: Goldschmidt's iteration (Catrina and Saxena 2010)."""
    k = TOTAL_BITS
    f = FRACTION_BITS
    scale = 1 << k - b.bit_length()
    w = nearest((int(2.9142 * 2**k) - 2 * b * scale) * scale, 2 * (k - f))
    unit = 1 << 2 * f  # 1, in units of 2^-2f
    x = unit - b * w
    y = nearest(a * w, f)
    for _ in range(math.ceil(math.log2(k / 3.5)) - 1):
        y = nearest(y * (unit + x), 2 * f)
        x = nearest(x * x, 2 * f)
    return nearest(y * (unit + x), 2 * f)
