"""The arguments of rounds of noisy sums, and the step and noise that follow. Nothing is charged here."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from fairshares.harness.errors import OptionError
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.training.updates import UpdateRule, rounding_error, units_for
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.accounting.rounding import exact_number
from fairshares.protocols.accounting.rounds import RoundsPlan, plan_rounds
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.spec import (
    NO_INPUT,
    PI_ROUNDS,
    ProtocolSpec,
    with_distributed_noise,
    with_noise_made_ahead,
)

MAX_ROUNDS = 100_000
_MOST_UNITS = 1 << 40  # of the grid to a clipping norm
_ROUNDING_SHARE = 1 / 3  # of the noise's standard deviation
_JOINT = "joint"
_DISTRIBUTED = "distributed"

Number = int | float | Fraction | str
"""A number as a caller gives it; a text is exact."""

Parties = tuple[int, int]
"""The number of parties that draw noise, and of those among them that are honest."""


@dataclass(frozen=True)
class PlannedSums:
    """Rounds whose noise is known.

    Attributes:
        rule: The bounds of vectors, and the grid to which they are rounded.
        plan: The noise, and what all rounds spend.
        spec: The parties' protocol.
    """

    rule: UpdateRule
    plan: RoundsPlan
    spec: ProtocolSpec


@dataclass(frozen=True)
class WantedSums:
    """Rounds that a session is asked for.

    Attributes:
        clients: The most rows of a round.
        coordinates: The length of a vector.
        rounds: The number of rounds.
        clip: The largest norm of a row before weighing.
        largest_weight: The bound on a row's weight.
        total: The loss of all rounds together.
        unit: Who is protected.
        rows: Whose vector a row is.
        distributed: Whether each party draws noise of its own; else nobody knows the noise.
        offline: Whether noise is taken that was made ahead.
        step: The largest step of the grid; None for the usual one.
    """

    clients: int
    coordinates: int
    rounds: int
    clip: float
    largest_weight: float
    total: Guarantee
    unit: PrivacyUnit
    rows: PrivacyUnit
    distributed: bool
    offline: bool
    step: float | None

    @classmethod
    def of_words(
        cls,
        *,
        clients: int,
        coordinates: int,
        rounds: int,
        clip: float,
        largest_weight: float,
        epsilon: Number,
        delta: Number,
        unit: str,
        rows: str | None,
        noise: str,
        offline: bool,
        step: float | None,
    ) -> "WantedSums":
        """Return what the arguments of `SumSession` ask for, or raise OptionError."""
        _check_size(rounds, clients)
        _check_known("noise", noise, (_JOINT, _DISTRIBUTED))
        known_units = (PrivacyUnit.CLIENT, PrivacyUnit.RECORD)
        _check_known("privacy unit", unit, known_units)
        _check_known("privacy unit", rows or unit, known_units)
        if offline and noise == _DISTRIBUTED:
            raise OptionError(
                "Parties draw distributed noise in the run itself: only joint noise is made ahead."
            )
        return cls(
            clients=clients,
            coordinates=coordinates,
            rounds=rounds,
            clip=clip,
            largest_weight=largest_weight,
            total=Guarantee(_exact(epsilon), _exact(delta)),
            unit=PrivacyUnit(unit),
            rows=PrivacyUnit(rows or unit),
            distributed=noise == _DISTRIBUTED,
            offline=offline,
            step=step,
        )

    def planned(self, model: SecurityModel) -> PlannedSums:
        """Choose the step and the noise for a model; OptionError if none fits."""
        distributed: Parties | None = None
        if self.distributed:
            distributed = (model.parties, model.parties - model.corruptions)
        asked = UpdateRule(self.coordinates, self.clip, self.largest_weight, 1, self.unit, self.rows)
        if self.step is None:
            rule, plan = self._with_usual_step(asked, self.clients, distributed)
        else:
            rule, plan = self._with_step(asked, self.step, distributed)
        rule.check_sums(self.clients, plan.noise.largest)
        return PlannedSums(rule, plan, self._spec)

    @property
    def _spec(self) -> ProtocolSpec:
        variant: ProtocolSpec | None = None
        if self.offline:
            variant = with_noise_made_ahead(PI_ROUNDS, NO_INPUT)
        elif self.distributed:
            variant = with_distributed_noise(PI_ROUNDS, NO_INPUT)
        return variant or PI_ROUNDS

    def _with_step(
        self, rule: UpdateRule, step: float, distributed: Parties | None
    ) -> tuple[UpdateRule, RoundsPlan]:
        """Return the rule with at most this step, and its noise; OptionError if no noise is as large."""
        if not 0 < step < math.inf:
            raise OptionError(f"The step of the grid is a positive number, not {step}.")
        if rule.clip / step > _MOST_UNITS:
            raise OptionError(
                f"A step of {step} is below {rule.clip / _MOST_UNITS:g}, the finest of the clipping norm "
                f"{rule.clip:g}; say a coarser one."
            )
        try:
            return self._at(rule, max(1, math.ceil(rule.clip / step)), distributed)
        except ValueError as error:
            self._with_usual_step(rule, 1, distributed)  # raises if there is no noise for any step
            raise OptionError(f"A step of {step}: {error}; so does a coarser step.") from None

    def _with_usual_step(
        self, rule: UpdateRule, clients: int, distributed: Parties | None
    ) -> tuple[UpdateRule, RoundsPlan]:
        """Return the rule with a step that does no harm, and its noise.

        Two bounds make the step finer, as far as there is noise of as many units. Rounding adds at most 4 %
        to a norm. The rounding error of all clients together is at most `_ROUNDING_SHARE` of the noise.
        """
        units = units_for(rule.coordinates, rule.largest_weight)
        while True:
            try:
                coarse, plan = self._at(rule, units, distributed)
                break
            except ValueError as error:
                if units == 1:
                    raise OptionError(
                        f"ε and δ of {float(self.total.epsilon):g} and {float(self.total.delta):g}: {error}."
                    ) from None
                units //= 2
        spread = math.sqrt(self.rounds * coarse.squares / (2 * plan.loss.rho))  # of the noise, in units
        too_coarse = rounding_error(clients) / (_ROUNDING_SHARE * spread)
        finer = units << max(0, math.ceil(math.log2(too_coarse)))
        while finer > units:
            try:
                return self._at(rule, finer, distributed)
            except ValueError:  # no noise has as many units
                finer //= 2
        return coarse, plan

    def _at(self, rule: UpdateRule, units: int, distributed: Parties | None) -> tuple[UpdateRule, RoundsPlan]:
        """Return the rule with these units, and its noise; ValueError if there is none."""
        chosen = replace(rule, units=units)
        plan = plan_rounds(
            chosen.squares,
            rule.coordinates,
            self.rounds,
            self.total.epsilon,
            self.total.delta,
            distributed=distributed,
        )
        return chosen, plan


def _check_size(rounds: int, clients: int) -> None:
    """Raise OptionError unless there are rounds, not too many, and clients."""
    are_whole = hasattr(rounds, "__index__") and hasattr(clients, "__index__")
    if not (are_whole and 1 <= rounds <= MAX_ROUNDS and clients >= 1):
        raise OptionError(
            f"A session has 1 to {MAX_ROUNDS} rounds of 1 client or more, not {rounds}, {clients}."
        )


def _check_known(kind: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise OptionError(f"There is no {kind} {name!r}; choose {' or '.join(known)}.")


def _exact(number: Number) -> Fraction:
    exact = exact_number(str(number))
    if exact is None:
        raise OptionError(f"{number!r} is no number; write 1, 0.5, 1/3, 1e-5 or 2^-40.")
    return exact
