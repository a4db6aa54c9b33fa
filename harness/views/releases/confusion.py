"""Confusion matrices, and the rates that follow from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from harness.inputs.contribution_bounds import scale_of
from harness.releases.confusion import CONFIDENCE, RATES
from harness.views import run
from harness.views.parts import Part, Table
from harness.views.releases.weights import of_what
from protocols.accounting.rounding import interval_shown

if TYPE_CHECKING:  # its libraries take a second to load
    from harness.inputs.record_schema import RecordDomain
    from harness.inputs.records import ScoreCut
    from harness.releases.confusion import Confusion

STEPS = {**run.STEPS, "run": "parties: run π_CF", "read": "derive rates from the noisy counts"}
RATE_COLUMNS = [name.replace("_", " ") for name in RATES]


def direction(cut: ScoreCut, domain: RecordDomain) -> str:
    """Say what a score predicts."""
    positive = cut.positive_in(domain)
    return (
        f"Score ≥ {cut.threshold:g} predicts: {domain.labels[positive]}; else: {domain.labels[1 - positive]}."
    )


def confusion(found: Confusion, cut: ScoreCut | None = None) -> Iterator[Part]:
    """View confusion matrices and their rates. Args: cut: by which scores became predictions, if they did."""
    domain = found.counts.domain
    if cut is not None:
        yield direction(cut, domain)
    rows = []
    for s, group in enumerate(domain.groups):
        for y, label in enumerate(domain.labels):
            counts = [f"{count:,.1f}" for count in found.table[s, y]]
            rows.append([group, label, *counts, *rates_shown(found.rates, found.intervals, (s, y))])
    predicted = [f"predicted {label}" for label in domain.labels]
    of_clients = "" if (unit := scale_of(domain.cap)) == 1 else f" of clients, in steps of 1/{unit}"
    yield Table(
        ["group", "label", *predicted, *RATE_COLUMNS],
        rows,
        "ll" + "r" * (len(predicted) + len(RATE_COLUMNS)),
        caption=f"Noisy counts{of_clients}, and the rates of each label against the rest, with intervals "
        f"that hold the rates of the true counts{of_what(domain)} all at once with {float(CONFIDENCE):.0%} "
        "probability over the noise.",
    )


def rates_shown(rates: Mapping[str, Any], intervals: Mapping[str, Any], at: Any) -> Iterable[str]:
    """Return each of `RATES` with its interval, for a table; a rate that is not a number has none.

    Args: rates, intervals: arrays by name; at: where in them.
    """
    ranges = [(rates[name][at], *intervals[name][at]) for name in RATES]
    return [f"{rate:.3f} ({interval_shown(low, high, 3)})" for rate, low, high in ranges]
