"""`./inv noise` as a user runs it, on the engine that is always there."""

import json
from pathlib import Path

import pytest

from harness.releases.noise_samples import WARNING
from tests.support.command import call, files_below, refused


def test_opened_samples_are_written_and_judged(tmp_path: Path) -> None:
    asked = (
        "noise",
        "--n",
        "200",
        "--epsilon",
        "1",
        "--security",
        "mpyc",
        "--out",
        "found",
    )
    done = call(*asked, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert files_below(tmp_path) == {"found", "found/manifest.json", "found/noise.json"}
    assert json.loads((tmp_path / "found" / "noise.json").read_text()) == found
    assert (len(found["samples"]), found["sampler"]) == (200, "default")
    assert found["summary"]["distance"] <= found["summary"]["distance_bound"]
    assert done.stderr == ""
    manifest = json.loads((tmp_path / "found" / "manifest.json").read_text())
    assert (manifest["task"], manifest["inputs"]) == ("noise", {"samples": 200})
    assert manifest["privacy"]["warning"] == WARNING
    assert not {"epsilon", "delta"} & set(manifest["privacy"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--epsilon", "1"], "--n is missing"),
        (["--n", "5"], "--epsilon is missing"),
        (["--n", "0", "--epsilon", "1"], "--n must be a whole number from 1 to 100000"),
        (["--n", "5", "--epsilon", "1", "--delta", "2^-200"], "No noise fits"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(
    arguments: list[str], said: str, tmp_path: Path
) -> None:
    assert said in refused("noise", *arguments, "--out", "found", cwd=tmp_path)
