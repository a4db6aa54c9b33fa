"""Findings and Table 2 side by side as rows of text, for the terminal and for reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import floor, log10

from benchmarks.measure.samples import Summary
from benchmarks.papers import privfairfl
from benchmarks.validation.findings import Finding, Status
from benchmarks.validation.side_by_side import Row

Texts = list[list[str]]

TITLES = {"pi_rw": "Weights", "pi_roc": "Thresholds"}
_NONE = "–"


def seconds(value: float, digits: int = 3) -> str:
    """Return seconds with some digits, and no exponent."""
    magnitude = floor(log10(value)) if value > 0 else 0
    return f"{round(value, digits - 1 - magnitude):,.{max(0, digits - 1 - magnitude)}f}"


def spread(found: Summary | None) -> str:
    """Return a median and, of several runs, the least and the most."""
    if found is None:
        return _NONE
    span = f" ({seconds(found.low, 2)} – {seconds(found.high, 2)})" if found.n > 1 else ""
    return f"{seconds(found.median)}{span}".replace(" ", "\N{NO-BREAK SPACE}")


def times(ratio: float) -> str:
    """Return a ratio with two digits."""
    return f"×{float(f'{ratio:.2g}'):,g}" if ratio < 1e6 else f"×{ratio:.2g}"


def table2_header(protocol: str) -> list[str]:
    """Return the heads of the columns of `table2_rows`."""
    whole = f"{privfairfl().thresholds:,}"
    roc = [f"of {whole}", f"extrapolated to {whole}"] if protocol == "pi_roc" else []
    ratios = ["paper ÷ published", "paper ÷ default"]
    return ["model", "PrivFairFL", "published, run here", *roc, "default", *ratios]


def table2_rows(rows: Iterable[Row], protocol: str, shape: str) -> Texts:
    """Return a row of seconds for each model. What is extrapolated is in a column of its own."""
    found = []
    for row in rows:
        if (row.protocol, row.shape) != (protocol, shape):
            continue
        run = spread(row.published) + (" *" if row.clients_send and row.published else "")
        ratios = [
            _NONE if value is None else times(row.paper.seconds / value)
            for value in (row.whole, row.default.median if row.default else None)
        ]
        roc = []
        if protocol == "pi_roc":
            line = row.extrapolated
            further = _NONE if line is None else f"{seconds(line.seconds)} ± {line.line.residual:.1%}"
            roc = [f"{row.thresholds:,}" if row.thresholds else _NONE, further]
        paper = str(row.paper) if row.paper.seconds < 100 else f"{row.paper.seconds:,.0f}"
        found.append([row.model, paper, run, *roc, spread(row.default), *ratios])
    return found


def table2_notes(rows: Sequence[Row], protocol: str) -> list[str]:
    """Return what has to be known to read the table."""
    notes = [
        "Seconds in the computation, preprocessing included: median (least – most). The paper's are for "
        f"{privfairfl().machine}; ours for all parties on one machine."
    ]
    if protocol == "pi_rw":
        notes.append("Published: product form, group indicators times label counts, noisy counts opened.")
        if any(row.clients_send for row in rows):
            notes.append(
                "* Active models refuse products of plain shares, so clients send while the parties run, and "
                "their TLS connections are part of the time."
            )
    else:
        notes.append(
            "Published: every record is compared with some of the 1,001 thresholds; each count gets noise. "
            "Extrapolated: a line through the medians of runs with different numbers of thresholds; ± is "
            "how far the line is off one of them at most."
        )
        why = dict.fromkeys(f"{row.model}: {row.why_not}" for row in rows if row.why_not)
        notes += [f"{each.rstrip('.')}." for each in why]
    return notes


def deviations(findings: Sequence[Finding]) -> Texts:
    """Return a row for each failed or explained check: what, what was found, why."""
    return [
        [str(f.status), f.check.key, f.check.found, f.reason]
        for status in (Status.FAILED, Status.EXPLAINED)
        for f in findings
        if f.status is status
    ]


def unjudged(findings: Sequence[Finding]) -> Texts:
    """Return each reason why checks could not be judged, with how many they are and one of them."""
    found: dict[str, list[str]] = {}
    for finding in findings:
        if finding.status is Status.NOT_JUDGED:
            found.setdefault(finding.reason, []).append(finding.check.key)
    return [[reason, str(len(keys)), keys[0]] for reason, keys in found.items()]


def counts(findings: Sequence[Finding]) -> str:
    """Say how many checks there are of each kind and status."""
    numbers = {status: sum(finding.status is status for finding in findings) for status in Status}
    return (
        f"{len(findings):,} checks: {numbers[Status.PASSED]:,} passed, "
        f"{numbers[Status.EXPLAINED]:,} deviate as explained, {numbers[Status.FAILED]:,} failed, "
        f"{numbers[Status.NOT_JUDGED]:,} could not be judged"
    )


def by_kind(findings: Sequence[Finding]) -> Texts:
    """Return a row for each kind of check: how many passed, deviate as explained, failed, were not judged."""
    kinds = dict.fromkeys(finding.check.kind for finding in findings)
    return [
        [KINDS[kind], *(str(sum(f.check.kind == kind and f.status is s for f in findings)) for s in Status)]
        for kind in kinds
    ]


KINDS = {
    "whole": "suites are whole, of one program per cell and one machine",
    "exact": "sizes, parties, multiplications: exact",
    "order": "orders of models and phases, as in the paper",
    "linear": "linear where it should be, ours only",
    "constant": "constant where it should be, ours only",
    "network": "emulated networks bite",
    "ratio": "times within a factor of 3 of the paper's",
    "gain": "the default against the protocol as published",
}
