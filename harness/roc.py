"""π_ROC as a statistic: score curves from noisy block counts, and the thresholds that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.curves import CurveNoise, GroupCurves
from harness.engines.base import EngineResult
from harness.errors import (
    FairSharesError,
    InfeasibleError,
    RecordDomainError,
    TooNoisyError,
    UndefinedRateError,
)
from harness.outputs import read_unbiased
from harness.pipeline import Settings, Statistic
from harness.records import Detail, RecordDomain
from harness.thresholds import GroupThresholds, choose_thresholds
from protocols.budget import NoisePlan
from protocols.circuits.coins import Coin
from protocols.spec import PI_ROC, PI_ROC_PUBLISHED, ProtocolSpec
from protocols.tree import CountTree, best_tree

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NoisyCurves:
    """Score curves of each group's positives and negatives, and how they were released; all of it public.

    Attributes: positive: the label that counts as positive; blocks: bins per opened block of each level,
    empty if none were opened (as published).
    """

    domain: RecordDomain
    positive: str
    blocks: tuple[int, ...]
    coins: tuple[Coin, ...]
    curves: GroupCurves

    def to_json(self) -> dict[str, Any]:
        """Return the fields of `curves.json` but for the privacy statement."""
        curves = self.curves
        assert curves.noise is not None
        return {
            "groups": list(curves.groups),
            "positive_label": self.positive,
            "thresholds": curves.thresholds.tolist(),
            "true_positives": curves.tp.tolist(),
            "false_positives": curves.fp.tolist(),
            "positives": curves.positives.tolist(),
            "negatives": curves.negatives.tolist(),
            "standard_error": curves.noise.standard_errors()[:-1].tolist(),
            "blocks": list(self.blocks),
            "coins": [[coin.numerator, coin.bits] for coin in self.coins],
        }


@dataclass(frozen=True)
class CurvesStatistic(Statistic[NoisyCurves]):
    """Score curves of each group's positives and negatives.

    Args: settings: those of the run, on which the blocks depend; flat: open every bin's count and
    nothing else, instead of the blocks with the least error; positive: the label that counts as
    positive, the last one if empty; spec: π_ROC of clients' counts, or of records.
    """

    settings: Settings
    flat: bool = False
    positive: str = ""
    spec: ProtocolSpec = PI_ROC
    name = "curves"
    detail = Detail.SCORE

    def tree(self, domain: RecordDomain) -> CountTree:
        """Return which blocks are counted. Raises: ValueError: no noise fits the budget."""
        bins, settings = len(domain.thresholds), self.settings
        if self.flat:
            return CountTree(bins, (1,))
        relation, together = settings.relation_in(domain), domain.most_together
        return best_tree(bins, relation, settings.epsilon, settings.delta, together, settings.exchanged)

    def shape(self, domain: RecordDomain) -> Mapping[str, object]:
        if len(domain.labels) != 2:
            raise RecordDomainError(
                f"A score curve tells two labels apart, and the domain has {len(domain.labels)}: run once "
                "for each label against the rest, with the scores for it and a share of epsilon."
            )
        if self.positive and self.positive not in domain.labels:
            raise RecordDomainError(
                f"The positive label {self.positive!r} is not declared "
                f"(declared: {', '.join(domain.labels)})."
            )
        groups, labels, bins = domain.shape
        return {"groups": groups, "labels": labels, "bins": bins, **self._blocks(domain)}

    def _blocks(self, domain: RecordDomain, /) -> Mapping[str, object]:
        return {"blocks": ".".join(map(str, self.tree(domain).blocks))}

    def read(self, result: EngineResult, domain: RecordDomain, clients: int, plan: NoisePlan) -> NoisyCurves:
        most = clients * domain.largest
        opened = read_unbiased(result, "nodes", plan.nodes, most, plan.coins)
        return self._curves(opened, domain, self.positive or domain.labels[-1], plan.coins)

    def _curves(
        self, opened: Floats, domain: RecordDomain, positive: str, coins: tuple[Coin, ...]
    ) -> NoisyCurves:
        return noisy_curves(opened, domain, positive, self.tree(domain), coins)

    def files(self, found: NoisyCurves) -> Mapping[str, Mapping[str, Any]]:
        return {"curves.json": found.to_json()}


@dataclass(frozen=True)
class PublishedCurvesStatistic(CurvesStatistic):
    """Score curves as in Protocol 4: noise for each count at each threshold, as if it were the only one.

    For comparison: all that is opened spends epsilon once per threshold.
    """

    spec: ProtocolSpec = PI_ROC_PUBLISHED

    @property
    def nominal(self) -> bool:
        return True

    def _blocks(self, _domain: RecordDomain, /) -> Mapping[str, object]:
        return {}

    def _curves(
        self, opened: Floats, domain: RecordDomain, positive: str, coins: tuple[Coin, ...]
    ) -> NoisyCurves:
        return curves_as_published(opened, domain, positive, coins)


def noisy_curves(
    opened: Floats, domain: RecordDomain, positive: str, tree: CountTree, coins: tuple[Coin, ...]
) -> NoisyCurves:
    """Estimate score curves by least squares from unbiased block counts.

    Args: opened: level by level, in each a (group, label) pair after the other, from the lowest block up.
    """
    pairs = len(domain.groups) * len(domain.labels)
    ends = np.cumsum([pairs * count for count in tree.counts])[:-1]
    levels = [level.reshape(pairs, -1) for level in np.split(opened, ends)]
    estimator = tree.estimator()
    linear = np.concatenate([estimator, estimator[:1]])  # at threshold 0 all are predicted positive
    return _estimated(np.concatenate(levels, axis=1), linear, domain, positive, tree.blocks, coins)


def curves_as_published(
    opened: Floats, domain: RecordDomain, positive: str, coins: tuple[Coin, ...]
) -> NoisyCurves:
    """Take the noisy count at each threshold as it is; the total is the mean of both counts' sum.

    Args: opened: per (group, label), the counts predicted positive at each threshold, then the others.
    """
    bins = len(domain.thresholds)
    totals = np.full((1, 2 * bins), 1 / bins)
    linear = np.concatenate([np.eye(bins, 2 * bins), totals])
    return _estimated(opened.reshape(-1, 2 * bins), linear, domain, positive, (), coins)


def _estimated(
    nodes: Floats,
    linear: Floats,
    domain: RecordDomain,
    positive: str,
    blocks: tuple[int, ...],
    coins: tuple[Coin, ...],
) -> NoisyCurves:
    """Args: nodes: unbiased, a row per (group, label); linear: from these to counts and, last, the total."""
    if domain.cap:  # a client that weighs 1 counts as one, not as its slots
        linear = linear / domain.cap.scale
    counts = (nodes @ linear.T).reshape(len(domain.groups), len(domain.labels), -1)
    of_positives = counts[:, domain.labels.index(positive)]
    of_negatives = counts[:, 1 - domain.labels.index(positive)]
    curves = GroupCurves(
        domain.groups,
        np.array(domain.thresholds),
        of_positives[:, :-1],
        of_negatives[:, :-1],
        of_positives[:, -1],
        of_negatives[:, -1],
        CurveNoise(linear, coins),
    )
    return NoisyCurves(domain, positive, blocks, coins, curves)


@dataclass(frozen=True)
class ThresholdChoice:
    """How thresholds are chosen, as for `choose_thresholds`."""

    constraint: str
    objective: str
    tolerance: float
    deterministic: bool

    def of(self, curves: GroupCurves) -> GroupThresholds:
        return choose_thresholds(
            curves, self.constraint, self.objective, self.tolerance, deterministic=self.deterministic
        )


@dataclass(frozen=True)
class Thresholds:
    """Curves, and the thresholds that were chosen on them, or why there are none."""

    curves: NoisyCurves
    thresholds: GroupThresholds | None
    problem: FairSharesError | None = None


@dataclass(frozen=True)
class ThresholdsStatistic(Statistic[Thresholds]):
    """Thresholds for each group, from score curves.

    Where the opened curves do not allow any, they are kept all the same: their epsilon is spent.
    """

    curves: CurvesStatistic
    choice: ThresholdChoice
    name = "thresholds"
    detail = Detail.SCORE

    @property
    def spec(self) -> ProtocolSpec:
        return self.curves.spec

    @property
    def nominal(self) -> bool:
        return self.curves.nominal

    def shape(self, domain: RecordDomain) -> Mapping[str, object]:
        return self.curves.shape(domain)

    def read(self, result: EngineResult, domain: RecordDomain, clients: int, plan: NoisePlan) -> Thresholds:
        found = self.curves.read(result, domain, clients, plan)
        try:
            return Thresholds(found, self.choice.of(found.curves))
        except (UndefinedRateError, TooNoisyError, InfeasibleError) as error:
            return Thresholds(found, None, error)

    def files(self, found: Thresholds) -> Mapping[str, Mapping[str, Any]]:
        files = self.curves.files(found.curves)
        if found.thresholds is None:
            return files
        chosen = {"positive_label": found.curves.positive, **found.thresholds.to_json()}
        return {**files, "thresholds.json": chosen}
