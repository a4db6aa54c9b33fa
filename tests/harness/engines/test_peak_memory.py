"""The memory of a party, as the kernel sees it: of its virtual machine, not of what prepared it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fairshares.harness.engines.parties.handle import PeakMemory

MUCH = 64 * 2**20
TAKE_AND_GIVE_BACK = f"taken = bytearray({MUCH}); del taken"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@contextmanager
def waiting(script: str) -> Iterator[subprocess.Popen[str]]:
    """Run a Python script; yield when it has printed a line. It ends when its input does."""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.communicate()


def test_a_peak_stays_when_memory_is_given_back_and_when_the_process_has_ended() -> None:
    with waiting(f"{TAKE_AND_GIVE_BACK}; print('now', flush=True); input()") as process:
        peak = PeakMemory(process.pid)
        peak.look()
        process.communicate("\n")
    peak.look()
    assert peak.bytes is not None and MUCH < peak.bytes < 2 * MUCH


def test_what_a_process_was_before_does_not_count() -> None:
    script = f"{TAKE_AND_GIVE_BACK}; import os; os.execv('/bin/sh', ['sh', '-c', 'echo now; read line'])"
    with waiting(script) as process:
        peak = PeakMemory(process.pid)
        peak.look()
    assert peak.bytes is not None and peak.bytes < MUCH / 4


@pytest.mark.parametrize("children", [False, True])
def test_children_count_where_they_are_asked_for(children: bool) -> None:
    child = f"{TAKE_AND_GIVE_BACK}; print(flush=True); input()"
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with waiting(script) as process:
        peak = PeakMemory(process.pid, children=children)
        peak.look()
    assert peak.bytes is not None and (peak.bytes > MUCH) is children
