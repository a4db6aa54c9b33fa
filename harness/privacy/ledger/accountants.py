"""Composition of runs by a budget's rule: sums, a Rényi filter, or runs that were declared beforehand.

Sums are of integers, rounded towards a higher loss. docs/explanation/theorems.md has the proofs.
"""

import json
import math
from abc import ABC, abstractmethod
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import lru_cache, reduce
from typing import NamedTuple, Self

from fairshares.harness.system.documents import strict_json
from fairshares.protocols.accounting.exact_privacy import Masses, curve_of_coins
from fairshares.protocols.accounting.losses import loss_distribution
from fairshares.protocols.accounting.rounds import Concentrated
from fairshares.protocols.circuits.coins import SymmetricCoins, coins_of_magnitude, exp_bounds
from fairshares.protocols.exact_numbers import stated_number
from fairshares.protocols.guarantee import LOST, MAX_STATED_EPSILON, SUMMED, Budget, Guarantee, compose
from fairshares.protocols.json_values import JsonObject, JsonValue
from fairshares.protocols.noise.added import BITS, DistributedNoise, Single, joint_noise_in

# The finest step, and the most steps, of the numerical privacy loss.
_FINEST = 1e-4
_MOST_STEPS = 2e5
_FIXED = 256  # fractional bits
_ONE = 1 << _FIXED
_STEPS = 64  # steps of the loss, in epsilon of one value
_MOST_EXPONENT = 64  # the largest exponent of e^ε
_PARTS = 1000  # parts of a budget: the unit in which its rest is said


@dataclass(frozen=True)
class NoiseEvent:
    """The noise of a release of which a record moves `values` values by 1 each."""

    noise: Single
    values: int


class Loss(NamedTuple):
    """A run's loss, and its noise, if known."""

    exact: Guarantee
    noise: NoiseEvent | Concentrated | None = None

    def is_at_most(self, first: "Loss") -> bool:
        """Return whether a random function makes this run's outcomes of those that stand for another run.

        For unknown noise the outcomes of `_outcomes` serve each smaller epsilon and delta, and for rounds the
        Gaussian pair serves each smaller rho and lost mass: theorem 6.
        """
        if self == first:
            return True
        if first.noise is None:
            return self.exact.within(first.exact)
        if isinstance(first.noise, Concentrated) and isinstance(self.noise, Concentrated):
            return self.noise.is_at_most(first.noise)
        return False


def noise_text(noise: NoiseEvent | Concentrated | None) -> str | None:
    """Return the text that `noise_of` reads."""
    if noise is None:
        return None
    if isinstance(noise, Concentrated):
        return json.dumps({name: str(value) for name, value in asdict(noise).items()})
    if isinstance(noise.noise, DistributedNoise):
        return json.dumps({"values": noise.values, "parties": noise.noise.to_json()})
    coins: list[JsonValue] = [[coin.numerator, coin.bits] for coin in coins_of_magnitude(noise.noise)]
    fields: dict[str, JsonValue] = {"values": noise.values, "coins": coins}
    if isinstance(noise.noise, SymmetricCoins):
        nonzero = noise.noise.nonzero
        fields["nonzero"] = [nonzero.numerator, nonzero.bits]
    return json.dumps(fields)


def noise_of(text: str | None) -> NoiseEvent | Concentrated | None:
    """Return the noise of a ledger's text; ValueError, LookupError or TypeError without one."""
    if text is None:
        return None
    fields = _object(strict_json(text.encode()))
    if "rho" in fields:
        return Concentrated(**{name: stated_number(value) for name, value in fields.items()})
    values = fields["values"]
    if type(values) is not int:
        raise ValueError("noise is of a whole number of values")
    if "parties" in fields:
        return NoiseEvent(DistributedNoise.from_json(_object(fields["parties"])), values)
    return NoiseEvent(joint_noise_in(fields), values)


def _object(value: JsonValue) -> JsonObject:
    """Return a value that is an object of JSON, or raise ValueError."""
    if not isinstance(value, dict):
        raise ValueError("noise is an object of JSON")
    return value


def of_two_steps(step: Guarantee) -> Guarantee:
    """Return the guarantee for two steps between data sets that a guarantee for one step implies.

    Computes: (2ε, (1 + e^ε)δ), rounded up, by group privacy: a record leaves, and another one comes. It holds
    whatever the noise is. The guarantee of known noise may be smaller.
    [test: tests/harness/privacy/test_populations.py]
    """
    delta = Fraction(1)
    if step.epsilon <= _MOST_EXPONENT:
        _, factor = exp_bounds(step.epsilon)
        delta = min(delta, (1 + factor) * step.delta)
    return Guarantee(2 * step.epsilon, delta)


