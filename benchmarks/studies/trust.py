"""The gap between two groups under three trust models: how many clients does each need?

Values are from -1 to 1, and each group has half of the clients. A client's (group, value) is protected
against replacement.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from itertools import product

import numpy as np
from matplotlib.figure import Figure

from benchmarks.figures import GRID, LOGARITHMIC, Mark, Panel, draw, each_power_of_ten, level, line, shown
from benchmarks.studies.local_simulation import ClientValues, simulate, summed_geometric
from benchmarks.studies.outcome import SUMMARY, Row, StudyResult, grouped, rounded
from benchmarks.studies.utility.study import SEED, generator
from fairshares.harness.inputs.record_schema import MAX_STEPS
from fairshares.harness.privacy.statement import SHIFTED
from fairshares.harness.views.palette import COLOURS, GREY, MARKERS
from fairshares.harness.views.parts import Part, Stacked
from fairshares.protocols.accounting.calibration import (
    NeighboringRelation,
    Neighbors,
    plan_noise,
    possible_moves,
    sums_from_ends,
)
from fairshares.protocols.accounting.rounding import digits_up, float_up
from fairshares.protocols.arrays import Floats
from fairshares.protocols.circuits.coins import Coins, SymmetricCoins, coins_of_magnitude
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.local_dp.estimators import (
    gap_weights,
    half_width,
    least_value,
    variance,
)
from fairshares.protocols.local_dp.randomizers import Mechanism, MechanismL, MechanismR
from fairshares.protocols.noise.added import simulated_noise
from fairshares.protocols.noise.truncated import error_bound, mean_square_error

DELTA = Fraction(1, 2**40)

AGGREGATORS = 2
MOST = 2.0  # the largest possible gap

_NEIGHBORS = Neighbors(NeighboringRelation.REPLACE_ONE)
_GROUPS = 2
_TRIALS = 20  # records of a simulated client


def population(clients: int) -> ClientValues:
    """Return simulated clients, whose values are shares of 20 trials."""
    values = 2 * np.arange(_TRIALS + 1) / _TRIALS - 1
    clients_of_group = clients // 2
    counts = []
    for rate in (0.8901, 0.7177):  # the two groups' mean rates in the gap paper's appendix D
        distribution = [
            math.comb(_TRIALS, hits) * rate**hits * (1 - rate) ** (_TRIALS - hits)
            for hits in range(_TRIALS + 1)
        ]
        wanted = clients_of_group * np.array(distribution)
        whole = np.floor(wanted).astype(np.int64)
        furthest_below = np.argsort(whole - wanted)
        left = clients_of_group - whole.sum()
        whole[furthest_below[:left]] += 1
        counts.append(whole)
    return ClientValues((values, values), tuple(counts))


@dataclass(frozen=True)
class Local:
    """The trust model in which each client perturbs its own tuple. The groups' sizes are known."""

    mechanism: Mechanism

    @property
    def guarantee(self) -> Guarantee:
        """Upper bounds of ε and δ."""
        return Guarantee(self.mechanism.epsilon, Fraction(0))

    def half_width(self, clients: float, failure: float) -> float:
        """Return t with P(|estimate - gap| > t) <= failure, whatever the values, by Chernoff's bound.

        [test: tests/statistical/test_trust.py]
        """
        sizes = [clients / 2] * _GROUPS
        return half_width(self.mechanism, sizes, gap_weights(sizes, 0, 1), failure)

    def deviation(self, clients: int) -> float:
        """Return the exact standard deviation for `population`."""
        people = population(clients)
        squares = [float(v**2 @ n / n.sum()) for v, n in zip(people.values, people.clients, strict=True)]
        sizes = people.sizes.tolist()
        return math.sqrt(variance(self.mechanism, sizes, gap_weights(sizes, 0, 1), squares))

    def errors(self, clients: int, runs: int, rng: np.random.Generator) -> Floats:
        """Simulate estimate - gap for `population`, shape (runs,), with estimates cut to -2 .. 2."""
        (simulated,) = simulate([self.mechanism], population(clients), runs, rng)
        return np.clip(simulated.estimated_gaps(), -MOST, MOST) - simulated.gap()


