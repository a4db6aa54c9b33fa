"""How runs add up: by their sums, by Renyi divergences, or as a series that was declared beforehand.

Each accountant has the interface of dp_accounting's: which runs it supports, and what they compose to.
All sums are of integers and rounded towards more that is spent; docs/explanation/theorems.md has the proofs.
"""

import json
import math
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from fractions import Fraction
from functools import lru_cache, reduce
from typing import NamedTuple, Self

from protocols.accounting.exact_privacy import Masses, curve_of_coins
from protocols.accounting.losses import loss_distribution
from protocols.accounting.rounds import Concentrated
from protocols.circuits.coins import Coin, exp_bounds
from protocols.guarantee import LOST, MAX_EPSILON, SUMMED, Budget, Guarantee, compose
from protocols.noise.added import BITS, DistributedNoise, Single

_FINEST, _MOST_STEPS = 1e-4, 2e5  # of the privacy loss, numerically
_FIXED = 256
_ONE = 1 << _FIXED
_STEPS = 64  # of the loss, in epsilon of one value
_PARTS = 1000  # of a budget, in which it is said what is left


@dataclass(frozen=True)
class NoiseEvent:
    """The noise of a release, so far as one record can move it: so many values, each by 1.

    The ledger keeps none of a release whose values move by more. Distributed noise is that of honest parties.
    """

    noise: Single
    values: int


class Loss(NamedTuple):
    """What a run spends, and its noise, or that of its rounds; None where that is not known."""

    exact: Guarantee
    noise: NoiseEvent | Concentrated | None = None


def noise_text(noise: NoiseEvent | Concentrated | None) -> str | None:
    """Return what `noise_of` reads."""
    if noise is None:
        return None
    if isinstance(noise, Concentrated):
        return json.dumps({name: str(value) for name, value in asdict(noise).items()})
    if isinstance(noise.noise, DistributedNoise):
        return json.dumps({"values": noise.values, "parties": noise.noise.to_json()})
    return json.dumps({"values": noise.values, "coins": [astuple(coin) for coin in noise.noise]})


def noise_of(text: str | None) -> NoiseEvent | Concentrated | None:
    """Return the noise that a ledger's text is of. Raises: ValueError, LookupError: it is none."""
    if text is None:
        return None
    fields = json.loads(text)
    if "rho" in fields:
        return Concentrated(**{name: Fraction(value) for name, value in fields.items()})
    if "parties" in fields:
        return NoiseEvent(DistributedNoise.from_json(fields["parties"]), fields["values"])
    return NoiseEvent(tuple(Coin(*coin) for coin in fields["coins"]), fields["values"])


@dataclass(frozen=True)
class Accountant:
    """What runs spend by the sums of their epsilons and deltas (basic composition), and what a budget leaves.

    Guarantees: theorem 2; subclasses name theirs.
    [test: tests/harness/privacy/test_ledger_rules.py, tests/harness/privacy/test_ledger_filter.py]

    Attributes:
        budget: that all runs together have to keep to.
        losses: of the runs so far.
    """

    budget: Budget
    losses: tuple[Loss, ...] = ()

    def supports(self, loss: Loss) -> bool:  # noqa: ARG002
        """Return whether a further run can be added to those so far."""
        return True

    def compose(self, losses: Iterable[Loss]) -> Self:
        """Return the accountant of these runs, too."""
        return replace(self, losses=(*self.losses, *losses))

    def allows(self, loss: Loss) -> bool:
        """Return whether the budget covers a further run; all of it may be spent."""
        return self.supports(loss) and self.compose([loss]).kept

    @property
    def kept(self) -> bool:
        """Whether all runs together are within the budget."""
        return self.budget.allows(compose(loss.exact for loss in self.losses))

    @property
    def left(self) -> Budget:
        """What the budget leaves, as messages say it."""
        return self.budget.left(compose(loss.exact for loss in self.losses))


class DeclaredRuns(Accountant):
    """Runs alike, whose number was declared before the first: theorem 6."""

    def supports(self, loss: Loss) -> bool:
        """Return whether a further run was declared, and has the noise of those so far."""
        return len(self.losses) < (self.budget.runs or 0) and {*self.losses, loss} == {loss}

    @property
    def kept(self) -> bool:
        """Whether all declared runs together are within the budget."""
        delta, runs = self.budget.delta, self.budget.runs
        assert delta is not None and runs
        return not self.losses or _delta_of_all(self.losses[0], runs, self.budget.epsilon) <= delta

    @property
    def left(self) -> Budget:
        """How many runs are left."""
        return replace(self.budget, runs=max(0, (self.budget.runs or 0) - len(self.losses)))


class Renyi(Accountant):
    """Any runs, whose Renyi divergences of one order add up, or epsilon and delta: a filter, by theorem 5."""

    @property
    def kept(self) -> bool:
        """Whether either rule is kept: what all may lose together, by one or the other, is delta."""
        (lost, tail), delta = self.deltas, self.budget.delta
        assert delta is not None
        if compose(loss.exact for loss in self.losses).within(Guarantee(self.budget.epsilon, delta * SUMMED)):
            return True
        return lost <= delta * LOST and tail <= delta * (1 - LOST - SUMMED)

    @property
    def left(self) -> Budget:
        """What one more run may spend at a delta of 0, in thousandths of epsilon, rounded down."""
        part = self.budget.epsilon / _PARTS

        def exceeds(parts: int) -> bool:
            return not self.allows(Loss(Guarantee(parts * part, Fraction(0))))

        return Budget(bisect(range(1, _PARTS + 1), False, key=exceeds) * part, order=self.budget.order)

    @property
    def deltas(self) -> tuple[Fraction, Fraction]:
        """The mass that is lost in all runs, and delta at epsilon of the rest by its Renyi divergences."""
        order, (moment, lost) = self.budget.order or 0, self.moments
        shrunk = _power(_up(1 / exp_bounds(self.budget.epsilon)[0]), order - 1)
        factor = _power(_up(Fraction(order - 1, order)), order - 1)
        return lost, Fraction(_product(_product(moment, shrunk), factor), _ONE * order)

    @property
    def moments(self) -> tuple[int, Fraction]:
        """The product of all runs' moments in fixed point, and the mass that is lost in all."""
        moment, lost = _ONE, Fraction(0)
        for loss, times in Counter(self.losses).items():
            more, apart = _moment(loss, self.budget.order or 0, self.budget.epsilon)
            moment, lost = _product(moment, _power(more, times)), lost + times * apart
        return moment, lost


