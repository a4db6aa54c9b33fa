"""One group's decision rule: what it may be, and that JSON holds it."""

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fairshares.harness.errors import ThresholdRuleError
from fairshares.harness.postprocessing.thresholds.rules import ThresholdRule, mixture, rule_from_json


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (ThresholdRule((0.5,)), {"threshold": 0.5}),
        (
            ThresholdRule((0.25, 0.5), (0.75, 0.25)),
            {"threshold": 0.25, "threshold_alt": 0.5, "probability_alt": 0.25},
        ),
        (
            ThresholdRule((0, 0.5, 2), (0.25, 0.25, 0.5)),
            {"thresholds": [0, 0.5, 2], "probabilities": [0.25, 0.25, 0.5]},
        ),
    ],
)
def test_json_has_the_forms_that_scripts_know(rule: ThresholdRule, expected: dict[str, Any]) -> None:
    assert rule.to_json() == expected
    assert rule_from_json(json.loads(json.dumps(expected)), "here") == rule


@settings(max_examples=50)
@given(st.dictionaries(st.floats(0, 2), st.floats(1e-6, 1), min_size=1, max_size=3))
def test_json_gives_the_rule_back(parts: dict[float, float]) -> None:
    total = sum(parts.values())
    rule = mixture((threshold, p / total) for threshold, p in parts.items())
    again = rule_from_json(json.loads(json.dumps(rule.to_json())), "here")
    assert again.thresholds == rule.thresholds
    assert again.probabilities == pytest.approx(rule.probabilities, abs=1e-12)


def test_mixture_sorts_merges_and_leaves_out() -> None:
    rule = mixture([(0.5, 0.25), (0.2, 0.5), (0.5, 0.25), (0.9, 0.0)])
    assert rule == ThresholdRule((0.2, 0.5), (0.5, 0.5))
    assert mixture([(0.5, 1.0)]).is_deterministic and not rule.is_deterministic


def test_probability_of_one_leaves_the_other_threshold_out() -> None:
    document = {"threshold": 0.5, "threshold_alt": 0.25, "probability_alt": 1}
    assert rule_from_json(document, "here") == ThresholdRule((0.25,))


@pytest.mark.parametrize(
    ("thresholds", "probabilities", "message"),
    [
        ((), (), "at least one threshold"),
        ((0.5,), (0.5, 0.5), "a probability for each"),
        ((float("inf"),), (1,), "2 accepts nobody"),
        ((float("nan"),), (1,), "finite"),
        ((0.5, 0.5), (0.5, 0.5), "increase"),
        ((0.5, 0.6), (0.5, 0.6), "add up to 1"),
        ((0.5, 0.6), (-0.5, 1.5), "negative"),
        ((0.5,), (float("nan"),), "negative"),
    ],
)
def test_refuses(thresholds: tuple[float, ...], probabilities: tuple[float, ...], message: str) -> None:
    with pytest.raises(ThresholdRuleError, match=message):
        ThresholdRule(thresholds, probabilities)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({}, "must have the key threshold"),
        (0.5, "must have the key threshold"),
        ({"threshold": 0.5, "probability_alt": 0.5}, "must have the key threshold"),
        ({"threshold": 0.5, "note": "x"}, "and no other"),
        ({"threshold": "0.5"}, "numbers only: expected `float`, got `str`"),
        ({"threshold": True}, "numbers only: expected `float`, got `bool`"),
        ({"threshold": None}, "numbers only"),
        (
            {"threshold": 0.5, "threshold_alt": 0.6, "probability_alt": 1.5},
            "expected `float` <= 1.0\\d* at `probability_alt`",
        ),
        ({"thresholds": [0.5, 0.6], "probabilities": [1]}, "2 thresholds and 1 probabilities"),
        ({"thresholds": 0.5, "probabilities": [1]}, "expected `array`, got `float`"),
        ({"threshold": 10**400}, "number out of range"),
    ],
)
def test_refuses_json(found: Any, message: str) -> None:
    with pytest.raises(ThresholdRuleError, match=message):
        rule_from_json(found, "group 'a'")
