"""Three ways to trust with a gap between two groups: each one's exact ε, its error in closed form, simulated.

Values are in the scale from -1 to 1, and a gap is the mean of the first group less that of the second. Both
groups have half of the clients. All protect one client's tuple (group, value), replaced by any other.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from benchmarks.studies.arrays import Floats
from benchmarks.studies.local_simulation import Population, simulate, summed_geometric
from harness.inputs.record_schema import MAX_STEPS
from protocols.accounting.calibration import (
    NeighboringRelation,
    Neighbors,
    plan_noise,
    possible_moves,
    sums_and_sizes,
)
from protocols.circuits.coins import Coin
from protocols.guarantee import Guarantee
from protocols.local_dp.estimators import gap_weights, half_width, least_enough, least_value, variance
from protocols.local_dp.randomizers import Mechanism, MechanismL, MechanismR
from protocols.noise.added import simulated_noise
from protocols.noise.truncated import error_bound, mean_square_error

DELTA = Fraction(1, 2**40)
STEPS = MAX_STEPS  # the finest grid of `./inv gap`, so that rounding to it does not show
AGGREGATORS = 2
MOST = 2.0  # of a gap

_NEIGHBORS = Neighbors(NeighboringRelation.REPLACE_ONE)
_GROUPS = 2
_TRIALS = 20  # records on which a client of the simulated population measures its rate


def population(clients: int) -> Population:
    """Return the simulated clients, as near as whole numbers come to: rates are binomial, of 20 trials each.

    Edge cases: an odd client is left out.
    """
    values, found = 2 * np.arange(_TRIALS + 1) / _TRIALS - 1, []
    for rate in (0.8901, 0.7177):  # of the two groups: the mean rates in the gap paper's appendix D
        law = [math.comb(_TRIALS, j) * rate**j * (1 - rate) ** (_TRIALS - j) for j in range(_TRIALS + 1)]
        wanted = clients // 2 * np.array(law)
        whole = np.floor(wanted).astype(np.int64)
        whole[np.argsort(whole - wanted)[: clients // 2 - whole.sum()]] += 1
        found.append(whole)
    return Population((values, values), tuple(found))


@dataclass(frozen=True)
class Local:
    """Nobody is trusted: each client perturbs its own tuple. The collector knows the groups' sizes."""

    mechanism: Mechanism

    @property
    def guarantee(self) -> Guarantee:
        """Exact upper bounds of ε and δ."""
        return Guarantee(self.mechanism.epsilon, Fraction(0))

    def half_width(self, clients: float, failure: float) -> float:
        """Return t with P(|estimate - gap| > t) <= failure, whatever the values: Chernoff's bound.

        [test: tests/statistical/test_trust.py]
        """
        sizes = [clients / 2] * _GROUPS
        return half_width(self.mechanism, sizes, gap_weights(sizes, 0, 1), failure)

    def deviation(self, clients: int) -> float:
        """Return the standard deviation for `population`, exactly."""
        people = population(clients)
        squares = [float(v**2 @ n / n.sum()) for v, n in zip(people.values, people.clients, strict=True)]
        sizes = people.sizes.tolist()
        return math.sqrt(variance(self.mechanism, sizes, gap_weights(sizes, 0, 1), squares))

    def errors(self, clients: int, runs: int, rng: np.random.Generator) -> Floats:
        """Simulate: estimate - gap of `population`, shape (runs,). An estimate outside -2 to 2 is cut."""
        (found,) = simulate([self.mechanism], population(clients), runs, rng)
        return np.clip(found.estimated_gaps(), -MOST, MOST) - found.gap()


@dataclass(frozen=True)
class Central:
    """Sums and sizes of groups are opened with noise Z, the same law for each of the four.

    A client adds its value, as a whole number of steps from -h to h, to its group's sum, and h to its size:
    the linear map of π_GAP. A mean is the noisy sum over the noisy size.

    Attributes: guarantee: exact upper bounds of ε and δ; noise_variance: E[Z^2], in steps; most_exponent:
    below which |theta| the moments E[e^(theta Z)] exist and can be computed; log_moment: returns
    ln E[e^(theta Z)], even in theta, as Z is symmetric; draw: draws Z in a shape.
    """

    guarantee: Guarantee
    noise_variance: float
    most_exponent: float
    log_moment: Callable[[Floats], Floats]
    draw: Callable[[tuple[int, ...], np.random.Generator], Floats]

    def half_width(self, clients: float, failure: float) -> float:
        """Return as `Local` does, by Chernoff's bound, with the noise's own moments; inf: none is known.

        Computes: with n = h clients / 2 a group's true size in steps, X and Y the noise of sum and size, a
        mean m is off by A w, A = (X - m Y) / n, w = n / (n + Y) <= n / (n - T) where Y >= -T. Then the gap is
        off by max(|A1 - A2|, |A1|, |A2|) n / (n - T) at most: where A1 and A2 differ in sign by |A1| w1 +
        |A2| w2, else by the larger of the two. ln E[e^(t Z)] grows with |t|, so |m| = 1 is worst, and n A has
        the moments of two Z, n (A1 - A2) of four. Rounding to the grid adds 1 / h.
        [test: tests/statistical/test_trust.py]
        """
        least, most = _bounds(self, failure)
        n = STEPS * clients / 2
        return most / (n - least) + 1 / STEPS if n > least else math.inf

    def deviation(self, clients: int) -> float:
        """Return the standard deviation for `population`, to first order in the noise of sizes."""
        people = population(clients)
        parts = [
            (1 + float(v @ n / n.sum()) ** 2) / (STEPS * float(n.sum())) ** 2
            for v, n in zip(people.values, people.clients, strict=True)
        ]
        return math.sqrt(self.noise_variance * sum(parts))

    def errors(self, clients: int, runs: int, rng: np.random.Generator) -> Floats:
        """Simulate as `Local` does; where a size is not above 0 the estimate is 0."""
        people = population(clients)
        sums = np.array([v @ n for v, n in zip(people.values, people.clients, strict=True)])
        noise = self.draw((runs, 2 * _GROUPS), rng) / STEPS
        size = people.sizes + noise[:, _GROUPS:]
        means = (sums + noise[:, :_GROUPS]) / np.where(size > 0, size, np.nan)
        gap = np.nan_to_num(means[:, 0] - means[:, 1], nan=0.0)
        return np.asarray(np.clip(gap, -MOST, MOST) - float(sums @ (1 / people.sizes * [1, -1])))


