"""Confusion matrices from the command line: records or shares in, documented files out."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.security_models import SecurityModel
from protocols.circuits.coins import design_coins
from protocols.noise.truncated import error_bound
from tests.support.command import call, files_below, processes_below, refused
from tests.support.running import model_parameters

DECLARED = ["--groups", "a,b", "--labels", "no,yes", "--max-count", "100"]
# Client, group, label, score: predicted from 0.5 on.
RECORDS = [("k", "a", "yes", 0.5)] * 30 + [("k", "a", "no", 0.49)] * 9 + [("l", "b", "no", 0.9)] * 40
TRUTH = np.array([[[9, 0], [0, 30]], [[0, 40], [0, 0]]])
# Noise beyond its exact quantile fails a test with this probability, all cells together.
FALSE_ALARM = Fraction(1, 10**9)
KEYS = {"schema", "groups", "labels", "positive_label", "noisy_counts", "rates", "confidence", "privacy"}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return a directory with the records: with scores, and with the predictions that follow."""
    rows = [f"{client},{group},{label},{score}\n" for client, group, label, score in RECORDS]
    (tmp_path / "scores.csv").write_text("client_id,group,label,score\n" + "".join(rows))
    named = [f"{c},{g},{label},{'yes' if score >= 0.5 else 'no'}\n" for c, g, label, score in RECORDS]
    (tmp_path / "records.csv").write_text("client_id,group,label,prediction\n" + "".join(named))
    return tmp_path


def check_counts(found: dict[str, Any], epsilon: Fraction) -> None:
    """Check the counts against the truth: per cell, noise of this epsilon."""
    assert set(found) == KEYS
    bound = error_bound(design_coins(epsilon, 41), FALSE_ALARM / 8)
    errors = np.array(found["noisy_counts"]) - TRUTH
    assert (np.abs(errors) <= float(bound)).all() and (errors % 1 == 0.5).all()


@pytest.mark.parametrize("model", model_parameters())
def test_records_to_confusion_matrices(model: SecurityModel, here: Path) -> None:
    before = files_below(here)
    options = [*DECLARED, "--security", model.name, "--out", "results"]
    done = call("confusion", "--records", "records.csv", "--epsilon", "1", *options, cwd=here)
    assert done.returncode == 0, done.stderr
    files = ("confusion.json", "manifest.json")
    assert files_below(here) - before == {"results", *(f"results/{name}" for name in files)}
    found, manifest = (json.loads((here / "results" / name).read_text()) for name in files)
    check_counts(found, Fraction(1))
    assert found["privacy"] == manifest["privacy"]
    assert manifest["privacy"]["neighboring_relation"] == "add_or_remove_one"
    assert manifest["inputs"] == {"clients": 2, "uploads": 1, "max_count": 100}
    assert processes_below(here) == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--records scores.csv", "has no column prediction"),
        ("--records scores.csv --threshold 2", "--threshold must be a score from 0 to 1"),
        (
            "--records records.csv --input-form product --neighboring-relation add_or_remove_one",
            "shows how many records there are",
        ),
        ("--records records.csv --input-form product --security spdz2k", "multiplies plain shares"),
        ("--shares . --threshold 0.5", "leave out --threshold"),
        ("--records records.csv --positive-label maybe", "'maybe' is not declared (declared: no, yes)"),
    ],
)
def test_mistakes(options: str, message: str, here: Path) -> None:
    model = [] if "--security" in options else ["--security", "mpyc"]
    declared = [] if "--shares" in options else DECLARED
    assert message in refused("confusion", "--epsilon", "1", *options.split(), *model, *declared, cwd=here)
