"""π_GAP as a statistic: noisy sums of distances from the range's ends, and the gaps between groups' means."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any, ClassVar

from harness.inputs.record_schema import DEFAULT_STEPS, RecordDomain, RecordKind, ValueGrid
from harness.postprocessing.noisy_counts import read_unbiased
from harness.releases.base import (
    AuditTarget,
    ExpectedError,
    Opened,
    PreparedRelease,
    Statistic,
    deviation,
    expected_gap,
    mean_errors,
    only,
    plan_release,
)
from harness.request.base import Request
from protocols.accounting.calibration import NoisePlan
from protocols.arrays import Floats
from protocols.noise.added import error_bound
from protocols.spec import PI_GAP, PI_GAP_SLOTS, ProtocolSpec

CONFIDENCE = Fraction(95, 100)
USEFUL = 0.1  # of the range: an error of a gap that people can work with


@dataclass(frozen=True)
class Interval:
    """An estimate in the range's unit, nan where there is none, and an interval within what is possible.

    Attributes: says_something: whether the interval excludes anything that the range allows.
    """

    estimate: float
    low: float
    high: float
    says_something: bool

    def to_json(self) -> dict[str, Any]:
        """Return a mean or a gap as `gap.json` has it; an estimate that there is not is null."""
        estimate = None if math.isnan(self.estimate) else self.estimate
        return {
            "estimate": estimate,
            "interval": [self.low, self.high],
            "says_something": self.says_something,
        }


@dataclass(frozen=True, eq=False)
class Gaps:
    """Groups' noisy sizes and means, and the signed gap of each pair.

    Attributes: sizes: shape (groups,), in clients; near_zero: which may be 0 for all that the noise tells;
    means: per group; gaps: by pairs of indices, mean of the first - mean of the second; useful: how many
    clients in each of two groups make their gap certain to a tenth of the range, at this noise.
    """

    domain: RecordDomain
    sizes: Floats
    near_zero: tuple[bool, ...]
    means: tuple[Interval, ...]
    gaps: Mapping[tuple[int, int], Interval]
    useful: int

    @property
    def values(self) -> ValueGrid:
        """The declared range and grid."""
        assert self.domain.values is not None
        return self.domain.values

    def to_json(self) -> dict[str, Any]:
        """Return the fields of `gap.json` but for the privacy statement."""
        groups = self.domain.groups
        return {
            "groups": list(groups),
            "values": self.values.to_json(),
            "noisy_sizes": self.sizes.tolist(),
            "near_zero": list(self.near_zero),
            "means": {group: mean.to_json() for group, mean in zip(groups, self.means, strict=True)},
            "gaps": [
                {"groups": [groups[a], groups[b]], **gap.to_json()} for (a, b), gap in self.gaps.items()
            ],
            "confidence": float(CONFIDENCE),
            "clients_per_group_for_a_tenth_of_the_range": self.useful,
        }


def gaps(opened: Floats, domain: RecordDomain, plan: NoisePlan) -> Gaps:
    """Derive means and gaps from noisy sums and sizes.

    Computes: with the sums p, q of distances from the lower and the upper end, mean = (p - q) / (p + q), cut
    to the range. Noise of both at its exact quantile t makes the mean's interval, wider by half a step, as
    clients rounded to the nearest; a gap's is the difference of two such intervals, with t for the four
    values that it is made of.
    Guarantees: each interval holds the mean, or the gap, of the clients' values with probability 95 % at
    least, over the noise.                                 [test: tests/statistical/test_gaps.py]
    Edge cases: a group whose size may be 0 for all that the noise tells: the whole range.
    Args: opened: unbiased, shape (2 groups,), per group the sums of steps + v and steps - v.
    """
    values = domain.values
    assert values is not None
    from_below, from_above = opened[::2], opened[1::2]
    sizes = (from_below + from_above) / 2
    table = list(zip(((from_below - from_above) / 2).tolist(), sizes.tolist(), strict=True))
    failure = 1 - CONFIDENCE
    t_mean, t_gap = (float(error_bound(plan.noise, failure / values_of)) for values_of in (2, 4))
    means = [_mean(total, size, t_mean, values.steps) for total, size in table]
    wider = [_mean(total, size, t_gap, values.steps) for total, size in table]
    intervals = {}
    for a, b in combinations(range(len(means)), 2):
        one, other = wider[a], wider[b]
        ends = (one.low - other.high, one.high - other.low)
        intervals[a, b] = _in_range(Interval(one.estimate - other.estimate, *ends, False), values, 2.0, 0.0)
    return Gaps(
        domain,
        sizes / values.steps,
        tuple(size - t_mean < values.steps for _, size in table),
        tuple(_in_range(mean, values, 1.0, values.centre) for mean in means),
        intervals,
        clients_for(2 * USEFUL, t_gap, values.steps),
    )


def clients_for(error: float, t: float, steps: int) -> int:
    """Return the size of two groups whose gap's interval is then within this error on either side.

    Computes: for a true size c in steps, the noisy size is c - t at least, the estimate off by t / (c - t),
    and each end of the interval by as much again: 2 t / (c - t) from the mean, and twice that for a gap.
    Guarantees: where the noise is within t, which it is but for what t was made for.
    [test: tests/harness/releases/test_gaps.py]
    Args: error: in the scale from -1 to 1, above the grid's.
    """
    return math.ceil((t + 4 * t / max(error - 1 / steps, error / 2)) / steps)


def _mean(total: float, size: float, t: float, steps: int) -> Interval:
    """Return a mean cut to the scale from -1 to 1, and its interval, not yet cut to it."""
    estimate = min(max(total / size, -1.0), 1.0) if size > 0 else math.nan
    if size - t < steps:
        return Interval(estimate, -math.inf, math.inf, False)
    return Interval(estimate, (total - t) / size - 0.5 / steps, (total + t) / size + 0.5 / steps, True)


def _in_range(interval: Interval, values: ValueGrid, most: float, centre: float) -> Interval:
    """Cut to -most to most, and return it in the range's unit."""
    low, high = (min(max(end, -most), most) for end in (interval.low, interval.high))
    estimate, low_end, high_end = (centre + values.radius * x for x in (interval.estimate, low, high))
    return Interval(estimate, low_end, high_end, low > -most or high < most)


