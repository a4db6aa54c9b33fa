"""Trust models: closed forms against enumerated noise and by hand, estimates against those of `./inv gap`."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from benchmarks.studies import trust
from benchmarks.studies.trust import (
    IN_COMPUTATION,
    LAPLACE,
    PER_AGGREGATOR,
    PUBLISHED,
    REPAIRED,
    STEPS,
    TrustModel,
    noise_in_computation,
    noise_per_aggregator,
    population,
    trust_model,
)
from harness.inputs.record_schema import RecordDomain, RecordKind, ValueGrid
from harness.releases.gaps import gaps
from protocols.accounting.calibration import NeighboringRelation, Neighbors, plan_noise, sums_from_ends
from protocols.guarantee import Guarantee
from protocols.local_dp.estimators import least_enough

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


def test_one_aggregator_s_noise_alone_meets_epsilon() -> None:
    """A move by s costs s times the rate; of all replaced clients, the one that moves furthest costs 1."""
    model, costs = noise_per_aggregator(ONE, 2, 1), set()
    for (g, v), (other, w) in product(product((0, 1), (-STEPS, 0, STEPS)), repeat=2):
        one, two = np.zeros(4, dtype=np.int64), np.zeros(4, dtype=np.int64)
        one[2 * g : 2 * g + 2] = v, STEPS
        two[2 * other : 2 * other + 2] = w, STEPS
        costs.add(int(abs(one - two).sum()) * model.most_exponent)
    assert max(costs) == pytest.approx(1) and model.guarantee == Guarantee(ONE, Fraction(0))


@epsilons
@pytest.mark.parametrize("error", [0.1, 0.01])
def test_clients_needed_in_closed_form(epsilon: Fraction, error: float) -> None:
    """As docs/explanation/local-privacy.md derives them; found to 1 %."""
    e, z = math.exp(epsilon), math.sqrt(2 * math.log(2 / FAILURE))
    local = (2 * z / error * (e + 3) / (e - 1)) ** 2
    closed = {
        REPAIRED: local,
        IN_COMPUTATION: (83 + 96 / error) / epsilon,
        PER_AGGREGATOR: (96 + 122 / error) / epsilon,
    }
    for name, expected in closed.items():
        model = trust_model(name, epsilon)

        def enough(clients: float, model: TrustModel = model) -> bool:
            return model.half_width(clients, FAILURE) <= error

        assert least_enough(enough) == pytest.approx(float(expected), rel=0.02)


def test_estimates_are_those_of_the_gap_command() -> None:
    domain = RecordDomain(("a", "b"), (), 1, kind=RecordKind.VALUE, values=ValueGrid(-1.0, 1.0, STEPS))
    plan = plan_noise(sums_from_ends(2, STEPS), Neighbors(NeighboringRelation.REPLACE_ONE), ONE, trust.DELTA)
    model, people, runs = noise_in_computation(plan.coins, plan.exact), population(200), 40
    errors = model.errors(200, runs, np.random.default_rng(1))
    noise = model.draw((runs, 4), np.random.default_rng(1))
    sums = [float(v @ n) for v, n in zip(people.values, people.clients, strict=True)]
    truth = sums[0] / 100 - sums[1] / 100
    exact = np.array([STEPS * sums[0], STEPS * sums[1], 100 * STEPS, 100 * STEPS])
    for error, each in zip(errors, exact + noise, strict=True):
        ends = [
            size + sign * total for total, size in zip(each[:2], each[2:], strict=True) for sign in (1, -1)
        ]
        (gap,) = gaps(np.array(ends), domain, plan).gaps.values()
        expected = 0.0 if math.isnan(gap.estimate) else min(max(gap.estimate, -2), 2)
        assert error == pytest.approx(expected - truth)
    nothing = noise_per_aggregator(Fraction(1, 100), 2, 1).errors(200, 200, np.random.default_rng(1))
    cut = np.isclose(nothing, -truth, atol=0.02).sum()  # a size not above 0: an estimate of 0
    assert cut > 50 and abs(nothing).max() <= 2 + abs(truth) + 0.02
