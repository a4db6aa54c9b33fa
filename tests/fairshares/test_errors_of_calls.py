"""Every public function and method tells of a mistake by keywords: a Python call has no command's options."""

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fairshares as fs
from fairshares.harness.errors import OptionError, named
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.postprocessing.thresholds.rules import ThresholdRule
from fairshares.harness.training.features import features_from_json
from fairshares.harness.uploads.task import Task
from tests.support.running import QUICKEST
from tests.support.vectors import task_of_vectors

ASKED: dict[str, Any] = {"epsilon": 0}
RUN: dict[str, Any] = {"epsilon": 20, "security": QUICKEST, "population": "none"}
SUMS: dict[str, Any] = {"clients": 2, "coordinates": 2, "rounds": 2, "clip": 1.0, "epsilon": 1}
MODEL = fs.LogisticModel(
    features_from_json({"prediction": {"low": 0, "high": 1}}, "features"), ("0", "1"), np.zeros((1, 2))
)
SCORED = fs.GroupThresholdPredictor({"a": ThresholdRule((0.5,))})
ROUND = fs.TrainingRound(
    task="0" * 64,
    reveal=1,
    domain=RecordDomain(("a", "b"), ("0", "1")),
    features=MODEL.features,
    parameters=MODEL.parameters,
    clip=1.0,
    largest_weight=1.0,
    weights=None,
    fairgrad=None,
)
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


def sums_at_hosts(directory: Path, of_vectors: Task, **changes: Any) -> fs.SumsAtHosts:
    """Return sums at hosts that are nowhere, of a task of vectors. Args: directory: gets both files."""
    rows = (
        f'[[host]]\nparty = {i}\naddress = "10.0.0.{i}"\ndirectory = "/d"\nproject = "/p"\nport = 12000\n'
        for i in range(3)
    )
    (directory / "hosts.toml").write_text("".join(rows))
    (directory / "task.json").write_bytes(of_vectors.text)
    given: dict[str, Any] = {
        "hosts": directory / "hosts.toml",
        "task": directory / "task.json",
        "epsilon": 8,
        "population": "people",
        "noise": "distributed",
        "ledger": directory / "of-sums.sqlite",
    }
    return fs.SumsAtHosts(**{**given, **changes})


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
    task = task_of_vectors(tmp_path / "task")
    client = fs.UpdateClient(task, tmp_path / "sent")
    (tmp_path / "sent" / task.name / "reveal-2").mkdir()
    at_hosts = sums_at_hosts(tmp_path, task)
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
        "SumsAtHosts": lambda: sums_at_hosts(tmp_path, task, epsilon=0),
        "SumsAtHosts.preprocess": lambda: at_hosts.preprocess(0),
        "SumsAtHosts.reveal": lambda: at_hosts.reveal(9),
        "SumsAtHosts.run": lambda: at_hosts.run(9),
        "TrainingRound.load": lambda: fs.TrainingRound.load(tmp_path),
        "TrainingRound.update": lambda: ROUND.update(frame),
        "UpdateClient.seal": lambda: client.seal(1, np.zeros(9)),
        "UpdateClient.sealed": lambda: client.sealed(2),
        "UpdateClient.send": lambda: client.send(1),
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


def paths(function: Callable[..., object]) -> list[str]:
    """Return the parameters of a function that take a path, or records, which may be a file's name."""
    found = inspect.signature(function).parameters.values()
    return [each.name for each in found if "Path" in str(each.annotation) or each.annotation == "Records"]


NO_FILE = "a\0b"
# What a call needs beside its path, by the names of its other arguments.
NEEDED: dict[str, dict[str, Any]] = {
    "cap": {"epsilon": 1, "release_epsilon": 1},
    "confusion": {"epsilon": 1},
    "count": {"epsilon": 1},
    "gap": {"epsilon": 1, "range": (0, 1), "groups": ["a", "b"]},
    "ledger": {},
    "load": {},
    "plan": {"epsilon": 1, "clients": 100, "groups": 2},
    "preprocess": {"epsilon": 1, "groups": ["a", "b"], "labels": [0, 1]},
    "read_weights": {},
    "sample_weight": {"group": ["a"], "label": [0]},
    "thresholds": {"epsilon": 1, "groups": ["a", "b"], "labels": [0, 1]},
    "train": {"epsilon": 1, "features": {"score": {"low": 0, "high": 1}}},
    "weights": {"epsilon": 1},
}


def sent_with(certificate: str) -> object:
    """Have a client of vectors send with a certificate."""
    with TemporaryDirectory() as place:
        client = fs.UpdateClient(task_of_vectors(Path(place) / "task"), Path(place) / "sent")
        return client.send(1, certificate=certificate)


