"""Trust models: closed forms against enumerated noise and by hand, estimates against those of `./inv gap`."""

import math
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.studies.trust import (
    IN_COMPUTATION,
    LAPLACE,
    PER_AGGREGATOR,
    PUBLISHED,
    REPAIRED,
    TrustModel,
    clients_of_one_bit,
    clients_of_one_sum,
    least_enough,
    trust_model,
)

ONE = Fraction(1)
FAILURE = 0.01
epsilons = pytest.mark.parametrize("epsilon", [Fraction(1, 10), ONE, Fraction(4)])


@epsilons
def test_all_protect_a_replaced_client_at_the_same_epsilon(epsilon: Fraction) -> None:
    for name in (REPAIRED, LAPLACE, PER_AGGREGATOR, IN_COMPUTATION):
        exact = trust_model(name, epsilon).guarantee
        assert 0.998 * epsilon < exact.epsilon <= epsilon
        assert exact.delta == 0 or (name == IN_COMPUTATION and exact.delta <= Fraction(1, 2**40))
    assert trust_model(PER_AGGREGATOR, epsilon).guarantee.epsilon == epsilon
    assert trust_model(PUBLISHED, epsilon).guarantee.epsilon > 1.1 * epsilon


@epsilons
@pytest.mark.parametrize("error", [0.1, 0.01])
def test_clients_needed_in_closed_form(epsilon: Fraction, error: float) -> None:
    """As docs/explanation/local-privacy.md derives them; found to 1 %."""
    e, z = math.exp(epsilon), math.sqrt(2 * math.log(2 / FAILURE))
    local = (2 * z / error * (e + 3) / (e - 1)) ** 2
    closed = {
        REPAIRED: local,
        IN_COMPUTATION: (48 + 79 / error) / epsilon,
        PER_AGGREGATOR: (58 + 96 / error) / epsilon,
    }
    for name, expected in closed.items():
        model = trust_model(name, epsilon)

        def enough(clients: float, model: TrustModel = model) -> bool:
            return model.half_width(clients, FAILURE) <= error

        assert least_enough(enough) == pytest.approx(float(expected), rel=0.02)


@epsilons
def test_with_known_sizes_one_bit_or_one_sum_is_enough(epsilon: Fraction) -> None:
    """Simulated with the bound's clients: a sum fails as often as it may, bits fail less often.

    Every value is 0, so each bit is fair, which makes the bits' variance the largest, and the gap is 0.
    """
    rng = np.random.default_rng(5)
    error = 0.2
    clients = math.ceil(clients_of_one_bit(epsilon, error, FAILURE))
    honesty = (math.exp(epsilon) - 1) / (math.exp(epsilon) + 1)
    bits = 2 * rng.binomial(clients, 0.5, 200_000) - clients
    of_bits = 2 * bits / (clients * honesty)
    assert FAILURE / 20 < np.mean(abs(of_bits) > error) <= FAILURE

    clients_of_sum = clients_of_one_sum(epsilon, error, FAILURE)
    of_sum = 2 * rng.laplace(scale=2 / float(epsilon), size=200_000) / clients_of_sum
    assert np.mean(abs(of_sum) > error) == pytest.approx(FAILURE, rel=0.1)