TrustModel = Local | Central


def noise_per_aggregator(epsilon: Fraction, aggregators: int, honest: int) -> Central:
    """Return aggregators who add up shares, as in Prio, and each add noise to their own sums.

    Noise of all but so many honest ones is not relied on, as these may know theirs, or leave it out: `honest`
    together meet ε with discrete Laplace noise, P(x) in proportion to e^(-|x| rate), each with its part, a
    difference of two negative binomials; the sum has the noise of all. One of two is what Prio does, and
    `--noise own` before its laws become tables, which hold for coarser grids only. The sums themselves are as
    private as the aggregators do not join.
    """
    moves = possible_moves(sums_and_sizes(_GROUPS, STEPS), _NEIGHBORS)
    rate = epsilon / max(map(sum, moves))  # ε for a client that moves the values most, in L1
    parts = aggregators / honest  # how many times the honest ones' noise the sum has

    def log_moment(theta: Floats) -> Floats:
        """With r the rate, ln of (1 - e^-r)^2 / ((1 - e^(theta - r)) (1 - e^(-theta - r))), for each."""
        half = float(rate) / 2
        one = np.sinh(half) ** 2 / (np.sinh(half + theta / 2) * np.sinh(half - theta / 2))
        return np.asarray(parts * np.log(one))

    def draw(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        odds, each = 1 / math.expm1(rate), np.full(shape, parts)
        return np.asarray(summed_geometric(each, odds, rng) - summed_geometric(each, odds, rng), np.float64)

    spread = parts / (2 * math.sinh(rate / 2) ** 2)
    return Central(Guarantee(epsilon, Fraction(0)), spread, float(rate), log_moment, draw)


def noise_in_computation(coins: tuple[Coin, ...], exact: Guarantee) -> Central:
    """Return π_GAP: parties compute on shares, noise is made there, once, by coins that no party knows."""

    def log_moment(theta: Floats) -> Floats:
        """With G + 1/2 the magnitude, ln E[cosh(theta (G + 1/2))]; G's bits are independent."""
        ends = []
        for t in (theta, -theta):
            chances = [(float(coin.probability), float(1 << i)) for i, coin in enumerate(coins)]
            ends.append(
                t / 2 + sum(np.logaddexp(math.log1p(-p), math.log(p) + t * bit) for p, bit in chances)
            )
        return np.asarray(np.logaddexp(*ends) - math.log(2))

    def draw(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        return simulated_noise(coins, rng, shape)

    most = 300 / float(error_bound(coins, Fraction(1, 2)))
    return Central(exact, float(mean_square_error(coins)), most, log_moment, draw)


PUBLISHED, REPAIRED, LAPLACE = "M_R as published", "M_R, repaired", "M_L, k = 2"
PER_AGGREGATOR, IN_COMPUTATION = "noise per aggregator", "noise in the computation"
OWN_OF_THREE = "own noise, three parties"
MODELS = (PUBLISHED, REPAIRED, LAPLACE, PER_AGGREGATOR, OWN_OF_THREE, IN_COMPUTATION)


@lru_cache(maxsize=32)
def trust_model(name: str, epsilon: Fraction) -> TrustModel:
    """Return a model at this ε; the published allocation is larger than it says, see `guarantee`."""
    if name == IN_COMPUTATION:
        plan = plan_noise(sums_and_sizes(_GROUPS, STEPS), _NEIGHBORS, epsilon, DELTA)
        return noise_in_computation(plan.coins, plan.exact)
    if name in (PER_AGGREGATOR, OWN_OF_THREE):
        return noise_per_aggregator(epsilon, *((AGGREGATORS, 1) if name == PER_AGGREGATOR else (3, 2)))
    if name == PUBLISHED:
        return Local(MechanismR.with_budgets(_GROUPS, epsilon, epsilon))
    return Local((MechanismR if name == REPAIRED else MechanismL).private(_GROUPS, epsilon))


@lru_cache(maxsize=32)
def _bounds(model: Central, failure: float) -> tuple[float, float]:
    """Return T and s, for Central.half_width, up to 1 % larger than need be.

    Computes: Y1 < -T or Y2 < -T, or n max(|A1 - A2|, |A1|, |A2|) > s, with probability `failure` at most.
    """

    def tail(values: int, t: float) -> float:
        """Bound P(sum of so many independent Z > t), by the least of E[e^(theta Z)]^values e^(-theta t)."""

        def exponents(theta: Floats) -> Floats:
            return values * model.log_moment(theta) - theta * t

        most = model.most_exponent * (1 - 1e-9)
        return math.exp(least_value(exponents, most / 1e5, most))

    unit = math.sqrt(model.noise_variance) / 100
    of_sizes = failure / 10  # for a noisy size to be far too small
    least = least_enough(lambda t: 2 * tail(1, t * unit) <= of_sizes)
    most = least_enough(lambda s: 2 * tail(4, s * unit) + 4 * tail(2, s * unit) <= failure - of_sizes)
    return least * unit, most * unit
