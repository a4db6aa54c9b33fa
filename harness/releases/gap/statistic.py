"""π_GAP as a statistic: gaps between groups' means, from noisy sums."""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta, Struct

from fairshares.harness.bounds import Count, Name, Names, Share, Size
from fairshares.harness.inputs.record_schema import (
    DEFAULT_STEPS,
    MAX_STEPS,
    RecordDomain,
    RecordKind,
    Rounding,
    ValueGrid,
)
from fairshares.harness.postprocessing.confidence import CONFIDENCE
from fairshares.harness.postprocessing.noisy_counts import read_unbiased
from fairshares.harness.releases.base import (
    Answer,
    AuditTarget,
    ExpectedError,
    OpenedLines,
    PreparedRelease,
    Statistic,
    deviation,
    expected_gap,
    mean_errors,
    plan_release,
)
from fairshares.harness.releases.files import ResultFile, needed_file, table_in
from fairshares.harness.releases.gap.intervals import Group, GroupSums, difference_intervals, mean_interval
from fairshares.harness.releases.gap.spec import PI_GAP, PI_GAP_SLOTS
from fairshares.harness.request.request import Request
from fairshares.harness.stated_privacy import StatedPrivacy
from fairshares.protocols.accounting.calibration import NoisePlan
from fairshares.protocols.arrays import Floats
from fairshares.protocols.noise.added import Noise
from fairshares.protocols.spec import ProtocolSpec

USEFUL = 0.1  # a share of the range: a useful accuracy of gaps


