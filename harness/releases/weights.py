"""π_RW as a statistic: noisy counts per (group, label), and the sample weights that follow from them."""

from dataclasses import dataclass
from typing import Any, ClassVar

from harness.inputs.record_schema import RecordDomain
from harness.postprocessing.noisy_counts import NoisyCounts, read_counts
from harness.postprocessing.reweighing.formulas import REWEIGHINGS, GroupWeights
from harness.releases.base import Opened, PreparedRelease, Statistic, plan_release, table_of
from harness.releases.expected_errors import ExpectedError, Floats, by_cell, deviation, weight_errors
from harness.request.base import Request
from protocols.noise.added import Noise
from protocols.spec import PI_RW, PI_RW_SLOTS, ProtocolSpec


@dataclass(frozen=True)
class Weights:
    """What π_RW opened, and the weights that follow from it."""

    counts: NoisyCounts
    weights: GroupWeights

    def to_json(self) -> dict[str, Any]:
        """Return the fields of `weights.json` but for the privacy statement."""
        return self.weights.to_json()


@dataclass(frozen=True)
class WeightsStatistic(Statistic[Weights]):
    """Sample weights from noisy counts.

    Args: reweighing: a key of `REWEIGHINGS`; spec: π_RW of counts, or of clients' slots.
    """

    reweighing: str = "balanced"
    spec: ProtocolSpec = PI_RW
    name = "weights"
    audited: ClassVar = {
        "weights": table_of(PI_RW),
        "weights-of-clients": table_of(PI_RW_SLOTS).by_clients,
        "weights-of-clients-active": table_of(PI_RW_SLOTS).in_active_models,
    }

    @classmethod
    def of(cls, request: Any) -> "WeightsStatistic":
        return WeightsStatistic(request.reweighing, request.spec)

    def prepare(self, release: Request, domain: RecordDomain) -> PreparedRelease[Weights]:
        arguments = {"groups": len(domain.groups), "labels": len(domain.labels)}
        plan = plan_release(self.spec, arguments, release, domain)

        def read(opened: Opened, clients: int) -> Weights:
            counts = read_counts(opened, domain, clients, plan.noise)
            return Weights(counts, REWEIGHINGS[self.reweighing](counts))

        return PreparedRelease(self.spec, release, domain, arguments, plan, read)

    def expected_error(self, prepared: PreparedRelease[Any], sizes: Floats) -> ExpectedError:
        return expected_weight_error(prepared.plan.noise, prepared.domain, sizes, self.reweighing)


def expected_weight_error(
    noise: Noise, domain: RecordDomain, sizes: Floats, reweighing: str
) -> ExpectedError:
    """Return how far off counts with this noise are, and the weights that follow."""
    count = deviation(noise, domain)
    each = by_cell(domain, count * weight_errors(sizes, reweighing))
    return ExpectedError(count, "weight, relative", each)
