"""The gap between two groups under three trust models: how many clients does each need?

Values are from -1 to 1; each group has half of the clients. All protect one client's tuple (group, value),
replaced by any other.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product

import numpy as np

from benchmarks.studies.local_simulation import Population, simulate, summed_geometric
from benchmarks.studies.outcome import Outcome, Row, grouped
from benchmarks.studies.utility.study import SEED, generator
from harness.inputs.record_schema import MAX_STEPS
from harness.privacy.statement import SHIFTED
from harness.views.parts import Part, Stacked
from protocols.accounting.calibration import (
    NeighboringRelation,
    Neighbors,
    plan_noise,
    possible_moves,
    sums_from_ends,
)
from protocols.accounting.rounding import digits_up, float_up
from protocols.arrays import Floats
from protocols.circuits.coins import Coin
from protocols.guarantee import Guarantee
from protocols.local_dp.estimators import gap_weights, half_width, least_enough, least_value
from protocols.local_dp.randomizers import Mechanism, MechanismL, MechanismR
from protocols.noise.added import simulated_noise
from protocols.noise.truncated import error_bound, mean_square_error

DELTA = Fraction(1, 2**40)
STEPS = MAX_STEPS  # the finest grid of `./inv gap`, so that rounding to it does not show
AGGREGATORS = 2
MOST = 2.0  # of a gap

_NEIGHBORS = Neighbors(NeighboringRelation.REPLACE_ONE)
_GROUPS = 2
_TRIALS = 20  # records of a simulated client


def population(clients: int) -> Population:
    """Return the simulated clients: rates are binomial, of 20 trials each."""
    values, counts = 2 * np.arange(_TRIALS + 1) / _TRIALS - 1, []
    for rate in (0.8901, 0.7177):  # of the two groups: the mean rates in the gap paper's appendix D
        distribution = [
            math.comb(_TRIALS, j) * rate**j * (1 - rate) ** (_TRIALS - j) for j in range(_TRIALS + 1)
        ]
        wanted = clients // 2 * np.array(distribution)
        whole = np.floor(wanted).astype(np.int64)
        whole[np.argsort(whole - wanted)[: clients // 2 - whole.sum()]] += 1
        counts.append(whole)
    return Population((values, values), tuple(counts))


@dataclass(frozen=True)
class Local:
    """Nobody is trusted: each client perturbs its own tuple. The groups' sizes are known."""

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

    def errors(self, clients: int, runs: int, rng: np.random.Generator) -> Floats:
        """Simulate estimate - gap of `population`, shape (runs,); estimates are cut to -2 .. 2."""
        (simulated,) = simulate([self.mechanism], population(clients), runs, rng)
        return np.clip(simulated.estimated_gaps(), -MOST, MOST) - simulated.gap()


@dataclass(frozen=True)
class Central:
    """Sums are revealed with noise Z, the same distribution for each of the four, as in π_GAP.

    Attributes:
        noise_variance: E[Z^2], in steps.
        most_exponent: Below which |theta| the moments E[e^(theta Z)] exist and can be computed.
        log_moment: Returns ln E[e^(theta Z)], even in theta, as Z is symmetric.
        draw: Draws Z in a shape.
    """

    guarantee: Guarantee
    noise_variance: float
    most_exponent: float
    log_moment: Callable[[Floats], Floats]
    draw: Callable[[tuple[int, ...], np.random.Generator], Floats]

    def half_width(self, clients: float, failure: float) -> float:
        """Return as `Local` does, by Chernoff's bound, with the noise's own moments; inf: none is known.

        Derived in docs/explanation/local-privacy.md; `least` is T, `most` is s. Rounding to the grid adds 1 /
        h.
        [test: tests/statistical/test_trust.py]
        """
        least, most = _bounds(self, failure)
        n = STEPS * clients / 2
        return most / (n - least / 2) + 1 / STEPS if n > least / 2 else math.inf

    def errors(self, clients: int, runs: int, rng: np.random.Generator) -> Floats:
        """Simulate as `Local` does; where a size is not above 0 the estimate is 0."""
        people = population(clients)
        sums = np.array([v @ n for v, n in zip(people.values, people.clients, strict=True)])
        below, above = self.draw((2, runs, _GROUPS), rng) / (2 * STEPS)
        size = people.sizes + below + above
        means = (sums + below - above) / np.where(size > 0, size, np.nan)
        gap = np.nan_to_num(means[:, 0] - means[:, 1], nan=0.0)
        return np.asarray(np.clip(gap, -MOST, MOST) - float(sums @ (1 / people.sizes * [1, -1])))


