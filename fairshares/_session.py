"""Calls on the same records, which share what is said of these."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from fairshares import _calls, _lookups
from fairshares.harness.errors import PYTHON, naming
from fairshares.harness.request.readers import parse_unit

if TYPE_CHECKING:
    from fairshares._arguments import Budget, Column, Domain, Features, Records
    from fairshares._results import (
        CapResult,
        ConfusionResult,
        CountResult,
        GapResult,
        ThresholdsResult,
        TrainResult,
        WeightsResult,
    )
    from fairshares._shown import Spent
    from fairshares._types import (
        ConstraintName,
        NoiseFamilyName,
        NoiseKind,
        Objective,
        Relation,
        Reweighing,
        Security,
        Unit,
    )
    from fairshares.harness.training.session import Number

R = TypeVar("R")

_NOT_OF_VALUES = ("domain",)  # a file of values differs from a file of groups and labels


class Session:
    """Calls on the same records, of one population, with one unit of privacy.

        >>> import fairshares as fs
        >>> df = dict(client_id=[*range(100)] * 2, group=["a", "b"] * 100, label=[0, 0, 1, 1] * 50)
        >>> session = fs.Session(df, population="loans", budget=12, unit="client", cap=2, security="mpyc")
        >>> session.weights(epsilon=10).weights.shape
        (4,)
        >>> session.confusion(prediction=df["label"], epsilon=2).privacy.unit
        'client'
        >>> len(session.ledger().charges)
        2

    A session keeps what it is given, and neither reads records nor spends anything by itself: each of its
    methods is the call of the same name, which takes as much of this as it has. So `gap`, `count` and `cap`
    take no cap, and `gap`, whose clients have values in place of labels, no domain and no maximum count.
    `count` protects records only, and refuses another unit.

    Args: as in `weights`, and
        unit: The `privacy_unit` of all calls.
        cap: The `cap` of calls that have one. Choose it by the method `cap` of another session, or "auto".
    Raises:
        FairSharesError: There is no such unit. Whatever else is wrong is found when a call is made.
    """

    def __init__(
        self,
        records: Records = None,
        *,
        population: str | None = None,
        budget: Budget = None,
        ledger: Path | str | None = None,
        unit: Unit = "record",
        cap: int | str | None = None,
        security: Security | None = None,
        parties: int | None = None,
        client_id: Column = None,
        group: Column = None,
        label: Column = None,
        groups: Sequence[Hashable] | None = None,
        labels: Sequence[Hashable] | None = None,
        domain: Domain | Path | str | None = None,
        max_count: int | None = None,
        noise_family: NoiseFamilyName = "by-epsilon",
        stock: Path | str | None = None,
        timeout: float = 600,
    ) -> None:
        shared = {name: value for name, value in locals().items() if name != "self"}
        with naming(PYTHON):
            parse_unit(str(unit), "unit")
        self._population = population
        self._ledger = ledger
        shared["privacy_unit"] = shared.pop("unit")
        self._shared = shared

    def weights(
        self,
        *,
        epsilon: Number,
        reweighing: Reweighing = "kamiran-calders",
        delta: Number = "2^-40",
        cap_epsilon: Number | None = None,
        neighboring_relation: Relation | None = None,
        noise: NoiseKind = "joint",
        offline: bool = False,
        out: Path | str | None = None,
    ) -> WeightsResult:
        """Compute DP sample weights, as `fairshares.weights`.

        Args: as in `fairshares.weights`.
        Returns:
            Weights, intervals and noisy counts by (group, label).
        Raises: as in `fairshares.weights`.
        """
        return _calls.weights(**self._with("weights", locals()))

    def thresholds(
        self,
        *,
        epsilon: Number,
        score: Column = None,
        thresholds: int | Sequence[float] | None = None,
        positive_label: Hashable = None,
        constraint: ConstraintName = "equalized_odds",
        objective: Objective = "accuracy_score",
        tolerance: float | None = None,
        deterministic: bool = False,
        variant: Literal["histogram", "records"] = "histogram",
        delta: Number = "2^-40",
        cap_epsilon: Number | None = None,
        neighboring_relation: Relation | None = None,
        noise: NoiseKind = "joint",
        offline: bool = False,
        out: Path | str | None = None,
    ) -> ThresholdsResult:
        """Compute DP score curves and decision rules, as `fairshares.thresholds`.

        Args: as in `fairshares.thresholds`.
        Returns:
            Curves, rules and a predictor.
        Raises: as in `fairshares.thresholds`.
        """
        return _calls.thresholds(**self._with("thresholds", locals()))

    def confusion(
        self,
        *,
        epsilon: Number,
        prediction: Column = None,
        score: Column = None,
        threshold: float | None = None,
        positive_label: Hashable = None,
        delta: Number = "2^-40",
        cap_epsilon: Number | None = None,
        neighboring_relation: Relation | None = None,
        noise: NoiseKind = "joint",
        offline: bool = False,
        out: Path | str | None = None,
    ) -> ConfusionResult:
        """Compute a DP confusion matrix per group, as `fairshares.confusion`.

        Args: as in `fairshares.confusion`.
        Returns:
            Counts by (group, label, prediction); rates and their intervals by (group, label).
        Raises: as in `fairshares.confusion`.
        """
        return _calls.confusion(**self._with("confusion", locals()))

    def gap(
        self,
        *,
        epsilon: Number,
        range: tuple[float, float],
        value: Column = None,
        steps: int | None = None,
        delta: Number = "2^-40",
        neighboring_relation: Relation | None = None,
        noise: NoiseKind = "joint",
        offline: bool = False,
        out: Path | str | None = None,
    ) -> GapResult:
        """Compute DP gaps between groups, as `fairshares.gap`.

        Args: as in `fairshares.gap`.
        Returns:
            Gaps by pair of groups, means and sizes by group.
        Raises: as in `fairshares.gap`.
        """
        return _calls.gap(**self._with("gap", locals()))

    def count(
        self,
        *,
        epsilon: Number,
        relative_error: float = 0.1,
        error_from: int = 100,
        error_to: int = 1048576,
        delta: Number = "2^-40",
        neighboring_relation: Relation | None = None,
        offline: bool = False,
        out: Path | str | None = None,
    ) -> CountResult:
        """Count records per group and label, as `fairshares.count`.

        Args: as in `fairshares.count`.
        Returns:
            Counts and intervals by (group, label).
        Raises: as in `fairshares.count`. A session whose unit is "client" is refused.
        """
        return _calls.count(**self._with("count", locals()))

    def cap(
        self,
        *,
        epsilon: Number,
        release_epsilon: Number,
        release: str = "weights",
        counts: int | None = None,
        variant: str | None = None,
        delta: Number = "2^-40",
        out: Path | str | None = None,
    ) -> CapResult:
        """Choose how many records of a client are to count, as `fairshares.cap`.

        Args: as in `fairshares.cap`.
        Returns:
            The cap, for the argument `cap` of another session.
        Raises: as in `fairshares.cap`.
        """
        return _calls.cap(**self._with("cap", locals()))

    def train(
        self,
        *,
        features: Features | Path | str,
        epsilon: Number,
        with_: Sequence[str] | None = None,
        fairness: str | None = None,
        rounds: int = 40,
        delta: Number = "1e-5",
        weights_epsilon: Number | None = None,
        largest_weight: float | None = None,
        clip: float = 1,
        learning_rate: float = 1,
        momentum: float = 0.9,
        reweighing: Reweighing = "kamiran-calders",
        constraint: ConstraintName = "equalized_odds",
        objective: Objective = "accuracy_score",
        positive_label: Hashable = None,
        neighboring_relation: Relation | None = None,
        noise: Literal["joint", "distributed"] = "joint",
        offline: bool = False,
        out: Path | str | None = None,
    ) -> TrainResult:
        """Train logistic regression under differential privacy, as `fairshares.train`.

        Args: as in `fairshares.train`.
        Returns:
            The model, weights and thresholds, and the privacy of all together.
        Raises: as in `fairshares.train`.
        """
        return _calls.train(**self._with("train", locals()))

    def ledger(self) -> Spent:
        """Return what the session's population has spent; all populations if the session names none.

        Returns:
            A table of charges.
        Raises: as in `fairshares.ledger`.
        """
        return _lookups.ledger(self._population, ledger=self._ledger)

    def _with(self, call: str, given: dict[str, R]) -> dict[str, R]:
        """Return a call's own arguments, and the session's arguments that the call has."""
        own = {name: value for name, value in given.items() if name != "self"}
        parameters = inspect.signature(getattr(_calls, call)).parameters
        left_out = () if "label" in parameters else _NOT_OF_VALUES
        shared = {
            name: value for name, value in self._shared.items() if name in parameters and name not in left_out
        }
        return {**shared, **own}
