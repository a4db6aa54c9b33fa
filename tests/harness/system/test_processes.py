"""What the kernel knows of processes."""

import os
import resource
import signal
import subprocess
import sys
from contextlib import ExitStack

import pytest

from fairshares.harness.system.processes import birth, has_output_within, is_stopped
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


def test_output_is_waited_for_at_a_descriptor_above_1023() -> None:
    """A long session, or a host with many runs, has that many open files."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= 1100:
        pytest.skip("this process may not open 1,100 files")
    with ExitStack() as stack:
        for _ in range(1025):
            stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        reads, writes = os.pipe()
        pipe = stack.enter_context(os.fdopen(reads, "rb"))
        writing = stack.enter_context(os.fdopen(writes, "wb"))
        assert reads > 1023
        assert not has_output_within(0.0, pipe)
        writing.write(b"ready")
        writing.flush()
        assert has_output_within(600.0, pipe)
        pipe.read1()
        writing.close()
        assert has_output_within(600.0, pipe), "the end of the output is something to read"
