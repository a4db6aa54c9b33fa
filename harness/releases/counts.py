"""π_COUNT as a statistic: counts with a relative error."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

from harness.errors import OptionError, named
from harness.inputs.record_schema import RecordDomain
from harness.postprocessing.noisy_counts import read_unbiased
from harness.releases.base import (
    Declared,
    ExpectedCount,
    ExpectedCounts,
    Files,
    Opened,
    PreparedRelease,
    Statistic,
    by_cell,
    domain_of,
    floats,
    plan_release,
    table_of,
)
from harness.request.base import Request
from protocols.accounting.calibration import NeighboringRelation
from protocols.accounting.rounding import exact_text, float_up
from protocols.arrays import Floats
from protocols.circuits.coins import Coin
from protocols.mechanisms.shifted_log import ErrorTarget, ShiftedLog, expected_errors, plan_logarithm
from protocols.spec import PI_COUNT, ProtocolSpec

CONFIDENCE = Fraction(95, 100)
SIZES = (0, *(10**power for power in range(1, 7)))  # sizes of cells whose privacy is shown


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
    privacy_by_size: Sequence[Mapping[str, float]]

    def to_json(self) -> dict[str, Any]:
        """Return the own fields of `count.json`."""
        return {
            "groups": list(self.domain.groups),
            "labels": list(self.domain.labels),
            "counts": self.estimates.tolist(),
            "counts_interval": self.intervals.tolist(),
            "confidence": float(CONFIDENCE),
            "relative_error": self.target.relative,
            "error_from": self.target.least,
            "error_to": self.target.most,
            "offset": self.offset,
            "privacy_by_size": list(self.privacy_by_size),
        }


def privacy_by_size(distribution: ShiftedLog, coins: tuple[Coin, ...]) -> list[dict[str, float]]:
    """Return a record's (ε, δ), added or removed, by the number of records in its cell."""
    guarantees = {size: distribution.guarantee_at(size, coins) for size in SIZES if size <= distribution.most}
    return [
        {"records": size, "epsilon": float_up(guarantee.epsilon), "delta": float_up(guarantee.delta)}
        for size, guarantee in guarantees.items()
    ]


def _logarithms(sizes: Mapping[str, int], *_: object) -> Declared:
    """Return any offset and largest count: all have the same first step, which is charged."""
    return PI_COUNT, {**sizes, "offset": 16, "most": 1000}


@dataclass(frozen=True)
class CountStatistic(Statistic[GroupCounts]):
    """Counts whose expected relative error keeps to a target."""

    target: ErrorTarget
    spec: ProtocolSpec = PI_COUNT
    name = "count"
    audited: ClassVar = {
        "count": replace(
            table_of(PI_COUNT),
            declared=_logarithms,
            relations=(NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE),
        )
    }

    @classmethod
    def read_files(cls, files: Files) -> GroupCounts:
        fields = files["count.json"]
        by_size = fields["privacy_by_size"]
        if not all(type(number) in (int, float) for row in by_size for number in row.values()):
            raise ValueError("privacy by size is in numbers")
        target = ErrorTarget(*(fields[name] for name in ("relative_error", "error_from", "error_to")))
        return GroupCounts(
            domain_of(fields),
            estimates=floats(fields["counts"]),
            intervals=floats(fields["counts_interval"]),
            offset=fields["offset"],
            target=target,
            privacy_by_size=by_size,
        )

    def prepare(self, release: Request, domain: RecordDomain) -> PreparedRelease[GroupCounts]:
        try:
            distribution, epsilon = plan_logarithm(
                self.target, release.neighbors_in(domain), release.protect.epsilon, release.protect.delta
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

        def read(opened: Opened, clients: int) -> GroupCounts:
            most = distribution.highest(clients * domain.max_count)
            values = read_unbiased(opened["logarithms"], "logarithms", domain.cells, most, plan.coins)
            table = values.reshape(domain.shape)
            return GroupCounts(
                domain,
                estimates=distribution.estimate(table),
                intervals=distribution.interval(table, plan.coins, (1 - CONFIDENCE) / domain.cells),
                offset=distribution.offset,
                target=self.target,
                privacy_by_size=privacy_by_size(distribution, plan.coins),
            )

        return PreparedRelease(self.spec, release, domain, arguments, plan, read)

    def expected_error(self, prepared: PreparedRelease[Any], sizes: Floats) -> ExpectedCounts:
        distribution = ShiftedLog(*(int(str(prepared.arguments[name])) for name in ("offset", "most")))
        coins, errors = prepared.plan.coins, {}
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
