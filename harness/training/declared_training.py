"""The declaration of a training over hosts: the model, the rounds, and the task's vectors."""

import json
from dataclasses import dataclass

from msgspec import UNSET, UnsetType

from fairshares.harness.errors import OptionError, named
from fairshares.harness.inputs.record_schema import RecordDomain, RecordKind
from fairshares.harness.privacy.manifest import TrainingSettings
from fairshares.harness.system.documents import as_json
from fairshares.harness.system.result_files import SCHEMA
from fairshares.harness.training.fairness import FairGrad
from fairshares.harness.training.features import Features
from fairshares.harness.training.logistic import Descending, Descent, UpdateBounds
from fairshares.harness.training.request import TrainRequest
from fairshares.harness.training.round_file import RoundFairness, RoundFile
from fairshares.harness.uploads.task import Task
from fairshares.protocols.accounting.rounding import float_up
from fairshares.protocols.accounting.rounds import Concentrated
from fairshares.protocols.arrays import Floats
from fairshares.protocols.json_values import JsonValue

_WEIGHED = 2.0  # the usual largest weights, chosen on public data
_FOR_FAIRNESS = 1.25


def descent_of(request: TrainRequest, *, is_weighed: bool) -> Descent:
    """Return how the model's parameters are found.

    Args:
        request: The options of the training.
        is_weighed: Whether a release of weights weighs the records.

    Raises:
        OptionError: Options on fairness conflict.
    """
    fairness = request.sought  # refuses options that conflict, whatever weighs the records
    usual_largest_weight = 1.0
    if is_weighed:
        usual_largest_weight = _WEIGHED
    elif fairness:
        usual_largest_weight = _FOR_FAIRNESS
    return Descent(
        rounds=request.rounds,
        clip=request.clip,
        largest_weight=request.largest_weight or usual_largest_weight,
        learning_rate=request.learning_rate,
        momentum=request.momentum,
    )


def fairgrad_of(request: TrainRequest, domain: RecordDomain) -> FairGrad | None:
    """Return how groups are weighed while the model is trained, if at all; OptionError as `sought`."""
    fairness = request.sought
    if fairness is None:
        return None
    positive = domain.positive(request.positive_label)
    return FairGrad(fairness, len(domain.groups), len(domain.labels), positive)


def revealed_of_rounds(rounds: int, coordinates: int, *, has_counts: bool) -> str:
    """Return the values that the rounds of a training reveal, in words.

    Args:
        rounds: How many there are.
        coordinates: The length of each sum.
        has_counts: Whether counts by group and label follow each update.
    """
    counted = (
        " and of the records that the model gets right and wrong, by group and label" if has_counts else ""
    )
    return f"{rounds} noisy sums of {coordinates} numbers each, of clients' updates of the model{counted}"


def settings_of_training(descent: Descent, fairgrad: FairGrad | None, loss: Concentrated) -> TrainingSettings:
    """Return the manifest's fields on how a model was trained.

    Args:
        descent: How the model's parameters were found.
        fairgrad: How groups were weighed, if at all.
        loss: The privacy loss of all rounds.
    """
    return TrainingSettings(
        rounds=descent.rounds,
        clip=descent.clip,
        largest_weight=descent.largest_weight,
        learning_rate=descent.learning_rate,
        momentum=descent.momentum,
        fairness=fairgrad.fairness if fairgrad else UNSET,
        fairness_share=fairgrad.share if fairgrad else UNSET,
        fairness_step=fairgrad.step if fairgrad else UNSET,
        rho=float_up(loss.rho),
        rho_delta=float_up(loss.certain + loss.apart),
    )


