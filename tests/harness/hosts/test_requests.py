"""What requests take of a host's memory: little, whoever asks, until its policy has accepted a run."""

import io
import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from harness.engines.base import PROJECT
from harness.hosts import agent, wire
from harness.system import documents
from tests.support.coordinators import RULE, asked, write_rules
from tests.support.running import until

MORE = 64 << 20  # bytes that a host may need for what nobody has accepted
# In a process of its own, as memory is told of those that have ended.
TOLD = """
import resource, subprocess, sys
done = subprocess.run([sys.executable, "-m", "harness.hosts.agent", sys.argv[1]])
print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, file=sys.stderr)
"""


def line(size: int, request: str = "nonsense") -> bytes:
    """Return a request of so many bytes, of what takes most memory: empty lists."""
    start = json.dumps({"do": request, "x": []}).encode()[:-2]
    said = start + b"[]," * ((size - len(start) - 5) // 3) + b"[]]}"
    return said + b" " * (size - 1 - len(said)) + b"\n"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Return a host's directory, with a policy."""
    (tmp_path / "host").mkdir(mode=0o700)
    write_rules(tmp_path / "host", RULE)
    return tmp_path / "host"


def told(host: Path, *parts: bytes) -> tuple[list[dict[str, Any]], int, int]:
    """Return what an agent answers, its exit code, and how much memory it took.

    Args: parts: what it is told, each after the first answer to the one before.
    """
    with subprocess.Popen(
        [sys.executable, "-c", TOLD, host],
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as wrapped:
        assert wrapped.stdin is not None and wrapped.stdout is not None and wrapped.stderr is not None
        said = filter(None, map(wire.decode, wrapped.stdout))
        answers = [next(said)]
        for part in (*parts, wire.encode({"do": "bye"})):
            with suppress(BrokenPipeError):
                wrapped.stdin.write(part)
                wrapped.stdin.flush()
            answers += islice(said, 1)
        answers += said
        code, peak = map(int, wrapped.stderr.read().split()[-2:])
        with suppress(BrokenPipeError):
            wrapped.stdin.close()
    return answers[1:], code, peak


def test_requests_take_little_memory_before_a_run_is_accepted(host: Path) -> None:
    """Neither one that is long, nor many that wait; what is as long as it may be is answered."""
    assert len(line(wire.SHORT)) == wire.SHORT
    *_, idle = told(host)
    answers, code, peak = told(host, line(wire.SHORT) * 100)
    assert (len(answers), code) == (100, 0) and peak - idle < MORE
    refused = wire.encode({"do": "propose", "asked": asked(population="others")})
    for before in ([], [refused]):
        answers, code, peak = told(host, *before, line(1 << 23) * 3)
        assert (len(answers), code) == (len(before), 1) and peak - idle < MORE


def test_long_requests_are_taken_once_a_run_is_accepted(host: Path) -> None:
    """As a list of a million uploads is; not what makes more of itself in memory than any list does."""
    accepted = wire.encode({"do": "propose", "asked": asked()})
    answers, code, idle = told(host, accepted, line(1 << 20, "take_list"))
    assert [*map(list, answers)] == [["ok"], ["error"]] and code == 0
    answers, code, peak = told(host, accepted, line(3 * documents._MAX_VALUES + (1 << 20)))
    assert (len(answers), code) == (1, 1) and peak - idle < 4 * MORE


class Listening(agent.Agent):
    """A connection that tells nobody that it is there."""

    def _beat(self) -> None: ...


def test_at_most_one_request_waits_while_another_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    taken, read, early = 0, 0, 0
    decode = wire.decode

    def counted(said: bytes) -> dict[str, Any] | None:
        nonlocal read, early
        read += 1
        early += read > taken + 2  # the one that waits, and the one behind it that cannot
        return decode(said)

    monkeypatch.setattr(wire, "decode", counted)
    said = io.BytesIO(wire.encode({"do": "state"}) * 100)
    one = Listening(said, io.BytesIO(), wire.Answers(), "agent")
    monkeypatch.setattr(one, "lose", ended.set)
    one.begin(said)
    until(lambda: read >= 2)
    while taken < 100:
        taken += 1
        one.requests.get()
    ended.wait()
    assert early == 0
