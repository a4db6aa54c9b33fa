"""Judges measured runs: are they whole, in order, linear, and how far from the papers' figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.validation.cells import Measured
from benchmarks.validation.checks import checks
from benchmarks.validation.findings import Check, Explanation, Finding, Status, all_well, explanations, judge
from benchmarks.validation.side_by_side import Row, rows


@dataclass(frozen=True)
class Validation:
    """What `bench.validate` found. Attributes: rows: Table 2 side by side."""

    findings: tuple[Finding, ...]
    rows: tuple[Row, ...]

    @property
    def passed(self) -> bool:
        """Whether something was judged and nothing failed."""
        return all_well(self.findings)

    def of(self, status: Status) -> list[Finding]:
        """Return the findings with that status."""
        return [finding for finding in self.findings if finding.status is status]

    def to_json(self) -> dict[str, Any]:
        """Return everything, with how many findings there are of each status."""
        return {
            "passed": self.passed,
            "counts": {str(status): len(self.of(status)) for status in Status},
            "findings": [finding.to_json() for finding in self.findings],
            "table2": [row.to_json() for row in self.rows],
        }


def validate(
    measured: Measured, known: Sequence[Explanation] | None = None, programs: Iterable[Check] = ()
) -> Validation:
    """Judge measured runs against the papers and against each other.

    Guarantees: each kind of check fails on results that break it, and a check that cannot be judged is
    never a pass.  [test: tests/benchmarks/test_validation.py]
    Args: known: explanations of deviations, those of `explanations.json` unless given; programs: checks
    of the programs themselves, see `multiplications`.
    """
    table = rows(measured)
    found = checks(measured, table, programs)
    return Validation(tuple(judge(found, explanations() if known is None else known)), tuple(table))
