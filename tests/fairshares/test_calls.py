"""Calls: tables, files and columns alike; charges and refusals as the command's; nothing printed."""

import doctest
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fairshares
import fairshares as fs
from fairshares import _calls, _lookups
from harness.inputs.record_schema import values_of
from tests.conftest import PROJECT
from tests.support.running import QUICKEST

SAID: dict[str, Any] = {"epsilon": 20, "security": QUICKEST}


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame({"client_id": range(40), "group": ["a", "b"] * 20, "label": [0, 0, 1, 1] * 10})


def test_importing_it_loads_no_library() -> None:
    script = "import sys, fairshares; print([n for n in ('numpy', 'pandas', 'rich') if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_tables_files_and_columns_are_alike_and_nothing_is_printed(
    frame: pd.DataFrame, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "my.csv"
    frame.to_csv(path, index=False)
    given = [
        fs.weights(frame, **SAID),
        fs.weights(path, **SAID),
        fs.weights(
            frame.rename(columns={"group": "race"}), group="race", label=frame.label.to_numpy(), **SAID
        ),
        fs.weights(
            client_id=frame.client_id,
            group=list(frame.group),
            label=np.array(frame.label),
            out="kept",
            **SAID,
        ),
    ]
    assert len({str(tuple(each.weights.index)).replace("'", "") for each in given}) == 1
    assert len({each.manifest["inputs"]["clients"] for each in given}) == 1
    assert fs.load("kept").weights.equals(given[-1].weights)
    with pytest.raises(fs.FairSharesError, match=r"^kept exists already; name another directory\.$"):
        given[-1].save("kept")
    assert capfd.readouterr() == ("", "")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["kept", "my.csv"]


def test_a_call_is_charged_as_a_command_is(frame: pd.DataFrame, tmp_path: Path) -> None:
    book = tmp_path / "ledger.sqlite"
    said: dict[str, Any] = {"security": QUICKEST, "population": "loans", "ledger": book}
    found = fs.weights(frame, epsilon=1, budget=(1.5, 1e-6), **said)
    assert "Charged to population 'loans'" in str(found)
    with pytest.raises(fs.FairSharesError, match="budget") as refused:
        fs.weights(frame, epsilon=1, **said)
    assert type(refused.value).__name__ == "BudgetError"
    spent = fs.ledger(ledger=book)
    assert spent.charges.task.tolist() == ["weights"] and "Population 'loans'" in str(spent)


@pytest.mark.parametrize(
    ("changes", "said", "message"),
    [
        ({}, {"epsilon": 0}, "epsilon= must be a number above 0 and at most 20, for example 1; got '0'."),
        ({}, {"population": ""}, "population= is empty; leave it out, or give it a value."),
        ({}, {"cap": 3, "max_count": 2}, "A cap of 3 is above the 2 records that a client has at most"),
        (
            {},
            {"group": ["a"]},
            "client_id, group and label must have one value per row each; their shapes are",
        ),
        ({}, {"group": "race"}, r"The table has no column race, the value of group= \(found: client_id, "),
        ({"label": np.nan}, {}, "The table, row 1000: column label is empty or NaN, and so in "),
        ({"group": "a"}, {}, r"The domain has 1 group \['a'\]"),
        ({}, {"out": "."}, "exists already; name another directory by out="),
    ],
)
def test_a_mistake_ends_in_a_sentence(
    changes: dict[str, Any], said: dict[str, Any], message: str, frame: pd.DataFrame
) -> None:
    wrong = frame.assign(**changes).set_index(frame.index + 1000)
    with pytest.raises(fs.FairSharesError, match=message):
        fs.weights(wrong, **{**SAID, **said})


def test_there_are_no_other_arguments(frame: pd.DataFrame) -> None:
    with pytest.raises(TypeError, match="hosts"):
        fs.weights(frame, hosts="hosts.toml", **SAID)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="no argument 'reweigh'"):
        fs.plan(clients=10, groups=2, epsilon=1, reweigh="label")
    with pytest.raises(fs.FairSharesError, match=r"^task= must be weights, .* got 'weight'\.$"):
        fs.plan(task="weight", clients=100, groups=2, epsilon=1)
    with pytest.raises(fs.FairSharesError, match="client_id, group and label must have the same index"):
        fs.weights(frame, label=frame.label[::-1], **SAID)
    with pytest.raises(AttributeError, match="no attribute 'weight'"):
        _ = fs.weight


def test_noise_made_ahead_is_taken_once(frame: pd.DataFrame, tmp_path: Path) -> None:
    declared: dict[str, Any] = {**SAID, "groups": ["a", "b"], "labels": [0, 1], "stock": tmp_path / "noise"}
    made = fs.preprocess("weights", 1, **declared)
    assert made.attempts.tolist() == [1]
    r = fs.weights(frame, offline=True, **declared)
    assert r.manifest["preprocessing"]["attempts"] == 1 and r.manifest["privacy"]["made_ahead"]
    with pytest.raises(fs.StockError, match=r"has no noise for this release .* leave out offline"):
        fs.weights(frame, offline=True, **declared)
    with pytest.raises(fs.OptionError, match="declare it by domain="):
        fs.preprocess("weights", epsilon=1, security=QUICKEST)


