"""Which of two runs takes longer, as the paper has it: parties, adversaries, phases."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import nextafter

from benchmarks.measure.samples import Level
from benchmarks.papers import privfairfl
from benchmarks.validation.cells import CellRuns, Measured, fullest
from benchmarks.validation.findings import Check

SUITE = "table2"
# (claim, the model that takes longer, the other)
PAIRS = (
    ("parties", "semi2k", "ring"),
    ("parties", "spdz2k", "sy-rep-ring"),
    ("parties", "spdz2k", "rep4-ring"),
    ("adversary", "spdz2k", "semi2k"),
    ("adversary", "sy-rep-ring", "ring"),
    ("adversary", "rep4-ring", "ring"),
)
SURE = 0.9  # of all pairs of runs have to be in one order
MUCH = 10  # times, at least, is much longer


def checks(measured: Measured) -> Iterator[Check]:
    """Yield a check for each order that the paper states and both sides of which were measured or tried."""
    claims = privfairfl().claims
    cells = measured.where(SUITE)
    by_rest: dict[object, dict[Level | None, CellRuns]] = {}
    for cell in cells:
        by_rest.setdefault(cell.without("model"), {})[cell["model"]] = cell
    for claim, slower, quicker in PAIRS:
        for models in by_rest.values():
            if slower in models and quicker in models:
                a, b = models[slower], models[quicker]
                key = f"order.{claim}.{a.name_without('model')}.{slower}.{quicker}"
                yield order_of_seconds(f"{key}.seconds", claims[claim], a, b)
                yield order_of_bytes(f"{key}.bytes", claims[claim], a, b)
    for post, pre, times in (("published", "product", MUCH), ("default", "default", 1.0)):
        for shape, model in product(privfairfl().shapes, privfairfl().schemes):
            where = {"shape": shape, "model": model}
            long = fullest(measured.where(SUITE, protocol="pi_roc", variant=post, **where))
            short = fullest(measured.where(SUITE, protocol="pi_rw", variant=pre, **where))
            if long and short:
                yield order_of_seconds(f"order.phases.{long.name}", claims["phases"], long, short, times)


def order_of_seconds(key: str, says: str, slower: CellRuns, quicker: CellRuns, times: float = 1.0) -> Check:
    """Check that one takes longer than `times` the other, in nearly all pairs of their runs.

    Computes: the share of pairs in which it does. Where neither order holds in 9 of 10, nobody can tell.
    """
    many = f"more than {times:g} times as long" if times > 1 else "longer"
    for cell in (slower, quicker):
        if cell.seconds() is None:
            return Check(key, says, unjudged=cell.reason)
    long, short = ([run.times["mpc_s"] for run in cell.ok] for cell in (slower, quicker))
    share = sum(a > times * b for a in long for b in short) / (len(long) * len(short))
    a, b = slower.seconds(), quicker.seconds()
    assert a is not None and b is not None
    found = (
        f"{a.median:.3g} s against {b.median:.3g} s, {many} in {share:.0%} of {len(long)}×{len(short)} pairs"
    )
    if 1 - SURE < share < SURE:
        return Check(key, says, unjudged=f"the runs overlap: {found}")
    return Check(key, says, share, SURE, 1.0, found)


def order_of_bytes(key: str, says: str, slower: CellRuns, quicker: CellRuns) -> Check:
    """Check that one sends more than the other, all parties together."""
    sent = []
    for cell in (slower, quicker):
        if cell.sent_bytes is None:
            return Check(key, says, unjudged=cell.reason)
        sent.append(cell.sent_bytes)
    ratio = sent[0] / sent[1]
    return Check(key, says, ratio, nextafter(1, 2), found=f"{sent[0]:,.0f} bytes against {sent[1]:,.0f}")
