"""How far our times are from the paper's, and emulated networks from what they should be: bands of ratios."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.papers import Printed, privfairfl
from benchmarks.validation import texts
from benchmarks.validation.cells import Measured
from benchmarks.validation.findings import Check
from benchmarks.validation.side_by_side import AS_PUBLISHED, Row

BAND = 3.0  # times as long, or as short, counts as alike on another machine
GAIN = 10.0  # the default takes at most a tenth of the protocol as published
# As shares of what was asked for. A round trip also takes the machine's own time, a transfer is never faster.
ROUND_TRIP, BANDWIDTH = (0.95, 1.5), (0.5, 1.1)


def checks(measured: Measured, rows: list[Row]) -> Iterator[Check]:
    """Yield checks of networks, then of seconds over the paper's, of Table 2's cells and each figure."""
    yield from _networks(measured)
    for row in rows:
        key = f"ratio.table2.{row.protocol}.{row.shape}.{row.model}"
        says = f"{row.protocol} as published takes about as long as in Table 2"
        yield _in_band(key, says, row.whole, row.paper, row.why_not)
    yield from _between_models(rows)
    for row in rows:
        if row.protocol == "pi_roc":
            yield _gain(row)
    yield _figure_1(measured)
    yield _figure_2(rows)


def _in_band(key: str, says: str, seconds: float | None, paper: Printed, why_not: str) -> Check:
    """Compare with the nearest number that was rounded to the printed one."""
    if seconds is None:
        return Check(key, says, unjudged=why_not or "not measured")
    low, high = paper.range
    nearest = min(max(seconds, low), high)
    ratio = seconds / nearest
    return Check(
        key, says, ratio, 1 / BAND, BAND, f"{texts.seconds(seconds)} s, the paper {paper} s: ×{ratio:.3g}"
    )


def _between_models(rows: list[Row]) -> Iterator[Check]:
    """Compare each model's time with `ring`'s, which leaves the machine out."""
    by_model = {(row.protocol, row.shape, row.model): row for row in rows}
    for row in rows:
        ring = by_model[row.protocol, row.shape, "ring"]
        if row is ring:
            continue
        key = f"ratio.models.{row.protocol}.{row.shape}.{row.model}"
        says = f"{row.model} costs as many times what ring does as in Table 2"
        if row.whole is None or ring.whole is None:
            yield Check(key, says, unjudged=row.why_not or ring.why_not or "not measured")
            continue
        ours = row.whole / ring.whole
        least, most = row.paper.range[0] / ring.paper.range[1], row.paper.range[1] / ring.paper.range[0]
        ratio = ours / min(max(ours, least), most)
        theirs = row.paper.seconds / ring.paper.seconds
        yield Check(key, says, ratio, 1 / BAND, BAND, f"×{ours:.3g}, the paper ×{theirs:.3g}: ×{ratio:.3g}")


def _gain(row: Row) -> Check:
    key = f"gain.{row.protocol}.{row.shape}.{row.model}"
    says = f"the default takes at most 1/{GAIN:g} of the protocol as published"
    if row.whole is None or row.default is None:
        return Check(key, says, unjudged=row.why_not or row.why_no_default)
    ratio = row.whole / row.default.median
    return Check(
        key,
        says,
        ratio,
        GAIN,
        found=f"{texts.seconds(row.whole)} s against {texts.seconds(row.default.median)} s",
    )


def _figure_1(measured: Measured) -> Check:
    """Compare the run with the most clients that the paper's sentence is about."""
    claim = privfairfl().figures["figure1"]
    cells = measured.where(
        protocol=claim.protocol, variant=AS_PUBLISHED[claim.protocol], model=claim.model, network="none"
    )
    near = [cell for cell in cells if claim.at[0] <= cell.number(claim.factor) <= claim.at[1]]
    timed = [(cell.number(claim.factor), found) for cell in near if (found := cell.seconds())]
    key, says = "ratio.figure1", f"{claim.title}: {claim.text}"
    if not timed:
        reason = near[0].reason if near else f"nothing was measured at {claim.at[0]:,} {claim.factor} or more"
        return Check(key, says, unjudged=reason)
    most, found = max(timed, key=lambda pair: pair[0])
    ratio = found.median / claim.seconds
    return Check(
        key,
        says,
        ratio,
        1 / BAND,
        BAND,
        f"{texts.seconds(found.median)} s with {most:,} clients: ×{ratio:.3g}",
    )


def _figure_2(rows: list[Row]) -> Check:
    """Compare what ADS takes, scaled to the figure's records: see the checks of linearity in records."""
    paper = privfairfl()
    claim, ads = paper.figures["figure2"], paper.shapes["ads"]
    key, says = "ratio.figure2", f"{claim.title}: {claim.text}"
    (row,) = [r for r in rows if (r.protocol, r.shape, r.model) == (claim.protocol, ads.name, claim.model)]
    if row.whole is None:
        return Check(key, says, unjudged=row.why_not or "not measured")
    seconds = row.whole * claim.at[0] / ads.records
    ratio = seconds / claim.seconds
    found = f"{texts.seconds(seconds)} s, scaled from {ads.records:,} records: ×{ratio:.3g}"
    return Check(key, says, ratio, 1 / BAND, BAND, found)


def _networks(measured: Measured) -> Iterator[Check]:
    """Yield a check of the worst round trip and of the worst bandwidth of each cell with a network."""
    for cell in measured.cells:
        networks = [run.network for run in cell.ok if run.network is not None]
        for what, unit, (low, high) in (
            ("rtt", "s", ROUND_TRIP),
            ("bandwidth", "bits_per_s", BANDWIDTH),
        ):
            if not networks:
                continue
            key, says = f"network.{what}.{cell.suite}.{cell.name}", f"the {what} was what was asked for"
            pairs = [(found.get(f"measured_{what}_{unit}"), found[f"{what}_{unit}"]) for found in networks]
            ratios = [got / wanted for got, wanted in pairs if got is not None]
            if not ratios:
                yield Check(key, says, unjudged="it was not measured")
                continue
            worst = max(ratios, key=lambda ratio: max(low / ratio, ratio / high))
            yield Check(key, says, worst, low, high, f"×{worst:.3g} of {pairs[0][1]:g} {unit}")
