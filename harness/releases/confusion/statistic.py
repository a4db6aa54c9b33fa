"""π_CF as a statistic: a noisy confusion matrix per group."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from msgspec import Struct

from fairshares.harness.bounds import Count, Name, Names, Share
from fairshares.harness.inputs.record_schema import RecordDomain, RecordKind, scale_of
from fairshares.harness.postprocessing.confidence import CONFIDENCE
from fairshares.harness.postprocessing.noisy_counts import NoisyCounts, read_counts
from fairshares.harness.releases.base import (
    RATIOS,
    TABLE_SIZES,
    Answer,
    AuditTarget,
    BoundedRelease,
    ExpectedError,
    OpenedLines,
    PreparedRelease,
    Statistic,
    by_cell,
    deviation,
    expected_gap,
    plan_release,
    rate_errors,
)
from fairshares.harness.releases.confusion.spec import PI_CF, PI_CF_SLOTS
from fairshares.harness.releases.files import (
    EstimatedRates,
    ResultFile,
    domain_in,
    needed_file,
    rates_in,
    state_rates,
    table_in,
)
from fairshares.harness.request.request import Request
from fairshares.harness.reweighing.intervals import share_intervals
from fairshares.harness.stated_privacy import StatedPrivacy
from fairshares.protocols.arrays import Floats
from fairshares.protocols.mechanisms.above_threshold import allowed_above
from fairshares.protocols.spec import ProtocolSpec


class ConfusionFile(Struct, frozen=True, kw_only=True):
    """`confusion.json`. Counts are by group, label and predicted label, rates by group and label."""

    file_name: ClassVar[str] = "confusion.json"
    schema: Literal[1] = 1
    groups: Names
    labels: Names
    positive_label: Name | None
    noisy_counts: list[list[list[Count]]]
    rates: dict[Name, dict[Name, EstimatedRates]]
    confidence: Share
    privacy: StatedPrivacy


@dataclass(frozen=True, eq=False)
class Confusion:
    """Each group's confusion matrix, and each class's rates against the rest.

    Attributes:
        counts: The noisy counts.
        rates: The rates by name, each of shape (groups, labels); NaN is 0/0.
        intervals: The intervals of the rates. Each holds its rate of the counted records with probability
            `CONFIDENCE`, over the noise.
        positive: The index of the label whose rates matter; None: all labels.
    """

    counts: NoisyCounts
    rates: Mapping[str, Floats]
    intervals: Mapping[str, Floats]
    positive: int | None

    @property
    def table(self) -> Floats:
        """The noisy counts of records, or of clients that weigh 1."""
        return self.counts.table / scale_of(self.counts.domain.cap)

    def files(self, privacy: StatedPrivacy) -> tuple[ConfusionFile]:
        """Return `confusion.json`."""
        domain = self.counts.domain
        rates: dict[Name, dict[Name, EstimatedRates]] = {}
        for s, group in enumerate(domain.groups):
            rates[group] = {}
            for y, label in enumerate(domain.labels):
                rates[group][label] = state_rates(
                    {name: values[s, y] for name, values in self.rates.items()},
                    {name: ends[s, y] for name, ends in self.intervals.items()},
                )
        file = ConfusionFile(
            groups=list(domain.groups),
            labels=list(domain.labels),
            positive_label=None if self.positive is None else domain.labels[self.positive],
            noisy_counts=self.table.tolist(),
            rates=rates,
            confidence=float(CONFIDENCE),
            privacy=privacy,
        )
        return (file,)


def positive_in(domain: RecordDomain, label: str) -> int | None:
    """Return the label's index; without a label, the last index of two labels, and None for more labels."""
    if label or len(domain.labels) == 2:
        return domain.positive(label)
    return None


@dataclass(frozen=True, eq=False)
class _Parts:
    """The noisy sums that a rate is made of, of shape (groups, labels).

    Attributes:
        numerator: The sum above the line.
        rest: The rest of the sum below the line.
        cells: How many noisy counts each of the two adds up.
    """

    numerator: Floats
    rest: Floats
    cells: tuple[int, int]


