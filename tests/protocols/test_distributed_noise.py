"""What distributed noise protects: recomputed from the tables' atoms, by other ways, and by dp_accounting."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.special import logsumexp

from fairshares.protocols.accounting.calibration import (
    AboveThreshold,
    LinearQueries,
    NeighboringRelation,
    Neighbors,
    each_cell_once,
    plan_distributed_noise,
    plan_noise,
    sums_from_ends,
)
from fairshares.protocols.accounting.distributed_noise import (
    Moves,
    _shared,
    design_distributed,
    distance,
    guarantee_of_distributed,
    move_delta,
    rho,
)
from fairshares.protocols.accounting.exact_privacy import Masses, composed, curve_of_distribution
from fairshares.protocols.circuits.coins import exp_bounds
from fairshares.protocols.noise.added import BITS, DistributedNoise, NoiseDistribution

LAPLACE, GAUSSIAN = NoiseDistribution
ADD, REPLACE, ZERO_OUT = NeighboringRelation
DELTA = Fraction(1, 2**40)
TREE = LinearQueries(7, tuple((leaf, 4 + leaf // 2, 6) for leaf in range(4)))
DISTRIBUTIONS = pytest.mark.parametrize("distribution", [LAPLACE, GAUSSIAN])
Distribution = Mapping[int, Fraction]


def distribution_of(own: DistributedNoise, terms: int) -> Distribution:
    """Return the distribution of a sum by adding up atoms, one party after the other."""
    one = {
        x: Fraction(w, 1 << BITS) for x, w in zip(range(-own.edge, own.edge + 1), own.weights, strict=True)
    }

    def added(distribution: Distribution, other: Distribution) -> Distribution:
        total: dict[int, Fraction] = {}
        for x, p in distribution.items():
            for y, q in other.items():
                total[x + y] = total.get(x + y, Fraction(0)) + p * q
        return total

    return reduce(added, [one] * terms)


@DISTRIBUTIONS
@pytest.mark.parametrize(("parties", "tolerated"), [(3, 1), (3, 2), (5, 2), (5, 4), (16, 15)])
def test_every_coalition_leaves_enough(distribution: NoiseDistribution, parties: int, tolerated: int) -> None:
    """Any so many parties are corrupted: the others' sum, all alike, protects, enumerated.

    That of one party less would not.
    """
    plan = plan_distributed_noise(
        each_cell_once(2),
        Neighbors(REPLACE),
        Fraction(2),
        Fraction(1, 10**6),
        distribution,
        parties,
        tolerated,
    )
    own = plan.own
    assert own is not None and own.honest == parties - tolerated
    both = composed([curve_of_distribution(distribution_of(own, own.honest), [1])] * 2)
    assert both.delta(exp_bounds(plan.exact.epsilon)[0]) <= plan.exact.delta <= Fraction(1, 10**6)
    if own.honest > 1:
        fewer = composed([curve_of_distribution(distribution_of(own, own.honest - 1), [1])] * 2)
        assert fewer.delta(exp_bounds(plan.exact.epsilon)[1]) > Fraction(1, 10**6)


@DISTRIBUTIONS
@pytest.mark.parametrize(
    ("parties", "tolerated"), [(2, 1), (3, 1), (5, 4), (5, 2), (10, 9), (16, 15), (16, 7)]
)
def test_errors_grow_by_the_parties_whose_noise_does_not_count(
    distribution: NoiseDistribution, parties: int, tolerated: int
) -> None:
    """By sqrt(r / (r - t)) over noise of the r - t alone, from the tables' own atoms."""
    plan = plan_distributed_noise(
        each_cell_once(2), Neighbors(ADD), Fraction(1), DELTA, distribution, parties, tolerated
    )
    own = plan.own
    assert own is not None
    square = sum(Fraction(w, 1 << BITS) * (i - own.edge) ** 2 for i, w in enumerate(own.weights))
    honest = parties - tolerated
    assert own.mean_square_error == parties * square == Fraction(parties, honest) * (honest * square)
    alone = plan_distributed_noise(
        each_cell_once(2), Neighbors(ADD), Fraction(1), DELTA, distribution, honest, 0
    ).own
    assert alone is not None
    growth = math.sqrt(own.mean_square_error / alone.mean_square_error)
    assert growth == pytest.approx(math.sqrt(parties / honest), rel=1e-9)


