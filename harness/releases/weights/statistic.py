"""π_RW as a statistic: noisy counts, and sample weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from fairshares.harness.bounds import Count, Name, Names, NotNegative, Positive, Share
from fairshares.harness.errors import OptionError, named, refuse
from fairshares.harness.inputs.record_schema import RecordDomain, scale_of
from fairshares.harness.postprocessing.noisy_counts import NoisyCounts, read_counts
from fairshares.harness.releases.base import (
    RATIOS,
    Answer,
    BoundedRelease,
    ExpectedError,
    OpenedLines,
    PreparedRelease,
    Statistic,
    by_cell,
    deviation,
    plan_release,
    table_of,
)
from fairshares.harness.releases.files import ResultFile, domain_in, needed_file, table_in
from fairshares.harness.releases.weights.spec import PI_RW, PI_RW_SLOTS
from fairshares.harness.request.request import Request
from fairshares.harness.reweighing.count_errors import FLOOR
from fairshares.harness.reweighing.formulas import REWEIGHINGS, GroupWeights, weighting_of
from fairshares.harness.reweighing.names import DEFAULT
from fairshares.harness.stated_privacy import StatedPrivacy
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.arrays import Floats
from fairshares.protocols.mechanisms.above_threshold import allowed_above
from fairshares.protocols.spec import ProtocolSpec


class WeightsFile(Struct, frozen=True, kw_only=True):
    """`weights.json`. Tables have a row for each group and a column for each label."""

    file_name: ClassVar[str] = "weights.json"
    schema: Literal[1] = 1
    groups: Names
    labels: Names
    noisy_counts: list[list[Count]]
    floor: Annotated[Positive, Meta(le=FLOOR)]
    floored: list[list[bool]]
    weights: list[list[Positive]]
    weights_interval: list[list[tuple[NotNegative, NotNegative]]]
    confidence: Share
    reweighing: Name
    privacy: StatedPrivacy


@dataclass(frozen=True)
class Weights:
    """The noisy counts that π_RW opened, and the weights by these counts."""

    counts: NoisyCounts
    weights: GroupWeights

    def files(self, privacy: StatedPrivacy) -> tuple[WeightsFile]:
        """Return `weights.json`."""
        weights = self.weights
        domain = weights.domain
        unit = weights.unit
        file = WeightsFile(
            groups=list(domain.groups),
            labels=list(domain.labels),
            noisy_counts=(weights.noisy_counts / unit).tolist(),
            floor=FLOOR / unit,
            floored=weights.floored.tolist(),
            weights=weights.weights.tolist(),
            weights_interval=weights.interval.tolist(),
            confidence=float(weights.confidence),
            reweighing=weights.reweighing,
            privacy=privacy,
        )
        return (file,)


@dataclass(frozen=True)
class WeightsStatistic(Statistic[Weights]):
    """Sample weights from noisy counts; `reweighing` is a key of `REWEIGHINGS`."""

    reweighing: str = DEFAULT
    spec: ProtocolSpec = PI_RW
    name = "weights"
    file_types = (WeightsFile,)
    audited: ClassVar = {
        "weights": table_of(PI_RW),
        "weights-of-clients": table_of(PI_RW_SLOTS).by_clients,
        "weights-of-clients-active": table_of(PI_RW_SLOTS).in_active_models,
    }

    @classmethod
    def clients_above_cap(cls, release: BoundedRelease) -> int:
        return allowed_above(release.epsilon_of_a_record / RATIOS, release.cells)

    @classmethod
    def read_files(cls, files: Sequence[ResultFile]) -> Weights:
        file = needed_file(files, WeightsFile)
        domain = domain_in(file.groups, file.labels, file.privacy)
        counts = table_in(file.noisy_counts, domain.shape) * scale_of(domain.cap)
        weights = GroupWeights(
            domain=domain,
            noisy_counts=counts,
            floored=table_in(file.floored, domain.shape).astype(bool),
            weights=table_in(file.weights, domain.shape),
            interval=table_in(file.weights_interval, (*domain.shape, 2)),
            reweighing=file.reweighing,
        )
        return Weights(NoisyCounts(domain, counts, ()), weights)

    def prepare(self, release: Request, domain: RecordDomain) -> PreparedRelease[Weights]:
        refuse(  # where theorem 16 does not cover a chain's runs
            OptionError,
            (
                release.charged_with and domain.cap and domain.cap.weight_one,
                f"A chain takes no uploads with {named('cap', 'weight-one')}: what a record weighs would "
                f"depend on its client's later ones; share with a number, {named('cap', 10)} for example.",
            ),
            (
                release.charged_with
                and release.protect.privacy_unit is PrivacyUnit.CLIENT
                and release.randomness.distribution,
                f"A chain with {named('privacy_unit', 'client')} takes joint noise only: what distributed "
                "noise protects of a client in several runs is not worked out; leave out "
                f"{named('noise')}.",
            ),
        )
        arguments = {"groups": len(domain.groups), "labels": len(domain.labels)}
        plan = plan_release(self.spec, arguments, release, domain)
        return PreparedRelease(self, release, domain, arguments, plan)

    def read_opened(self, prepared: PreparedRelease[Weights], opened: OpenedLines, clients: int) -> Weights:
        counts = read_counts(opened, prepared.domain, clients, prepared.plan.noise)
        return Weights(counts, REWEIGHINGS[self.reweighing](counts))

    def expected_error(self, prepared: PreparedRelease[Answer], sizes: Floats) -> ExpectedError:
        count = deviation(prepared.plan.noise, prepared.domain)
        errors = count * weighting_of(self.reweighing).relative_errors(sizes)
        return ExpectedError(count, what="weight, relative", each=by_cell(prepared.domain, errors))


STATISTIC = WeightsStatistic
