"""Checks and their findings: passed, explained, failed, or not judged."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from math import inf, isfinite
from pathlib import Path
from typing import Any

import msgspec


class Status(StrEnum):
    """The result of a check; only PASSED is a pass."""

    PASSED = "passed"
    EXPLAINED = "explained"
    FAILED = "failed"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class Check:
    """One number, judged by its range."""

    key: str  # dotted, its kind first
    says: str  # the claim
    value: float | None = None
    low: float = -inf
    high: float = inf
    found: str = ""  # the value in words
    unjudged: str = ""  # why there is no value

    def __post_init__(self) -> None:
        if (self.value is None) != bool(self.unjudged):
            raise ValueError(f"{self.key} has a value, or a reason why it has none")
        if self.low == -inf and self.high == inf and self.value is not None:
            raise ValueError(f"{self.key} could not fail")

    @property
    def kind(self) -> str:
        """The kind of check, as `exact`."""
        kind, _, _ = self.key.partition(".")
        return kind


@dataclass(frozen=True)
class Explanation:
    """Why some checks deviate, and within which range their values may then be."""

    checks: str  # a pattern of the checks' keys
    low: float
    high: float
    because: str
    experiment: str = ""  # the cell that shows it, as suite.name; {model} is the last word of the check's key

    def __post_init__(self) -> None:
        if self.checks.startswith("ratio.table2") and not self.experiment:
            raise ValueError(f"what explains {self.checks} has to name an experiment that shows it")

    def reason(self, check: Check, shown: Mapping[str, str]) -> str:
        """Return why a check's value deviates; an empty text if this does not explain it.

        Args:
            check: The check.
            shown: What experiments showed, by their names.
        """
        named = fnmatchcase(check.key, self.checks)
        if check.value is None or not named or not self.low <= check.value <= self.high:
            return ""
        _, _, model = check.key.rpartition(".")
        experiment = self.experiment.format(model=model)
        if not experiment:
            return self.because
        if experiment not in shown:
            return ""
        return f"{self.because} ({experiment}: {shown[experiment]})"


@dataclass(frozen=True)
class Finding:
    """A judged check."""

    check: Check
    status: Status
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the finding with its check's range, in which an open end is null."""
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
    """Return the known explanations."""
    content = Path(__file__).with_name("explanations.json").read_bytes()
    return msgspec.json.decode(content, type=tuple[Explanation, ...])


def judge(
    checks: Iterable[Check], known: Sequence[Explanation], shown: Mapping[str, str] | None = None
) -> list[Finding]:
    """Judge each check by its range, and outside it by the first explanation of its value.

    Guarantees: an explanation excuses only its values, and only if its experiment was measured.
    [test: tests/benchmarks/test_validation_findings.py]
    """
    return [_judge(check, known, shown or {}) for check in checks]


def _judge(check: Check, known: Sequence[Explanation], shown: Mapping[str, str]) -> Finding:
    if check.value is None:
        return Finding(check, Status.NOT_JUDGED, check.unjudged)
    if check.low <= check.value <= check.high:
        return Finding(check, Status.PASSED)
    for explanation in known:
        reason = explanation.reason(check, shown)
        if reason:
            return Finding(check, Status.EXPLAINED, reason)
    return Finding(check, Status.FAILED, "no known explanation covers this")


def all_well(findings: Sequence[Finding]) -> bool:
    """Return whether something was judged and nothing failed."""
    judged = [finding for finding in findings if finding.status is not Status.NOT_JUDGED]
    return bool(judged) and all(finding.status is not Status.FAILED for finding in judged)