def confusion(counts: NoisyCounts, positive: int | None = None) -> Confusion:
    """Derive the rates of each class against the rest.

    Computes: a / (a + b) for sums a, b of disjoint counts; negative sums count as 0.
    Guarantees: each interval covers its rate of the true counts with probability at least 95 %.
    [test: tests/statistical/test_intervals.py]
    """
    table = counts.table
    labels = table.shape[1]
    hit = np.diagonal(table, axis1=1, axis2=2)
    of_label = table.sum(axis=2)
    predicted = table.sum(axis=1)
    everybody = table.sum(axis=(1, 2))[:, None]
    others = labels - 1
    parts = {
        "true_positive_rate": _Parts(hit, of_label - hit, cells=(1, others)),
        "false_positive_rate": _Parts(
            predicted - hit,
            everybody - of_label - predicted + hit,
            cells=(others, others * others),
        ),
        "selection_rate": _Parts(predicted, everybody - predicted, cells=(labels, labels * others)),
    }
    rates = {}
    intervals = {}
    for name, rate in parts.items():
        rates[name] = _share(rate.numerator, rate.rest)
        intervals[name] = share_intervals(rate.numerator, rate.rest, rate.cells, counts.noise)
    return Confusion(counts, rates, intervals, positive)


def _share(numerator: Floats, rest: Floats) -> Floats:
    """Return numerator / (numerator + rest); negative sums count as 0, and NaN is 0/0."""
    part = np.maximum(numerator, 0.0)
    whole = part + np.maximum(rest, 0.0)
    return part / np.where(whole > 0, whole, np.nan)


class _PredictionsTarget(AuditTarget):
    """The target of a protocol that counts per group, label and predicted label."""

    def cells(self, sizes: Mapping[str, int]) -> int:
        return sizes["groups"] * sizes["labels"] ** 2


def _predictions(spec: ProtocolSpec) -> AuditTarget:
    return _PredictionsTarget(spec=spec, sizes=TABLE_SIZES)


@dataclass(frozen=True)
class ConfusionStatistic(Statistic[Confusion]):
    """Confusion matrices."""

    spec: ProtocolSpec = PI_CF
    positive_label: str | None = None
    name = "confusion"
    file_types = (ConfusionFile,)
    kind = RecordKind.PREDICTION
    audited: ClassVar = {
        "confusion": _predictions(PI_CF),
        "confusion-of-clients": _predictions(PI_CF_SLOTS).by_clients,
        "confusion-of-clients-active": _predictions(PI_CF_SLOTS).in_active_models,
    }

    @classmethod
    def clients_above_cap(cls, release: BoundedRelease) -> int:
        counts = release.cells * len(release.domain.labels)
        return allowed_above(release.epsilon_of_a_record / RATIOS, counts)

    @classmethod
    def read_files(cls, files: Sequence[ResultFile]) -> Confusion:
        file = needed_file(files, ConfusionFile)
        domain = domain_in(file.groups, file.labels, file.privacy, RecordKind.PREDICTION)
        counts = table_in(file.noisy_counts, domain.shape) * scale_of(domain.cap)
        cells = [file.rates[group][label] for group in domain.groups for label in domain.labels]
        rates, intervals = rates_in(cells, (len(domain.groups), len(domain.labels)))
        return Confusion(
            NoisyCounts(domain, counts, ()),
            rates=rates,
            intervals=intervals,
            positive=positive_in(domain, file.positive_label or ""),
        )

    def prepare(self, release: Request, domain: RecordDomain) -> PreparedRelease[Confusion]:
        positive_in(domain, self.positive_label or "")  # raises if it is no label
        arguments = {"groups": len(domain.groups), "labels": len(domain.labels)}
        plan = plan_release(self.spec, arguments, release, domain)
        return PreparedRelease(self, release, domain, arguments, plan)

    def read_opened(
        self, prepared: PreparedRelease[Confusion], opened: OpenedLines, clients: int
    ) -> Confusion:
        positive = positive_in(prepared.domain, self.positive_label or "")
        return confusion(read_counts(opened, prepared.domain, clients, prepared.plan.noise), positive)

    def expected_error(self, prepared: PreparedRelease[Answer], sizes: Floats) -> ExpectedError:
        domain = prepared.domain
        noise = deviation(prepared.plan.noise, domain)
        rates = noise * rate_errors(sizes, len(domain.labels))
        return ExpectedError(noise, "rate", by_cell(domain, rates), expected_gap(rates))


STATISTIC = ConfusionStatistic
