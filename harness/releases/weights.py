"""π_RW as a statistic: noisy counts, and sample weights."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from harness.errors import OptionError, named, refuse
from harness.inputs.record_schema import RecordDomain, scale_of
from harness.postprocessing.noisy_counts import NoisyCounts, read_counts
from harness.releases.base import (
    ExpectedError,
    Files,
    Opened,
    PreparedRelease,
    Statistic,
    by_cell,
    deviation,
    domain_of,
    plan_release,
    table_of,
    weight_errors,
)
from harness.request.base import Request
from harness.reweighing.formulas import REWEIGHINGS, GroupWeights
from protocols.accounting.calibration import PrivacyUnit
from protocols.arrays import Floats
from protocols.spec import PI_RW, PI_RW_SLOTS, ProtocolSpec


@dataclass(frozen=True)
class Weights:
    """The counts that π_RW opened, and their weights."""

    counts: NoisyCounts
    weights: GroupWeights

    def to_json(self) -> dict[str, Any]:
        """Return the own fields of `weights.json`."""
        return self.weights.to_json()


@dataclass(frozen=True)
class WeightsStatistic(Statistic[Weights]):
    """Sample weights from noisy counts; `reweighing` is a key of `REWEIGHINGS`."""

    reweighing: str = "kamiran-calders"
    spec: ProtocolSpec = PI_RW
    name = "weights"
    audited: ClassVar = {
        "weights": table_of(PI_RW),
        "weights-of-clients": table_of(PI_RW_SLOTS).by_clients,
        "weights-of-clients-active": table_of(PI_RW_SLOTS).in_active_models,
    }

    @classmethod
    def read_files(cls, files: Files) -> GroupWeights:
        fields = files["weights.json"]
        domain = domain_of(fields)
        return GroupWeights(
            domain=domain,
            noisy_counts=np.array(fields["noisy_counts"]) * scale_of(domain.cap),
            floored=np.array(fields["floored"]),
            weights=np.array(fields["weights"]),
            interval=np.array(fields["weights_interval"]),
            reweighing=fields["reweighing"],
        )

    def prepare(self, release: Request, domain: RecordDomain) -> PreparedRelease[Weights]:
        refuse(  # where theorem 16 does not cover a chain's runs
            OptionError,
            (
                release.inputs.chain and domain.cap and domain.cap.weight_one,
                f"A chain takes no uploads with {named('cap', 'weight-one')}: what a record weighs would "
                f"depend on its client's later ones; share with a number, {named('cap', 10)} for example.",
            ),
            (
                release.inputs.chain
                and release.protect.privacy_unit is PrivacyUnit.CLIENT
                and release.randomness.distribution,
                f"A chain with {named('privacy_unit', 'client')} takes joint noise only: what distributed "
                "noise protects of a client in several runs is not worked out; leave out "
                f"{named('noise')}.",
            ),
        )
        arguments = {"groups": len(domain.groups), "labels": len(domain.labels)}
        plan = plan_release(self.spec, arguments, release, domain)

        def read(opened: Opened, clients: int) -> Weights:
            counts = read_counts(opened, domain, clients, plan.noise)
            return Weights(counts, REWEIGHINGS[self.reweighing](counts))

        return PreparedRelease(self.spec, release, domain, arguments, plan, read)

    def expected_error(self, prepared: PreparedRelease[Any], sizes: Floats) -> ExpectedError:
        count = deviation(prepared.plan.noise, prepared.domain)
        return ExpectedError(
            count,
            what="weight, relative",
            each=by_cell(prepared.domain, count * weight_errors(sizes, self.reweighing)),
        )