def _sums(spec: ProtocolSpec) -> AuditTarget:
    """Its cells are of pairs of clients with extreme values."""
    sizes = {"groups": 2, "steps": DEFAULT_STEPS}
    return AuditTarget(sizes, lambda chosen: 8 * chosen["groups"] ** 3, lambda chosen, *_: (spec, {**chosen}))


@dataclass(frozen=True)
class GapStatistic(Statistic[Gaps]):
    """Gaps between groups' mean performance values. Args: spec: π_GAP of sums, or of clients' slots."""

    spec: ProtocolSpec = PI_GAP
    name = "gap"
    kind = RecordKind.VALUE
    audited: ClassVar = {
        "gap": _sums(PI_GAP),
        "gap-of-clients": _sums(PI_GAP_SLOTS).by_clients,
        "gap-of-clients-active": _sums(PI_GAP_SLOTS).in_active_models,
    }

    def prepare(self, release: Request, domain: RecordDomain) -> PreparedRelease[Gaps]:
        assert domain.values is not None
        arguments = {"groups": len(domain.groups), "steps": domain.values.steps}
        plan = plan_release(self.spec, arguments, release, domain)

        def read(opened: Opened, clients: int) -> Gaps:
            most = clients * domain.max_contribution
            sums = read_unbiased(only(opened), "sums", domain.cells, most, plan.noise)
            return gaps(sums, domain, plan)

        return PreparedRelease(self.spec, release, domain, arguments, plan, read)

    def expected_error(self, prepared: PreparedRelease[Any], sizes: Floats) -> ExpectedError:
        domain = prepared.domain
        assert domain.values is not None
        noise, steps = deviation(prepared.plan.noise, domain) / math.sqrt(2), domain.values.steps
        means = noise * mean_errors(sizes, steps)
        errors = dict(zip(domain.groups, means[:, 0].tolist(), strict=True))
        return ExpectedError(noise / steps, "mean, share of the range", errors, expected_gap(means))