# Methods, by what calls them with a path.
METHODS: dict[str, Callable[[fs.WeightsResult, str], object]] = {
    "Result.save": lambda weights, path: weights.save(path),
    "TrainResult.save": lambda weights, path: fs.TrainResult(weights._earlier, MODEL).save(path),
    "GroupThresholdPredictor.load": lambda _, path: fs.GroupThresholdPredictor.load(path),
    "GroupThresholdPredictor.save": lambda _, path: SCORED.save(path),
    "LogisticModel.load": lambda _, path: fs.LogisticModel.load(path),
    "TrainingRound.load": lambda _, path: fs.TrainingRound.load(path),
    "TrainingRound.update": lambda _, path: ROUND.update(path),
    "UpdateClient.send": lambda _, path: sent_with(path),
}


def of_functions() -> list[tuple[str, str]]:
    """Return each public function with each of its parameters that take a path."""
    functions = [name for name in fs.__all__ if inspect.isfunction(getattr(fs, name))]
    return [(name, field) for name in functions for field in paths(getattr(fs, name))]


@pytest.mark.parametrize(("name", "field"), of_functions())
def test_a_path_that_no_file_can_have_is_refused_by_name(
    name: str, field: str, frame: pd.DataFrame, tmp_path: Path
) -> None:
    given = dict(NEEDED[name])
    further: list[str] = []
    if "records" in paths(getattr(fs, name)) and field != "shares":
        given["records"] = frame
    if field == "from_records":
        given = {"epsilon": 1}
    if field in ("fingerprints", "others"):
        further = [str(tmp_path), NO_FILE]
    if name == "load" and field == "directory":
        further = [NO_FILE]
    else:
        given[field] = NO_FILE
    if field == "others":
        del given["others"]
    with pytest.raises(fs.OptionError, match=rf"no file's name .* name another by {field}=\.$"):
        getattr(fs, name)(*further, **given)


@pytest.mark.parametrize("field", paths(fs.SumSession))
def test_sessions_refuse_a_path_that_no_file_can_have(field: str) -> None:
    given: dict[str, Any] = {field: NO_FILE}
    with pytest.raises(fs.OptionError, match=rf"no file's name .* name another by {field}=\.$"):
        fs.SumSession("mpyc", **SUMS, population="none", **given)
    with pytest.raises(fs.OptionError, match=r"no file's name .* name another by records=\.$"):
        fs.Session(NO_FILE).weights(epsilon=1)


@pytest.mark.parametrize("field", paths(fs.SumsAtHosts))
def test_sums_at_hosts_refuse_a_path_that_no_file_can_have(field: str, tmp_path: Path) -> None:
    with pytest.raises(fs.OptionError, match=rf"no file's name .* name another by {field}=\.$"):
        sums_at_hosts(tmp_path, task_of_vectors(tmp_path / "of-vectors"), **{field: NO_FILE})


@pytest.mark.parametrize("field", paths(fs.UpdateClient))
def test_clients_of_vectors_refuse_a_path_that_no_file_can_have(field: str, tmp_path: Path) -> None:
    task = task_of_vectors(tmp_path / "task")
    given: dict[str, Any] = {"task": task, "directory": tmp_path / "sent", field: NO_FILE}
    with pytest.raises(fs.OptionError, match=rf"no file's name .* name another by {field}=\.$"):
        fs.UpdateClient(**given)


@pytest.mark.parametrize("method", METHODS)
def test_methods_refuse_a_path_that_no_file_can_have(method: str, weights: fs.WeightsResult) -> None:
    says = r"no file's name .* name another by (path|directory|certificate|records)=\.$"
    with pytest.raises(fs.OptionError, match=says):
        METHODS[method](weights, NO_FILE)


def test_each_method_that_takes_a_path_is_tried() -> None:
    found = set()
    for name in fs.__all__:
        value = getattr(fs, name)
        if not inspect.isclass(value) or value is fs.Session:  # whose calls are those above
            continue
        for attribute in dir(value):
            member = inspect.unwrap(getattr(value, attribute))
            function = getattr(member, "__func__", member)
            if inspect.isfunction(function) and not attribute.startswith("_") and paths(function):
                found.add(function.__qualname__)
    assert found == METHODS.keys()


def public() -> Iterator[str]:
    """Yield the names of public functions, and of public methods by the class that defines them."""
    for name in fs.__all__:
        value = getattr(fs, name)
        if inspect.isfunction(value):
            yield name
        if not inspect.isclass(value):
            continue
        if value in (fs.Session, fs.SumSession, fs.SumsAtHosts):  # whose arguments are a request's fields
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
