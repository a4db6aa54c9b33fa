"""What a check found, and what becomes of it: passed, explained, failed, or not judged."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from math import inf, isfinite
from pathlib import Path
from typing import Any


class Status(StrEnum):
    """What became of a check; only PASSED is a pass."""

    PASSED = "passed"
    EXPLAINED = "explained"
    FAILED = "failed"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class Check:
    """One number that is judged by the range that it should be in.

    Attributes: key: dotted, its kind first; says: what should be so, in one phrase; value: None if it
    cannot be judged, and then `unjudged` is the reason; low, high: the range, both ends in it; found: the
    value in words.
    """

    key: str
    says: str
    value: float | None = None
    low: float = -inf
    high: float = inf
    found: str = ""
    unjudged: str = ""

    def __post_init__(self) -> None:
        if (self.value is None) != bool(self.unjudged):
            raise ValueError(f"{self.key} has a value, or a reason why it has none")
        if self.low == -inf and self.high == inf and self.value is not None:
            raise ValueError(f"{self.key} could not fail")

    @property
    def kind(self) -> str:
        """What sort of check it is, as its key begins: `exact`, say."""
        return self.key.partition(".")[0]


@dataclass(frozen=True)
class Explanation:
    """Why some checks deviate, and by how much they may for that reason.

    Attributes: checks: a pattern of their keys; low, high: the values that it explains; experiment: the runs
    that show it, which an explanation of Table 2's times has to name.
    """

    checks: str
    low: float
    high: float
    because: str
    experiment: str = ""

    def __post_init__(self) -> None:
        if self.checks.startswith("ratio.table2") and not self.experiment:
            raise ValueError(f"what explains {self.checks} has to name an experiment that shows it")

    @property
    def reason(self) -> str:
        """Why, and what shows it."""
        return f"{self.because} ({self.experiment})" if self.experiment else self.because

    def explains(self, check: Check) -> bool:
        """Return whether it is about that check, and its value is one that it explains."""
        return (
            check.value is not None
            and fnmatchcase(check.key, self.checks)
            and self.low <= check.value <= self.high
        )


@dataclass(frozen=True)
class Finding:
    """A judged check. Attributes: reason: one line on why it deviates or is not judged, "" if it passed."""

    check: Check
    status: Status
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it with the range that it was judged by; an open end is null."""
        check = self.check
        return {
            "check": check.key,
            "status": str(self.status),
            "says": check.says,
            "found": check.found,
            "value": check.value,
            "low": check.low if isfinite(check.low) else None,
            "high": check.high if isfinite(check.high) else None,
            "reason": self.reason,
        }


def explanations() -> tuple[Explanation, ...]:
    """Return the known explanations, from `explanations.json`."""
    text = Path(__file__).with_name("explanations.json").read_text(encoding="utf-8")
    return tuple(Explanation(**fields) for fields in json.loads(text))


def judge(checks: Iterable[Check], known: Sequence[Explanation]) -> list[Finding]:
    """Judge each check by its range; outside it, by the first explanation that covers its value.

    Guarantees: an explanation excuses no value but those that it names.
    [test: tests/benchmarks/test_validation_findings.py]
    """
    return [_judge(check, known) for check in checks]


def _judge(check: Check, known: Sequence[Explanation]) -> Finding:
    if check.value is None:
        return Finding(check, Status.NOT_JUDGED, check.unjudged)
    if check.low <= check.value <= check.high:
        return Finding(check, Status.PASSED)
    for explanation in known:
        if explanation.explains(check):
            return Finding(check, Status.EXPLAINED, explanation.reason)
    return Finding(check, Status.FAILED, "no known explanation covers this")


def all_well(findings: Sequence[Finding]) -> bool:
    """Return whether something was judged and nothing failed."""
    judged = [finding for finding in findings if finding.status is not Status.NOT_JUDGED]
    return bool(judged) and all(finding.status is not Status.FAILED for finding in judged)