@DISTRIBUTIONS
@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(5)])
def test_plans_keep_to_what_was_asked(
    distribution: NoiseDistribution, relation: NeighboringRelation, epsilon: Fraction
) -> None:
    for release in (each_cell_once(4), TREE, sums_from_ends(2, 3)):
        plan = plan_distributed_noise(release, Neighbors(relation), epsilon, DELTA, distribution, 2, 1)
        assert plan.exact.epsilon <= epsilon and plan.exact.delta <= DELTA
        assert plan.changed == plan_noise(release, Neighbors(relation), epsilon, DELTA).changed
        assert plan.exact.epsilon > epsilon * Fraction(99, 100)


def excesses(weights: Sequence[int], ratio: Fraction) -> list[int]:
    """Return delta at e^epsilon = ratio of moves by 0, 1, .. to where no value is possible under both."""
    zeros, up, down = (0,) * len(weights), ratio.numerator, ratio.denominator
    return [
        sum(
            max(0, down * p - up * q)
            for p, q in zip((*weights, *zeros), (*zeros[:moved], *weights, *zeros[moved:]), strict=True)
        )
        for moved in range(len(weights) + 1)
    ]


RATIOS = [Fraction(n, 20) for n in (1, 7, 19, 20, 21, 25, 40, 100, 10**3, 10**6)]


@DISTRIBUTIONS
@pytest.mark.parametrize("honest", [1, 2, 3])
@pytest.mark.parametrize("rate", [Fraction(1, 50), Fraction(1, 4), Fraction(3)])
def test_a_shorter_move_tells_less_at_every_epsilon(
    distribution: NoiseDistribution, rate: Fraction, honest: int
) -> None:
    """Theorem 15, of sums of tables, exactly; at ratios below 1, too, which joint distributions take."""
    own = DistributedNoise(distribution, rate, 3 if rate > 1 else 9, 4, honest)
    for ratio in RATIOS:
        excess = excesses(own.summed(honest), ratio)
        assert excess == sorted(excess) and excess[0] < excess[-1]
    lost = move_delta(own, 2, Fraction(1, 2))  # the code's own, at what it takes for e^epsilon
    low = exp_bounds(Fraction(1, 2))[0]
    assert (
        0
        <= lost - Fraction(excesses(own.summed(honest), low)[2], (1 << BITS * honest) * low.denominator)
        < 1e-50
    )


@DISTRIBUTIONS
def test_gaps_of_all_values_tell_no_more_than_those_at_the_ends(distribution: NoiseDistribution) -> None:
    """Theorems 11 and 15 for π_GAP: all values of a client; the joint distribution, by floats."""
    steps = 3
    plan = plan_distributed_noise(
        sums_from_ends(2, steps), Neighbors(ADD), Fraction(6), Fraction(1, 1000), distribution, 3, 2
    )
    assert plan.own is not None
    one, ratio = distribution_of(plan.own, 1), exp_bounds(plan.exact.epsilon)[0]
    curves = [curve_of_distribution(one, [moved]).pairs[0] for moved in range(1, 2 * steps + 1)]
    deltas = [
        lower_delta([curves[2 * steps - rest - 1], *curves[rest - 1 : rest]], ratio)
        for rest in range(steps + 1)
    ]
    assert len(set(deltas)) == steps + 1 and plan.exact.delta * Fraction(1, 2) <= max(deltas)
    assert max(deltas) * (1 - 1e-6) <= plan.exact.delta


