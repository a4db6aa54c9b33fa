"""`round.json`: what clients need for one round of a training over hosts. All of it is public."""

from typing import Annotated, ClassVar, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from fairshares.harness.bounds import Name, NotNegative, Positive, Share, Size
from fairshares.harness.inputs.record_schema import MOST_REVEALS

ROUND_FILE = "round.json"


class RoundFairness(Struct, frozen=True, kw_only=True):
    """How the counts are made that follow an update, by which groups are weighed.

    Attributes:
        definition: The definition of fairness.
        positive: The index of the positive label.
        step: How much a gap changes its multiplier in a round.
        share: The part of the zCDP that the counts take.
    """

    definition: Name
    positive: Size
    step: NotNegative
    share: Share


class RoundFile(Struct, frozen=True, kw_only=True):
    """`round.json`.

    Attributes:
        task: The name of the task of vectors.
        reveal: The number of the reveal for which clients seal their updates.
        groups: The groups that records may have.
        labels: The labels that records may have.
        features: The declaration of the model's features.
        parameters: The model's parameters in this round, a list for each label but the first.
        clip: The norm to which a record's gradient is shortened.
        largest_weight: The bound on a record's weight.
        weights: The weight of a record by group and label; without it each record weighs 1.
        fairness: How counts are made; without it none follow an update.
    """

    file_name: ClassVar[str] = ROUND_FILE
    schema: Literal[1] = 1
    task: Name
    reveal: Annotated[int, Meta(ge=1, le=MOST_REVEALS)]
    groups: list[str]
    labels: list[str]
    features: dict[str, dict[str, float | list[str]]]
    parameters: list[list[float]]
    clip: Positive
    largest_weight: Positive
    weights: list[list[float]] | UnsetType = UNSET
    fairness: RoundFairness | UnsetType = UNSET
