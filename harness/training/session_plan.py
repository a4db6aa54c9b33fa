"""The rounds of noisy sums that are asked for, with their step and noise. Nothing is charged here."""

import math
from dataclasses import dataclass, replace
from pathlib import Path

from fairshares.harness.engines.execution import PROGRAMS, VALUES_ELSEWHERE, DistributedNoiseInput, PrivateJob
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.errors import OptionError, UnsupportedError
from fairshares.harness.inputs.updates import MOST_UNITS, UpdateRule, rounding_error, units_for
from fairshares.harness.pipeline.preprocessing import NoiseToMake
from fairshares.harness.privacy.ledger.populations import PrivacyEvent
from fairshares.harness.security_models import SecurityModel
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.accounting.rounds import RoundsPlan, plan_rounds
from fairshares.protocols.circuits.noise import input_widths
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.noise.added import DistributedNoise
from fairshares.protocols.spec import (
    NO_INPUT,
    PI_PREPROCESS_ROUNDS,
    PI_ROUNDS,
    ProtocolSpec,
    with_distributed_noise,
    with_noise_made_ahead,
)

MAX_ROUNDS = 100_000
_ROUNDING_SHARE = 1 / 3  # a share of the noise's standard deviation
NOT_MADE_AHEAD = "Parties draw distributed noise in the run itself: only joint noise is made ahead."

Parties = tuple[int, int]
"""The number of parties that draw noise, and of those among them that are honest."""


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
        unit: The unit that is protected.
        rows: The unit whose vector a row is.
        are_replaced: Whether another record may take the place of a protected one; else it comes or goes.
        distributed: Whether each party draws noise of its own; else nobody knows the noise.
        offline: Whether noise is taken that was made ahead.
        step: The largest step of the grid; None for the usual one.
        rows_of_step: The number of rows for which the usual step is fine enough; None: `clients`.
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
    are_replaced: bool = False
    rows_of_step: int | None = None

    def __post_init__(self) -> None:
        if self.offline and self.distributed:
            raise OptionError(NOT_MADE_AHEAD)

    def planned(self, model: SecurityModel) -> "PlannedSums":
        """Choose the step and the noise for a model; OptionError if none fits."""
        distributed: Parties | None = None
        if self.distributed:
            distributed = (model.parties, model.parties - model.corruptions)
        asked = UpdateRule(
            self.coordinates,
            self.clip,
            self.largest_weight,
            units=1,
            unit=self.unit,
            rows=self.rows,
            are_replaced=self.are_replaced,
        )
        if self.step is None:
            rule, plan = self._with_usual_step(asked, self.rows_of_step or self.clients, distributed)
        else:
            rule, plan = self._with_step(asked, self.step, distributed)
        rule.check_sums(self.clients, plan.noise.largest)
        return PlannedSums(self, model, rule, plan)

    @property
    def spec(self) -> ProtocolSpec:
        """The parties' protocol."""
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
        if rule.clip / step > MOST_UNITS:
            raise OptionError(
                f"A step of {step} is below {rule.clip / MOST_UNITS:g}, the finest of the clipping norm "
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


@dataclass(frozen=True)
class PlannedSums:
    """Rounds whose noise is known. Nothing is charged, and no party has started.

    Attributes:
        wanted: The rounds that were asked for.
        model: The security model whose parties add up.
        rule: The bounds of vectors, and the grid to which they are rounded.
        plan: The noise, and what all rounds spend.
    """

    wanted: WantedSums
    model: SecurityModel
    rule: UpdateRule
    plan: RoundsPlan

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return self.wanted.rounds

    @property
    def noise(self) -> NoiseToMake:
        """The joint noise of all rounds, as it is made ahead; OptionError for distributed noise."""
        if isinstance(self.plan.noise, DistributedNoise):
            raise OptionError(NOT_MADE_AHEAD)
        values = self.rounds * self.rule.coordinates
        bits = self.plan.noise.bits
        return NoiseToMake(self.model, values, self.plan.arguments, bits, PI_PREPROCESS_ROUNDS)

    @property
    def event(self) -> PrivacyEvent:
        """The loss of all rounds, as the ledger counts it."""
        relation = NeighboringRelation.ADD_OR_REMOVE_ONE
        if self.rule.unit is PrivacyUnit.CLIENT:
            relation = NeighboringRelation.ZERO_OUT_ONE
        elif self.rule.are_replaced:
            relation = NeighboringRelation.REPLACE_ONE
        return PrivacyEvent(
            task="sums",
            model=self.model.title,
            exact=self.plan.exact,
            unit=self.rule.unit,
            relation=relation,
            out=Path.cwd(),
            noise=self.plan.loss,
            has_rounds=True,
        )

    def under_other_relation(self) -> "PlannedSums | None":
        """Return the same rounds for records that come and go, if these are for replaced ones, or vice versa.

        None if clients are protected, or if there is no such noise.
        """
        if self.rule.unit is PrivacyUnit.CLIENT:
            return None
        try:
            return replace(self.wanted, are_replaced=not self.wanted.are_replaced).planned(self.model)
        except OptionError:
            return None

    @property
    def job(self) -> PrivateJob:
        """The parties' program and arguments; noise made ahead has no place yet."""
        noise = self.plan.noise
        parties = self.model.parties
        coordinates = self.rule.coordinates
        law = ("0",) if self.wanted.offline else self.plan.arguments
        own: DistributedNoiseInput | None = None
        fair_bits: tuple[tuple[int, int], ...] = ()
        if isinstance(noise, DistributedNoise):
            own = DistributedNoiseInput(coordinates, coordinates)
        elif not self.wanted.offline:
            fair_bits = tuple((width, coordinates) for width in input_widths(noise.bits))
        return PrivateJob(
            spec=self.wanted.spec,
            source=PROGRAMS / f"{self.wanted.spec.name}.mpc",
            arguments=(str(parties), str(self.rounds), str(coordinates), *law),
            values=VALUES_ELSEWHERE,
            fair_bits=fair_bits,
            own=own,
        )

    def check_supported(self) -> None:
        """Raise UnsupportedError if the model cannot run the rounds here."""
        reason = engine_of(self.model).supports(self.wanted.spec, self.model, NO_INPUT)
        if reason:
            raise UnsupportedError(reason)
