"""`--plan` as a user calls it: with and without MP-SPDZ, and with what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import call, command, refused

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


def test_a_network_that_is_none_is_refused(tmp_path: Path) -> None:
    done = call("weights", "--plan", f"{SIZES},network=fast", *ASKED, cwd=tmp_path)
    assert done.returncode == 1 and not done.stdout
    assert "network= must be lan, wan, none" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--plan", "0", "--groups", "2"), "--plan CLIENTS must be a whole number from 1 to"),
        (("--plan", "9,0", "--groups", "2"), "--plan CLIENTS,RECORDS must be a whole number from 1 to"),
        (("--plan", "9"), "--groups is missing; give it a value, for example --groups 2."),
        (("--plan", "9,error=2", "--groups", "2"), "error= must be a share between 0 and 1"),
        (("--plan", "many", "--groups", "2"), "--plan must be how many clients there would be"),
        (("--plan", "9", "--records", "r.csv"), "or give a number of clients, and no records."),
        (("--plan", "file"), "--plan file is of the clients of --records: give both"),
        (
            ("--plan", "file", "--records", "r.csv", "--groups", "2"),
            "--plan file replaces --groups;",
        ),
        (("--plan", "9", "--groups", "2", "--hosts", "h.toml"), "--plan runs nothing: leave out --hosts."),
        (("--plan", "9", "--groups", "2", "--invite", "d"), "--plan runs nothing: leave out --invite."),
    ],
)
def test_what_cannot_be_planned_is_refused_by_its_name(
    options: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    (tmp_path / "r.csv").write_text("client_id,group,label\nc,a,0\nd,b,1\n")
    assert said in refused("weights", *options, "--epsilon", "1", cwd=tmp_path)
