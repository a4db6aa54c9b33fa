"""π_COUNT as a statistic: noisy counts with a relative error, and more privacy for larger groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.engines.base import EngineResult
from harness.errors import OptionError
from harness.inputs.record_schema import RecordDomain
from harness.pipeline.run import Settings, Statistic
from harness.postprocessing.noisy_counts import read_unbiased
from protocols.accounting.calibration import NoisePlan
from protocols.accounting.rounding import float_up
from protocols.circuits.coins import Coin
from protocols.mechanisms.shifted_log import ErrorTarget, ShiftedLog, plan_logarithm
from protocols.spec import PI_COUNT

CONFIDENCE = Fraction(95, 100)
SIZES = (0, *(10**power for power in range(1, 7)))  # whose privacy is shown; of no group in particular

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GroupCounts:
    """Estimated counts per (group, label), and what a record gives away where n others are.

    Attributes: estimates: shape (groups, labels), within [0, law.most]; intervals: shape (groups, labels,
    2), hold all counts up to law.most at once with probability `CONFIDENCE`, over the noise; target: what
    the expected error keeps to.
    """

    domain: RecordDomain
    estimates: Floats
    intervals: Floats
    law: ShiftedLog
    target: ErrorTarget
    coins: tuple[Coin, ...]

    def privacy_by_size(self) -> list[dict[str, float]]:
        """Return (epsilon, delta) of a record, added or removed, by the number of records in its cell.

        A function of the number alone: nothing in it comes from these clients' counts.
        """
        sizes = [size for size in SIZES if size <= self.law.most]
        guarantees = [(size, self.law.guarantee_at(size, self.coins)) for size in sizes]
        return [
            {"records": size, "epsilon": float_up(each.epsilon), "delta": float_up(each.delta)}
            for size, each in guarantees
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the fields of `count.json` but for the privacy statement."""
        return {
            "groups": list(self.domain.groups),
            "labels": list(self.domain.labels),
            "counts": self.estimates.tolist(),
            "counts_interval": self.intervals.tolist(),
            "confidence": float(CONFIDENCE),
            "relative_error": self.target.relative,
            "error_from": self.target.least,
            "error_to": self.target.most,
            "offset": self.law.offset,
            "privacy_by_size": self.privacy_by_size(),
        }


@dataclass(frozen=True)
class CountStatistic(Statistic[GroupCounts]):
    """Counts with a relative error. Args: settings: of the run; target: for the counts' expected error."""

    settings: Settings
    target: ErrorTarget
    name = "count"
    spec = PI_COUNT

    def charged(self, settings: Settings, domain: RecordDomain) -> Fraction:
        return self.planned(settings, domain)[1]

    def shape(self, domain: RecordDomain) -> Mapping[str, object]:
        law, _ = self.planned(self.settings, domain)
        return {
            "groups": len(domain.groups),
            "labels": len(domain.labels),
            "offset": law.offset,
            "most": law.most,
        }

    def planned(self, settings: Settings, domain: RecordDomain) -> tuple[ShiftedLog, Fraction]:
        """Return the logarithm, and the epsilon that is charged. Raises: OptionError: none will do."""
        try:
            return plan_logarithm(self.target, settings.relation_in(domain), settings.epsilon, settings.delta)
        except ValueError as error:
            raise OptionError(
                f"--epsilon {settings.epsilon} does not do: {error}. Allow a larger --epsilon, "
                "--relative-error or --error-from."
            ) from None

    def read(self, result: EngineResult, domain: RecordDomain, clients: int, plan: NoisePlan) -> GroupCounts:
        law, _ = self.planned(self.settings, domain)
        most = law.highest(clients * domain.max_count)
        opened = read_unbiased(result, "logarithms", domain.cells, most, plan.coins).reshape(domain.shape)
        intervals = law.interval(opened, plan.coins, (1 - CONFIDENCE) / domain.cells)
        return GroupCounts(domain, law.estimate(opened), intervals, law, self.target, plan.coins)

    def files(self, found: GroupCounts) -> Mapping[str, Mapping[str, Any]]:
        return {"count.json": found.to_json()}
