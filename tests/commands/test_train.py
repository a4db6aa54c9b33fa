"""Training from the command line: a model out of a file, and what is refused before anything is opened."""

import json
import os
from pathlib import Path

import pandas as pd
import pytest

from fairshares import LogisticModel
from tests.support.command import call, succeed
from tests.support.running import QUICKEST

FEATURES = {"x": {"low": 0, "high": 1}, "sector": {"categories": ["s", "t"]}}
ROWS = [(f"c{i}", "ab"[i % 2], i // 2 % 2, i // 2 % 2, "st"[i // 3 % 2]) for i in range(60)]
TABLE = pd.DataFrame(ROWS, columns=["client_id", "group", "label", "x", "sector"])
GIVEN = ("--records", "my.csv", "--features", "features.json", "--epsilon", "9", "--security", QUICKEST)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    TABLE.to_csv(tmp_path / "my.csv", index=False)
    (tmp_path / "features.json").write_text(json.dumps(FEATURES))
    return tmp_path


def test_a_model_is_trained_and_says_what_it_cost(here):
    more = ("--noise", "distributed", "--rounds", "4", "--privacy-unit", "client", "--plot", "--out", "out")
    charged = ("--population", "me", "--ledger", "ledger.sqlite", "--budget", "9,1e-4")
    out = succeed("train", *GIVEN, *more, *charged, "--json", cwd=here)
    written = json.loads((here / "out" / "model.json").read_text())
    assert json.loads(out[out.index("{\n") :]) == written
    manifest = json.loads((here / "out" / "manifest.json").read_text())
    assert manifest["training"] == {
        "rounds": 4,
        "clip": 1.0,
        "largest_weight": 1.0,
        "learning_rate": 1.0,
        "momentum": 0.9,
    }
    assert manifest["inputs"]["in_training"] == 60 and manifest["privacy"]["privacy_unit"] == "client"
    assert 8.9 < manifest["privacy"]["epsilon"] <= 9 and manifest["ledger"]["runs"] == 1
    assert {path.name for path in (here / "out").iterdir()} >= {"model.json", "manifest.json", "report.html"}
    model = LogisticModel.load(here / "out")
    assert model.score(TABLE, TABLE.label.astype(str)) > 0.9
    again = call("train", *GIVEN, *charged, "--privacy-unit", "client", "--out", "second", cwd=here)
    assert again.returncode and "of its budget of 9,0.0001" in again.stderr
    assert not (here / "second").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--weights-epsilon", "1"), "--weights-epsilon is for --with weights; give both, or neither."),
        (
            ("--with", "weights", "--weights-epsilon", "9"),
            "--weights-epsilon 9 leaves nothing of --epsilon 9, the total.",
        ),
        (("--with", "weights,curves"), "--with must be weights, thresholds or fairgrad; got 'curves'."),
        (("--fairness", "equalized_odds"), "--fairness is for --with fairgrad; give both, or neither."),
        (("--with", "fairgrad", "--fairness", "parity"), "--fairness must be equalized_odds, "),
        (("--with", "weights,fairgrad"), "--with weights,fairgrad would weigh each record twice; choose one"),
        (("--momentum", "1"), "--momentum must be a number from 0 to below 1, for example 0.9; got '1'."),
        (("--clip", "0"), "--clip must be a number above 0, at most 1e6, for example 1; got '0'."),
        (
            ("--with", "weights", "--privacy-unit", "client"),
            "--privacy-unit client needs to know how much of a",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(here, options, said):
    done = call("train", *GIVEN, "--out", "out", *options, cwd=here)
    assert done.returncode and said in done.stderr and not (here / "out").exists()


def test_groups_are_weighed_and_records_may_come_through_a_pipe(here):
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as pipe:  # whose buffer holds all of it
        pipe.write((here / "my.csv").read_bytes())
    more = ("--with", "fairgrad", "--fairness", "accuracy_parity", "--rounds", "3", "--momentum", "0")
    with os.fdopen(reading):
        own = ("--records", f"/dev/fd/{reading}", "--noise", "distributed", "--out", "out")
        done = call("train", *GIVEN[2:], *own, *more, cwd=here)
    assert done.returncode == 0, done.stderr
    assert "were weighed for accuracy_parity, by noisy counts" in done.stdout
    said = json.loads((here / "out" / "manifest.json").read_text())["training"]
    assert said["fairness"] == "accuracy_parity" and said["momentum"] == 0 and said["largest_weight"] == 1.25


def test_that_weights_were_cut_is_said(here):
    told = ("--with", "weights", "--largest-weight", "0.5", "--rounds", "2", "--noise", "distributed")
    out = succeed("train", *GIVEN, *told, "--out", "out", cwd=here)
    assert "In training a weight above 0.5, the largest that was declared, counted as 0.5." in out


def test_a_feature_that_the_file_lacks_is_named(here):
    (here / "features.json").write_text(json.dumps({"age": {"low": 0, "high": 9}}))
    done = call("train", *GIVEN, "--out", "out", cwd=here)
    assert done.returncode and "my.csv has no column age" in done.stderr
    (here / "features.json").unlink()
    done = call("train", *GIVEN, "--out", "out", cwd=here)
    assert done.returncode and "Cannot read features.json: No such file or directory" in done.stderr
