"""The options of a training."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from fairshares.harness.charged import UNCHARGED
from fairshares.harness.errors import OptionError, named
from fairshares.harness.releases.registry import CALLS, REQUESTS
from fairshares.harness.releases.thresholds.request import ThresholdsRequest
from fairshares.harness.releases.weights.request import WeightsRequest
from fairshares.harness.request.fields import (
    GivenValue,
    OptionGroup,
    Options,
    as_text,
    optional,
    required,
    several,
    usual,
)
from fairshares.harness.request.readers import (
    OneOf,
    Whole,
    in_module,
    parse_cap,
    parse_choice,
    parse_epsilon,
    parse_momentum,
    parse_names,
    parse_path,
    parse_positive,
)
from fairshares.harness.request.releases import DeclaredDomain, ReleaseCall, SourceOptions
from fairshares.harness.request.request import (
    CAP_HELP,
    DISTRIBUTED,
    JOINT,
    AccountOptions,
    BesideTraining,
    Protect,
    Randomness,
    Request,
    Spending,
    Trust,
    Where,
)
from fairshares.protocols.guarantee import NOTHING, Guarantee

if TYPE_CHECKING:
    from fairshares.harness.security_models import SecurityModel
    from fairshares.protocols.accounting.calibration import NeighboringRelation

_SHARE = Fraction(1, 5)  # a share of epsilon and delta for weights, unless told


FAIRGRAD = "fairgrad"


def released_beside(purpose: BesideTraining) -> list[str]:
    """Return the tasks that are released beside a model for a purpose."""
    return [task for task, kind in REQUESTS.items() if kind.beside_training is purpose]


@several()
def _parse_with(given: GivenValue, option: str) -> list[str]:
    known = [task for task, kind in REQUESTS.items() if kind.beside_training] + [FAIRGRAD]
    return [parse_choice(option, name, known) for name in parse_names(given, option)]


class TrainRequest(Options):
    """Train a model under differential privacy, with weights and thresholds if wanted, on one budget."""

    protect = OptionGroup(
        Protect,
        without=("cap_epsilon",),
        delta={"default": "1e-5"},
        cap={
            "parse": parse_cap,
            "help": f"for --with, where clients are the privacy unit: {CAP_HELP}",
        },
    )
    source = OptionGroup(
        SourceOptions,
        without=("shares",),
        records={
            "help": "CSV or Parquet with group, label, a column for each feature, and client_id if there",
            "example": "my.csv",
        },
    )
    declares = OptionGroup(DeclaredDomain)
    account = OptionGroup(AccountOptions)
    where = OptionGroup(Where)
    randomness = OptionGroup(
        Randomness,
        noise={
            "parse": OneOf(lambda: (JOINT, DISTRIBUTED)),
            "help": "joint (default: made in the computation, known to nobody) or distributed (each party "
            "adds its own: much faster, with larger errors; a party that deviates can shift the result "
            "unnoticed), also of what --with adds",
        },
        offline={"help": f"{Randomness.offline.help}; for the rounds, not for what --with adds"},
    )
    features = required(
        parse_path,
        'JSON file with each feature\'s range or categories: {"age": {"low": 18, "high": 99}, "sector": '
        '{"categories": ["a", "b"]}}',
        "features.json",
    )
    rounds = usual("40", Whole(1, 10_000), "how many noisy sums of updates the model is trained on")
    with_ = optional(
        _parse_with,
        "what is released with the model: weights (of everybody, for training), thresholds (from one client "
        "in four, whom training does not see), fairgrad (groups are weighed while the model is trained, by "
        "noisy counts of what it gets right), or several: weights,thresholds",
    )
    fairness = optional(
        OneOf(in_module("fairshares.harness.training.fairness:FAIRNESS")),
        "of --with fairgrad: equalized_odds (default), equal_opportunity, false_positive_rate_parity, "
        "demographic_parity or accuracy_parity",
    )
    weights_epsilon = optional(
        parse_epsilon, "the part of ε that --with weights spends on them; default: a fifth"
    )
    largest_weight = optional(
        parse_positive,
        "larger weights count as this; the noise grows with it; default: 2 with weights, 1.25 with fairgrad, "
        "else 1",
    )
    clip = usual("1", parse_positive, "the L2 norm to which a record's gradient is shortened")
    learning_rate = usual(
        "1", parse_positive, "of gradient descent on sums, divided by the number of clients"
    )
    momentum = usual("0.9", parse_momentum, "of gradient descent")
    reweighing = WeightsRequest.reweighing
    constraint = ThresholdsRequest.constraint
    objective = ThresholdsRequest.objective
    positive_label = ThresholdsRequest.positive_label
    trust = OptionGroup(Trust)
    population = Request.population

    @property
    def parts(self) -> Sequence[str]:
        """The releases beside the model."""
        return [name for name in self.with_ or () if name in CALLS]

    def part(self, purpose: BesideTraining) -> str | None:
        """Return the release beside the model for a purpose, if there is one."""
        return next((task for task in released_beside(purpose) if task in self.parts), None)

    @property
    def sought(self) -> str | None:
        """The fairness for which groups are weighed, if any; OptionError if options conflict."""
        if FAIRGRAD not in (self.with_ or ()):
            if self.fairness:
                raise OptionError(
                    f"{named('fairness')} is for {named('with_', FAIRGRAD)}; give both, or neither."
                )
            return None
        weighing = self.part(BesideTraining.WEIGHING)
        if weighing:
            both = f"{weighing},{FAIRGRAD}"
            raise OptionError(f"{named('with_', both)} would weigh each record twice; choose one of the two.")
        return self.fairness or "equalized_odds"

    @property
    def security(self) -> SecurityModel | None:
        """The chosen security model, of the chosen number of parties; None if no model was chosen."""
        return self.trust.security

    @property
    def model(self) -> SecurityModel:
        """The chosen security model; OptionError if none was chosen."""
        return self.trust.model

    def relation_in(self, max_count: int, kept: NeighboringRelation | None) -> NeighboringRelation:
        """Return the chosen relation or the default; OptionError for one that the privacy unit doesn't have.

        Args:
            max_count: The most records of a client.
            kept: The relation of records that the population has already, which is the default then.
        """
        from fairshares.protocols.accounting.calibration import (
            NeighboringRelation,
            PrivacyUnit,
            default_relation,
        )

        chosen = self.protect.neighboring_relation
        zeroed_out = NeighboringRelation.ZERO_OUT_ONE
        if self.protect.privacy_unit is PrivacyUnit.CLIENT:
            if chosen not in (None, zeroed_out):
                raise OptionError(
                    f"{named('privacy_unit', 'client')} is under {zeroed_out}, not {chosen}; leave out "
                    f"{named('neighboring_relation')}."
                )
            return zeroed_out
        if chosen is zeroed_out:
            raise OptionError(
                f"{named('neighboring_relation', str(zeroed_out))} is for all records of a client together: "
                f"say {named('privacy_unit', 'client')}."
            )
        return chosen or kept or default_relation(max_count)

    @property
    def of_weights(self) -> Guarantee:
        """The budget of weights.

        Raises OptionError if it is given without weights, or leaves nothing for the model.
        """
        if not self.part(BesideTraining.WEIGHING):
            if self.weights_epsilon:
                weighing = " or ".join(released_beside(BesideTraining.WEIGHING))
                raise OptionError(
                    f"{named('weights_epsilon')} is for {named('with_', weighing)}; give both, or neither."
                )
            return NOTHING
        total = self.protect.guarantee
        epsilon = self.weights_epsilon or total.epsilon * _SHARE
        if epsilon >= total.epsilon:
            raise OptionError(
                f"{named('weights_epsilon', as_text(self.weights_epsilon))} leaves nothing of "
                f"{named('epsilon', as_text(total.epsilon))}, the total."
            )
        return Guarantee(epsilon, total.delta * _SHARE)

    @property
    def of_model(self) -> Guarantee:
        """The budget of the model. The thresholds have the same, as they come from other clients."""
        return self.protect.guarantee - self.of_weights

    def of_release(self, task: str, relation: NeighboringRelation) -> ReleaseCall:
        """Return the call of a release beside the model, under the relation of the training.

        The call has its part of the budget. It is charged to nobody, as the training is charged as a whole.
        """
        from fairshares.protocols.accounting.calibration import PrivacyUnit

        part = CALLS[task]
        budget = self.of_model
        if REQUESTS[task].beside_training is BesideTraining.WEIGHING:
            budget = self.of_weights
        own = {"population", "out", "offline", "stock"}
        left_out = own.union(Spending.declared, AccountOptions.declared)
        same = {
            name: self.value_of(name)
            for name in part.declared.keys() & self.declared.keys()
            if name not in left_out
        }
        if self.protect.privacy_unit is PrivacyUnit.RECORD:
            same["neighboring_relation"] = relation
        return part(**same, epsilon=budget.epsilon, delta=budget.delta, population=UNCHARGED)
