"""Confusion matrices and their rates."""

from collections.abc import Iterable, Iterator

import numpy as np

from fairshares.harness.inputs.record_schema import scale_of
from fairshares.harness.postprocessing.confidence import CONFIDENCE
from fairshares.harness.postprocessing.thresholds.choose import GroupThresholds
from fairshares.harness.postprocessing.thresholds.constraints import RATES
from fairshares.harness.releases.base import Answer
from fairshares.harness.releases.confusion.request import ConfusionCall
from fairshares.harness.releases.confusion.statistic import Confusion
from fairshares.harness.releases.weights.view import of_what
from fairshares.harness.request.releases import ReleaseCall
from fairshares.harness.views import run_summary
from fairshares.harness.views.parts import Part, Stacked, Table, from_least_to_most, rates_unknown
from fairshares.harness.views.rendering.plots import intervals, matrices
from fairshares.protocols.accounting.rounding import interval_shown
from fairshares.protocols.arrays import Floats

STEPS = {**run_summary.STEPS, "run": "parties: run π_CF", "read": "derive rates from the noisy counts"}
RATE_COLUMNS = [name.replace("_", " ") for name in RATES]


def confusion(found: Confusion) -> Iterator[Part]:
    """Show confusion matrices and their rates."""
    domain = found.counts.domain
    yield matrices(domain.groups, domain.labels, found.table)
    yield _counts(found)
    of_all = found.positive is None
    rows = []
    by_cell = {}
    for s, group in enumerate(domain.groups):
        for y, label in enumerate(domain.labels):
            if not of_all and y != found.positive:
                continue
            rates = rates_of(found, (s, y))
            cell = f"{group}, {label}" if of_all else group
            by_cell[cell] = rates
            row = [group, label]
            row += rates_shown(rates)
            rows.append(row)
    for i in range(2):
        estimates = {cell: float(rates[i, 0]) for cell, rates in by_cell.items()}
        yield from_least_to_most(f"The {RATE_COLUMNS[i]} goes from", estimates, 3)
    yield intervals(
        "rates",
        RATE_COLUMNS,
        by_cell,
        "rate",
        "Rates by the noisy counts, with intervals for the noise.",
    )
    headings = ["group", "label" if of_all else "positive label"]
    headings += RATE_COLUMNS
    against = " of each label against the rest" if of_all else ""
    yield Table(
        headings,
        rows,
        "ll".ljust(len(headings), "r"),
        caption=f"Rates{against}, with intervals that hold the "
        f"rates of the true counts{of_what(domain)}, each with {float(CONFIDENCE):.0%} probability "
        "over the noise.",
    )
    every = np.array([*by_cell.values()])
    yield from rates_unknown(every[..., 1], every[..., 2])


def _counts(found: Confusion) -> Table:
    """Return the table of noisy counts, a row for each group and label."""
    domain = found.counts.domain
    unit = scale_of(domain.cap)
    of_clients = ""
    if unit != 1:
        of_clients = f" of clients, in steps of 1/{unit}"
    headings = ["group", "label"]
    headings += [f"predicted {label}" for label in domain.labels]
    rows = []
    for s, group in enumerate(domain.groups):
        for y, label in enumerate(domain.labels):
            row = [group, label]
            row += [f"{count:,.1f}" for count in found.table[s, y]]
            rows.append(row)
    return Table(headings, rows, "ll".ljust(len(headings), "r"), caption=f"Noisy counts{of_clients}.")


def rates_of(estimates: Confusion | GroupThresholds, at: int | tuple[int, int]) -> Floats:
    """Return all rates with their intervals at an index, shape (rates, 3)."""
    rows = []
    for name in estimates.rates:
        low, high = estimates.intervals[name][at]
        rows.append([estimates.rates[name][at], low, high])
    return np.array(rows)


def rates_shown(rates: Floats) -> Iterable[str]:
    """Return each rate above its interval."""
    return [Stacked(f"{rate:.3f}\n{interval_shown(low, high, 3)}") for rate, low, high in rates.tolist()]


def predicting(call: ReleaseCall, found: Answer) -> list[str]:
    """Say which scores predict which label, if predictions were made from scores."""
    assert isinstance(call, ConfusionCall) and isinstance(found, Confusion)
    if call.cut is None:
        return []
    return [call.cut.described(found.counts.domain)]


VIEW = run_summary.ReleaseView(
    STEPS, "confusion matrices", lambda estimated, _: confusion(estimated), records=predicting
)
