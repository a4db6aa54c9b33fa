"""π_COUNT as a statistic: counts with a relative error."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from fairshares.harness.bounds import Names, NotNegative, Share, Size
from fairshares.harness.errors import OptionError, named
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.postprocessing.confidence import CONFIDENCE
from fairshares.harness.postprocessing.noisy_counts import read_unbiased
from fairshares.harness.releases.base import (
    OF_RECORDS,
    TABLE_SIZES,
    Answer,
    ExpectedResult,
    OpenedLines,
    PreparedRelease,
    Statistic,
    TableTarget,
    by_cell,
    plan_release,
)
from fairshares.harness.releases.count.spec import PI_COUNT
from fairshares.harness.releases.files import ResultFile, domain_in, needed_file, table_in
from fairshares.harness.request.request import Request
from fairshares.harness.stated_privacy import StatedPrivacy
from fairshares.protocols.accounting.rounding import exact_text, float_up
from fairshares.protocols.arrays import Floats
from fairshares.protocols.circuits.coins import Coins
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.json_values import JsonValue
from fairshares.protocols.mechanisms.shifted_log import (
    MOST_COUNT,
    ErrorTarget,
    ShiftedLog,
    expected_errors,
    plan_logarithm,
)
from fairshares.protocols.spec import ProtocolSpec

SIZES = (0, 10, 100, 1000, 10_000, 100_000, 1_000_000)  # sizes of cells whose privacy is shown


EstimatedCount = Annotated[float, Meta(ge=0, le=2 * MOST_COUNT)]
"""An estimated count of records, or an end of its interval."""


@dataclass(frozen=True)
class ExpectedCount:
    """A count's size, expected relative error, and guarantee."""

    records: float
    error: float
    guarantee: Guarantee

    @property
    def privacy(self) -> dict[str, JsonValue]:
        """The size and the guarantee, rounded up, in a plan's JSON."""
        return {
            "records": self.records,
            "epsilon": float_up(self.guarantee.epsilon),
            "delta": float_up(self.guarantee.delta),
        }


@dataclass(frozen=True)
class ExpectedCounts(ExpectedResult):
    """Expected relative errors of counts, by group and label. The release keeps to an error of its own."""

    each: Mapping[str, ExpectedCount]
    distribution: ShiftedLog
    target: ErrorTarget

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "of": "count, relative",
            "mean": {name: cell.error for name, cell in self.each.items()},
            "privacy": {name: cell.privacy for name, cell in self.each.items()},
            "relative_error": self.target.relative,
            "error_from": self.target.least,
            "error_to": self.target.most,
            "offset": self.distribution.offset,
        }


class PrivacyOfSize(Struct, frozen=True, kw_only=True):
    """A record's (ε, δ), added or removed, in a cell of so many records; both are rounded up."""

    records: Size
    epsilon: NotNegative
    delta: Share


class CountFile(Struct, frozen=True, kw_only=True):
    """`count.json`. Tables have a row for each group and a column for each label."""

    file_name: ClassVar[str] = "count.json"
    schema: Literal[1] = 1
    groups: Names
    labels: Names
    counts: list[list[EstimatedCount]]
    counts_interval: list[list[tuple[EstimatedCount, EstimatedCount]]]
    confidence: Share
    relative_error: Annotated[float, Meta(gt=0, le=1)]
    error_from: Annotated[int, Meta(ge=1, le=MOST_COUNT)]
    error_to: Annotated[int, Meta(ge=1, le=MOST_COUNT)]
    offset: Size
    privacy_by_size: Annotated[list[PrivacyOfSize], Meta(max_length=100)]
    privacy: StatedPrivacy


@dataclass(frozen=True, eq=False)
class GroupCounts:
    """Estimated counts, shape (groups, labels), from 0 to the distribution's `most`.

    The intervals all hold at once with probability `CONFIDENCE` over the noise.
    """

    domain: RecordDomain
    estimates: Floats
    intervals: Floats
    offset: int
    target: ErrorTarget
    privacy_by_size: Sequence[PrivacyOfSize]

    def files(self, privacy: StatedPrivacy) -> tuple[CountFile]:
        """Return `count.json`."""
        file = CountFile(
            groups=list(self.domain.groups),
            labels=list(self.domain.labels),
            counts=self.estimates.tolist(),
            counts_interval=self.intervals.tolist(),
            confidence=float(CONFIDENCE),
            relative_error=self.target.relative,
            error_from=self.target.least,
            error_to=self.target.most,
            offset=self.offset,
            privacy_by_size=list(self.privacy_by_size),
            privacy=privacy,
        )
        return (file,)


