"""Options of `train`, and of the releases that belong to it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from harness.cli.options import (
    BUDGET,
    CAP_OF_SHARES,
    DOMAIN,
    EPSILON,
    GROUPS,
    LABELS,
    LEDGER,
    MAX_COUNT,
    MODEL,
    NOISE,
    OUT,
    PLOT,
    POPULATION,
    QUIET,
    TIMEOUT,
    UNIT,
    VERBOSE,
    json_of,
)
from harness.cli.release_options import RELEASES, ReleaseOptions, ThresholdsOptions, WeightsOptions
from harness.errors import OptionError
from harness.request.fields import Options, optional, required, usual
from harness.request.readers import (
    in_module,
    one_of,
    parse_choice,
    parse_delta,
    parse_epsilon,
    parse_momentum,
    parse_names,
    parse_path,
    parse_positive,
    whole,
)

if TYPE_CHECKING:  # what takes long to import is imported where it is used
    from protocols.guarantee import Guarantee

WITH = ("weights", "thresholds", "fairgrad")
_SHARE = Fraction(1, 5)  # of epsilon and delta for weights, unless told


def _parse_with(text: str, option: str) -> list[str]:
    return [parse_choice(option, name, list(WITH)) for name in parse_names(text, option)]


class TrainOptions(Options):
    """Train a model under differential privacy, with weights and thresholds if wanted, on one budget."""

    epsilon = EPSILON
    delta = usual("1e-5", parse_delta, "upper bound of this command's δ, in total")
    records = required(
        parse_path, "CSV or Parquet with client_id, group, label and a column for each feature", "my.csv"
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
        "of --with fairgrad: equalized_odds (default), equal_opportunity, demographic_parity or "
        "accuracy_parity",
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
    reweighing = WeightsOptions.reweighing.but(
        default="kamiran-calders",
        help="balanced, label or kamiran-calders (default); all from the same noisy counts",
    )
    constraint = ThresholdsOptions.constraint
    objective = ThresholdsOptions.objective
    positive_label = ThresholdsOptions.positive_label
    domain = DOMAIN
    groups = GROUPS
    labels = LABELS
    max_count = MAX_COUNT
    privacy_unit = UNIT
    cap = CAP_OF_SHARES.but(help=f"for --with, where clients are the privacy unit: {CAP_OF_SHARES.help}")
    noise = NOISE
    model = MODEL
    population = POPULATION
    budget = BUDGET
    ledger = LEDGER
    out = OUT
    timeout = TIMEOUT
    json = json_of("model.json")
    plot = PLOT
    verbose = VERBOSE
    quiet = QUIET

    @property
    def parts(self) -> Sequence[str]:
        """What there is with the model: releases."""
        return [name for name in self.with_ or () if name in RELEASES]

    @property
    def sought(self) -> str | None:
        """What groups are weighed for. Raises: OptionError: nothing weighs them, or something else does."""
        if "fairgrad" not in (self.with_ or ()):
            if self.fairness:
                raise OptionError("--fairness is for --with fairgrad; give both, or neither.")
            return None
        if "weights" in self.parts:
            raise OptionError("--with weights,fairgrad would weigh each record twice; choose one of the two.")
        return self.fairness or "equalized_odds"

    @property
    def of_weights(self) -> Guarantee:
        """What weights may spend. Raises: OptionError: there are none, or nothing would be left."""
        from protocols.guarantee import Guarantee

        if "weights" not in self.parts:
            if self.weights_epsilon:
                raise OptionError("--weights-epsilon is for --with weights; give both, or neither.")
            return Guarantee(Fraction(0), Fraction(0))
        epsilon = self.weights_epsilon or self.epsilon * _SHARE
        if epsilon >= self.epsilon:
            said = self.given("weights_epsilon", "epsilon")
            raise OptionError(
                f"--weights-epsilon {said['weights_epsilon']} leaves nothing of --epsilon {said['epsilon']}, "
                "the total."
            )
        return Guarantee(epsilon, self.delta * _SHARE)

    @property
    def of_model(self) -> Guarantee:
        """What the model may spend, and what the thresholds may, which are of other clients."""
        from protocols.guarantee import Guarantee

        weights = self.of_weights
        return Guarantee(self.epsilon - weights.epsilon, self.delta - weights.delta)

    def of_release(self, task: str, model: str) -> ReleaseOptions:
        """Return the options of weights or thresholds: these, and its part of ε and δ.

        Nobody is charged for it alone. Args: model: by name.
        """
        from protocols.accounting.calibration import NeighboringRelation, PrivacyUnit

        part, of_records = RELEASES[task], self.privacy_unit is PrivacyUnit.RECORD
        spent = self.of_weights if task == "weights" else self.of_model
        own = {
            "epsilon": str(spent.epsilon),
            "delta": str(spent.delta),
            "model": model,
            "population": "none",
            "neighboring_relation": str(NeighboringRelation.ADD_OR_REMOVE_ONE) if of_records else "",
        }
        left_out = ("budget", "ledger", "json", "plot", "out")
        shared = {
            name: text
            for name, text in self.texts.items()
            if name in part.declared and part.declared[name].offered and name not in left_out
        }
        return part(**{**shared, **own})
