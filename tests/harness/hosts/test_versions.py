"""A host of version 1.0 and a coordinator of this one, or the other way round: refused, and nothing is done.

What version 1.0 says is recorded, in tests/golden/1.0. What that version makes of what is said here is tried
with its own code by tests/commands/test_two_versions.py, which tests of each change leave out.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairshares.harness.errors import HostUnfitError
from fairshares.harness.hosts import connection
from fairshares.harness.hosts.connection import HostConnection
from fairshares.harness.hosts.frames import WIRE_VERSION, Role
from fairshares.harness.hosts.inventory import Host
from tests.conftest import PROJECT
from tests.harness.hosts.test_connection import Session
from tests.support.coordinators import RULE, write_rules

OF_1_0 = PROJECT / "tests" / "golden" / "1.0"


def run_module(module: str, host: Path, said: str) -> subprocess.CompletedProcess[str]:
    """Start an agent as sshd does, by a module's name; let a coordinator say something and leave."""
    return subprocess.run(
        [sys.executable, "-P", "-m", module, str(host)],
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        input=said,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_a_host_of_1_0_is_asked_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session((OF_1_0 / "agent.jsonl").read_bytes())
    monkeypatch.setattr(connection, "_open", lambda host: session)
    with pytest.raises(HostUnfitError) as error:
        HostConnection(Host(0, "one.example", "/srv/fairshares", "/srv/FairShares", 9000))
    other = f"has another version of FairShares (12, here {WIRE_VERSION}): update it there, in"
    assert other in str(error.value)
    assert not [line for line in session.sent if line.strip()]


def test_a_coordinator_of_1_0_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    """It leaves at the greeting, whose form it knows; here it goes on all the same."""
    tmp_path.chmod(0o700)
    write_rules(tmp_path, RULE)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    done = run_module("fairshares.harness.hosts.agent", tmp_path, (OF_1_0 / "coordinator.jsonl").read_text())
    greeting, *answers = [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
    assert greeting == {"agent": WIRE_VERSION} and WIRE_VERSION > 12
    facts, *refused = answers
    assert facts["said"] == "answer" and len(refused) == 3
    assert all(answer["said"] == "error" and "Traceback" not in answer["text"] for answer in refused)
    assert "Traceback" not in done.stderr
    after = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert after.keys() - before.keys() <= {tmp_path / "log.jsonl", tmp_path / "turn"}
    assert after.items() >= before.items()


def test_a_host_with_the_code_of_1_0_is_told_to_update(tmp_path: Path) -> None:
    """It has an agent, under another name, so that Python would say only that it lacks a module."""
    project = tmp_path / "project"
    (project / "harness" / "hosts").mkdir(parents=True)
    (project / "harness" / "hosts" / "agent.py").touch()
    host = Host(0, "one.example", str(tmp_path / "host"), str(project), 9000)
    start = connection._command(host, Role.AGENT)
    done = subprocess.run(["sh", "-c", start], capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stderr) == (connection._NO_ROLE, "")


def test_a_command_that_starts_the_agent_of_1_0_is_told_the_new_name(tmp_path: Path) -> None:
    """The owner's line in authorized_keys has that name; whoever connects is shown the last line."""
    name = "fairshares.harness.hosts.agent"
    of_1_0 = name.partition(".")[2]
    done = run_module(of_1_0, tmp_path, "")
    last = done.stderr.splitlines()[-1]
    assert done.returncode and last.endswith(f"who started {of_1_0} of version 1.0 has to start {name}")
