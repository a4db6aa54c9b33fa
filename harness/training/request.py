"""The options of a training."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from harness.errors import OptionError, named
from harness.request.base import Account, Request, Run, Spending
from harness.request.fields import as_text, optional, required, usual
from harness.request.readers import (
    in_module,
    one_of,
    parse_choice,
    parse_epsilon,
    parse_momentum,
    parse_names,
    parse_path,
    parse_positive,
    whole,
)
from harness.request.releases import (
    CALLS,
    CAP_OF_SHARES,
    STOCK,
    Records,
    ReleaseCall,
    SumsRequest,
    ThresholdsRequest,
    WeightsRequest,
)
from protocols.guarantee import NOTHING, Guarantee

UNCHARGED = "none"
_SHARE = Fraction(1, 5)  # of epsilon and delta for weights, unless told


def _parse_with(text: str, option: str) -> list[str]:
    known = ["weights", "thresholds", "fairgrad"]
    return [parse_choice(option, name, known) for name in parse_names(text, option)]


class TrainRequest(Run, Account, Records, Spending, delta={"default": "1e-5"}):
    """Train a model under differential privacy, with weights and thresholds if wanted, on one budget."""

    records = required(
        parse_path,
        "CSV or Parquet with group, label, a column for each feature, and client_id if there",
        "my.csv",
    )
    features = required(
        parse_path,
        'JSON file with each feature\'s range or categories: {"age": {"low": 18, "high": 99}, "sector": '
        '{"categories": ["a", "b"]}}',
        "features.json",
    )
    rounds = usual("40", whole(1, 10_000), "how many noisy sums of updates the model is trained on")
    with_ = optional(
        _parse_with,
        "what is released with the model: weights (of everybody, for training), thresholds (from one client "
        "in four, whom training does not see), fairgrad (groups are weighed while the model is trained, by "
        "noisy counts of what it gets right), or several: weights,thresholds",
    )
    fairness = optional(
        one_of(in_module("harness.training.fairness:FAIRNESS")),
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
    shares: Any = None
    privacy_unit = Request.privacy_unit
    cap = CAP_OF_SHARES.but(help=f"for --with, where clients are the privacy unit: {CAP_OF_SHARES.help}")
    noise = SumsRequest.noise
    offline = SumsRequest.offline.but(
        help=f"{SumsRequest.offline.help}; for the rounds, not for what --with adds"
    )
    stock = STOCK
    security = Request.security
    population = Request.population

    @property
    def parts(self) -> Sequence[str]:
        """The releases beside the model."""
        return [name for name in self.with_ or () if name in CALLS]

    @property
    def sought(self) -> str | None:
        """The fairness for which groups are weighed, if any; OptionError if options conflict."""
        if "fairgrad" not in (self.with_ or ()):
            if self.fairness:
                raise OptionError(
                    f"{named('fairness')} is for {named('with_', 'fairgrad')}; give both, or neither."
                )
            return None
        if "weights" in self.parts:
            raise OptionError(
                f"{named('with_', 'weights,fairgrad')} would weigh each record twice; choose one of the two."
            )
        return self.fairness or "equalized_odds"

    @property
    def of_weights(self) -> Guarantee:
        """The budget of weights; OptionError if it has no use, or leaves nothing."""
        if "weights" not in self.parts:
            if self.weights_epsilon:
                raise OptionError(
                    f"{named('weights_epsilon')} is for {named('with_', 'weights')}; give both, or neither."
                )
            return NOTHING
        epsilon = self.weights_epsilon or self.epsilon * _SHARE
        if epsilon >= self.epsilon:
            raise OptionError(
                f"{named('weights_epsilon', as_text(self.weights_epsilon))} leaves nothing of "
                f"{named('epsilon', as_text(self.epsilon))}, the total."
            )
        return Guarantee(epsilon, self.delta * _SHARE)

    @property
    def of_model(self) -> Guarantee:
        """The budget of the model, and of the thresholds, which are of other clients."""
        return self.guarantee - self.of_weights

    def of_release(self, task: str) -> ReleaseCall:
        """Return the call of weights or thresholds, with its budget, charged to nobody by itself."""
        from protocols.accounting.calibration import NeighboringRelation, PrivacyUnit

        part = CALLS[task]
        release = part(epsilon=1, security=self.security.name, population=UNCHARGED, records=self.records)
        own = ("security", "population", "records", "out", "offline", "stock")
        left_out = (*Spending.declared, *Account.declared, *own)
        shared = {name: getattr(self, name) for name in part.declared.keys() & self.declared.keys()}
        same = {name: value for name, value in shared.items() if name not in left_out}
        if self.privacy_unit is PrivacyUnit.RECORD:
            same["neighboring_relation"] = NeighboringRelation.ADD_OR_REMOVE_ONE
        return release.but(**same).spending(self.of_weights if task == "weights" else self.of_model)
