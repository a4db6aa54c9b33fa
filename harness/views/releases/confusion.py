"""Confusion matrices, and the rates that follow from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from harness.inputs.contribution_bounds import scale_of
from harness.releases.confusion import CONFIDENCE, RATES
from harness.views import run
from harness.views.parts import Part, Stacked, Table
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
        f"Score ≥ {cut.typed or f'{cut.threshold:g}'} predicts: {domain.labels[positive]}; else: "
        f"{domain.labels[1 - positive]}."
    )


def confusion(found: Confusion, cut: ScoreCut | None = None) -> Iterator[Part]:
    """View confusion matrices and, apart from them, their rates; the positive label's, if there is one.

    Args: cut: by which scores became predictions, if they did.
    """
    domain = found.counts.domain
    if cut is not None:
        yield direction(cut, domain)
    pairs = [(s, y) for s in range(len(domain.groups)) for y in range(len(domain.labels))]
    names = {(s, y): [domain.groups[s], domain.labels[y]] for s, y in pairs}
    of_clients = "" if (unit := scale_of(domain.cap)) == 1 else f" of clients, in steps of 1/{unit}"
    yield Table(
        ["group", "label", *(f"predicted {label}" for label in domain.labels)],
        [[*names[at], *(f"{count:,.1f}" for count in found.table[at])] for at in pairs],
        "ll" + "r" * len(domain.labels),
        caption=f"Noisy counts{of_clients}.",
    )
    of_all = found.positive is None
    yield Table(
        ["group", "label" if of_all else "positive label", *RATE_COLUMNS],
        [
            [*names[at], *rates_shown(found.rates, found.intervals, at)]
            for at in pairs
            if of_all or at[1] == found.positive
        ],
        "ll" + "r" * len(RATE_COLUMNS),
        caption=f"Rates of each label against the rest, with intervals that hold the rates of the true counts"
        f"{of_what(domain)} all at once with {float(CONFIDENCE):.0%} probability over the noise.",
    )


def rates_shown(rates: Mapping[str, Any], intervals: Mapping[str, Any], at: Any) -> Iterable[str]:
    """Return each of `RATES` above its interval, for a table; a rate that is not a number has none.

    Args: rates, intervals: arrays by name; at: where in them.
    """
    ranges = [(rates[name][at], *intervals[name][at]) for name in RATES]
    return [Stacked(f"{rate:.3f}\n{interval_shown(low, high, 3)}") for rate, low, high in ranges]