@dataclass(frozen=True)
class Accountant(ABC):
    """The loss of runs together, and the rest of a budget, with the interface of dp_accounting's.

    Guarantees: each class names the theorem by which runs that it calls kept are within the budget.
    [test: tests/harness/privacy/test_ledger_rules.py, tests/harness/privacy/test_ledger_filter.py]

    Attributes:
        budget: The budget, whose rule is the class's.
        losses: The losses of the runs.
    """

    budget: Budget
    losses: tuple[Loss, ...] = ()

    def supports(self, loss: Loss) -> bool:  # noqa: ARG002
        """Return whether a further run can be added."""
        return True

    def compose(self, losses: Iterable[Loss]) -> Self:
        """Return the accountant with further runs."""
        return replace(self, losses=(*self.losses, *losses))

    def allows(self, loss: Loss) -> bool:
        """Return whether the budget covers a further run."""
        return self.supports(loss) and self.compose([loss]).kept

    @property
    @abstractmethod
    def kept(self) -> bool:
        """Whether all runs are within the budget."""

    @property
    @abstractmethod
    def left(self) -> Budget:
        """The rest of the budget, for messages."""


class SummedRuns(Accountant):
    """Any runs, by the sums of their epsilons and deltas: theorem 2."""

    @property
    def kept(self) -> bool:
        return self.budget.allows(compose(loss.exact for loss in self.losses))

    @property
    def left(self) -> Budget:
        return self.budget.left(compose(loss.exact for loss in self.losses))


class DeclaredRuns(Accountant):
    """Runs that lose no more than the first, their number declared beforehand: theorem 6."""

    def supports(self, loss: Loss) -> bool:
        """Return whether a further run was declared, and loses no more than the first."""
        if len(self.losses) >= (self.budget.runs or 0):
            return False
        return not self.losses or loss.is_at_most(self.losses[0])

    @property
    def kept(self) -> bool:
        """Whether all declared runs are within the budget."""
        delta = self.budget.delta
        runs = self.budget.runs
        assert delta is not None and runs
        if not self.losses:
            return True
        return _delta_of_all(self.losses[0], runs, self.budget.epsilon) <= delta

    @property
    def left(self) -> Budget:
        """The number of runs that are left."""
        return replace(self.budget, runs=max(0, (self.budget.runs or 0) - len(self.losses)))


class RenyiFilter(Accountant):
    """Any runs, by their Rényi divergences of one order or by sums, whichever keeps them: theorem 5."""

    @property
    def kept(self) -> bool:
        """Whether either rule is kept; both share delta."""
        delta = self.budget.delta
        assert delta is not None
        lost, tail = self.deltas
        total = compose(loss.exact for loss in self.losses)
        if total.within(Guarantee(self.budget.epsilon, delta * SUMMED)):
            return True
        return lost <= delta * LOST and tail <= delta * (1 - 2 * LOST - SUMMED)

    @property
    def left(self) -> Budget:
        """The epsilon of one more run at a delta of 0, in thousandths of the budget."""
        part = self.budget.epsilon / _PARTS

        def exceeds(parts: int) -> bool:
            return not self.allows(Loss(Guarantee(parts * part, Fraction(0))))

        return Budget(bisect(range(1, _PARTS + 1), False, key=exceeds) * part, order=self.budget.order)

    @property
    def deltas(self) -> tuple[Fraction, Fraction]:
        """The lost mass of all runs, and the rest's delta."""
        order = self.budget.order or 0
        moment = _ONE
        lost = Fraction(0)
        for loss, times in Counter(self.losses).items():
            moment_of_run, lost_by_run = _moment(loss, order, self.budget.epsilon)
            moment = _product(moment, _power(moment_of_run, times))
            lost += times * lost_by_run
        shrunk = _power(_up(1 / exp_bounds(self.budget.epsilon)[0]), order - 1)
        factor = _power(_up(Fraction(order - 1, order)), order - 1)
        return lost, Fraction(_product(_product(moment, shrunk), factor), _ONE * order)


def accountant_of(budget: Budget, losses: Iterable[Loss] = ()) -> Accountant:
    """Return a budget's accountant."""
    if budget.order:
        return RenyiFilter(budget, tuple(losses))
    if budget.runs:
        return DeclaredRuns(budget, tuple(losses))
    return SummedRuns(budget, tuple(losses))


