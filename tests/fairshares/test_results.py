"""Calls and their results: charges and refusals as the command's; what they hold, print, draw and save."""

import copy
import doctest
import pickle
import subprocess
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars
import pytest
from matplotlib import pyplot
from sklearn.linear_model import LogisticRegression

import fairshares
import fairshares as fs
from fairshares import _calls, _lookups
from fairshares.harness.inputs.columns import values_of
from fairshares.harness.releases.registry import CALLS
from fairshares.harness.security_models import SecurityModel, get_model
from tests.conftest import PROJECT
from tests.support.running import QUICKEST, model_parameters

PAIRS = [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
SAID: dict[str, Any] = {"epsilon": 20, "security": QUICKEST}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Return 400 clients' records, of both groups and labels alike."""
    frame = pd.DataFrame({"client_id": range(400), "group": ["a", "b"] * 200, "label": [0, 0, 1, 1] * 100})
    scores = 0.2 + 0.6 * frame.label
    return frame.assign(score=scores, prediction=frame.label, value=scores).set_index(frame.index + 1000)


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("domain") / "domain.json"
    path.write_text('{"groups": ["a", "b"], "labels": ["0", "1"], "thresholds": 11}')
    return path


@pytest.fixture(scope="module")
def results(frame: pd.DataFrame, domain: Path) -> dict[str, Any]:
    """Return a result of each statistic."""
    return {
        "weights": fs.weights(frame, **SAID),
        "confusion": fs.confusion(frame, **SAID),
        "thresholds": fs.thresholds(frame, positive_label=0, domain=domain, tolerance=1, **SAID),
        "gap": fs.gap(frame, groups=["a", "b"], range=(0, 1), **SAID),
        "count": fs.count(frame, error_to=1000, **SAID),
        "cap": fs.cap(frame, release_epsilon=1, max_count=5, **SAID),
    }


@pytest.mark.parametrize("task", ["weights", "confusion", "thresholds", "gap", "count", "cap"])
def test_a_saved_result_is_the_same_when_it_is_loaded(
    task: str, results: dict[str, Any], tmp_path: Path
) -> None:
    saved = results[task]
    saved.save(tmp_path / "saved")
    loaded: Any = fs.load(tmp_path / "saved")
    assert type(loaded) is type(saved) and loaded.manifest == saved.manifest
    assert words(loaded) + " ".join(["", *saved._notes]) == words(saved)
    for name in (
        "weights",
        "rates",
        "intervals",
        "counts",
        "gaps",
        "means",
        "curves",
        "rules",
        "noisy_counts",
    ):
        ours: Any = getattr(saved, name, None)
        theirs: Any = getattr(loaded, name, None)
        if isinstance(ours, pd.DataFrame):
            pd.testing.assert_frame_equal(ours, theirs, check_exact=True)
        elif isinstance(ours, pd.Series):
            pd.testing.assert_series_equal(ours, theirs, check_exact=True)
        else:
            assert ours == theirs
    assert str(pickle.loads(pickle.dumps(saved))) == str(copy.copy(saved)) == str(saved)


def test_weights(results: dict[str, Any], frame: pd.DataFrame) -> None:
    result = results["weights"]
    assert result.weights.index.tolist() == PAIRS and result.weights.name == "sample_weight"
    assert (result.intervals.low <= result.weights).all() and (result.weights <= result.intervals.high).all()
    assert 0 < result.privacy.epsilon <= 20 and result.privacy.unit == "record"
    of_rows = result.sample_weight(frame.group, frame.label)
    assert of_rows.index.equals(frame.index)
    for as_type in (list, np.array):
        others = result.sample_weight(as_type(frame.group), as_type(frame.label))
        assert others.index.equals(pd.RangeIndex(400)) and others.tolist() == of_rows.tolist()


def test_thresholds(results: dict[str, Any], frame: pd.DataFrame) -> None:
    result = results["thresholds"]
    assert result.problem is None and set(result.rules) == {"a", "b"}
    assert (
        result.curves.shape == (22, 3) and result.rates.shape == (2, 3) and result.intervals.shape == (2, 6)
    )
    model = LogisticRegression().fit(frame[["score"]], frame.label)
    predicted = result.predictor(model).predict(
        frame[["score"]], sensitive_features=frame.group, random_state=1
    )
    assert set(predicted) <= {0, 1} and result.predictor(model).positive_label == "0"
    other = pickle.loads(pickle.dumps(result.predictor()))
    assert type(other) is fs.GroupThresholdPredictor and type(other).__module__ == "fairshares"


def test_thresholds_are_chosen_again_without_a_run(results: dict[str, Any], tmp_path: Path) -> None:
    result = results["thresholds"]
    again = result.choose(positive_label=1.0, deterministic=True, objective="balanced_accuracy_score")
    assert again.predictor().positive_label == "1" and again.rates.shape == (2, 3)
    assert all(len(rule.thresholds) == 1 for rule in again.rules.values())
    assert (
        again.privacy == result.privacy and again.manifest["ledger"] is None and "spent no ε" in words(again)
    )
    again.save(tmp_path / "again")
    assert words(fs.load(tmp_path / "again")) in words(again)
    same = again.choose(positive_label=0, tolerance=1)
    assert same.rules == result.rules and same.curves.equals(result.curves)
    with pytest.raises(fs.FairSharesError, match=r"^constraint= must be"):
        result.choose(constraint="parity")


def test_curves_that_allow_no_rules_are_returned_and_say_why(frame: pd.DataFrame, domain: Path) -> None:
    few: Any = {"epsilon": "0.01", "security": QUICKEST, "domain": domain}
    result = fs.thresholds(frame[:8], **few)
    assert isinstance(result.problem, fs.FairSharesError) and str(result.problem) in words(result)
    assert result.curves.shape == (22, 3) and result.plot().get_xlabel() == "False positive rate"
    with pytest.raises(type(result.problem)):
        result.predictor()


def test_others_hold_what_they_say(results: dict[str, Any]) -> None:
    assert results["confusion"].counts.shape == (8,) and results["confusion"].rates.index.tolist() == PAIRS
    assert abs(results["confusion"].rates.loc[("b", 1), "true_positive_rate"] - 1) < 0.1
    assert results["confusion"].intervals.shape == (4, 6)
    assert results["gap"].gaps.index.tolist() == [("a", "b")] and results["gap"].means.shape == (2, 3)
    assert abs(results["gap"].sizes.sum() - 400) < 40
    assert results["count"].counts.index.tolist() == results["count"].intervals.index.tolist() == PAIRS
    assert 1 <= results["cap"].cap <= 5


AXES = {
    "weights": {"": "weight (kamiran-calders)", "weights": "weight (kamiran-calders)"},
    "confusion": {"": "predicted label", "rates": "rate"},
    "thresholds": {"": "False positive rate", "rates": "rate, under equalized odds"},
    "gap": {"": "gap: mean - mean", "means": "mean"},
    "count": {"": "estimated count"},
    "cap": {"": "ε"},
}


@pytest.mark.parametrize("task", AXES)
def test_results_render_and_have_pictures(task: str, results: dict[str, Any]) -> None:
    """A picture is on axes of its own, or on those given; what there is no picture of is refused."""
    result = results[task]
    text, page = str(result), result._repr_html_()
    assert max(map(len, text.splitlines())) <= 80 and "\x1b" not in text
    assert repr(result) == text and "Guarantee: ε = " in text and "--" not in text
    assert page.count("<table>") == text.count("┏")
    assert all("population=NAME tracks it." in shown for shown in (words(result), page))
    for kind, label in {**AXES[task], "privacy": "ε"}.items():
        own, given = result.plot(kind), pyplot.figure().add_subplot()
        assert own.get_xlabel() == label and own is not given
        assert result.plot(kind, ax=given) is given and given.get_xlabel() == label
        pyplot.close("all")
    with pytest.raises(ValueError, match=r"There is no picture 'pie' of this; there are: \w+"):
        result.plot("pie")


def test_a_notebook_shows_a_result_once(results: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The text is made, too, and not displayed beside the tables."""
    expected = str(results["weights"])
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("rich.jupyter.display", lambda *_: pytest.fail("the text was displayed"))
    assert str(results["weights"]) == expected


def words(result: Any) -> str:
    """Return what a result prints, whatever the lines that it is broken into."""
    return " ".join(str(result).split())


def across(line: Any) -> list[float]:
    places: list[float] = np.asarray(line.get_xdata()).tolist()
    return places


def test_what_is_no_result_is_not_loaded(results: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(fs.FairSharesError, match="Cannot read"):
        fs.load(tmp_path)
    results["weights"].save(tmp_path / "saved")
    (tmp_path / "saved" / "weights.json").write_text('{"schema": 1, "groups": []}')
    with pytest.raises(fs.FairSharesError, match=r"is not the weights\.json of a run"):
        fs.load(tmp_path / "saved")
    manifest = tmp_path / "saved" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"task": "weights"', '"task": "quickstart"'))
    with pytest.raises(fs.FairSharesError, match="the result of 'quickstart'; what can be read is that of"):
        fs.load(tmp_path / "saved")


@pytest.fixture
def of_forty() -> pd.DataFrame:
    return pd.DataFrame({"client_id": range(40), "group": ["a", "b"] * 20, "label": [0, 0, 1, 1] * 10})


def test_importing_it_loads_no_library() -> None:
    """And a release none but pandas: scikit-learn takes as long to load as all else."""
    for module, late in (
        ("fairshares", "numpy pandas rich"),
        ("fairshares._run", "sklearn scipy matplotlib duckdb"),
    ):
        script = f"import sys, {module}; print([n for n in {late.split()} if n in sys.modules])"
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=PROJECT, capture_output=True, text=True, check=True
        )
        assert done.stdout == "[]\n"


def test_tables_files_and_columns_are_alike_and_nothing_is_printed(
    of_forty: pd.DataFrame, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "my.csv"
    of_forty.to_csv(path, index=False)
    given = [
        fs.weights(of_forty, **SAID),
        fs.weights(path, **SAID),
        fs.weights(
            of_forty.rename(columns={"group": "race"}), group="race", label=of_forty.label.to_numpy(), **SAID
        ),
        fs.weights(
            client_id=of_forty.client_id,
            group=list(of_forty.group),
            label=np.array(of_forty.label),
            out="kept",
            **SAID,
        ),
    ]
    assert len({str(tuple(result.weights.index)).replace("'", "") for result in given}) == 1
    assert len({result.manifest["inputs"]["clients"] for result in given}) == 1
    kept = fs.load("kept")
    assert isinstance(kept, fs.WeightsResult) and kept.weights.equals(given[-1].weights)
    with pytest.raises(
        fs.FairSharesError, match=r"^kept exists already; name another directory by directory=\.$"
    ):
        given[-1].save("kept")
    with pytest.raises(fs.OptionError, match=r"^Cannot write to my\.csv, .*; name a new directory=\.$"):
        given[-1].save("my.csv/kept")
    assert capfd.readouterr() == ("", "")
    assert sorted(place.name for place in tmp_path.iterdir()) == ["kept", "my.csv"]


def test_a_path_that_no_file_has_is_refused_in_a_sentence(results: dict[str, Any]) -> None:
    long = "n" * 256
    predictor = results["thresholds"].predictor()
    for read in (fs.load, fs.read_weights, fs.LogisticModel.load, fs.GroupThresholdPredictor.load):
        with pytest.raises(fs.ResultFileError, match=f"^Cannot read {long}: File name too long; name the"):
            read(long)
    with pytest.raises(
        fs.OptionError, match=r"^Cannot use n{100}…: .* too long; name another by directory=\.$"
    ):
        results["weights"].save(long)
    with pytest.raises(fs.WriteError, match=rf"^Cannot write {long}: .* too long; name another path=\.$"):
        predictor.save(long)


def test_a_call_is_charged_as_a_command_is(of_forty: pd.DataFrame, tmp_path: Path) -> None:
    book = tmp_path / "ledger.sqlite"
    said: dict[str, Any] = {"security": QUICKEST, "population": "loans", "ledger": book}
    result = fs.weights(of_forty, epsilon=1, budget=(1.5, 1e-6), **said)
    assert "Charged to population 'loans'" in words(result)
    with pytest.raises(fs.FairSharesError, match="budget") as refused:
        fs.weights(of_forty, epsilon=1, **said)
    assert type(refused.value).__name__ == "BudgetError"
    spent = fs.ledger(ledger=book)
    assert spent.charges.task.tolist() == ["weights"] and "Population 'loans'" in words(spent)


def test_each_note_of_a_result_is_a_sentence(tmp_path: Path) -> None:
    """Of a new population, too."""
    df = table([0, 1], ["a", "b"], 40)
    said: dict[str, Any] = {"epsilon": 20, "ledger": tmp_path / "ledger.sqlite", "security": "mpyc"}
    trained = fs.train(df, features={"x": {"low": 0, "high": 1}}, rounds=2, population="trained", **said)
    weighted = fs.weights(df, population="weighted", **said)
    notes = [note for result in (trained, weighted) for note in result._notes]
    assert any(str(note).startswith("New population 'trained'") for note in notes)
    assert all(isinstance(note, str) and note.endswith(".") for note in notes), notes


@pytest.mark.parametrize(
    ("changes", "said", "message"),
    [
        ({}, {"epsilon": 0}, "epsilon= must be a number above 0 and at most 20, for example 1; got '0'."),
        ({}, {"population": ""}, "population= is empty; leave it out, or give it a value."),
        ({}, {"cap": 3, "max_count": 2}, "A cap of 3 is above the 2 records that a client has at most"),
        (
            {},
            {"group": [1]},
            "the table and group must have one value per row each; their shapes are",
        ),
        (
            {},
            {"group": "race"},
            r"The table has no column race; it needs client_id, race, label \(found: client_id, ",
        ),
        ({"label": np.nan}, {}, "The table, row 1000: column label is empty or NaN, and so in "),
        ({"group": "a"}, {}, r"The domain has 1 group \['a'\]"),
        ({}, {"out": "."}, "exists already; name another directory by out="),
    ],
)
def test_a_mistake_ends_in_a_sentence(
    changes: dict[str, Any], said: dict[str, Any], message: str, of_forty: pd.DataFrame
) -> None:
    wrong = of_forty.assign(**changes).set_index(of_forty.index + 1000)
    with pytest.raises(fs.FairSharesError, match=message):
        fs.weights(wrong, **{**SAID, **said})


def test_there_are_no_other_arguments(of_forty: pd.DataFrame) -> None:
    with pytest.raises(TypeError, match="hosts"):
        fs.weights(of_forty, hosts="hosts.toml", **SAID)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="no argument 'reweigh'"):
        fs.plan(clients=10, groups=2, epsilon=1, reweigh="label")
    with pytest.raises(fs.FairSharesError, match=r"^task= must be weights, .* got 'weight'\.$"):
        fs.plan(task="weight", clients=100, groups=2, epsilon=1)
    with pytest.raises(fs.FairSharesError, match="the table and label must have the same index"):
        fs.weights(of_forty, label=of_forty.label[::-1], **SAID)
    with pytest.raises(AttributeError, match="no attribute 'weight'"):
        _ = fs.weight


def test_noise_made_ahead_is_taken_once(of_forty: pd.DataFrame, tmp_path: Path) -> None:
    declared: dict[str, Any] = {**SAID, "groups": ["a", "b"], "labels": [0, 1], "stock": tmp_path / "noise"}
    made = fs.preprocess("weights", 1, **declared)
    assert made.attempts.tolist() == [1]
    r = fs.weights(of_forty, offline=True, **declared)
    assert r.manifest["preprocessing"]["attempts"] == 1 and r.manifest["privacy"]["made_ahead"]
    with pytest.raises(fs.StockError, match=r"has no noise for this release .* leave out offline"):
        fs.weights(of_forty, offline=True, **declared)
    with pytest.raises(fs.OptionError, match="declare it by domain="):
        fs.preprocess("weights", epsilon=1, security=QUICKEST)


@pytest.mark.parametrize("model", model_parameters(models=map(get_model, ("ring", "ps-rep-ring", "mpyc"))))
def test_a_model_is_trained_with_noise_made_ahead(model: SecurityModel, tmp_path: Path) -> None:
    """Beside weights and thresholds, which make theirs as they are released; statements say so of all."""
    df = table([0, 1], ["a", "b"], 80).assign(y=0.5)
    declared: dict[str, Any] = {"epsilon": 20, "groups": ["a", "b"], "labels": [0, 1], "rounds": 3}
    declared |= {"features": {name: {"low": 0, "high": 1} for name in "xy"}, "stock": tmp_path / "noise"}
    declared |= {"with_": ["fairgrad"] if model.active else ["weights", "thresholds"], "security": model.name}
    assert fs.preprocess("train", 1, **declared).attempts.tolist() == [1]
    r = fs.train(df, offline=True, **declared)
    training = r.manifest["parts"]["training"]
    assert training["preprocessing"]["attempts"] == 1
    assert training["privacy"]["made_ahead"] and r.manifest["privacy"]["made_ahead"]
    with pytest.raises(fs.StockError, match=r"has no noise for this release .* leave out offline"):
        fs.train(df, offline=True, **declared)
    with pytest.raises(fs.OptionError, match="only joint noise is made ahead"):
        fs.train(df, offline=True, noise="distributed", **declared)


COLUMNS: dict[str, tuple[list[Any], list[Any]]] = {
    "ints": ([0, 1], [10, 20]),
    "truth": ([False, True], [True, False]),
    "texts": (["0", "1"], ["a", "b"]),
    "floats": ([0.0, 1.0], [0.5, 1.5]),
}


def table(labels: list[Any], groups: list[Any], rows: int = 120) -> pd.DataFrame:
    """Return a client's record a row, of all pairs alike, whose label follows from x."""
    label = np.arange(rows) // 2 % 2
    records = pd.DataFrame({"client_id": range(rows), "label": [labels[i] for i in label], "x": label * 1.0})
    records["group"] = [groups[i % 2] for i in range(rows)]
    records["score"] = 0.25 + 0.5 * records.x
    return records


@pytest.mark.parametrize("kind", COLUMNS)
def test_weights_have_the_callers_groups_and_labels(kind: str, tmp_path: Path) -> None:
    labels, groups = COLUMNS[kind]
    df = table(labels, groups)
    r = fs.weights(df, epsilon=20, security="mpyc")
    assert sorted(r.weights.index.tolist()) == sorted((g, y) for g in groups for y in labels)
    assert {type(value) for pair in r.weights.index for value in pair} == {type(labels[0]), type(groups[0])}
    assert r.weights.loc[(groups[1], labels[0])] > 0
    merged = df.merge(r.weights.reset_index(), on=["group", "label"])
    by_row = r.sample_weight(df.group, df.label)
    assert len(merged) == len(df) and sorted(merged.sample_weight) == sorted(by_row)
    r.save(tmp_path / "out")
    for again in (pickle.loads(pickle.dumps(r)), fs.load(tmp_path / "out")):
        assert isinstance(again, fs.WeightsResult) and again.weights.equals(r.weights)


@pytest.mark.parametrize(("labels", "positive"), [([0, 1], 1), ([True, False], True), (["yes", "no"], "no")])
@pytest.mark.parametrize("frame", [pd.DataFrame, polars.DataFrame])
def test_predictions_are_the_callers_labels(labels: Any, positive: Any, frame: Any, tmp_path: Path) -> None:
    """Of a model, its thresholds, and thresholds alone: a comparison with labels is not false everywhere."""
    df = table(labels, ["a", "b"], 400)
    records, only_x = frame(df.to_dict("list")), frame({"x": df.x.tolist()})
    r = fs.train(
        records,
        features={"x": {"low": 0, "high": 1}},
        rounds=4,
        with_=["thresholds"],
        positive_label=positive,
        **SAID,
    )
    assert r.model.classes_.tolist() == sorted(labels) and r.model.score(only_x, records["label"]) > 0.9
    assert (r.model.predict(only_x) == df.label).mean() > 0.9 and r.thresholds is not None
    groups = {"sensitive_features": records["group"]}
    r.save(tmp_path / "out")
    for of_result in (r, fs.load(tmp_path / "out")):
        assert isinstance(of_result, fs.TrainResult) and of_result.thresholds is not None
        scores = of_result.model.predict_proba(only_x)[:, sorted(labels).index(positive)]
        for decided in (
            of_result.thresholds.predictor(of_result.model).predict(only_x, **groups),
            of_result.thresholds.predictor().predict(scores, **groups),
        ):
            assert decided.dtype == np.array(labels).dtype and (decided == df.label).mean() > 0.9


def test_names_stand_for_values_of_a_dtype() -> None:
    """A label that is declared and does not occur, too: its value does not follow from the records."""
    assert values_of(["1", "2"], "int8") == [1, 2] and values_of(["0.5"], "category of float64") == [0.5]
    assert values_of(["True", "false"], "boolean") == [True, False] and values_of(["01"], "str") == ["01"]
    df = table([0, 1], ["a", "b"]).astype({"label": "int8"})
    with pytest.raises(fs.RecordDomainError, match=r"label as int8, and 0, 1, 300 are declared, which are "):
        fs.weights(df, epsilon=1, groups=["a", "b"], labels=[0, 1, 300], security="mpyc")


DTYPES: dict[str, pd.Series] = {
    "int8": pd.Series([0, 1], dtype="int8"),
    "Int64": pd.Series([0, 1], dtype="Int64"),
    "boolean": pd.Series([False, True], dtype="boolean"),
    "bool": pd.Series([False, True]),
    "category": pd.Series(["no", "yes"], dtype="category"),
    "category of numbers": pd.Series([0, 1], dtype="category"),
    "datetime": pd.to_datetime(pd.Series(["2020-01-01", "2021-01-01"])),
    "datetime with a zone": pd.to_datetime(pd.Series(["2020-01-01", "2021-01-01"]), utc=True),
    "float32": pd.Series([0, 0.1], dtype="float32"),
}


@pytest.mark.parametrize("kind", DTYPES)
def test_results_have_the_callers_dtypes(kind: str, tmp_path: Path) -> None:
    values, df = DTYPES[kind], table([0, 1], ["a", "b"], 400)
    df = df.assign(label=values[df.label].reset_index(drop=True))
    r = fs.weights(df, epsilon=20, security="mpyc")
    r.save(tmp_path / "out")
    for result in (r, fs.load(tmp_path / "out")):
        assert isinstance(result, fs.WeightsResult)
        assert result.weights.index.get_level_values("label").dtype == df.label.dtype
        assert result.weights.loc[("a", values[1])] > 0
        assert len(df.merge(result.weights.reset_index(), on=["group", "label"])) == len(df)
    assert r.sample_weight(df.group, df.label).notna().all()
    said: dict[str, Any] = {"features": {"x": {"low": 0, "high": 1}}, "rounds": 1, "with_": "thresholds"}
    if "datetime" in kind:
        with pytest.raises(fs.OptionError, match="a model predicts texts, numbers or truth"):
            fs.train(df, **said, **SAID)
        return
    trained = fs.train(df, **said, **SAID)
    assert trained.thresholds is not None
    for classifier in (trained.model, trained.thresholds.predictor()):
        assert classifier.classes_.dtype == np.array([*df.label.unique()]).dtype
        assert (classifier.classes_[df.x.astype(int)] == df.label).all()


def test_ordered_categories_keep_their_order(tmp_path: Path) -> None:
    """In tables, as the default positive label, in files, and where groups and labels are declared."""
    df = table([0, 1], ["a", "b"], 400)
    label = pd.CategoricalDtype(["poor", "fine", "good"], ordered=True)
    group = pd.CategoricalDtype(["young", "old"], ordered=True)
    df = df.assign(
        label=pd.Series(["poor", "good"])[df.label].astype(label).array,
        group=df.group.map({"a": "old", "b": "young"}).astype(group),
    )
    domain: dict[str, Any] = {"groups": ["old", "young"], "labels": ["good", "poor"]}
    for declared in (dict[str, Any](), domain):
        r = fs.weights(df, epsilon=20, security="mpyc", **declared)
        r.save(tmp_path / f"{len(declared)}")
        for result in (r, fs.load(tmp_path / f"{len(declared)}")):
            assert isinstance(result, fs.WeightsResult)
            unstacked = result.weights.unstack()
            assert unstacked.index.tolist() == ["young", "old"]
            assert unstacked.columns.tolist() == ["poor", "good"] and unstacked.columns.max() == "good"
        assert r.sample_weight(df.group, df.label).notna().all()
        t = fs.thresholds(df, epsilon=20, security="mpyc", **declared)
        assert list(t.rules) == ["young", "old"]
        decided = t.predictor().predict(df.score, sensitive_features=df.group)
        assert (decided == df.label.astype(str)).mean() > 0.9


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (pd.cut(pd.Series([1, 3]), [0, 2, 4]), r"ordered category of interval\[int64, right\]"),
        (pd.Series([0, "x"]), "objects of several types"),
        (pd.Series([date(2020, 1, 1), date(2020, 1, 2)]), "objects of the type date"),
        (pd.Series([Decimal(0), Decimal(1)]), "objects of the type Decimal"),
        (pd.Series([b"a", b"b"]), "objects of the type bytes"),
        (pd.to_timedelta(pd.Series([1, 2]), unit="s"), "timedelta64.*"),
    ],
)
def test_what_names_no_labels_is_refused_by_its_type(labels: pd.Series, kind: str) -> None:
    df = table([0, 1], ["a", "b"])
    with pytest.raises(fs.RecordsError, match=rf"^The table has the column label as {kind}, which names no"):
        fs.weights(df.assign(label=labels[df.label].tolist()).astype({"label": labels.dtype}), epsilon=1)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_file_gives_what_its_frame_gives(suffix: str, tmp_path: Path) -> None:
    """All of them without a column client_id, in which case each record is a client of its own."""
    df, path = table([0, 1], ["north", "south"]).drop(columns="client_id"), tmp_path / f"my.{suffix}"
    df["label"] = df.label.astype("int64" if suffix == "csv" else "int8")
    df.to_csv(path, index=False) if suffix == "csv" else df.to_parquet(path)
    said: dict[str, Any] = {"epsilon": 20, "security": "mpyc"}
    in_file, in_frame = (fs.weights(records, **said) for records in (path, df))
    of_file, of_frame = (r.weights.index.to_frame() for r in (in_file, in_frame))
    assert of_file.equals(of_frame) and of_file.dtypes.equals(of_frame.dtypes)
    assert in_file.weights.loc[("north", 1)] > 0
    for r in (in_file, in_frame):
        assert r.manifest["inputs"]["clients"] == len(df) and "number of records is public" in words(r)
        assert "client_id" not in r.manifest["columns"]
    features = {"x": {"low": 0, "high": 1}}
    model = fs.train(path, features=features, rounds=4, **said).model
    assert model.score(df[["x"]], df.label) > 0.9 and model.classes_.tolist() == [0, 1]
    plans = [fs.plan(from_records=records, **said) for records in (path, df)]
    assert (
        plans[0]
        .models.drop(columns=[*plans[0].models.filter(like="_s")])
        .equals(plans[1].models.drop(columns=[*plans[1].models.filter(like="_s")]))
    )