def distribution_of(prepared: PreparedRelease[Answer]) -> ShiftedLog:
    """Return the distribution of a count's logarithm, by the program's arguments."""
    return ShiftedLog(
        offset=int(str(prepared.arguments["offset"])), most=int(str(prepared.arguments["most"]))
    )


def privacy_by_size(distribution: ShiftedLog, coins: Coins) -> list[PrivacyOfSize]:
    """Return a record's (ε, δ), added or removed, by the number of records in its cell."""
    stated = []
    for size in SIZES:
        if size <= distribution.most:
            guarantee = distribution.guarantee_at(size, coins)
            of_size = PrivacyOfSize(
                records=size, epsilon=float_up(guarantee.epsilon), delta=float_up(guarantee.delta)
            )
            stated.append(of_size)
    return stated


class _LogarithmsTarget(TableTarget):
    """The target with any offset and largest count: all have the first step that is charged."""

    def arguments(self, sizes: Mapping[str, int]) -> dict[str, int | str]:
        return {**sizes, "offset": 16, "most": 1000}


@dataclass(frozen=True)
class CountStatistic(Statistic[GroupCounts]):
    """Counts whose expected relative error keeps to a target."""

    target: ErrorTarget
    spec: ProtocolSpec = PI_COUNT
    name = "count"
    file_types = (CountFile,)
    audited: ClassVar = {
        "count": _LogarithmsTarget(
            spec=PI_COUNT,
            sizes=TABLE_SIZES,
            relations=OF_RECORDS,
        )
    }

    @classmethod
    def read_files(cls, files: Sequence[ResultFile]) -> GroupCounts:
        file = needed_file(files, CountFile)
        domain = domain_in(file.groups, file.labels, file.privacy)
        return GroupCounts(
            domain,
            estimates=table_in(file.counts, domain.shape),
            intervals=table_in(file.counts_interval, (*domain.shape, 2)),
            offset=file.offset,
            target=ErrorTarget(file.relative_error, file.error_from, file.error_to),
            privacy_by_size=file.privacy_by_size,
        )

    def prepare(self, release: Request, domain: RecordDomain) -> PreparedRelease[GroupCounts]:
        try:
            distribution, epsilon = plan_logarithm(
                self.target,
                release.neighbors_in(domain),
                release.protect.epsilon,
                release.protect.delta,
                release.randomness.family,
            )
        except ValueError as error:
            raise OptionError(
                f"{named('epsilon', exact_text(release.protect.epsilon))} is not enough: {error}. Allow a "
                f"larger {named('epsilon')}, {named('relative_error')} or {named('error_from')}."
            ) from None
        arguments = {
            "groups": len(domain.groups),
            "labels": len(domain.labels),
            "offset": distribution.offset,
            "most": distribution.most,
        }
        plan = plan_release(self.spec, arguments, release, domain, epsilon)
        return PreparedRelease(self, release, domain, arguments, plan)

    def read_opened(
        self, prepared: PreparedRelease[GroupCounts], opened: OpenedLines, clients: int
    ) -> GroupCounts:
        domain = prepared.domain
        coins = prepared.plan.coins
        distribution = distribution_of(prepared)
        most = distribution.highest(clients * domain.max_count)
        values = read_unbiased(opened["logarithms"], "logarithms", domain.cells, most, coins)
        table = values.reshape(domain.shape)
        return GroupCounts(
            domain,
            estimates=distribution.estimate(table),
            intervals=distribution.interval(table, coins, (1 - CONFIDENCE) / domain.cells),
            offset=distribution.offset,
            target=self.target,
            privacy_by_size=privacy_by_size(distribution, coins),
        )

    def expected_error(self, prepared: PreparedRelease[Answer], sizes: Floats) -> ExpectedCounts:
        distribution = distribution_of(prepared)
        coins = prepared.plan.coins
        errors = {}
        for name, size in by_cell(prepared.domain, sizes).items():
            if size > distribution.most:
                raise OptionError(
                    f"{named('error_to', distribution.most)} is below the {size:,.0f} records of {name}, and "
                    "no count is estimated above it; give a larger one."
                )
            errors[name] = ExpectedCount(
                records=size,
                error=float(expected_errors(distribution, size, coins)) / size,
                guarantee=distribution.guarantee_at(int(size), coins),
            )
        return ExpectedCounts(errors, distribution, self.target)


STATISTIC = CountStatistic
