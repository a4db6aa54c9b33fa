"""`./inv noise` as a user runs it, on the engine that is always there."""

import json
from pathlib import Path

from harness.releases.noise_samples import WARNING
from tests.support.command import call, files_below


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