def test_a_csv_column_of_numbers_is_one_in_all_files(tmp_path: Path) -> None:
    df = table([0.0, 1.0], ["a", "b"])
    df.to_csv(tmp_path / "1.csv", index=False)
    index = fs.weights(tmp_path, epsilon=20, security="mpyc").weights.index
    assert index.get_level_values("label").dtype == "float64"
    df.assign(label=[1.0] * 119 + ["x"]).to_csv(tmp_path / "2.csv", index=False)
    message = r"1\.csv has the column label as float64 \('.\.0'\) and .*2\.csv has .* as str \('x'\); files"
    with pytest.raises(fs.RecordsError, match=message):
        fs.weights(tmp_path, epsilon=20, security="mpyc", population="p", budget=30)
    assert fs.ledger().charges.empty


@pytest.mark.parametrize("task", CALLS)
def test_plans_take_what_the_release_takes(task: str) -> None:
    """All of its own options; what belongs to a run alone is refused."""
    usual: dict[str, Any] = {
        "range": (0, 1),
        "thresholds": [0.3, 0.5],
        "threshold": 0.5,
        "steps": 10,
        "reweighing": "label",
    }
    usual |= {
        "positive_label": 1,
        "release_epsilon": 1,
        "relative_error": 0.2,
        "constraint": "equal_opportunity",
    }
    of_task = {name: value for name, value in usual.items() if name in CALLS[task].declared}
    if task == "cap":
        del of_task["thresholds"]  # of a release that is named
    elif task != "gap":
        of_task["labels"] = [0, 1]
    said: Any = {
        "task": task,
        "clients": 1000,
        "groups": {"a": 0.7, "b": 0.3},
        "epsilon": 1,
        "security": "mpyc",
    }
    assert fs.plan(**said, **of_task).models.index.tolist() == ["mpyc"]
    for of_a_run in ("out", "shares"):
        with pytest.raises(TypeError, match=of_a_run):
            fs.plan(**{**said, of_a_run: "x"})


