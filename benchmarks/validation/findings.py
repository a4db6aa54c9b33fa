"""Checks and their findings: passed, explained, not explained, failed, or not judged."""

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
    NOT_EXPLAINED = "not explained"  # a figure of a paper that is another here, and nobody knows why
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

    @property
    def compares_with_paper(self) -> bool:
        """Whether the value is a ratio to a printed figure, of another machine than this."""
        return self.kind == "ratio"


@dataclass(frozen=True)
class Explanation:
    """Why some checks deviate, and within which range their values may then be.

    A ratio to a paper's figure is explained by an experiment alone: two measured cells that differ in the
    supposed reason. The ratio, times the first cell's median over the second's, has to pass.
    """

    checks: str  # a pattern of the checks' keys
    because: str
    low: float = -inf
    high: float = inf
    # The cells as the paper may have run it, and as it ran here, as suite.name; {model} is the last word of
    # the check's key.
    experiment: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        if self.checks.startswith("ratio") and not self.experiment:
            raise ValueError(f"what explains {self.checks} has to name an experiment that shows it")

    def reason(self, check: Check, medians: Mapping[str, float]) -> str:
        """Return why a check's value deviates; an empty text if this does not explain it.

        Args:
            check: The check.
            medians: The seconds of measured cells, as suite.name.
        """
        named = fnmatchcase(check.key, self.checks)
        if check.value is None or not named or not self.low <= check.value <= self.high:
            return ""
        if not self.experiment:
            return self.because
        _, _, model = check.key.rpartition(".")
        as_in_paper, as_here = (cell.format(model=model) for cell in self.experiment)
        if as_in_paper not in medians or as_here not in medians:
            return ""
        factor = medians[as_in_paper] / medians[as_here]
        left = check.value * factor
        if not check.low <= left <= check.high:
            return ""
        return f"{self.because} ({as_in_paper} over {as_here}: ×{factor:.3g}, so ×{left:.3g} is left)"


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
    checks: Iterable[Check], known: Sequence[Explanation], medians: Mapping[str, float] | None = None
) -> list[Finding]:
    """Judge each check by its range, and outside it by the first explanation of its value.

    Args:
        checks: The checks.
        known: The explanations.
        medians: The seconds of measured cells, as suite.name.

    Guarantees: an explanation excuses only its values, and only as far as its experiment shows. A ratio to a
    paper's figure that nothing explains is no failure, because the paper's machine can't be had, and no pass.
    [test: tests/benchmarks/test_validation_findings.py]
    """
    return [_judge(check, known, medians or {}) for check in checks]


def _judge(check: Check, known: Sequence[Explanation], medians: Mapping[str, float]) -> Finding:
    if check.value is None:
        return Finding(check, Status.NOT_JUDGED, check.unjudged)
    if check.low <= check.value <= check.high:
        return Finding(check, Status.PASSED)
    for explanation in known:
        reason = explanation.reason(check, medians)
        if reason:
            return Finding(check, Status.EXPLAINED, reason)
    if check.compares_with_paper:
        return Finding(check, Status.NOT_EXPLAINED, "no experiment shows why")
    return Finding(check, Status.FAILED, "no known explanation covers this")


def all_well(findings: Sequence[Finding]) -> bool:
    """Return whether something was judged and nothing failed."""
    judged = [finding for finding in findings if finding.status is not Status.NOT_JUDGED]
    return bool(judged) and all(finding.status is not Status.FAILED for finding in judged)
