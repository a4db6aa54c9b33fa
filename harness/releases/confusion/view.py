"""Confusion matrices and their rates."""

from collections.abc import Iterable, Iterator

import numpy as np

from fairshares.harness.inputs.record_schema import scale_of
from fairshares.harness.postprocessing.thresholds.choose import RATES, GroupThresholds
from fairshares.harness.releases.confusion.statistic import CONFIDENCE, Confusion
from fairshares.harness.releases.weights.view import of_what
from fairshares.harness.views import run
from fairshares.harness.views.parts import Part, Stacked, Table, from_least_to_most
from fairshares.harness.views.rendering.plots import intervals, matrices
from fairshares.protocols.accounting.rounding import interval_shown
from fairshares.protocols.arrays import Floats

STEPS = {**run.STEPS, "run": "parties: run π_CF", "read": "derive rates from the noisy counts"}
RATE_COLUMNS = [name.replace("_", " ") for name in RATES]


def confusion(found: Confusion) -> Iterator[Part]:
    """Show confusion matrices and their rates."""
    domain = found.counts.domain
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
    shown = {at: rates_of(found, at) for at in pairs if of_all or at[1] == found.positive}
    cells = {", ".join(names[at]) if of_all else names[at][0]: rates for at, rates in shown.items()}
    for i in range(2):
        rates = {cell: float(estimates[i, 0]) for cell, estimates in cells.items()}
        yield from_least_to_most(f"The {RATE_COLUMNS[i]} goes from", rates, 3)
    yield intervals(
        "rates",
        RATE_COLUMNS,
        cells,
        "rate",
        "Rates by the noisy counts, with intervals for the noise.",
    )
    yield Table(
        ["group", "label" if of_all else "positive label", *RATE_COLUMNS],
        [[*names[at], *rates_shown(rates)] for at, rates in shown.items()],
        "ll" + "r" * len(RATE_COLUMNS),
        caption=f"Rates{' of each label against the rest' if of_all else ''}, with intervals that hold the "
        f"rates of the true counts{of_what(domain)}, each with {float(CONFIDENCE):.0%} probability "
        "over the noise.",
    )


def rates_of(estimates: Confusion | GroupThresholds, at: int | tuple[int, int]) -> Floats:
    """Return `RATES` with intervals at an index, shape (rates, 3)."""
    return np.array([[estimates.rates[name][at], *estimates.intervals[name][at]] for name in RATES])


def rates_shown(rates: Floats) -> Iterable[str]:
    """Return each rate above its interval."""
    return [Stacked(f"{rate:.3f}\n{interval_shown(low, high, 3)}") for rate, low, high in rates.tolist()]


VIEW = run.ReleaseView(STEPS, "confusion matrices", lambda estimated, _: confusion(estimated))
