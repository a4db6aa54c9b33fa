"""π_RW as a statistic: noisy counts per (group, label), and the sample weights that follow from them.

While records arrive it is released epoch by epoch, and the counts so far add up.
"""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

from harness.errors import OptionError, named
from harness.inputs.record_schema import RecordDomain
from harness.postprocessing.noisy_counts import NoisyCounts, read_counts
from harness.postprocessing.reweighing.formulas import REWEIGHINGS, GroupWeights
from harness.releases.base import (
    ExpectedError,
    Opened,
    PreparedRelease,
    Statistic,
    by_cell,
    deviation,
    plan_release,
    table_of,
    weight_errors,
)
from harness.request.base import Request
from protocols.accounting.calibration import PrivacyUnit
from protocols.arrays import Floats
from protocols.mechanisms.counts_so_far import Schedule, best_schedule
from protocols.noise.added import Noise, Several, Single
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

    reweighing: str = "kamiran-calders"
    spec: ProtocolSpec = PI_RW
    name = "weights"
    audited: ClassVar = {
        "weights": table_of(PI_RW),
        "weights-of-clients": table_of(PI_RW_SLOTS).by_clients,
        "weights-of-clients-active": table_of(PI_RW_SLOTS).in_active_models,
    }

    @classmethod
    def of(cls, request: Any) -> "WeightsStatistic":
        if request.horizon:
            schedule = best_schedule(request.horizon)
            return WeightsSeries(request.reweighing, request.spec, schedule=schedule)
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


@dataclass(frozen=True)
class WeightsSeries(WeightsStatistic):
    """Weights of all that has arrived, after each of several epochs.

    As a statistic it is of all epochs together: their guarantee, with the program of the costliest one.
    Args: schedule: what each epoch releases.
    """

    schedule: Schedule = field(kw_only=True)

    def at(self, share: Fraction, whole: Request) -> Request:
        """Return the release of an epoch with this share. Args: whole: of all epochs together."""
        return whole.spending(whole.guarantee * share)

    def part(self, share: Fraction, whole: Request, domain: RecordDomain) -> PreparedRelease[Weights]:
        """Work out that release. Raises: OptionError: no noise fits it."""
        return super().prepare(self.at(share, whole), domain)

    def noises(self, whole: Request, domain: RecordDomain) -> list[Single]:
        """Return what is in the counts of each epoch's release."""
        of_share = {share: self.part(share, whole, domain).plan.noise for share in self.schedule.shares}
        return [of_share[part.share] for part in self.schedule.parts]

    def prepare(self, release: Request, domain: RecordDomain) -> PreparedRelease[Weights]:
        if domain.cap and domain.cap.weight_one:
            raise OptionError(
                f"A series takes no uploads with {named('cap', 'weight-one')}: what a record weighs would "
                f"depend on its client's later ones; share with a number, {named('cap', 10)} for example."
            )
        if release.privacy_unit is PrivacyUnit.CLIENT and release.own_distribution:
            raise OptionError(
                f"A series with {named('privacy_unit', 'client')} takes joint noise only: what "
                f"distributed noise protects of a client in several epochs is "
                f"not worked out; leave out {named('noise')}."
            )
        most = self.part(min(self.schedule.shares), release, domain)
        exact = self.schedule.total(lambda share: self.part(share, release, domain).plan.exact)
        plan = replace(most.plan, exact=exact, requested_epsilon=release.epsilon)
        return replace(most, release=release, plan=plan)

    def expected_error(self, prepared: PreparedRelease[Any], sizes: Floats) -> ExpectedError:
        domain, horizon = prepared.domain, len(self.schedule.parts)
        noises = self.noises(prepared.release, domain)
        after = [
            Several(tuple(noises[t] for t in self.schedule.adds_up(n)[0])) for n in range(1, horizon + 1)
        ]
        error = expected_weight_error(after[-1], domain, sizes, self.reweighing)
        counts = [deviation(noise, domain) for noise in after]
        worst = [error.worst * count / error.count * horizon / n for n, count in enumerate(counts, 1)]
        return replace(error, epochs=tuple(zip(counts, worst, strict=True)))


def expected_weight_error(
    noise: Noise, domain: RecordDomain, sizes: Floats, reweighing: str
) -> ExpectedError:
    """Return how far off counts with this noise are, and the weights that follow."""
    count = deviation(noise, domain)
    errors = by_cell(domain, count * weight_errors(sizes, reweighing))
    return ExpectedError(count, "weight, relative", errors)
