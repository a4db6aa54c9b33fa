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
    rho, apart = (manifest["training"].pop(name) for name in ("rho", "rho_delta"))
    assert 0 < apart < 1e-5 and 0 < rho < manifest["privacy"]["epsilon"]
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
