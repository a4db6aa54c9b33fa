"""A host on a mount that hangs: its agent ends all the same, and counts and charges nothing."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fairshares.harness.engines.execution import PROJECT
from fairshares.harness.hosts.host_log import Event, read_log
from fairshares.harness.hosts.local_host import turn_at
from fairshares.harness.hosts.policy import LEDGER
from fairshares.harness.hosts.wire import encode
from tests.support.coordinators import asked, make_hosts
from tests.support.stalled import stalled

# An agent that is killed a moment after it had to end: its argument is the host's directory.
AGENT = """
import sys
from fairshares.harness.hosts import agent, local_host
local_host._ENDING_S = 0.5
sys.exit(agent.main([sys.argv[1], "", "alice"]))
"""


@pytest.mark.parametrize("name", ["shares", "keys", "."])
def test_an_agent_that_waits_for_a_mount_ends_with_its_connection(name: str, tmp_path: Path) -> None:
    """It would keep the host's turn for ever. The host's whole directory may hang, with its log."""
    host = make_hosts(tmp_path)[0]
    requests: list[dict[str, Any]] = [
        {"do": "propose", "asked": asked()},
        {"do": "check_uploads", "party": 0},
    ]
    with (
        stalled(host / name) as mount,
        subprocess.Popen(
            [sys.executable, "-c", AGENT, str(host)],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as agent,
    ):
        try:
            assert agent.stdin is not None
            agent.stdin.write(b"".join(encode(request) for request in requests))
            agent.stdin.flush()
            mount.wait_until_asked()
            agent.stdin.close()
            assert agent.wait(60) == -signal.SIGKILL
        finally:
            agent.kill()
    if name != ".":
        last = read_log(host).lines[-1]
        assert last.event is Event.ENDED and "did not end within" in last.said and "may hang" in last.said
    assert not (host / LEDGER).exists()
    with turn_at(host):  # which nobody keeps
        pass