class StatedGrid(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The declared range of performance values, its steps on each side of the center, and their rounding."""

    low: float
    high: float
    steps: Annotated[int, Meta(ge=1, le=MAX_STEPS)]
    rounding: Rounding = Rounding.NEAREST  # the rounding of results of version 1.0


class StatedMean(Struct, frozen=True, kw_only=True):
    """A mean of performance values, in their unit."""

    estimate: float | None
    interval: tuple[float, float]
    says_something: bool


class StatedGap(StatedMean, frozen=True, kw_only=True):
    """The first group's mean minus the second's."""

    groups: tuple[Name, Name]


class GapFile(Struct, frozen=True, kw_only=True):
    """`gap.json`. Lists are in the order of the groups."""

    file_name: ClassVar[str] = "gap.json"
    schema: Literal[1] = 1
    groups: Names
    values: StatedGrid
    noisy_sizes: list[Count]
    near_zero: list[bool]
    means: dict[Name, StatedMean]
    gaps: list[StatedGap]
    confidence: Share
    clients_per_group_for_a_tenth_of_the_range: Size
    privacy: StatedPrivacy


@dataclass(frozen=True)
class Interval:
    """An estimate and its interval, of a mean or a gap; in the range's unit, unless a scale is named.

    Attributes:
        estimate: The estimate, or NaN.
        low: The lower end of the interval.
        high: The upper end.
        says_something: Whether the interval excludes any possible value.
    """

    estimate: float
    low: float
    high: float
    says_something: bool

    @property
    def stated(self) -> StatedMean:
        """The mean as files state it."""
        return StatedMean(
            estimate=self._estimate, interval=(self.low, self.high), says_something=self.says_something
        )

    def state_gap(self, groups: tuple[str, str]) -> StatedGap:
        """Return the gap of two groups as files state it."""
        return StatedGap(
            groups=groups,
            estimate=self._estimate,
            interval=(self.low, self.high),
            says_something=self.says_something,
        )

    @property
    def _estimate(self) -> float | None:
        if math.isnan(self.estimate):
            return None
        return self.estimate

    def in_unit(self, values: ValueGrid, center: float) -> "Interval":
        """Return the interval in the range's unit, from the scale on which the range is from -1 to 1.

        Args:
            values: The declared range.
            center: The value in the unit that stands for 0 on the scale.
        """
        return Interval(
            estimate=center + values.radius * self.estimate,
            low=center + values.radius * self.low,
            high=center + values.radius * self.high,
            says_something=self.says_something,
        )

    @classmethod
    def from_stated(cls, stated: StatedMean) -> "Interval":
        """Return the mean or the gap that a file states."""
        estimate = stated.estimate
        if estimate is None:
            estimate = math.nan
        low, high = stated.interval
        return Interval(estimate, low, high, stated.says_something)


@dataclass(frozen=True, eq=False)
class Gaps:
    """Groups' means, and the gaps between pairs of groups.

    Attributes:
        domain: The groups, and the declared grid of values.
        sizes: The groups' noisy sizes, in clients.
        near_zero: Whether a group may be empty, by its noisy size.
        means: The groups' means.
        gaps: The gap of each pair of groups, by their indices.
        useful: How many clients in each of two groups determine their gap to a tenth of the range.
    """

    domain: RecordDomain
    sizes: Floats
    near_zero: tuple[bool, ...]
    means: tuple[Interval, ...]
    gaps: Mapping[tuple[int, int], Interval]
    useful: int

    @property
    def values(self) -> ValueGrid:
        """The declared grid."""
        return grid_of(self.domain)

    def files(self, privacy: StatedPrivacy) -> tuple[GapFile]:
        """Return `gap.json`."""
        groups = self.domain.groups
        values = self.values
        file = GapFile(
            groups=list(groups),
            values=StatedGrid(low=values.low, high=values.high, steps=values.steps, rounding=values.rounding),
            noisy_sizes=self.sizes.tolist(),
            near_zero=list(self.near_zero),
            means={group: mean.stated for group, mean in zip(groups, self.means, strict=True)},
            gaps=[gap.state_gap((groups[a], groups[b])) for (a, b), gap in self.gaps.items()],
            confidence=float(CONFIDENCE),
            clients_per_group_for_a_tenth_of_the_range=self.useful,
            privacy=privacy,
        )
        return (file,)


def grid_of(domain: RecordDomain) -> ValueGrid:
    """Return the grid that a domain of performance values declares."""
    assert domain.values is not None
    return domain.values


def gaps(opened: Floats, domain: RecordDomain, plan: NoisePlan) -> Gaps:
    """Derive means and gaps from unbiased sums of steps + v and steps - v per group, shape (2 groups,).

    Computes: with the sums p, q of distances from either end, mean = (p - q) / (p + q), cut to the range.
    Intervals are made by `harness/releases/gap/intervals.py`. If clients round to the nearest step, each
    mean adds half a step. A group that may be empty gets the whole range.
    Guarantees: each interval holds its mean or gap of the clients' values with probability at least 95 %,
    over the noise and random rounding.
    [test: tests/statistical/test_gaps.py]
    """
    values = grid_of(domain)
    noise = plan.noise
    from_below = opened[::2]
    from_above = opened[1::2]
    sizes = from_below + from_above
    with np.errstate(divide="ignore", invalid="ignore"):
        uncut = np.where(sizes > 0, (from_below - from_above) / sizes, np.nan)
    estimates = np.clip(uncut, -1, 1)
    groups = groups_of(opened, noise, values)
    half_step = _half_step(values)
    means = []
    for estimate, group in zip(estimates, groups, strict=True):
        low, high = mean_interval(group)
        mean = _in_range(float(estimate), low - half_step, high + half_step, most=1.0)
        means.append(mean.in_unit(values, values.center))
    between = {}
    pairs = list(combinations(range(len(groups)), 2))
    for (a, b), (low, high) in zip(pairs, difference_intervals(groups, pairs), strict=True):
        gap = float(estimates[a] - estimates[b])
        if not math.isnan(gap):
            low = min(low, gap)
            high = max(high, gap)
        found = _in_range(gap, low - 2 * half_step, high + 2 * half_step, most=2.0)
        between[a, b] = found.in_unit(values, center=0.0)
    return Gaps(
        domain=domain,
        sizes=sizes / (2 * values.steps),
        near_zero=tuple(group.near_zero for group in groups),
        means=tuple(means),
        gaps=between,
        useful=clients_for(2 * USEFUL, noise, values.steps, values.rounding),
    )


def groups_of(opened: Floats, noise: Noise, values: ValueGrid) -> list[Group]:
    """Return the groups of unbiased sums, shape (2 groups,)."""
    rounded = values.rounding is Rounding.RANDOM
    return [
        Group(GroupSums(below, above), noise, values.steps, rounded=rounded)
        for below, above in opened.reshape(-1, 2).tolist()
    ]


def _half_step(values: ValueGrid) -> float:
    """Return how far rounding moves a mean for certain, on the scale on which the range is from -1 to 1."""
    if values.rounding is Rounding.RANDOM:
        return 0.0
    return 0.5 / values.steps


@lru_cache(maxsize=64)
def clients_for(error: float, noise: Noise, steps: int, rounding: Rounding) -> int:
    """Return the size of two groups whose gap's interval reaches at most `error` to either side, within 2 %.

    Means at different ends of the range are the worst case.
    [test: tests/harness/releases/test_gaps.py]
    """
    power = bisect_left(
        range(1500),
        True,
        key=lambda power: _is_certain(_clients(power), error, noise, ValueGrid(-1.0, 1.0, steps, rounding)),
    )
    return _clients(power)


def _clients(power: int) -> int:
    """Return the size of a group for a place on the grid of sizes."""
    return math.ceil(1.02**power)


def _is_certain(clients: int, error: float, noise: Noise, values: ValueGrid) -> bool:
    """Return whether the gap of two groups of so many clients is known to `error` or two steps."""
    size = 2.0 * values.steps * clients
    groups = groups_of(np.array([size, 0.0, 0.0, size]), noise, values)
    ((low, _),) = difference_intervals(groups, [(0, 1)])
    off = 2 - low + 2 * _half_step(values)
    return bool(off <= max(error, 2 / values.steps))


def _in_range(estimate: float, low: float, high: float, *, most: float) -> Interval:
    """Return an interval on the scale on which the range is from -1 to 1, cut to [-most, most]."""
    low_end = min(max(float(low), -most), most)
    high_end = min(max(float(high), -most), most)
    return Interval(estimate, low_end, high_end, says_something=low_end > -most or high_end < most)


class _SumsTarget(AuditTarget):
    """The target of a protocol that adds up performance values."""

    def cells(self, sizes: Mapping[str, int]) -> int:
        return 8 * sizes["groups"] ** 3


def _sums(spec: ProtocolSpec) -> AuditTarget:
    return _SumsTarget(spec=spec, sizes={"groups": 2, "steps": DEFAULT_STEPS}, counts_records=False)


@dataclass(frozen=True)
class GapStatistic(Statistic[Gaps]):
    """Gaps between groups' mean performance values."""

    spec: ProtocolSpec = PI_GAP
    name = "gap"
    file_types = (GapFile,)
    kind = RecordKind.VALUE
    audited: ClassVar = {
        "gap": _sums(PI_GAP),
        "gap-of-clients": _sums(PI_GAP_SLOTS).by_clients,
        "gap-of-clients-active": _sums(PI_GAP_SLOTS).in_active_models,
    }

    @classmethod
    def read_files(cls, files: Sequence[ResultFile]) -> Gaps:
        file = needed_file(files, GapFile)
        groups = file.groups
        values = ValueGrid(file.values.low, file.values.high, file.values.steps, file.values.rounding)
        between = {}
        for gap in file.gaps:
            first, second = gap.groups
            between[groups.index(first), groups.index(second)] = Interval.from_stated(gap)
        if list(between) != list(combinations(range(len(groups)), 2)):
            raise ValueError("a result has the gap of each pair of groups")
        if len(file.near_zero) != len(groups):
            raise ValueError("a result says of each group whether it may be empty")
        return Gaps(
            domain=RecordDomain(tuple(groups), (), 1, kind=RecordKind.VALUE, values=values),
            sizes=table_in(file.noisy_sizes, (len(groups),)),
            near_zero=tuple(file.near_zero),
            means=tuple(Interval.from_stated(file.means[group]) for group in groups),
            gaps=between,
            useful=file.clients_per_group_for_a_tenth_of_the_range,
        )

    def prepare(self, release: Request, domain: RecordDomain) -> PreparedRelease[Gaps]:
        arguments = {"groups": len(domain.groups), "steps": grid_of(domain).steps}
        plan = plan_release(self.spec, arguments, release, domain)
        return PreparedRelease(self, release, domain, arguments, plan)

    def read_opened(self, prepared: PreparedRelease[Gaps], opened: OpenedLines, clients: int) -> Gaps:
        domain = prepared.domain
        most = clients * domain.max_contribution
        (values,) = opened.values()
        sums = read_unbiased(values, "sums", domain.cells, most, prepared.plan.noise)
        return gaps(sums, domain, prepared.plan)

    def expected_error(self, prepared: PreparedRelease[Answer], sizes: Floats) -> ExpectedError:
        domain = prepared.domain
        steps = grid_of(domain).steps
        noise = deviation(prepared.plan.noise, domain) / math.sqrt(2)
        means = noise * mean_errors(sizes, steps)
        return ExpectedError(
            count=noise / steps,
            what="mean, share of the range",
            each=dict(zip(domain.groups, means[:, 0].tolist(), strict=True)),
            gap=expected_gap(means),
            counted="of a group's clients",
        )


STATISTIC = GapStatistic
