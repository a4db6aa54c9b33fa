"""`./inv weights --reveal weights`: nothing but weights comes out, in files that say so."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from harness.security_models import MODELS
from protocols.circuits.coins import design_coins
from protocols.noise.truncated import largest_noise
from protocols.spec import PI_RW_WEIGHTS
from tests.support.command import call, files_below, processes_below, refused

RECORDS = (
    [("c0", "a", "0")] * 30 + [("c0", "b", "0")] * 20 + [("c1", "a", "1")] * 25 + [("c2", "b", "1")] * 90
)
OPTIONS = ("weights", "--records", "records.csv", "--epsilon", "1", "--groups", "a,b", "--labels", "0,1")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    rows = "".join(f"{','.join(record)}\n" for record in RECORDS)
    (tmp_path / "records.csv").write_text("client_id,group,label\n" + rows)
    return tmp_path


@pytest.mark.mpspdz("ring")
@pytest.mark.parametrize("reweighing", ["balanced", "label", "kamiran-calders"])
def test_records_to_weights_alone(reweighing: str, here: Path) -> None:
    """Noise is within its support, so a weight is too: counts are 20 to 90, noise at most 32."""
    options = ("--model", "ring", "--max-count", "100", "--reveal", "weights", "--reweighing", reweighing)
    done = call(*OPTIONS, *options, "--out", "results", cwd=here)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (here / "results").iterdir()} == {"weights.json", "manifest.json"}
    found = json.loads((here / "results" / "weights.json").read_text(encoding="utf-8"))
    manifest = json.loads((here / "results" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["privacy"] == found["privacy"]
    assert found["privacy"]["revealed"] == list(PI_RW_WEIGHTS.revealed)
    assert found["noisy_counts"] is None and found["floored"] is None
    assert found["reweighing"] == reweighing

    weights = found["weights"]
    most = 90 + largest_noise(design_coins(Fraction(1), 40)) + 1
    assert all(0 < weight <= 4 * most for row in weights for weight in row)
    if reweighing == "label":
        assert weights[0] == weights[1]
    if reweighing == "balanced":
        # Weighted noisy counts are all equal and add up to their sum: the inverse weights to 1 of 4.
        assert sum(1 / weight for row in weights for weight in row) == pytest.approx(4, abs=1e-4)
    if reweighing == "kamiran-calders":
        assert found["weights_interval"] is None
    else:
        pairs = zip(weights, found["weights_interval"], strict=True)
        assert all(
            low < weight < high
            for row, ranges in pairs
            for weight, (low, high) in zip(row, ranges, strict=True)
        )
    assert "so the guarantee is that of revealing the counts" in " ".join(done.stdout.split())
    assert processes_below(here) == {}


@pytest.mark.mpspdz("ring")
def test_weights_that_do_not_fit_are_refused_before_anything_is_shared(here: Path) -> None:
    options = ("--model", "ring", "--reveal", "weights", "--reweighing", "kamiran-calders")
    said = refused(*OPTIONS, *options, "--out", "results", cwd=here)
    assert "Error: Weights by kamiran-calders of 3 clients with up to 2147483648 records each" in said
    assert "split" not in said  # the step in which clients share
    assert "declare a maximum of 357913898 (--max-count), or use --reveal counts." in said


def test_the_embedded_engine_refuses(here: Path) -> None:
    before = files_below(here)
    done = call(*OPTIONS, "--model", "mpyc", "--reveal", "weights", cwd=here)
    assert done.returncode == 1
    assert done.stderr == (
        f"Error: Model {MODELS['mpyc'].name} cannot do this. "
        "pi_rw_weights uses features that only MP-SPDZ has; choose one of its models.\n"
    )
    assert files_below(here) == before


def test_nothing_else_can_be_revealed(here: Path) -> None:
    done = call(*OPTIONS, "--model", "mpyc", "--reveal", "all", cwd=here)
    assert done.returncode == 1
    assert done.stderr == "Error: --reveal must be counts or weights; got 'all'.\n"