def test_a_plan_looks_a_population_up_in_a_ledger(of_forty: pd.DataFrame, tmp_path: Path) -> None:
    """Its relation is that of the population's first charge, in the file that the plan names."""
    said: dict[str, Any] = {"population": "loans", "ledger": tmp_path / "ledger.sqlite"}
    of_run: dict[str, Any] = {"neighboring_relation": "add_or_remove_one", "security": QUICKEST}
    fs.weights(of_forty, epsilon=1, **of_run, **said)
    asked: dict[str, Any] = {"clients": 1000, "groups": 2, "epsilon": 1, "max_count": 1, "security": "mpyc"}

    def relation(plan: Any) -> str:
        return str(plan.fields["releases"][0]["privacy"]["neighboring_relation"])

    assert relation(fs.plan(**asked, **said)) == "add_or_remove_one"
    assert relation(fs.plan(**asked, population="loans", ledger=tmp_path / "other.sqlite")) == "replace_one"


def test_without_client_ids_each_row_is_a_client() -> None:
    df = table([0, 1], ["a", "b"]).drop(columns="client_id")
    r = fs.weights(df, epsilon=20, security="mpyc")
    assert r.manifest["inputs"]["clients"] == len(df) and "number of records is public" in words(r)
    for asked in ({"privacy_unit": "client", "cap": 2}, {"cap": 2}):
        with pytest.raises(fs.OptionError, match="leave out privacy_unit= and cap="):
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
SHOWN["Session"] = fairshares.Session
WITHOUT_EXAMPLE = {"load"}  # its example is in `save`'s


@pytest.mark.parametrize("name", sorted(SHOWN.keys() - WITHOUT_EXAMPLE))
def test_an_example_does_what_it_says(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = FINDER.find(SHOWN[name], name)
    assert doctest.DocTestRunner(verbose=False).run(example) == (0, len(example.examples))
    assert example.examples
