"""What the kernel knows of processes."""

import os
import signal
import subprocess
import sys

import pytest

from harness.system.processes import birth, is_stopped
from tests.support.running import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_a_process_has_one_birth_until_it_has_ended() -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        began = birth(process.pid)
        assert int(began) >= int(birth(os.getpid()))
        process.send_signal(signal.SIGSTOP)
        until(lambda: is_stopped(process.pid))
        assert birth(process.pid) == began
        process.kill()
        until(lambda: birth(process.pid) == "")  # nobody has waited for it yet
    assert birth(process.pid) == "" and not is_stopped(process.pid)
