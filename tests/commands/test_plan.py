"""`--plan` as a user calls it: with and without MP-SPDZ, and with what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import call, command

SIZES = "109,26160"
ASKED = ("--groups", "a:0.7,b:0.3", "--epsilon", "1")


def test_plans_every_model_without_mp_spdz(tmp_path: Path) -> None:
    asked = ("weights", "--plan", f"{SIZES},network=wan", *ASKED, "--json")
    done = command(*asked, cwd=tmp_path, environment={"MP_SPDZ_HOME": "none"})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [each["security"] for each in found["models"] if each["available"]] == ["mpyc"]
    assert all(each["mpc_s"] > 0 for each in found["models"])
    assert found["network"] == {"name": "wan", "rtt_s": 0.04, "bandwidth_bits_per_s": 1e8}
    assert not list(tmp_path.iterdir())


def test_what_takes_the_compiler_says_so(tmp_path: Path) -> None:
    asked = ("weights", "--plan", SIZES, *ASKED, "--input-path", "clients")
    done = command(*asked, cwd=tmp_path, environment={"MP_SPDZ_HOME": "none"})
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "What pi_rw costs is only known to MP-SPDZ's compiler" in said


@pytest.mark.parametrize(
    ("task", "declared", "named"),
    [
        (
            "weights",
            {"groups": ["a", "b", "c"], "labels": ["0", "1"], "max_count": 5},
            ["--labels", "0,1", "--max-count", "5"],
        ),
        (
            "gap",
            {"groups": ["a", "b", "c"], "values": {"low": 0, "high": 1, "steps": 100}},
            ["--steps", "100"],
        ),
    ],
)
def test_a_domain_file_says_who_there_is(
    task: str, declared: dict[str, Any], named: list[str], tmp_path: Path
) -> None:
    (tmp_path / "domain.json").write_text(json.dumps(declared))
    asked = (task, "--plan", "300", "--epsilon", "1", "--security", "mpyc", "--json")
    by_file = json.loads(call(*asked, "--domain", "domain.json", cwd=tmp_path).stdout)
    by_name = json.loads(call(*asked, "--groups", "a,b,c", *named, cwd=tmp_path).stdout)
    assert {**by_file, "models": 0} == {**by_name, "models": 0} and len(by_file["models"]) == 1