@dataclass(frozen=True)
class DeclaredTraining:
    """A training over hosts, as it is declared before it has any sum.

    Attributes:
        domain: The groups and labels that clients' records may have.
        features: The features of the model.
        descent: How the model's parameters are found. Each round takes a reveal.
        fairgrad: How groups are weighed while the model is trained, if at all.
        participations: In how many rounds a client takes part at most, for which ε is; None if that was not
            asked for: then in as many as the task says, and in all where this training declares its vectors.
    """

    domain: RecordDomain
    features: Features
    descent: Descent
    fairgrad: FairGrad | None
    participations: int | None = None

    @classmethod
    def of(
        cls,
        request: TrainRequest,
        features: Features,
        *,
        is_weighed: bool,
        participations: int | None = None,
    ) -> "DeclaredTraining":
        """Return the declared training; OptionError without groups and labels, or if options conflict.

        Args:
            request: The options of the training.
            features: The features of the model.
            is_weighed: Whether a release of weights weighs the records.
            participations: In how many rounds a client takes part at most, if that was asked for.
        """
        if participations is not None and participations > request.rounds:
            raise OptionError(
                f"{named('participations', participations)} is more than the {request.rounds} rounds; leave "
                "it out where clients take part in all of them."
            )
        domain = request.declares.of_kind(RecordKind.NONE)
        if domain is None:
            raise OptionError(
                f"No records are here that would say what groups and labels there are: declare them by "
                f"{named('groups')} and {named('labels')}, or by {named('domain')}."
            )
        fairgrad = fairgrad_of(request, domain)
        if fairgrad is not None and is_weighed:
            raise OptionError(
                f"{named('with_', 'fairgrad')} and {named('weights')} would weigh each record twice; choose "
                "one of the two."
            )
        descent = descent_of(request, is_weighed=is_weighed)
        return cls(domain, features, descent, fairgrad, participations)

    @property
    def bounds(self) -> UpdateBounds:
        """The length and the largest norm of an update."""
        return UpdateBounds.of(len(self.domain.labels), self.features.columns, self.descent, self.fairgrad)

    def declaration(self) -> dict[str, JsonValue]:
        """Return the content of a file from which `task` makes a task of these vectors, on its usual grid."""
        bounds = self.bounds
        vectors: dict[str, JsonValue] = {
            "coordinates": bounds.coordinates,
            "clip": bounds.norm,
            "reveals": self.descent.rounds,
        }
        if self.participations is not None:
            vectors["participations"] = self.participations
        return {"vectors": vectors}

    def begun(self) -> Descending:
        """Return the descent before its first round."""
        return Descending.begun((len(self.domain.labels) - 1, self.features.columns + 1), self.fairgrad)

    def check_task(self, task: Task) -> None:
        """Raise OptionError unless a task's vectors are the updates of this training."""
        found = task.vectors
        bounds = self.bounds
        declared = (bounds.coordinates, bounds.norm, self.descent.rounds, 1.0)
        if (found.coordinates, found.clip, found.reveals, found.largest_weight) != declared:
            raise OptionError(
                f"The task declares {found.coordinates} coordinates, the norm {found.clip:g}, "
                f"{found.reveals} reveals and weights up to {found.largest_weight:g}, and this training has "
                f"{bounds.coordinates}, {bounds.norm:g}, {self.descent.rounds} and 1: repeat the options for "
                f"which {named('vectors')} wrote the task's declaration, or make another task."
            )
        asked = self.participations
        if asked is not None and asked != found.most_of_a_client:
            raise OptionError(
                f"The task's ε is for a client in {found.most_of_a_client} of its {found.reveals} reveals at "
                f"most, not in {asked}: leave out {named('participations')}, or make another task."
            )

    def round_text(self, task: str, reveal: int, state: Descending, weights: Floats | None) -> bytes:
        """Return the bytes of the file that tells clients of a round, which follow from the arguments.

        Args:
            task: The name of the task of vectors.
            reveal: The number of the reveal for which clients seal.
            state: The descent before this round.
            weights: Weights of groups and labels that were released beforehand, if any.
        """
        fairness: RoundFairness | UnsetType = UNSET
        fairgrad = self.fairgrad
        if fairgrad is not None:
            weights = state.weights
            fairness = RoundFairness(
                definition=fairgrad.fairness,
                positive=fairgrad.positive,
                step=fairgrad.step,
                share=fairgrad.share,
            )
        file = RoundFile(
            task=task,
            reveal=reveal,
            groups=list(self.domain.groups),
            labels=list(self.domain.labels),
            features=self.features.to_json(),
            parameters=state.parameters.tolist(),
            clip=self.descent.clip,
            largest_weight=self.descent.largest_weight,
            weights=UNSET if weights is None else weights.tolist(),
            fairness=fairness,
        )
        fields = {"schema": SCHEMA, **as_json(file)}
        return (json.dumps(fields, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()