@dataclass(frozen=True)
class Central:
    """Four sums are revealed, each with noise Z of the same distribution.

    Args:
        guarantee: Upper bounds of ε and δ.
        noise_variance: E[Z^2], in steps.
        most_exponent: E[e^(theta Z)] exists and can be computed where |theta| is smaller.
        log_moment: ln E[e^(theta Z)], a function of theta that is even, because Z is symmetric.
        draw: Samples of Z in any shape.
    """

    guarantee: Guarantee
    noise_variance: float
    most_exponent: float
    log_moment: Callable[[Floats], Floats]
    draw: Callable[[np.random.Generator, tuple[int, ...]], Floats]

    def half_width(self, clients: float, failure: float) -> float:
        """Return t with P(|estimate - gap| > t) <= failure, whatever the values; infinity for few clients.

        docs/explanation/local-privacy.md derives it. There `least` is called T and `most` is called s.
        Rounding to the grid adds 1 / h.
        [test: tests/statistical/test_trust.py]
        """
        least, most = _bounds(self, failure)
        n = MAX_STEPS * clients / 2
        if n <= least / 2:
            return math.inf
        return most / (n - least / 2) + 1 / MAX_STEPS

    def deviation(self, clients: int) -> float:
        """Return the standard deviation for `population`, to first order in the noise."""
        people = population(clients)
        parts = [
            (1 + float(v @ n / n.sum()) ** 2) / (MAX_STEPS * float(n.sum())) ** 2
            for v, n in zip(people.values, people.clients, strict=True)
        ]
        return math.sqrt(self.noise_variance * sum(parts) / 2)

    def errors(self, clients: int, runs: int, rng: np.random.Generator) -> Floats:
        """Simulate errors as `Local` does. Where a noisy size is not above 0, the estimate is 0."""
        people = population(clients)
        sums = np.array([v @ n for v, n in zip(people.values, people.clients, strict=True)])
        below, above = self.draw(rng, (2, runs, _GROUPS)) / (2 * MAX_STEPS)
        size = people.sizes + below + above
        means = (sums + below - above) / np.where(size > 0, size, np.nan)
        gap = np.nan_to_num(means[:, 0] - means[:, 1], nan=0.0)
        return np.asarray(np.clip(gap, -MOST, MOST) - float(sums @ (1 / people.sizes * [1, -1])))


TrustModel = Local | Central


def noise_per_aggregator(epsilon: Fraction, aggregators: int, honest: int) -> Central:
    """Return the model of aggregators that add up shares, as in Prio, and each add noise to their own sums.

    The honest aggregators' noises add up to the discrete Laplace noise that meets ε.
    benchmarks/results/trust/README.md says why.
    """
    moves = possible_moves(sums_from_ends(_GROUPS, MAX_STEPS), _NEIGHBORS)
    rate = epsilon / max(map(sum, moves))  # ε for a client that moves the values most, in L1
    parts = aggregators / honest  # all aggregators' noise over the honest aggregators'

    def log_moment(theta: Floats) -> Floats:
        # (1 - e^-r)^2 / ((1 - e^(theta - r)) (1 - e^(-theta - r))), where r is the rate.
        half = float(rate) / 2
        moment = np.sinh(half) ** 2 / (np.sinh(half + theta / 2) * np.sinh(half - theta / 2))
        return np.asarray(parts * np.log(moment))

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        odds = 1 / math.expm1(rate)
        numbers = np.full(shape, parts)
        up = summed_geometric(numbers, odds, rng)
        down = summed_geometric(numbers, odds, rng)
        return np.asarray(up - down, np.float64)

    return Central(
        guarantee=Guarantee(epsilon, Fraction(0)),
        noise_variance=parts / (2 * math.sinh(rate / 2) ** 2),
        most_exponent=float(rate),
        log_moment=log_moment,
        draw=draw,
    )


def noise_in_computation(coins: Coins, exact: Guarantee) -> Central:
    """Return the model of π_GAP, whose parties make noise from coins that none of them knows."""
    chances = [(float(coin.probability), float(1 << i)) for i, coin in enumerate(coins_of_magnitude(coins))]
    least = 0.5
    if isinstance(coins, SymmetricCoins):
        least = 1.0

    def log_moment(theta: Floats) -> Floats:
        """Return ln E[cosh(theta X)], where X is the error: G + 1/2 or G + 1, if it is not 0.

        G has independent bits.
        """

        def of_power(exponent: Floats) -> Floats:
            """Return ln E[e^(exponent (G + least))]."""
            bits = (np.logaddexp(math.log1p(-p), math.log(p) + exponent * bit) for p, bit in chances)
            return np.asarray(exponent * least + sum(bits))

        of_either_sign = np.logaddexp(of_power(theta), of_power(-theta)) - math.log(2)
        if not isinstance(coins, SymmetricCoins):
            return np.asarray(of_either_sign)
        nonzero = float(coins.nonzero.probability)
        return np.asarray(np.logaddexp(math.log1p(-nonzero), math.log(nonzero) + of_either_sign))

    most = 300 / float(error_bound(coins, Fraction(1, 2)))
    return Central(exact, float(mean_square_error(coins)), most, log_moment, partial(simulated_noise, coins))


