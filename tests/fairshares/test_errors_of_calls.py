"""Every public function and method tells of a mistake by keywords: a Python call has no command's options."""

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fairshares as fs
from fairshares.harness.errors import OptionError, named
from fairshares.harness.postprocessing.thresholds.rules import ThresholdRule
from fairshares.harness.training.features import features_from_json
from tests.support.running import QUICKEST

ASKED: dict[str, Any] = {"epsilon": 0}
RUN: dict[str, Any] = {"epsilon": 20, "security": QUICKEST, "population": "none"}
SUMS: dict[str, Any] = {"clients": 2, "coordinates": 2, "rounds": 2, "clip": 1.0, "epsilon": 1}
MODEL = fs.LogisticModel(
    features_from_json({"prediction": {"low": 0, "high": 1}}, "features"), ("0", "1"), np.zeros((1, 2))
)
SCORED = fs.GroupThresholdPredictor({"a": ThresholdRule((0.5,))})
# What has no mistake that an option could mend.
NONE_TO_NAME = {
    "GroupThresholdPredictor.fit",
    "LogisticModel.fit",
    "LogisticModel.from_stated",
    "LogisticModel.to_json",
    "Shown.plot",
    "SumSession.close",
    "ThresholdsResult.predictor",
    "TrainResult.predictor",
}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rows = {"client_id": range(400), "group": ["a", "b"] * 200, "label": [0, 0, 1, 1] * 100}
    frame = pd.DataFrame(rows)
    return frame.assign(score=0.2 + 0.6 * frame.label)


@pytest.fixture(scope="module")
def weights(frame: pd.DataFrame) -> fs.WeightsResult:
    return fs.weights(frame, **RUN)


@pytest.fixture(scope="module")
def thresholds(frame: pd.DataFrame) -> fs.ThresholdsResult:
    declared: dict[str, Any] = {"groups": ["a", "b"], "labels": [0, 1], "thresholds": 11}
    return fs.thresholds(frame, positive_label=1, **declared, **RUN)


@pytest.fixture
def mistakes(
    frame: pd.DataFrame,
    weights: fs.WeightsResult,
    thresholds: fs.ThresholdsResult,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, Callable[[], object]]:
    """Return a call with a mistake for each public function and method."""
    blocked = tmp_path / "file" / "new"
    blocked.parent.touch()
    session = fs.Session(frame, security="mpyc", ledger=tmp_path / ("n" * 256))
    sums = fs.SumSession("mpyc", **SUMS, population="none")

    def late(*_: object) -> None:
        raise OptionError(f"Give more time with {named('timeout')}.")

    monkeypatch.setattr("fairshares.harness.training.session.preprocess", late)
    monkeypatch.setattr("fairshares.harness.training.session.opened", late)
    supported = fs.SumSession("mpyc", **SUMS, population="none")
    monkeypatch.setattr(type(supported.planned), "check_supported", late)
    features = {"age": {"low": 0, "high": 1}}
    return {
        "cap": lambda: fs.cap(frame, release_epsilon=1, **ASKED),
        "confusion": lambda: fs.confusion(frame, **ASKED),
        "count": lambda: fs.count(frame, **ASKED),
        "gap": lambda: fs.gap(frame, range=(0, 1), **ASKED),
        "ledger": lambda: fs.ledger(budget=3, ledger=tmp_path / "l.sqlite"),
        "load": lambda: fs.load(tmp_path, fingerprints="f"),
        "plan": lambda: fs.plan(clients=10, groups=2, **ASKED),
        "preprocess": lambda: fs.preprocess(**ASKED),
        "read_weights": lambda: fs.read_weights(tmp_path),
        "sample_weight": lambda: fs.sample_weight(weights.weights, ["c"], [0]),
        "thresholds": lambda: fs.thresholds(frame, **ASKED),
        "train": lambda: fs.train(frame, features=features, **ASKED),
        "weights": lambda: fs.weights(frame, **ASKED),
        "Session": lambda: fs.Session(frame, unit="x"),  # type: ignore[arg-type]
        "Session.cap": lambda: session.cap(release_epsilon=1, **ASKED),
        "Session.confusion": lambda: session.confusion(**ASKED),
        "Session.count": lambda: session.count(**ASKED),
        "Session.gap": lambda: session.gap(range=(0, 1), **ASKED),
        "Session.ledger": session.ledger,
        "Session.thresholds": lambda: session.thresholds(**ASKED),
        "Session.train": lambda: session.train(features=features, **ASKED),
        "Session.weights": lambda: session.weights(**ASKED),
        "SumSession": lambda: fs.SumSession("mpyc", **{**SUMS, "timeout": 0}),
        "SumSession.add": lambda: sums.add(np.zeros((2, 2))),
        "SumSession.check_supported": supported.check_supported,
        "SumSession.open": sums.open,
        "SumSession.preprocess": sums.preprocess,
        "Result.save": lambda: weights.save(blocked),
        "TrainResult.save": lambda: fs.TrainResult(weights._earlier, MODEL).save(blocked),
        "WeightsResult.sample_weight": lambda: weights.sample_weight(["c"], [0]),
        "ThresholdsResult.choose": lambda: thresholds.choose(tolerance=-1),
        "GroupThresholdPredictor.load": lambda: fs.GroupThresholdPredictor.load(tmp_path),
        "GroupThresholdPredictor.positive_probability": lambda: SCORED.positive_probability(
            [0.5], sensitive_features=["c"]
        ),
        "GroupThresholdPredictor.predict": lambda: SCORED.predict([0.5], sensitive_features=["c"]),
        "GroupThresholdPredictor.predict_proba": lambda: SCORED.predict_proba(
            [0.5], sensitive_features=["c"]
        ),
        "GroupThresholdPredictor.save": lambda: SCORED.save(blocked),
        "GroupThresholdPredictor.score": lambda: SCORED.score([0.5], [1], sensitive_features=["c"]),
        "LogisticModel.load": lambda: fs.LogisticModel.load(tmp_path),
        "LogisticModel.predict": lambda: MODEL.predict(frame),
        "LogisticModel.predict_proba": lambda: MODEL.predict_proba(frame),
    }


def public() -> Iterator[str]:
    """Yield the names of public functions, and of public methods by the class that defines them."""
    for name in fs.__all__:
        value = getattr(fs, name)
        if inspect.isfunction(value):
            yield name
        if not inspect.isclass(value):
            continue
        if value in (fs.Session, fs.SumSession):  # whose arguments are a request's fields
            yield name
        for attribute in dir(value):
            member = inspect.unwrap(getattr(value, attribute))
            function = getattr(member, "__func__", member)
            is_ours = inspect.isfunction(function) and function.__module__.startswith("fairshares.")
            if is_ours and not attribute.startswith("_"):
                yield function.__qualname__


def test_each_public_function_and_method_tells_of_a_mistake_by_keywords(
    mistakes: dict[str, Callable[[], object]],
) -> None:
    assert mistakes.keys() | NONE_TO_NAME == set(public())
    for name, call in mistakes.items():
        with pytest.raises(fs.FairSharesError) as raised:
            call()
        assert not re.search(r"(?<![\w-])--[a-z]|\./inv", str(raised.value)), (name, str(raised.value))
