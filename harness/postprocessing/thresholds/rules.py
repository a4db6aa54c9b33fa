"""One group's decision rule."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from fairshares.harness.errors import ThresholdRuleError
from fairshares.harness.system.documents import Refusal, as_json, as_type
from fairshares.protocols.json_values import JsonValue

Probability = Annotated[float, Meta(ge=0, le=1 + 1e-9)]


def in_words(option: str) -> str:
    """Return a constraint or objective in prose: `equalized odds`.

    Args:
        option: The name of the constraint or objective, as an option has it.
    Returns:
        The name with spaces.
    """
    return option.removesuffix("_score").replace("_", " ")


@dataclass(frozen=True)
class ThresholdRule:
    """Predict positive if and only if the score is at least a threshold that is drawn anew for each sample.

    Args:
        thresholds: Strictly increasing numbers; 0 accepts everybody, anything above 1 nobody.
        probabilities: The probability of each threshold, all positive, which add up to 1.
    Raises:
        ThresholdRuleError: The numbers are no such rule.
    """

    thresholds: tuple[float, ...]
    probabilities: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        if len(self.thresholds) != len(self.probabilities) or not self.thresholds:
            raise ThresholdRuleError("A rule needs at least one threshold, and a probability for each.")
        if not all(math.isfinite(threshold) for threshold in self.thresholds):
            raise ThresholdRuleError("A threshold must be finite; 2 accepts nobody, as scores end at 1.")
        if any(b <= a for a, b in zip(self.thresholds, self.thresholds[1:], strict=False)):
            raise ThresholdRuleError("The thresholds of a rule must increase.")
        if not all(p > 0 for p in self.probabilities) or abs(math.fsum(self.probabilities) - 1) > 1e-9:
            raise ThresholdRuleError("The probabilities of a rule must not be negative and must add up to 1.")

    @property
    def is_deterministic(self) -> bool:
        """Whether there is a single threshold."""
        return len(self.thresholds) == 1

    def described(self) -> str:
        """Say which scores are predicted positive.

        Returns:
            A clause, such as "score >= 0.5".
        """
        texts = [f"{threshold:g}" if threshold <= 1 else "never" for threshold in self.thresholds]
        if self.is_deterministic:
            return texts[0]
        pairs = zip(texts, self.probabilities, strict=True)
        return ", ".join(f"{text} with probability {probability:.3f}" for text, probability in pairs)

    @property
    def stated(self) -> "StatedRule":
        """The rule as files state it."""
        if self.is_deterministic:
            return StatedRule(threshold=self.thresholds[0])
        if len(self.thresholds) == 2:
            first, second = self.thresholds
            return StatedRule(threshold=first, threshold_alt=second, probability_alt=self.probabilities[1])
        return StatedRule(thresholds=list(self.thresholds), probabilities=list(self.probabilities))

    def to_json(self) -> dict[str, JsonValue]:
        """Return the rule as in `thresholds.json`."""
        return as_json(self.stated)


class StatedRule(Struct, frozen=True, kw_only=True):
    """A rule in `thresholds.json`, in one of three forms.

    The rule states one threshold; or two thresholds, and the probability of the second; or lists of
    thresholds and of their probabilities.

    Attributes:
        threshold: The first threshold, or the only one.
        threshold_alt: The second of two thresholds.
        probability_alt: The probability of the second of two thresholds.
        thresholds: A list of thresholds.
        probabilities: The probability of each threshold in the list.
    """

    threshold: float | UnsetType = UNSET
    threshold_alt: float | UnsetType = UNSET
    probability_alt: Probability | UnsetType = UNSET
    thresholds: list[float] | UnsetType = UNSET
    probabilities: list[Probability] | UnsetType = UNSET

    def rule(self, where: str) -> ThresholdRule:
        """Return the rule.

        Args:
            where: The beginning of an error's message, which says where the fields are.
        Returns:
            The rule that the fields state.
        Raises:
            ThresholdRuleError: The fields state no rule.
        """
        parts = self._parts
        if parts is None:
            raise ThresholdRuleError(
                f"{where} must have the key threshold; or threshold, threshold_alt and probability_alt; or "
                "the lists thresholds and probabilities; and no other."
            )
        return _mixture_at(where, *parts)

    @property
    def _parts(self) -> tuple[list[float], list[float]] | None:
        """The thresholds and their probabilities; None unless the fields are one of the three forms."""
        first = self.threshold
        second = self.threshold_alt
        probability = self.probability_alt
        if isinstance(first, UnsetType):
            if isinstance(self.thresholds, UnsetType) or isinstance(self.probabilities, UnsetType):
                return None
            if isinstance(second, UnsetType) and isinstance(probability, UnsetType):
                return self.thresholds, self.probabilities
            return None
        if not isinstance(self.thresholds, UnsetType) or not isinstance(self.probabilities, UnsetType):
            return None
        if isinstance(second, UnsetType) and isinstance(probability, UnsetType):
            return [first], [1.0]
        if isinstance(second, UnsetType) or isinstance(probability, UnsetType):
            return None
        return [first, second], [1 - probability, probability]


def _mixture_at(where: str, thresholds: list[float], probabilities: list[float]) -> ThresholdRule:
    if len(thresholds) != len(probabilities):
        raise ThresholdRuleError(
            f"{where} has {len(thresholds)} thresholds and {len(probabilities)} probabilities."
        )
    try:
        return mixture(zip(thresholds, probabilities, strict=True))
    except ThresholdRuleError as error:
        raise ThresholdRuleError(f"{where}: {error}") from None


def mixture(parts: Iterable[tuple[float, float]]) -> ThresholdRule:
    """Return the rule that draws one threshold of several.

    Equal thresholds are merged, and thresholds of probability 0 left out.

    Args:
        parts: Pairs of a threshold and its probability.
    Returns:
        The rule.
    Raises:
        ThresholdRuleError: The probabilities do not add up to 1.
    """
    merged: dict[float, float] = {}
    for threshold, probability in parts:
        merged[threshold] = merged.get(threshold, 0.0) + probability
    thresholds = sorted(threshold for threshold, probability in merged.items() if probability != 0)
    return ThresholdRule(tuple(thresholds), tuple(merged[threshold] for threshold in thresholds))


def rule_from_json(fields: JsonValue, where: str) -> ThresholdRule:
    """Return a rule from the fields of `thresholds.json`.

    Args:
        fields: The rule's fields.
        where: The beginning of an error's message, which says where the fields are.
    Returns:
        The rule that the fields state.
    Raises:
        ThresholdRuleError: The fields state no rule.
    """
    known = fields if isinstance(fields, dict) else {}
    if not set(known) <= set(StatedRule.__struct_fields__):
        known = {}  # so that it has none of the forms
    refusal = Refusal(ThresholdRuleError, where, "a rule of numbers only", "choose thresholds again")
    return as_type(StatedRule, known, refusal).rule(where)