PUBLISHED = "M_R as published"
REPAIRED = "M_R, repaired"
LAPLACE = "M_L, k = 2"
PER_AGGREGATOR = "noise per aggregator"
IN_COMPUTATION = "noise in the computation"
DISTRIBUTED_OF_THREE = "distributed noise, three parties"
MODELS = (PUBLISHED, REPAIRED, LAPLACE, PER_AGGREGATOR, DISTRIBUTED_OF_THREE, IN_COMPUTATION)


@lru_cache(maxsize=32)
def trust_model(name: str, epsilon: Fraction) -> TrustModel:
    """Return a model at this ε. The true ε of the published allocation is larger."""
    if name == IN_COMPUTATION:
        plan = plan_noise(sums_from_ends(_GROUPS, MAX_STEPS), _NEIGHBORS, epsilon, DELTA)
        return noise_in_computation(plan.coins, plan.exact)
    if name == PER_AGGREGATOR:
        return noise_per_aggregator(epsilon, aggregators=AGGREGATORS, honest=1)
    if name == DISTRIBUTED_OF_THREE:
        return noise_per_aggregator(epsilon, aggregators=3, honest=2)
    if name == PUBLISHED:
        return Local(MechanismR.with_budgets(_GROUPS, epsilon, epsilon))
    if name == REPAIRED:
        return Local(MechanismR.private(_GROUPS, epsilon))
    return Local(MechanismL.private(_GROUPS, epsilon))


@lru_cache(maxsize=32)
def _bounds(model: Central, failure: float) -> tuple[float, float]:
    """Return T and s of `Central.half_width`, each at most 1 % larger than need be.

    Guarantees: P(Y1 < -T or Y2 < -T or n max(|A1 - A2|, |A1|, |A2|) > s) is at most `failure`.
    """

    def tail(values: int, t: float) -> float:
        """Bound the probability that a sum of so many independent Z is above t.

        Computes: the least E[e^(theta Z)]^values e^(-theta t) over theta.
        """

        def exponents(theta: Floats) -> Floats:
            return values * model.log_moment(theta) - theta * t

        most = model.most_exponent * (1 - 1e-9)
        return math.exp(least_value(exponents, most / 1e5, most))

    unit = math.sqrt(model.noise_variance) / 100
    size_failure = failure / 10  # the probability that a noisy size is far too small
    sum_failure = failure - size_failure
    least = least_enough(lambda t: 2 * tail(2, t * unit) <= size_failure)
    most = least_enough(lambda s: 2 * tail(2, s * unit) + 4 * tail(1, s * unit) <= sum_failure)
    return least * unit, most * unit


def clients_of_one_bit(epsilon: Fraction, error: float, failure: float) -> float:
    """Return how many clients of two equal groups of known sizes one randomized bit each takes.

    A client rounds its value, negated in the second group, to -1 or 1 at random without bias. It tells the
    truth of this bit with odds e^epsilon. Its group is told by nothing else, so that the whole budget is for
    the product of sign and value, which is all that a gap of groups of known sizes needs.

    Args:
        epsilon: Protects the pair of group and value against replacement, above 0.
        error: The largest error of the gap, on the scale from -2 to 2.
        failure: The largest probability of a larger error, by Hoeffding's inequality, whatever the values.
    """
    honesty = math.tanh(epsilon / 2)  # (e^epsilon - 1) / (e^epsilon + 1)
    deviations = math.sqrt(2 * math.log(2 / failure))
    return (2 * deviations / (error * honesty)) ** 2


def clients_of_one_sum(epsilon: Fraction, error: float, failure: float) -> float:
    """Return how many clients of two equal groups of known sizes one noisy sum takes.

    Parties that do not collude reveal the sum of clients' values, negated in the second group, with one
    sample of Laplace noise. A replaced client moves the sum by 2 at most.

    Args:
        epsilon: Protects the pair of group and value against replacement, above 0.
        error: The largest error of the gap, on the scale from -2 to 2.
        failure: The probability of a larger error, exactly.
    """
    scale = 2 / float(epsilon)
    return 2 * scale * math.log(1 / failure) / error


FAILURE = 0.01
RUNS_OF_NEEDED = 10_000  # in about 100 of them, give or take 10, an error is exceeded

NEEDED = "clients.csv"
_LABELS = {  # labels in the figure, in the order of its colors
    IN_COMPUTATION: "noise in the computation (π_GAP)",
    REPAIRED: "local: M_R, repaired",
    PER_AGGREGATOR: "noise per aggregator (2)",
    LAPLACE: "local: M_L, k = 2",
    PUBLISHED: "local: M_R as published (its ε is larger)",
    DISTRIBUTED_OF_THREE: "distributed noise of three parties",
}


