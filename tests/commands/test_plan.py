"""`./inv plan` as a user calls it: with and without MP-SPDZ, and with what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.command import call, command

ASKED = ("plan", "--clients", "109", "--records", "26160", "--groups", "a:0.7,b:0.3", "--epsilon", "1")


def test_plans_every_model_without_mp_spdz(tmp_path: Path) -> None:
    done = command(*ASKED, "--network", "wan", "--json", cwd=tmp_path, environment={"MP_SPDZ_HOME": "none"})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [each["model"] for each in found["models"] if each["available"]] == ["mpyc"]
    assert all(each["mpc_s"] > 0 for each in found["models"])
    assert found["network"] == {"name": "wan", "rtt_s": 0.04, "bandwidth_bits_per_s": 1e8}
    assert not list(tmp_path.iterdir())


def test_what_takes_the_compiler_says_so(tmp_path: Path) -> None:
    asked = (*ASKED, "--task", "thresholds", "--thresholds", "21", "--variant", "published")
    done = command(*asked, cwd=tmp_path, environment={"MP_SPDZ_HOME": "none"})
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "error of the rate" in said
    assert "What pi_roc_published costs is only known to MP-SPDZ's compiler" in said


def test_a_network_that_is_none_is_refused(tmp_path: Path) -> None:
    done = call(*ASKED, "--network", "fast", cwd=tmp_path)
    assert done.returncode == 1 and not done.stdout
    assert "--network must be lan, wan, none" in " ".join(done.stderr.split())
