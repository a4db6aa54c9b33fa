"""π_RW as a statistic: noisy counts per (group, label), and the sample weights that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.engines.base import EngineResult
from harness.inputs.record_schema import RecordDomain
from harness.pipeline.run import Statistic
from harness.postprocessing.noisy_counts import NoisyCounts, read_counts
from harness.postprocessing.reweighing.formulas import REWEIGHINGS, GroupWeights
from harness.postprocessing.reweighing.revealed import OpenedWeights, layout_for, read_opened_weights
from protocols.accounting.calibration import NoisePlan
from protocols.spec import PI_RW, PI_RW_WEIGHTS, ProtocolSpec


@dataclass(frozen=True)
class Weights:
    """What π_RW opened, and the weights that follow from it."""

    counts: NoisyCounts
    weights: GroupWeights


@dataclass(frozen=True)
class WeightsStatistic(Statistic[Weights]):
    """Sample weights by one reweighing scheme.

    Args: reweighing: a key of `REWEIGHINGS`; spec: π_RW of counts, or of clients' slots.
    """

    reweighing: str = "balanced"
    spec: ProtocolSpec = PI_RW
    name = "weights"

    def shape(self, domain: RecordDomain) -> Mapping[str, object]:
        return {"groups": len(domain.groups), "labels": len(domain.labels)}

    def read(self, result: EngineResult, domain: RecordDomain, clients: int, plan: NoisePlan) -> Weights:
        counts = read_counts(result, domain, clients, plan.coins)
        return Weights(counts, REWEIGHINGS[self.reweighing](counts))

    def files(self, found: Weights) -> Mapping[str, Mapping[str, Any]]:
        return {"weights.json": found.weights.to_json()}


@dataclass(frozen=True)
class WeightsOnlyStatistic(Statistic[OpenedWeights]):
    """Sample weights computed inside the MPC, which opens nothing else. Args: as `WeightsStatistic`."""

    reweighing: str = "balanced"
    name = "weights"
    spec = PI_RW_WEIGHTS

    def shape(self, domain: RecordDomain) -> Mapping[str, object]:
        sizes = {"groups": len(domain.groups), "labels": len(domain.labels)}
        return {**sizes, "reweighing": self.reweighing}

    def check(self, domain: RecordDomain, clients: int, plan: NoisePlan) -> None:
        layout_for(domain, clients, self.reweighing, len(plan.coins))

    def read(
        self, result: EngineResult, domain: RecordDomain, clients: int, plan: NoisePlan
    ) -> OpenedWeights:
        return read_opened_weights(result, domain, clients, plan.coins, self.reweighing)

    def files(self, found: OpenedWeights) -> Mapping[str, Mapping[str, Any]]:
        return {"weights.json": found.to_json()}
