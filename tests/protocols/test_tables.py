"""Distributed noise: tables against scipy's distributions, draws against tables, sums against both."""

import math
import os
from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np
import pytest
from scipy import stats

from fairshares.protocols.noise.added import BITS, MAX_EDGE, DistributedNoise, NoiseDistribution, convolution

LAPLACE, GAUSSIAN = NoiseDistribution
ONE = 1 << BITS


def noise(
    distribution: NoiseDistribution, rate: Fraction, edge: int, honest: int, parties: int = 4
) -> DistributedNoise:
    return DistributedNoise(distribution, rate, edge, parties, honest)


WIDE = [
    noise(LAPLACE, Fraction(1, 5), 300, 1),
    noise(LAPLACE, Fraction(1, 5), 300, 2),
    noise(LAPLACE, Fraction(2), 30, 3),
    noise(GAUSSIAN, Fraction(1, 200), 100, 1),
    noise(GAUSSIAN, Fraction(1, 200), 70, 3),
]


def masses(weights: tuple[int, ...], terms: int = 1) -> np.ndarray:
    return np.array([float(Fraction(w, 1 << BITS * terms)) for w in weights])


@pytest.mark.parametrize("honest", [1, 2, 3])
@pytest.mark.parametrize("rate", [Fraction(1, 100), Fraction(1, 3), Fraction(2), Fraction(20)])
@pytest.mark.parametrize("distribution", NoiseDistribution)
def test_tables_and_their_sums_fall_to_both_sides(
    distribution: NoiseDistribution, rate: Fraction, honest: int
) -> None:
    """Theorem 15: at all edges that a table of this rate can have, up to 12."""
    for edge in range(1, 13):
        if rate * (edge if distribution is LAPLACE else honest * edge**2) > 80:
            continue  # beyond, a probability would be below 2^-128
        own = noise(distribution, rate, edge, honest)
        assert sum(own.weights) == ONE and min(own.weights) > 0 and len(own.weights) == 2 * edge + 1
        for weights in (own.weights, own.summed(honest)):
            assert all(a <= b for a, b in pairwise(weights[: len(weights) // 2 + 1]))
            assert weights == weights[::-1]


@pytest.mark.parametrize("own", [wide for wide in WIDE if wide.distribution is LAPLACE])
def test_laplace_shares_are_differences_of_negative_binomials(own: DistributedNoise) -> None:
    """Each share by scipy's negative binomial; the honest sum by its discrete Laplace distribution."""
    k = np.arange(4000)
    one = stats.nbinom.pmf(k, 1 / own.honest, -math.expm1(-float(own.rate)))
    x = np.arange(own.edge + 1)
    share = [float(np.dot(one[: len(k) - i], one[i:])) for i in x]
    np.testing.assert_allclose(masses(own.weights)[own.edge :], share, rtol=1e-9)
    total = masses(own.summed(own.honest), own.honest)[own.honest * own.edge :][: own.edge]
    np.testing.assert_allclose(total, stats.dlaplace.pmf(x[:-1], float(own.rate)), rtol=1e-8, atol=1e-25)


@pytest.mark.parametrize("own", [wide for wide in WIDE if wide.distribution is GAUSSIAN])
def test_gaussian_shares_are_discrete_gaussian(own: DistributedNoise) -> None:
    x = np.arange(-own.edge, own.edge + 1)
    ideal = np.exp(-float(own.rate) * own.honest * x.astype(float) ** 2)
    np.testing.assert_allclose(masses(own.weights), ideal / ideal.sum(), rtol=1e-9, atol=2.0**-120)


def test_sums_are_exact_convolutions() -> None:
    own = noise(LAPLACE, Fraction(3, 2), 7, 2)
    weights = np.array(own.weights, dtype=object)
    assert own.summed(3) == tuple(np.convolve(np.convolve(weights, weights), weights))
    assert convolution([[1, 2], [3], [0, 5, 7]]) == [0, 15, 51, 42]


def test_words_are_inverted_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least and the greatest word of every entry give that entry."""
    own = noise(LAPLACE, Fraction(1), 20, 2)
    ends = [0, *accumulate(own.weights)]
    words = [word for low, high in pairwise(ends) for word in (low, high - 1)]
    parts = [[word >> 64 for word in words], [word & ((1 << 64) - 1) for word in words]]
    chosen = np.array(parts, dtype=np.uint64).tobytes()
    monkeypatch.setattr(os, "urandom", lambda n: chosen[:n])
    assert own.draw(len(words)).tolist() == np.repeat(np.arange(-20, 21), 2).tolist()


def test_draws_are_many_chunks_and_fresh() -> None:
    own = noise(GAUSSIAN, Fraction(1, 200), 100, 1)
    drawn = own.draw(200_001)
    assert drawn.shape == (200_001,) and np.abs(drawn).max() <= 100
    assert not np.array_equal(drawn[:65536], drawn[65536:131072])
    assert own.draw(0).shape == (0,)


@pytest.mark.parametrize("own", WIDE)
def test_error_of_all_parties(own: DistributedNoise) -> None:
    total = masses(own.summed(4), 4)
    x = np.arange(-own.largest, own.largest + 1)
    assert math.isclose(
        float(own.mean_square_error), float(np.dot(total, x.astype(float) ** 2)), rel_tol=1e-9
    )
    for failure in (Fraction(1, 2), Fraction(1, 20), Fraction(1, 10**6)):
        t = int(own.error_bound(failure))
        assert total[np.abs(x) > t].sum() <= failure + 1e-15 < total[np.abs(x) > t - 1].sum() + 1e-15
    assert own.error_bound(Fraction(0)) == own.largest


@pytest.mark.parametrize(
    ("rate", "edge", "honest", "why"),
    [
        (Fraction(0), 5, 1, "rate"),
        (Fraction(1), 5, 0, "honest"),
        (Fraction(1), 5, 5, "honest"),
        (Fraction(1), MAX_EDGE + 1, 1, "65537, beyond 65536; more ε needs less"),
    ],
)
def test_what_is_no_noise(rate: Fraction, edge: int, honest: int, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        noise(LAPLACE, rate, edge, honest)
    with pytest.raises(ValueError, match="below 2"):
        _ = noise(GAUSSIAN, Fraction(1), 40, 1).weights