def accountant_of(budget: Budget, losses: Iterable[Loss] = ()) -> Accountant:
    """Return the accountant by whose rule a budget is kept, of runs so far."""
    kind = Renyi if budget.order else DeclaredRuns if budget.runs else Accountant
    return kind(budget, tuple(losses))


def numerical_epsilon(losses: Sequence[Loss], delta: float) -> float | None:
    """Return an epsilon that all runs together keep to at this delta; None if there is none.

    By privacy-loss distributions, with Google's `dp_accounting`. It computes in floats, so nothing is decided
    by it: it is for information only. Without that package there is none.

    Computes: the composition of each run's noise as it was, or of any noise with its epsilon and delta where
    the ledger does not have it; losses are rounded up.
    Guarantees: up to the rounding of floats, an upper bound, and at most the sum of all epsilons where delta
    is at least the sum of all deltas.  [test: tests/harness/privacy/test_ledger_rules.py]
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
        upper, lower = (
            {i: math.log(masses[side]) for i, masses in enumerate(outcomes) if masses[side]}
            for side in (0, 1)
        )
        one = pld.from_two_probability_mass_functions(lower, upper, value_discretization_interval=step)
        return one.self_compose(values)

    distributions = [distribution(loss).self_compose(times) for loss, times in Counter(losses).items()]
    epsilon = float(reduce(pld.PrivacyLossDistribution.compose, distributions).get_epsilon_for_delta(delta))
    least = min(epsilon, most) if total.delta <= delta else epsilon
    return least if math.isfinite(least) else None


@lru_cache(maxsize=256)
def _moment(loss: Loss, order: int, epsilon: Fraction) -> tuple[int, Fraction]:
    """Return E_Q[(R / Q)^order] of a run in fixed point, rounded up, and the mass that R takes off P.

    Never below 1: a run that begins and is not opened makes no room for others. What rounds are apart from
    their zCDP counts for both neighbours, at the budget's epsilon.
    """
    if isinstance(loss.noise, Concentrated):
        exponent = order * (order - 1) * loss.noise.rho
        parts = math.ceil(exponent) or 1
        return _power(_up(exp_bounds(exponent / parts)[1]), parts), loss.noise.lost_at(epsilon)
    outcomes, values = _outcomes(loss)
    moment = sum(_up(p * Fraction(_power(_up(p / q), order - 1), _ONE)) for p, q in outcomes if q)
    return max(_ONE, _power(moment, values)), values * sum((p for p, q in outcomes if not q), Fraction(0))


@lru_cache(maxsize=64)
def _delta_of_all(loss: Loss, runs: int, epsilon: Fraction) -> Fraction:
    """Return the delta at epsilon of so many runs alike."""
    if isinstance(loss.noise, Concentrated):
        return loss.noise.delta(epsilon, runs)
    outcomes, values = _outcomes(loss)
    total = math.lcm(*(mass.denominator for pair in outcomes for mass in pair))
    step = Fraction(max(1, round(loss.exact.epsilon * 10**12 / (_STEPS * values))), 10**12)
    distribution = loss_distribution([(int(p * total), int(q * total)) for p, q in outcomes], total, step)
    return distribution.times(runs * values).delta(epsilon)


def _outcomes(loss: Loss) -> tuple[Sequence[Masses], int]:
    """Return masses of outcomes that no run which spends this tells apart better, and how often they occur.

    Source: Murtagh and Vadhan 2016, Lemma 3.2, where the noise is not known: of all that is
    (epsilon, delta)-DP, randomized response that fails with probability delta says most.
    """
    known, exact = loss.noise, loss.exact
    if isinstance(known, NoiseEvent):
        noise = known.noise
        if not isinstance(noise, DistributedNoise):
            return curve_of_coins(noise).pairs[0], known.values
        masses = [Fraction(weight, 1 << BITS * noise.honest) for weight in noise.summed(noise.honest)]
        return list(zip([*masses, Fraction(0)], [Fraction(0), *masses], strict=True)), known.values
    if exact.epsilon > MAX_EPSILON:
        return [(Fraction(1), Fraction(0))], 1
    ratio = exp_bounds(exact.epsilon)[1]
    rest = (1 - exact.delta) / (1 + ratio)
    nothing = Fraction(0)
    return [(exact.delta, nothing), (ratio * rest, rest), (rest, ratio * rest), (nothing, exact.delta)], 1


def _up(x: Fraction) -> int:
    return -(-(x.numerator << _FIXED) // x.denominator)


def _product(x: int, y: int) -> int:
    return -(-x * y >> _FIXED)


def _power(x: int, n: int) -> int:
    """Return x^n in fixed point, rounded up."""
    power = _ONE
    while n:
        if n & 1:
            power = _product(power, x)
        x, n = _product(x, x), n >> 1
    return power