COLUMNS: dict[str, tuple[list[Any], list[Any]]] = {
    "ints": ([0, 1], [10, 20]),
    "truth": ([False, True], [True, False]),
    "texts": (["0", "1"], ["a", "b"]),
    "floats": ([0.0, 1.0], [0.5, 1.5]),
}


def table(labels: list[Any], groups: list[Any], rows: int = 120) -> pd.DataFrame:
    """Return a client's record a row, of all pairs alike, whose label follows from x."""
    label = np.arange(rows) // 2 % 2
    found = pd.DataFrame({"client_id": range(rows), "label": [labels[i] for i in label], "x": label * 1.0})
    found["group"] = [groups[i % 2] for i in range(rows)]
    found["score"] = 0.25 + 0.5 * found.x
    return found


@pytest.mark.parametrize("kind", COLUMNS)
def test_weights_have_the_callers_groups_and_labels(kind: str, tmp_path: Path) -> None:
    labels, groups = COLUMNS[kind]
    df = table(labels, groups)
    r = fs.weights(df, epsilon=20, security="mpyc")
    assert sorted(r.weights.index.tolist()) == sorted((g, y) for g in groups for y in labels)
    assert {type(each) for pair in r.weights.index for each in pair} == {type(labels[0]), type(groups[0])}
    assert r.weights.loc[(groups[1], labels[0])] > 0
    merged = df.merge(r.weights.reset_index(), on=["group", "label"])
    by_row = r.sample_weight(df.group, df.label)
    assert len(merged) == len(df) and sorted(merged.sample_weight) == sorted(by_row)
    r.save(tmp_path / "out")
    for again in (pickle.loads(pickle.dumps(r)), fs.load(tmp_path / "out")):
        assert again.weights.equals(r.weights)


def test_a_model_predicts_the_callers_labels(tmp_path: Path) -> None:
    """And its thresholds, and its file: a comparison with the labels must not be false everywhere."""
    df = table([0, 1], ["a", "b"], 400)
    features = {"x": {"low": 0, "high": 1}}
    r = fs.train(
        df, features=features, epsilon=20, rounds=4, with_=["thresholds"], positive_label=1, security="mpyc"
    )
    assert r.model.classes_.tolist() == [0, 1] and (r.model.predict(df) == df.label).mean() > 0.9
    assert r.model.score(df, df.label) > 0.9 and r.thresholds is not None
    predicted = r.thresholds.predictor(r.model).predict(df, sensitive_features=df.group)
    assert set(predicted.tolist()) <= {0, 1} and predicted.dtype.kind == "i"
    r.save(tmp_path / "out")
    assert fs.load(tmp_path / "out").model.classes_.tolist() == [0, 1]


def test_a_name_that_two_values_share_stands_for_none() -> None:
    assert values_of(pd.Series([1, "1", "b", None], dtype=object)) == {"b": "b"}
    assert values_of(pd.Series([1.0, np.nan, 2.0])) == {"1": 1.0, "2": 2.0}
    assert values_of(pd.Series(pd.to_datetime(["2020-01-01"]))) == {}


def test_without_client_ids_each_row_is_a_client() -> None:
    df = table([0, 1], ["a", "b"]).drop(columns="client_id")
    r = fs.weights(df, epsilon=20, security="mpyc")
    assert r.manifest["inputs"]["clients"] == len(df) and "number of rows is public" in str(r)
    for asked in ({"privacy_unit": "client", "cap": 2}, {"cap": 2}):
        with pytest.raises(fs.OptionError, match="name the column of clients by client_id="):
            fs.weights(df, epsilon=20, security="mpyc", **asked)
    with pytest.raises(fs.RecordsError, match="has no column client_id"):
        fs.weights(df.assign(Client_ID=1), epsilon=20, security="mpyc")


FINDER = doctest.DocTestFinder(recurse=False)
SHOWN = {
    name: function
    for module in (_calls, _lookups)
    for name, function in vars(module).items()
    if name in fairshares.__all__
}
SHOWN["SumSession"] = fairshares.SumSession
WITHOUT_EXAMPLE = {"load"}  # its example is in `save`'s


@pytest.mark.parametrize("name", sorted(SHOWN.keys() - WITHOUT_EXAMPLE))
def test_an_example_does_what_it_says(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = FINDER.find(SHOWN[name], name)
    assert doctest.DocTestRunner(verbose=False).run(example) == (0, len(example.examples))
    assert example.examples
