"""Parties are started one after the other, and all that was begun is ended, whatever happens."""

import subprocess
import sys

import pytest

from fairshares.harness.charged import BegunCharge
from fairshares.harness.engines.parties.handle import LaidOutParty, PartyProcess, PartyState
from fairshares.harness.engines.parties.supervisor import started
from fairshares.harness.errors import PartyTimeoutError, UsedDirectoryError
from fairshares.harness.uploads.signatures import Signed


class Process(PartyProcess):
    """A process that notes its end."""

    def __init__(self, name: str, certificate: str | None, ended: list[str]) -> None:
        self.name = name
        self._certificate = certificate
        self._ended = ended

    def certificate(self, seconds: float) -> str | None:
        return self._certificate

    def go(self, certificates: object, agreed: object = None) -> None:
        self._ended.append(f"{self.name} went")

    def exit_code(self) -> int | None:
        return 0

    def state(self) -> PartyState:
        return PartyState()

    def kill(self) -> None:
        self._ended.append(f"kill {self.name}")

    def close(self) -> None:
        self._ended.append(f"close {self.name}")


class LaidOut(LaidOutParty[Process]):
    """A party of a number; it does not start, or gives no certificate."""

    def __init__(self, number: int, ended: list[str], *, starts: bool = True, is_ready: bool = True) -> None:
        self.name = f"directory {number}"
        self._number = number
        self._ended = ended
        self._starts = starts
        self._certificate = f"certificate {number}" if is_ready else None

    def start(self) -> Process:
        if not self._starts:
            raise UsedDirectoryError("It was started before.")
        return Process(f"process {self._number}", self._certificate, self._ended)

    def kill(self) -> None:
        self._ended.append(f"kill {self.name}")

    def close(self) -> None:
        self._ended.append(f"close {self.name}")


def test_whatever_stops_the_start_ends_all_that_was_begun() -> None:
    """Of a party that did not start, what it has so far: a host may have started it, and not have said so."""
    ended: list[str] = []
    parties = [LaidOut(0, ended), LaidOut(1, ended, starts=False), LaidOut(2, ended)]
    with pytest.raises(UsedDirectoryError), started(parties, 1.0):
        pytest.fail("it went on")
    names = ["process 0", "directory 1", "directory 2"]
    assert ended == [f"kill {name}" for name in names] + [f"close {name}" for name in names]
    ended.clear()
    parties = [LaidOut(0, ended), LaidOut(1, ended, is_ready=False)]
    with pytest.raises(PartyTimeoutError, match="process 1 did not start within 1 s"), started(parties, 1.0):
        pytest.fail("it went on")
    assert ended == ["kill process 0", "kill process 1", "close process 0", "close process 1"]


def test_all_that_wait_go_with_what_their_hosts_agreed_to() -> None:
    """And end afterwards."""
    ended: list[str] = []
    told: list[tuple[object, object]] = []

    class Told(Process):
        def go(self, certificates: object, agreed: object = None) -> None:
            told.append((certificates, agreed))

    class LaidOutTold(LaidOut):
        def start(self) -> Process:
            return Told("told", self._certificate, ended)

    agreed = {0: Signed("said", "signature", "certificate")}
    with started([LaidOutTold(0, ended), LaidOutTold(1, ended)], 1.0) as waiting:
        waiting.finish(BegunCharge(), agreed=agreed)
    certificates = {0: "certificate 0", 1: "certificate 1"}
    assert told == [(certificates, agreed), (certificates, agreed)]
    assert ended == ["kill told", "kill told", "close told", "close told"]


def test_a_party_s_process_starts_no_thread_before_it_is_restricted() -> None:
    """Such as those of numpy, which must come later: otherwise every run is refused."""
    code = "import os, sys; from fairshares.harness.engines.parties import main; "
    code += "sys.exit('numpy' in sys.modules or len(os.listdir('/proc/self/task')) != 1)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