@dataclass(frozen=True, eq=False)
class Setting:
    """The ε, numbers of clients and errors for which each model is measured."""

    epsilons: tuple[Fraction, ...] = (Fraction(1, 10), Fraction(1), Fraction(4))
    clients: tuple[int, ...] = tuple(10**power for power in range(2, 9))
    errors: tuple[float, ...] = (0.1, 0.01, 0.001)


QUICK = Setting((Fraction(1),), (100, 1_000, 10_000), (0.1,))


def study(setting: Setting, runs: int, progress: Callable[[int, int], None]) -> StudyResult:
    """Measure each model's error by the number of clients, and the clients that an error takes.

    Args:
        setting: The measured setting.
        runs: The simulated runs behind an error.
        progress: A function that is told how many models are done, and of how many.
    """
    errors: list[Row] = []
    needs: list[Row] = []
    models = list(product(setting.epsilons, MODELS))
    for number, (epsilon, name) in enumerate(models):
        progress(number, len(models))
        model = trust_model(name, epsilon)
        exact = {"epsilon": float(epsilon), "epsilon_exact": float_up(model.guarantee.epsilon)}
        for clients in setting.clients:
            bound = model.half_width(clients, FAILURE)
            drawn = model.errors(clients, runs, generator(name, epsilon, clients))
            errors.append(
                {
                    "model": name,
                    **exact,
                    "delta_exact": float_up(model.guarantee.delta),
                    "clients": clients,
                    "bound_99": rounded(bound) if bound < MOST else None,
                    "simulated_99": rounded(exceeded(drawn)),
                    "simulated_rms": rounded(float(np.sqrt(np.mean(drawn**2)))),
                    "predicted_rms": rounded(model.deviation(clients)),
                }
            )
        for error in setting.errors:
            needs.append({"model": name} | exact | _needed(name, epsilon, error))
    return StudyResult(
        {
            "seed": SEED,
            "runs": runs,
            "runs_of_clients_simulated": RUNS_OF_NEEDED,
            "neighboring_relation": "replace_one",
            "delta": float_up(DELTA),
            "confidence": 1 - FAILURE,
            "scale": "values from -1 to 1",
            "steps": MAX_STEPS,
            "aggregators": AGGREGATORS,
            "measures": {
                "bound_99": "exceeded with probability 1 % at most, by proof, whatever the values; "
                "empty: none",
                "simulated_99": "error that all but 1 % of the runs keep to, of the simulated population",
                "simulated_rms": "root of the mean square error of the runs",
                "predicted_rms": "the same in closed form; of noisy sizes to first order",
                "clients_proven": "by bound_99, to 1 %",
                "clients_simulated": "by simulated_99, to about 5 %",
            },
        },
        {"errors": errors, "clients": needs},
        view(setting, errors, needs),
        tables={SUMMARY: errors, NEEDED: needs},
        figures={"trust.png": lambda: plot(setting, errors)},
    )


def _needed(name: str, epsilon: Fraction, error: float) -> dict[str, float]:
    """Return how many clients a model needs for an error, by proof and by simulation."""
    model = trust_model(name, epsilon)

    def enough(clients: float) -> bool:
        return exceeded(model.errors(int(clients), RUNS_OF_NEEDED, generator(name, epsilon, error))) <= error

    proven = least_enough(lambda clients: model.half_width(clients, FAILURE) <= error)
    # The search starts among eight times fewer clients than by the bound.
    return {"error": error, "clients_proven": proven, "clients_simulated": least_enough(enough, proven / 8)}


def exceeded(errors: Floats) -> float:
    """Return the absolute error that 1 % of these errors exceed."""
    return float(np.quantile(abs(errors), 1 - FAILURE))


def plot(setting: Setting, errors: Sequence[Row]) -> Figure:
    """Draw proven bounds as lines and simulated errors as markers."""
    return draw(
        [[_marks(setting, epsilon, errors) for epsilon in setting.epsilons]],
        (max(7.0, 1 + 4 * len(setting.epsilons)), 5.6),
        "The gap between two groups' means, values from −1 to 1",
        x="clients, half of them in each group",
        y=["error of the gap, not exceeded in 99 % of runs"],
        legend_columns=min(3, 1 + len(setting.epsilons)),
        sharey=True,
    )


