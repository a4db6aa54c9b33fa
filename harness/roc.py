"""π_ROC as a statistic: score curves per group and label from noisy block counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.curves import CurveNoise, GroupCurves
from harness.engines.base import EngineResult
from harness.errors import RecordDomainError
from harness.outputs import read_unbiased
from harness.pipeline import Settings, Statistic
from harness.records import Detail, RecordDomain
from protocols.budget import NoisePlan
from protocols.circuits.coins import Coin
from protocols.spec import PI_ROC
from protocols.tree import CountTree, best_tree

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NoisyCurves:
    """Score curves of each group's positives and negatives, and how they were released; all of it public.

    Attributes: positive: the label that counts as positive; tree: which blocks were opened.
    """

    domain: RecordDomain
    positive: str
    tree: CountTree
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
            "blocks": list(self.tree.blocks),
            "coins": [[coin.numerator, coin.bits] for coin in self.coins],
        }


@dataclass(frozen=True)
class CurvesStatistic(Statistic[NoisyCurves]):
    """Score curves of each group's positives and negatives.

    Args: settings: those of the run, on which the blocks depend; flat: open every bin's count and
    nothing else, instead of the blocks with the least error; positive: the label that counts as
    positive, the last one if empty.
    """

    settings: Settings
    flat: bool = False
    positive: str = ""
    name = "curves"
    spec = PI_ROC
    detail = Detail.SCORE

    def tree(self, domain: RecordDomain) -> CountTree:
        """Return which blocks are counted. Raises: ValueError: no noise fits the budget."""
        bins, settings = len(domain.thresholds), self.settings
        if self.flat:
            return CountTree(bins, (1,))
        return best_tree(bins, settings.relation_in(domain), settings.epsilon, settings.delta)

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
        blocks = ".".join(map(str, self.tree(domain).blocks))
        groups, labels, bins = domain.shape
        return {"groups": groups, "labels": labels, "bins": bins, "blocks": blocks}

    def read(self, result: EngineResult, domain: RecordDomain, clients: int, plan: NoisePlan) -> NoisyCurves:
        most = clients * domain.max_count
        opened = read_unbiased(result, "nodes", plan.nodes, most, plan.coins)
        positive = self.positive or domain.labels[-1]
        return noisy_curves(opened, domain, positive, self.tree(domain), plan.coins)

    def files(self, found: NoisyCurves) -> Mapping[str, Mapping[str, Any]]:
        return {"curves.json": found.to_json()}


def noisy_curves(
    opened: Floats, domain: RecordDomain, positive: str, tree: CountTree, coins: tuple[Coin, ...]
) -> NoisyCurves:
    """Estimate score curves by least squares from unbiased block counts.

    Args: opened: level by level, in each a (group, label) pair after the other, from the lowest block up.
    """
    groups, labels, _ = domain.shape
    ends = np.cumsum([groups * labels * count for count in tree.counts])[:-1]
    levels = [level.reshape(groups * labels, -1) for level in np.split(opened, ends)]
    estimator = tree.estimator()
    counts = (np.concatenate(levels, axis=1) @ estimator.T).reshape(groups, labels, -1)
    of_positives = counts[:, domain.labels.index(positive)]
    of_negatives = counts[:, 1 - domain.labels.index(positive)]
    curves = GroupCurves(
        domain.groups,
        np.array(domain.thresholds),
        of_positives,
        of_negatives,
        of_positives[:, 0],  # at threshold 0 all are predicted positive
        of_negatives[:, 0],
        CurveNoise(np.concatenate([estimator, estimator[:1]]), coins),
    )
    return NoisyCurves(domain, positive, tree, coins, curves)
