"""Confusion matrices, and the rates that follow from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.inputs.contribution_bounds import scale_of
from harness.releases.confusion import CONFIDENCE, RATES
from harness.views import run
from harness.views.parts import Part, Stacked, Table, from_least_to_most
from harness.views.releases.weights import of_what
from harness.views.rendering.plots import Floats, intervals, matrices
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
    yield matrices(domain.groups, domain.labels, found.table)
    of_clients = "" if (unit := scale_of(domain.cap)) == 1 else f" of clients, in steps of 1/{unit}"
    yield Table(
        ["group", "label", *(f"predicted {label}" for label in domain.labels)],
        [[*names[at], *(f"{count:,.1f}" for count in found.table[at])] for at in pairs],
        "ll" + "r" * len(domain.labels),
        caption=f"Noisy counts{of_clients}.",
    )
    of_all = found.positive is None
    shown = [at for at in pairs if of_all or at[1] == found.positive]
    cells = {", ".join(names[at]) if of_all else names[at][0]: at for at in shown}
    for rate, name in zip(RATES[:2], RATE_COLUMNS, strict=False):
        yield from_least_to_most(
            f"The {name} goes from", {cell: found.rates[rate][at] for cell, at in cells.items()}, 3
        )
    yield intervals(
        "rates",
        RATE_COLUMNS,
        {cell: rates_drawn(found.rates, found.intervals, at) for cell, at in cells.items()},
        "rate",
        "Rates by the noisy counts, with intervals for the noise.",
    )
    yield Table(
        ["group", "label" if of_all else "positive label", *RATE_COLUMNS],
        [[*names[at], *rates_shown(found.rates, found.intervals, at)] for at in shown],
        "ll" + "r" * len(RATE_COLUMNS),
        caption=f"Rates{' of each label against the rest' if of_all else ''}, with intervals that hold the "
        f"rates of the true counts{of_what(domain)} all at once with {float(CONFIDENCE):.0%} probability "
        "over the noise.",
    )


def rates_drawn(rates: Mapping[str, Any], intervals: Mapping[str, Any], at: Any) -> Floats:
    """Return `RATES` and their intervals for a picture, shape (rates, 3). Args: as for `rates_shown`."""
    return np.array([[rates[name][at], *intervals[name][at]] for name in RATES])


def rates_shown(rates: Mapping[str, Any], intervals: Mapping[str, Any], at: Any) -> Iterable[str]:
    """Return each of `RATES` above its interval, for a table; a rate that is not a number has none.

    Args: rates, intervals: arrays by name; at: where in them.
    """
    ranges = [(rates[name][at], *intervals[name][at]) for name in RATES]
    return [Stacked(f"{rate:.3f}\n{interval_shown(low, high, 3)}") for rate, low, high in ranges]
