"""π_CF as a statistic: a noisy confusion matrix per group."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from harness.inputs.record_schema import RecordDomain, RecordKind, scale_of
from harness.postprocessing.noisy_counts import NoisyCounts, read_counts
from harness.releases.base import (
    AuditTarget,
    ExpectedError,
    Files,
    Opened,
    PreparedRelease,
    Statistic,
    by_cell,
    deviation,
    domain_of,
    expected_gap,
    plan_release,
    rate_errors,
    rates_from_json,
    table_of,
)
from harness.request.base import Request
from harness.reweighing.formulas import share_intervals
from protocols.arrays import Floats
from protocols.spec import PI_CF, PI_CF_SLOTS, ProtocolSpec

CONFIDENCE = Fraction(95, 100)
RATES = ("true_positive_rate", "false_positive_rate", "selection_rate")


@dataclass(frozen=True, eq=False)
class Confusion:
    """Each group's confusion matrix, and each class's rates against the rest.

    Rates, by name, have shape (groups, labels); NaN is 0/0. Each interval holds its rate of the counted
    records with probability `CONFIDENCE`, over the noise. `positive` is the label whose rates matter; None:
    all.
    """

    counts: NoisyCounts
    rates: Mapping[str, Floats]
    intervals: Mapping[str, Floats]
    positive: int | None

    @property
    def table(self) -> Floats:
        """The noisy counts of records, or of clients that weigh 1."""
        return self.counts.table / scale_of(self.counts.domain.cap)

    def to_json(self) -> dict[str, Any]:
        """Return the own fields of `confusion.json`."""
        domain = self.counts.domain
        return {
            "groups": list(domain.groups),
            "labels": list(domain.labels),
            "positive_label": None if self.positive is None else domain.labels[self.positive],
            "noisy_counts": self.table.tolist(),
            "rates": {
                group: {
                    label: {
                        name: {
                            "estimate": None if np.isnan(values[s, y]) else float(values[s, y]),
                            "interval": self.intervals[name][s, y].tolist(),
                        }
                        for name, values in self.rates.items()
                    }
                    for y, label in enumerate(domain.labels)
                }
                for s, group in enumerate(domain.groups)
            },
            "confidence": float(CONFIDENCE),
        }


def positive_in(domain: RecordDomain, label: str) -> int | None:
    """Return the label's index; without a label that of the last of two, and None for more."""
    return domain.positive(label) if label or len(domain.labels) == 2 else None


def confusion(counts: NoisyCounts, positive: int | None = None) -> Confusion:
    """Derive the rates of each class against the rest.

    Computes: a / (a + b) for sums a, b of disjoint counts; negative sums count as 0.
    Guarantees: each interval covers its rate of the true counts with probability at least 95 %.
    [test: tests/statistical/test_intervals.py]
    """
    table = counts.table
    labels = table.shape[1]
    hit = np.diagonal(table, axis1=1, axis2=2)
    of_label, predicted, everybody = table.sum(axis=2), table.sum(axis=1), table.sum(axis=(1, 2))[:, None]
    others = labels - 1
    pairs = {  # numerator, rest of the denominator, and how many noisy counts each sums
        "true_positive_rate": (hit, of_label - hit, (1, others)),
        "false_positive_rate": (
            predicted - hit,
            everybody - of_label - predicted + hit,
            (others, others * others),
        ),
        "selection_rate": (predicted, everybody - predicted, (labels, labels * others)),
    }
    return Confusion(
        counts,
        rates={name: _share(a, b) for name, (a, b, _) in pairs.items()},
        intervals={name: share_intervals(a, b, cells, counts.noise) for name, (a, b, cells) in pairs.items()},
        positive=positive,
    )


def _share(a: Floats, b: Floats) -> Floats:
    a, b = np.maximum(a, 0.0), np.maximum(b, 0.0)
    return a / np.where(a + b > 0, a + b, np.nan)


def _predictions(spec: ProtocolSpec) -> AuditTarget:
    return replace(table_of(spec), cells=lambda sizes: sizes["groups"] * sizes["labels"] ** 2)


@dataclass(frozen=True)
class ConfusionStatistic(Statistic[Confusion]):
    """Confusion matrices."""

    spec: ProtocolSpec = PI_CF
    positive_label: str | None = None
    name = "confusion"
    kind = RecordKind.PREDICTION
    audited: ClassVar = {
        "confusion": _predictions(PI_CF),
        "confusion-of-clients": _predictions(PI_CF_SLOTS).by_clients,
        "confusion-of-clients-active": _predictions(PI_CF_SLOTS).in_active_models,
    }

    @classmethod
    def read_files(cls, files: Files) -> Confusion:
        fields = files["confusion.json"]
        domain = domain_of(fields, RecordKind.PREDICTION)
        counts = NoisyCounts(domain, np.array(fields["noisy_counts"]) * scale_of(domain.cap), ())
        cells = [fields["rates"][group][label] for group in domain.groups for label in domain.labels]
        return Confusion(
            counts,
            *rates_from_json(cells, (len(domain.groups), len(domain.labels)), RATES),
            positive=positive_in(domain, fields["positive_label"] or ""),
        )

    def prepare(self, release: Request, domain: RecordDomain) -> PreparedRelease[Confusion]:
        positive = positive_in(domain, self.positive_label or "")
        arguments = {"groups": len(domain.groups), "labels": len(domain.labels)}
        plan = plan_release(self.spec, arguments, release, domain)

        def read(opened: Opened, clients: int) -> Confusion:
            return confusion(read_counts(opened, domain, clients, plan.noise), positive)

        return PreparedRelease(self.spec, release, domain, arguments, plan, read)

    def expected_error(self, prepared: PreparedRelease[Any], sizes: Floats) -> ExpectedError:
        noise, domain = deviation(prepared.plan.noise, prepared.domain), prepared.domain
        rates = noise * rate_errors(sizes, len(domain.labels))
        return ExpectedError(noise, "rate", by_cell(domain, rates), expected_gap(rates))