def numerical_epsilon(losses: Sequence[Loss], delta: float) -> float | None:
    """Return an epsilon that all runs together keep to at this delta; None if there is none.

    Google's optional `dp_accounting` computes it in floats, for information only. Runs whose noise is not
    known count as the worst runs of their epsilon and delta.
    Guarantees: up to the rounding of floats, an upper bound, and at most the sum of all epsilons if delta is
    at least the sum of all deltas.  [test: tests/harness/privacy/test_ledger_rules.py]
    """
    if not losses:
        return 0.0
    try:
        # It takes a second or two to load.
        from dp_accounting.pld import common, privacy_loss_distribution as pld
    except ModuleNotFoundError:
        return None
    total = compose(loss.exact for loss in losses)
    most = float(total.epsilon)
    step = max(min(_FINEST, most / len(losses) / 100), most / _MOST_STEPS)

    def distribution(loss: Loss) -> pld.PrivacyLossDistribution:
        if not isinstance(loss.noise, NoiseEvent):
            exact = common.DifferentialPrivacyParameters(float(loss.exact.epsilon), float(loss.exact.delta))
            return pld.from_privacy_parameters(exact, value_discretization_interval=step)
        outcomes, values = _outcomes(loss)
        upper = {i: math.log(p) for i, (p, _) in enumerate(outcomes) if p}
        lower = {i: math.log(q) for i, (_, q) in enumerate(outcomes) if q}
        of_value = pld.from_two_probability_mass_functions(lower, upper, value_discretization_interval=step)
        return of_value.self_compose(values)

    distributions = [distribution(loss).self_compose(times) for loss, times in Counter(losses).items()]
    epsilon = float(reduce(pld.PrivacyLossDistribution.compose, distributions).get_epsilon_for_delta(delta))
    if total.delta <= delta:
        epsilon = min(epsilon, most)
    return epsilon if math.isfinite(epsilon) else None


@lru_cache(maxsize=256)
def _moment(loss: Loss, order: int, epsilon: Fraction) -> tuple[int, Fraction]:
    """Return a run's E_Q[(R / Q)^order] in fixed point, rounded up, and P's mass less R's.

    P and Q are the run's outputs on neighbors, and R is P where Q is not 0. The moment is at least 1: a run
    that reveals nothing makes no room for others.
    """
    if isinstance(loss.noise, Concentrated):
        exponent = order * (order - 1) * loss.noise.rho
        parts = math.ceil(exponent) or 1
        return _power(_up(exp_bounds(exponent / parts)[1]), parts), loss.noise.lost_at(epsilon)
    outcomes, values = _outcomes(loss)
    moment = 0
    lost = Fraction(0)
    for p, q in outcomes:
        if q:
            moment += _up(p * Fraction(_power(_up(p / q), order - 1), _ONE))
        else:
            lost += p
    return max(_ONE, _power(moment, values)), values * lost


@lru_cache(maxsize=64)
def _delta_of_all(loss: Loss, runs: int, epsilon: Fraction) -> Fraction:
    """Return a delta of so many equal runs together at this epsilon."""
    if isinstance(loss.noise, Concentrated):
        return loss.noise.delta(epsilon, runs)
    outcomes, values = _outcomes(loss)
    total = 1  # a denominator of all masses
    for p, q in outcomes:
        total = math.lcm(total, p.denominator, q.denominator)
    step = Fraction(max(1, round(loss.exact.epsilon * 10**12 / (_STEPS * values))), 10**12)
    distribution = loss_distribution([(int(p * total), int(q * total)) for p, q in outcomes], total, step)
    return distribution.times(runs * values).delta(epsilon)


def _outcomes(loss: Loss) -> tuple[Sequence[Masses], int]:
    """Return masses of outcomes that dominate every run of this loss, and the number of values.

    Source: Murtagh and Vadhan 2016, Lemma 3.2, for unknown noise.
    """
    known = loss.noise
    exact = loss.exact
    if isinstance(known, NoiseEvent):
        noise = known.noise
        if not isinstance(noise, DistributedNoise):
            return curve_of_coins(noise).pairs[0], known.values
        masses = [Fraction(weight, 1 << BITS * noise.honest) for weight in noise.summed(noise.honest)]
        return list(zip([*masses, Fraction(0)], [Fraction(0), *masses], strict=True)), known.values
    if exact.epsilon > MAX_STATED_EPSILON:
        return [(Fraction(1), Fraction(0))], 1
    ratio = exp_bounds(exact.epsilon)[1]
    rest = (1 - exact.delta) / (1 + ratio)
    nothing = Fraction(0)
    return [(exact.delta, nothing), (ratio * rest, rest), (rest, ratio * rest), (nothing, exact.delta)], 1


def _up(x: Fraction) -> int:
    """Return a number in fixed point, rounded up."""
    return -(-(x.numerator << _FIXED) // x.denominator)


def _product(x: int, y: int) -> int:
    """Return the product of two numbers in fixed point, rounded up."""
    return -(-x * y >> _FIXED)


def _power(x: int, n: int) -> int:
    """Return a number in fixed point to the power of n, rounded up, by repeated squaring."""
    power = _ONE
    square = x
    left = n
    while left:
        if left & 1:
            power = _product(power, square)
        square = _product(square, square)
        left >>= 1
    return power