@pytest.mark.parametrize("amount", [1, 2, 3, 7, 200, 2001])
def test_moves_that_stand_for_all_ways_to_share_an_amount(amount: int) -> None:
    """Each way is no longer in either value than one of few, whose squares add up to the whole's at most."""
    few = [(*move, 0)[:2] for move in _shared(amount)]
    assert len(few) <= 6 and all(own**2 + rest**2 <= amount**2 for own, rest in few)
    for rest in range(amount // 2 + 1):
        assert any(amount - rest <= own and rest <= other for own, other in few)


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_laplace_values_that_share_an_amount_lose_no_more_than_one(relation: NeighboringRelation) -> None:
    """By the exact deltas, each at its share of epsilon: the plan's bounds all, and is nearly reached."""
    steps, pairs = 4, 2 if relation is REPLACE else 1
    plan = plan_distributed_noise(
        sums_from_ends(2, steps), Neighbors(relation), Fraction(2), Fraction(1, 10**6), LAPLACE, 3, 1
    )
    own = plan.own
    assert own is not None
    deltas = [move_delta(own, s, own.rate * s) if s else Fraction(0) for s in range(2 * steps + 1)]
    most = pairs * max(deltas[s] + deltas[-1 - s] for s in range(2 * steps + 1))
    assert plan.exact.delta / 2 <= most <= plan.exact.delta <= Fraction(1, 10**6)


def test_price_of_distributed_noise() -> None:
    """Its variance is r / (r - t) times that of the joint noise for the same guarantee."""
    for parties, tolerated in ((2, 1), (3, 1), (4, 1)):
        plan = plan_distributed_noise(
            TREE, Neighbors(ADD), Fraction(1, 3), DELTA, LAPLACE, parties, tolerated
        )
        assert plan.own is not None
        ideal = 2 / (Fraction(1, 9) ** 2) * Fraction(parties, parties - tolerated)
        assert 0.99 * ideal < plan.own.mean_square_error < 1.01 * ideal


@DISTRIBUTIONS
def test_of_clients_however_their_records_spread(distribution: NoiseDistribution) -> None:
    """All ways in which three records spread over cells: none exceeds what is claimed."""
    for malleable in (False, True):
        asked = Fraction(3), Fraction(1, 10**5)
        plan = plan_distributed_noise(
            each_cell_once(4), Neighbors(ZERO_OUT, 3, malleable), *asked, distribution, 2, 1
        )
        assert plan.own is not None and plan.exact.epsilon <= 3 and plan.exact.delta <= Fraction(1, 10**5)
        ratio, sides = exp_bounds(plan.exact.epsilon)[0], 2 if malleable else 1
        one = distribution_of(plan.own, 1)
        for spread in ((3,), (2, 1), (1, 1, 1)):
            delta = lower_delta([curve_of_distribution(one, [s]).pairs[0] for s in spread * sides], ratio)
            assert delta * (1 - 1e-6) <= plan.exact.delta  # floats


def lower_delta(losses: list[tuple[Masses, ...]], ratio: Fraction) -> float:
    """Return a delta, never too high, of independent values: by floats, losses rounded down to 10^-3."""
    grid, total, start, possible = 1e-3, np.ones(1), 0, 1.0
    for pair in losses:
        finite = [(math.floor((math.log(p) - math.log(q)) / grid), float(p)) for p, q in pair if p and q]
        possible *= 1 - float(sum(p for p, q in pair if not q))
        low = min(place for place, _ in finite)
        one = np.bincount([place - low for place, _ in finite], [mass for _, mass in finite])
        total, start = np.convolve(total, one), start + low
    over = (start + np.arange(total.size)) * grid - math.log(ratio)
    return 1 - possible + float((total * np.where(over > 0, -np.expm1(-over), 0)).sum()) * (1 - 1e-9)


def test_laplace_as_dp_accounting_finds_it() -> None:
    """Above its epsilon the ideal distribution has no delta, ours that of the cut; below, within 0.1%."""
    own, exact = design_distributed(LAPLACE, Moves([(1,)]), Fraction(1, 2), DELTA, parties=3, honest=2)
    ideal = pld.from_discrete_laplace_mechanism(float(own.rate), value_discretization_interval=1e-5)
    assert ideal.get_delta_for_epsilon(0.501) <= exact.delta <= DELTA
    for epsilon in (0.1, 0.3, 0.4):
        ours = move_delta(own, 1, Fraction(epsilon))
        assert abs(float(ours) / ideal.get_delta_for_epsilon(epsilon) - 1) < 1e-3


@pytest.mark.parametrize("honest", [1, 2, 3])
def test_gaussian_as_dp_accounting_finds_it(honest: int) -> None:
    """For wide noise the sum is a discrete Gaussian but for 10^-9; its deltas agree within 1%."""
    own, exact = design_distributed(
        GAUSSIAN, Moves([(1,)]), Fraction(1, 2), Fraction(1, 10**6), parties=honest + 1, honest=honest
    )
    sigma = math.sqrt(1 / (2 * float(own.rate)))
    ideal = pld.from_discrete_gaussian_mechanism(sigma, value_discretization_interval=1e-4)
    assert abs(float(exact.delta) / ideal.get_delta_for_epsilon(0.5) - 1) < 1e-2
    assert abs(float(move_delta(own, 1, Fraction(1, 2))) / float(exact.delta) - 1) < 1e-3


def divergence(one_rate: float, honest: int, moved: int, order: float) -> float:
    """Return D_order of the ideal sum and itself moved, by floats, far enough out."""
    x = np.arange(-400, 401)
    one = np.exp(-one_rate * x.astype(float) ** 2)
    distribution = reduce(np.convolve, [one / one.sum()] * honest)
    p, q = distribution[moved:], distribution[: distribution.size - moved]
    used = (p > 1e-250) & (q > 1e-250)
    return float(logsumexp(order * np.log(p[used]) + (1 - order) * np.log(q[used]))) / (order - 1)


@pytest.mark.parametrize("honest", [1, 2, 3])
@pytest.mark.parametrize("one", [Fraction(2), Fraction(1), Fraction(1, 2), Fraction(1, 8), Fraction(1, 50)])
def test_rho_of_the_ideal_sum(honest: int, one: Fraction) -> None:
    """Theorem 4, at many orders and moves; the formula for one discrete Gaussian alone is exceeded."""
    own = DistributedNoise(GAUSSIAN, one / honest, 5, 3, honest)
    for moved in (1, 2, 3, 4):
        for order in (1.01, 1.5, 2, 5, 20):
            exact = divergence(float(one), honest, moved, order)
            assert exact <= order * float(rho(own)) * moved**2 * (1 + 1e-9) + 1e-12


def test_a_sum_of_discrete_gaussians_is_none() -> None:
    """Two of variance 1/4 have rho of 1.11 at least, where the formula for their variance says 1."""
    own = DistributedNoise(GAUSSIAN, Fraction(1), 5, 2, 2)
    worst = max(divergence(2.0, 2, 1, order) / order for order in (1.01, 1.1, 1.5, 2, 3))
    assert 1.11 <= worst <= float(rho(own)) < 1.92
    wide = DistributedNoise(GAUSSIAN, Fraction(1, 100), 50, 2, 2)
    assert wide.rate < rho(wide) < wide.rate * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize(("rate", "edge", "honest"), [(Fraction(1, 8), 6, 1), (Fraction(1, 50), 25, 2)])
def test_distance_of_a_table_from_its_ideal(rate: Fraction, edge: int, honest: int) -> None:
    own = DistributedNoise(GAUSSIAN, rate, edge, 3, honest)
    x = np.arange(-400, 401)
    ideal = np.exp(-float(rate * honest) * x.astype(float) ** 2)
    ideal /= ideal.sum()
    table = np.zeros(ideal.size)
    table[400 - edge : 401 + edge] = [float(Fraction(w, 1 << BITS)) for w in own.weights]
    exact = float(np.abs(ideal - table).sum()) / 2
    assert exact * (1 - 1e-6) <= float(distance(own)) <= 3 * exact


def test_wrong_scales_are_not_claimed() -> None:
    """A table that is a tenth narrower, or ends earlier, protects less than was asked."""
    moves = Moves([(1, 1)])
    for distribution in NoiseDistribution:
        own, _ = design_distributed(distribution, moves, Fraction(1), DELTA, parties=2, honest=1)
        narrow = DistributedNoise(distribution, own.rate * Fraction(6, 5), own.edge, 2, 1)
        short = DistributedNoise(distribution, own.rate, own.edge * 7 // 10, 2, 1)
        guarantee = guarantee_of_distributed(narrow, moves, Fraction(1))
        assert guarantee.epsilon > 1 or guarantee.delta > DELTA
        assert guarantee_of_distributed(short, moves, Fraction(1)).delta > DELTA


@DISTRIBUTIONS
@pytest.mark.parametrize("cap", [1, 3])
def test_every_machine_designs_the_same_noise(
    distribution: NoiseDistribution, cap: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hosts derive it for themselves: nothing is by the C library, whose last bits differ."""
    for name in ("exp", "log", "log2", "log1p", "expm1", "erfc", "erf", "pow"):
        monkeypatch.delattr(math, name)
    own, guarantee = design_distributed(
        distribution, Moves([(1, 1)], cap), Fraction(2), Fraction(1, 10**6), parties=3, honest=2
    )
    assert own.distribution is distribution and guarantee.delta <= Fraction(1, 10**6)


@pytest.mark.parametrize(
    ("distribution", "epsilon", "delta", "release", "why"),
    [
        (GAUSSIAN, Fraction(1), Fraction(0), TREE, "Gaussian noise protects nothing at δ = 0"),
        (LAPLACE, Fraction(1), Fraction(0), TREE, "a table ends, and protects nothing at δ = 0"),
        (LAPLACE, Fraction(1, 10**7), DELTA, TREE, "beyond 65536"),
        (GAUSSIAN, Fraction(1, 10**5), DELTA, TREE, "beyond 65536"),
        (LAPLACE, Fraction(1), Fraction(1, 2**125), TREE, "below 2"),
        (LAPLACE, Fraction(1), DELTA, AboveThreshold(3), "with joint noise only"),
    ],
)
def test_what_no_table_reaches(distribution, epsilon, delta, release, why) -> None:
    with pytest.raises(ValueError, match=why):
        plan_distributed_noise(release, Neighbors(ADD), epsilon, delta, distribution, 3, 1)