TrustModel = Local | Central


def noise_per_aggregator(epsilon: Fraction, aggregators: int, honest: int) -> Central:
    """Return aggregators who add up shares, as in Prio, and each add noise to their own sums.

    The noise of all but `honest` ones is not relied on. These meet ε with discrete Laplace noise together;
    each adds a difference of two negative binomials. benchmarks/results/trust/README.md says why.
    """
    moves = possible_moves(sums_from_ends(_GROUPS, STEPS), _NEIGHBORS)
    rate = epsilon / max(map(sum, moves))  # ε for a client that moves the values most, in L1
    parts = aggregators / honest  # the sum's noise over the honest ones'

    def log_moment(theta: Floats) -> Floats:
        """With r the rate, ln of (1 - e^-r)^2 / ((1 - e^(theta - r)) (1 - e^(-theta - r))), for each."""
        half = float(rate) / 2
        one = np.sinh(half) ** 2 / (np.sinh(half + theta / 2) * np.sinh(half - theta / 2))
        return np.asarray(parts * np.log(one))

    def draw(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        odds, n = 1 / math.expm1(rate), np.full(shape, parts)
        return np.asarray(summed_geometric(n, odds, rng) - summed_geometric(n, odds, rng), np.float64)

    spread = parts / (2 * math.sinh(rate / 2) ** 2)
    return Central(Guarantee(epsilon, Fraction(0)), spread, float(rate), log_moment, draw)


def noise_in_computation(coins: tuple[Coin, ...], exact: Guarantee) -> Central:
    """Return π_GAP: parties make noise once, by coins that no party knows."""

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
DISTRIBUTED_OF_THREE = "distributed noise, three parties"
MODELS = (PUBLISHED, REPAIRED, LAPLACE, PER_AGGREGATOR, DISTRIBUTED_OF_THREE, IN_COMPUTATION)


@lru_cache(maxsize=32)
def trust_model(name: str, epsilon: Fraction) -> TrustModel:
    """Return a model at this ε; the published allocation has a larger one."""
    if name == IN_COMPUTATION:
        plan = plan_noise(sums_from_ends(_GROUPS, STEPS), _NEIGHBORS, epsilon, DELTA)
        return noise_in_computation(plan.coins, plan.exact)
    if name in (PER_AGGREGATOR, DISTRIBUTED_OF_THREE):
        return noise_per_aggregator(epsilon, *((AGGREGATORS, 1) if name == PER_AGGREGATOR else (3, 2)))
    if name == PUBLISHED:
        return Local(MechanismR.with_budgets(_GROUPS, epsilon, epsilon))
    return Local((MechanismR if name == REPAIRED else MechanismL).private(_GROUPS, epsilon))


@lru_cache(maxsize=32)
def _bounds(model: Central, failure: float) -> tuple[float, float]:
    """Return T and s, for Central.half_width, up to 1 % larger than need be.

    With probability `failure` at most, Y1 < -T or Y2 < -T, or n max(|A1 - A2|, |A1|, |A2|) > s.
    """

    def tail(values: int, t: float) -> float:
        """Bound P(sum of so many independent Z > t), by the least of E[e^(theta Z)]^values e^(-theta t)."""

        def exponents(theta: Floats) -> Floats:
            return values * model.log_moment(theta) - theta * t

        most = model.most_exponent * (1 - 1e-9)
        return math.exp(least_value(exponents, most / 1e5, most))

    unit = math.sqrt(model.noise_variance) / 100
    of_sizes = failure / 10  # the probability that a noisy size is far too small
    least = least_enough(lambda t: 2 * tail(2, t * unit) <= of_sizes)
    most = least_enough(lambda s: 2 * tail(2, s * unit) + 4 * tail(1, s * unit) <= failure - of_sizes)
    return least * unit, most * unit


FAILURE = 0.01

NEEDED = "clients.csv"


@dataclass(frozen=True, eq=False)
class Setting:
    """The ε and errors for which every model is measured."""

    epsilons: tuple[Fraction, ...] = (Fraction(1, 10), Fraction(1), Fraction(4))
    errors: tuple[float, ...] = (0.1, 0.01, 0.001)


QUICK = Setting((Fraction(1),), (0.1,))


def study(setting: Setting, runs: int, progress: Callable[[int, int], None]) -> Outcome:
    """Find the clients that each model needs for an error."""
    needs, models = list[Row](), list(product(setting.epsilons, MODELS))
    for number, (epsilon, name) in enumerate(models):
        progress(number, len(models))
        exact = {
            "epsilon": float(epsilon),
            "epsilon_exact": float_up(trust_model(name, epsilon).guarantee.epsilon),
        }
        needs += [{"model": name, **exact, **_needed(name, epsilon, error, runs)} for error in setting.errors]
    return Outcome(
        {
            "seed": SEED,
            "runs": runs,
            "neighboring_relation": "replace_one",
            "delta": float_up(DELTA),
            "confidence": 1 - FAILURE,
            "scale": "values from -1 to 1",
            "steps": STEPS,
            "aggregators": AGGREGATORS,
            "measures": {
                "clients_proven": "within the error in 99 % of runs, by proof, whatever the values; to 1 %",
                "clients_simulated": "the same of the simulated population, to about 5 %",
            },
        },
        needs,
        view(setting, needs),
        tables={NEEDED: needs},
    )


def _needed(name: str, epsilon: Fraction, error: float, runs: int) -> Row:
    model = trust_model(name, epsilon)

    def enough(clients: float) -> bool:
        drawn = model.errors(int(clients), runs, generator(name, epsilon, error))
        return float(np.quantile(abs(drawn), 1 - FAILURE)) <= error

    proven = least_enough(lambda clients: model.half_width(clients, FAILURE) <= error)
    # The search starts among eight times fewer clients than by the bound.
    return {"error": error, "clients_proven": proven, "clients_simulated": least_enough(enough, proven / 8)}


def view(setting: Setting, needs: Sequence[Row]) -> Iterator[Part]:
    """View the clients for each error."""
    rows = [
        [
            f"ε = {float(epsilon):g}",
            name,
            digits_up(trust_model(name, epsilon).guarantee.epsilon, 4),
            *(
                Stacked(f"{powers(need['clients_proven'])}\n{powers(need['clients_simulated'])}")
                for need in needs
                if (need["epsilon"], need["model"]) == (float(epsilon), name)
            ),
        ]
        for epsilon, name in product(setting.epsilons, MODELS)
    ]
    names = [f"clients for an error of {error:g}" for error in setting.errors]
    yield grouped(["", "", "its ε", *names], rows, alignment="lll" + "r" * len(names))
    yield (
        "Errors of the gap between two groups' means, values from -1 to 1, that are not exceeded in 99 % of "
        "runs: above, proven whatever the values; below, simulated for one population. All protect a "
        "client's group and value, replaced by any other, at the ε shown; δ is 0, of noise in the "
        f"computation below 2^-40. With noise per aggregator, or of the parties' own, {SHIFTED}."
    )


def powers(number: float) -> str:
    """Return a number to three digits, as 4.7·10^6."""
    if number < 10**6:
        return f"{float(f'{number:.3g}'):,.0f}"
    mantissa, exponent = f"{number:.2e}".split("e")
    power = f"10^{int(exponent)}"
    return power if float(mantissa) == 1 else f"{float(mantissa):g}·{power}"
