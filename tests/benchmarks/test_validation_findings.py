"""How a check is judged: by its range, then by explanations, which name what they excuse."""

import json
import re
from math import inf

import pytest

from benchmarks.validation.findings import Check, Explanation, Finding, Status, all_well, explanations, judge

KNOWN = (Explanation("gain.*.ring", "one machine for all parties", 0.01, 0.2),)


def judged(check: Check) -> Finding:
    return judge([check], KNOWN)[0]


@pytest.mark.parametrize(
    ("key", "value", "status"),
    [
        ("gain.a.ring", 1.0, Status.PASSED),
        ("gain.a.ring", 0.5, Status.PASSED),
        ("gain.a.ring", 2.0, Status.PASSED),
        ("gain.a.ring", 0.1, Status.EXPLAINED),
        ("gain.a.ring", 0.01, Status.EXPLAINED),
        ("gain.a.ring", 0.3, Status.FAILED),  # neither in the range nor what is explained
        ("gain.a.ring", 0.009, Status.FAILED),
        ("gain.a.ring", 2.1, Status.FAILED),
        ("gain.a.semi2k", 0.1, Status.FAILED),  # explained for another model only
        ("order.a.ring", 0.1, Status.FAILED),
        ("ratio.a.ring", 0.1, Status.NOT_EXPLAINED),  # of a paper's machine, which nobody has
        ("ratio.a.ring", 1.0, Status.PASSED),
    ],
)
def test_range_then_explanation(key: str, value: float, status: Status) -> None:
    finding = judged(Check(key, "…", value, 0.5, 2.0))
    assert finding.status is status
    assert bool(finding.reason) == (status is not Status.PASSED)


def test_what_is_not_judged_is_no_pass_and_says_why() -> None:
    unjudged = judged(Check("gain.a.ring", "…", unjudged="it was not measured"))
    assert (unjudged.status, unjudged.reason) == (Status.NOT_JUDGED, "it was not measured")
    passed = judged(Check("gain.a.ring", "…", 1.0, 1.0, 1.0))
    failed = judged(Check("gain.a.ring", "…", 5.0, 1.0, 1.0))
    assert not all_well([unjudged])
    assert all_well([unjudged, passed])
    assert not all_well([unjudged, passed, failed])


@pytest.mark.parametrize("fields", [{"value": 1.0}, {}, {"value": 1.0, "low": 0.0, "unjudged": "both"}])
def test_a_check_that_could_not_fail_is_refused(fields: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"could not fail|a reason why"):
        Check("key", "…", **fields)  # type: ignore[arg-type]


def test_open_ends_are_valid_json() -> None:
    fields = judged(Check("gain", "…", 20.0, 10.0, inf)).to_json()
    assert json.loads(json.dumps(fields, allow_nan=False))["high"] is None


def test_known_explanations_are_one_line_each_and_excuse_times_and_batches_only() -> None:
    """Of bytes those of two models, whose literal programs prepare more than few thresholds use."""
    batches = r"|linear\.thresholds\.literal\..*\.(sy-rep-ring|spdz2k)\.bytes"
    for explanation in explanations():
        of_time = (
            r"(order|gain|network)\.|constant\..*\.distributed\..*\.seconds|whole\.\w+\.(finished|versions)$"
            + batches
        )
        assert 20 < len(explanation.because) < 200 and "\n" not in explanation.because
        if explanation.experiment is not None:  # which has to leave a ratio in its range
            assert explanation.checks.startswith("ratio.table2.")
            continue
        assert ".mpyc." in explanation.checks or re.match(of_time, explanation.checks)
        assert explanation.low <= explanation.high < inf