def _marks(setting: Setting, epsilon: Fraction, errors: Sequence[Row]) -> Panel:
    marks: list[Mark] = [level(0.01, color=GREY, linestyle=":", linewidth=1)]
    along = np.geomspace(min(setting.clients), max(setting.clients), 60)
    for (name, label), colour, marker in zip(_LABELS.items(), COLOURS, MARKERS, strict=False):
        bounds = np.array([trust_model(name, epsilon).half_width(clients, FAILURE) for clients in along])
        simulated = [row["simulated_99"] for row in _rows_of(errors, epsilon, name)]
        signs = {"color": colour, "markersize": 5.5}
        marks += [
            line(along, np.where(bounds < MOST, bounds, np.nan), linewidth=1.8, **signs),
            line(setting.clients, simulated, marker, alpha=0.8, **signs),
            line([], [], marker=marker, linewidth=1.8, label=label, **signs),
        ]
    marks += [
        line([], [], linestyle="none", label="lines: proven for all values; markers: simulated"),
        LOGARITHMIC,
        shown(ylim=(1e-5, MOST), title=f"ε = {float(epsilon):g}"),
        each_power_of_ten,
        GRID,
    ]
    return marks


def _rows_of(rows: Sequence[Row], epsilon: Fraction, name: str) -> list[Row]:
    return [row for row in rows if row["epsilon"] == float(epsilon) and row["model"] == name]


def _bound(row: Row) -> str:
    if not row["bound_99"]:
        return "none"
    return f"{row['bound_99']:.2g}"


def view(setting: Setting, errors: Sequence[Row], needs: Sequence[Row]) -> Iterator[Part]:
    """View how many clients each model needs for each error, and some models' errors."""
    clients = [number for number in setting.clients if number in (10**4, 10**6)]
    columns = ["", "", "its ε"]
    columns += [f"clients for an error of {error:g}" for error in setting.errors]
    columns += [f"error with {powers(number)} clients" for number in clients]
    lines = []
    for epsilon, name in product(setting.epsilons, MODELS):
        line_of_model = [
            f"ε = {float(epsilon):g}",
            name,
            digits_up(trust_model(name, epsilon).guarantee.epsilon, 4),
        ]
        for need in _rows_of(needs, epsilon, name):
            proven_and_simulated = f"{powers(need['clients_proven'])}\n{powers(need['clients_simulated'])}"
            line_of_model.append(Stacked(proven_and_simulated))
        for row in _rows_of(errors, epsilon, name):
            if row["clients"] in clients:
                line_of_model.append(Stacked(f"{_bound(row)}\n{row['simulated_99']:.2g}"))
        lines.append(line_of_model)
    alignment = "lll" + "r" * (len(columns) - 3)
    yield grouped(columns, lines, alignment=alignment)
    yield (
        "Errors of the gap between two groups' means, values from -1 to 1, that are not exceeded in 99 % of "
        "runs: above, proven whatever the values; below, simulated for one population. All protect a "
        "client's group and value, replaced by any other, at the ε shown; δ is 0, of noise in the "
        f"computation below 2^-40. With noise per aggregator, or of the parties' own, {SHIFTED}."
    )
    wanted = setting.errors[len(setting.errors) // 2]
    for epsilon in setting.epsilons:
        proven = {
            need["model"]: need["clients_proven"]
            for need in needs
            if need["epsilon"] == float(epsilon) and need["error"] == wanted
        }
        times_as_many = proven[REPAIRED] / proven[IN_COMPUTATION]
        yield (
            f"At ε = {float(epsilon):g}, an error of {wanted:g}: {powers(proven[IN_COMPUTATION])} clients "
            f"with noise in the computation, {powers(proven[DISTRIBUTED_OF_THREE])} with three parties', "
            f"{powers(proven[PER_AGGREGATOR])} with noise per aggregator, which is two parties' own, "
            f"{powers(proven[REPAIRED])} under local DP (M_R, repaired), "
            f"{powers(rounded(times_as_many, 2))} times as many."
        )


def powers(number: float) -> str:
    """Return a number with three digits as text, and with a power of ten if it is large: 4.7·10^6."""
    if number < 10**6:
        return f"{float(f'{number:.3g}'):,.0f}"
    mantissa, exponent = f"{number:.2e}".split("e")
    power = f"10^{int(exponent)}"
    if float(mantissa) == 1:
        return power
    return f"{float(mantissa):g}·{power}"


def least_enough(enough: Callable[[float], bool], start: float = 1.0) -> int:
    """Return nearly the least number that is enough: one at most 1 % above a number that is not enough.

    Half of `start` must not be enough.
    """
    high = start
    while not enough(high):
        high *= 2
    low = high / 2
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        if enough(middle):
            high = middle
        else:
            low = middle
    return math.ceil(high)
