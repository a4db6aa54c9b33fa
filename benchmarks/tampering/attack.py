"""Runs whose one party changes a message: laid out once, run as often as there are changes.

Parties are MP-SPDZ's virtual machines and nothing else: what is tried is the engine. Each has a directory of
its own as in any run, and inputs that the program of the operation says. Linux, with a C compiler.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np

from harness.engines.base import LOOPBACK, Job
from harness.engines.parties.certificates import make_key, trust
from harness.engines.parties.supervisor import free_ports
from harness.engines.parties.working_directory import DATA, LOG, bits_file, certificate_file, values_file
from harness.engines.registry import engine_of
from harness.errors import UnsupportedError
from harness.security_models import Model
from harness.system.processes import die_with_parent, idle_since
from protocols.spec import NO_INPUT, ProtocolSpec

PROGRAMS = Path(__file__).with_name("programs")
INTERPOSER = Path(__file__).with_name("interposer.c")

_POLL_S = 0.005
_STILL_S = 1.5  # without a step of any party: MP-SPDZ waits a second at most of its own accord
_GRACE_S = 0.5  # for others after a party ended
_LONGEST_S = 120.0  # of an untouched run
_TIMES = 20  # as long as that: then a party computes what has no end
_MESSAGES, _CHANGED = "messages", "changed"


class Kind(StrEnum):
    """How a message is changed: see `interposer.c`."""

    FLIP = "flip"
    SHIFT = "shift"
    SHIFT_ALL = "shift_all"
    ECHO = "echo"
    REPEAT = "repeat"
    DROP = "drop"
    SWAP = "swap"
    STOP = "stop"


class Outcome(StrEnum):
    """What the honest parties made of a change."""

    ABORTED = (
        "aborted"  # an honest party ended with an error, or all waited for ever, and none opened anything
    )
    OPENED = "opened, then aborted"  # the right result, which no honest party then took
    SHIFTED = "opened another value, then aborted"
    RIGHT = "right"
    WRONG = "wrong"  # an honest party took another result
    UNTOUCHED = "untouched"  # the run had no such message


@dataclass(frozen=True)
class Operation:
    """A program of one kind of operation, on inputs of honest parties.

    Attributes: values, bits: that the two honest parties input, 4 each; right: what is opened then.
    """

    name: str
    values: tuple[tuple[int, ...], ...] = ()
    bits: tuple[tuple[int, ...], ...] = ()
    right: tuple[int, ...] = ()


@dataclass(frozen=True, order=True)
class Message:
    """One message of the party that tampers. Attributes: number: to that receiver; length: in bytes."""

    receiver: int
    number: int
    length: int


@dataclass(frozen=True)
class Change:
    """A message, and what becomes of it. Attributes: where: the byte; what: at most 2^63."""

    message: Message
    kind: Kind
    where: int
    what: int

    def __str__(self) -> str:
        return f"{self.message.receiver} {self.message.number} {self.kind} {self.where} {self.what}"


@contextmanager
def interposer(directory: Path) -> Iterator[Path]:
    """Yield the interposer, built into the directory. Raises: UnsupportedError: nothing builds it."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise UnsupportedError("There is no C compiler cc, by which messages are changed; install one.")
    built = directory / "interposer.so"
    done = subprocess.run(
        [compiler, "-O2", "-shared", "-fPIC", "-o", built, INTERPOSER, "-ldl"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise UnsupportedError(f"{compiler} cannot build {INTERPOSER}: {done.stderr.strip()}")
    yield built


class Attack:
    """The parties of one model and operation, one of which tampers.

    Args: tamperer: its number; built: the interposer; work: a new directory.
    """

    def __init__(self, model: Model, operation: Operation, tamperer: int, built: Path, work: Path) -> None:
        self.model, self.operation, self.tamperer = model, operation, tamperer
        self._built, self._work = built, work
        honest = [i for i in range(model.parties) if i != tamperer]
        self._honest, inputs = honest, (honest[0], honest[-1])
        spec = ProtocolSpec(
            *(operation.name, "active security, tried", ("first", "second")),
            *({NO_INPUT.name: NO_INPUT}, ("opened",), ()),
            uses_edabits=False,  # as in all programs of ours that compare
        )
        program = PROGRAMS / f"{operation.name}.mpc"
        four_lanes = ((1, 4),)  # for which batches are small
        self._job = Job(spec, program, tuple(map(str, inputs)), (None,) * model.parties, four_lanes)
        self._limit_s = _LONGEST_S
        self._directories = [work / f"party-{i}" for i in range(model.parties)]
        for i, directory in enumerate(self._directories):
            data = directory / DATA
            data.mkdir(parents=True)
            make_key(data, f"P{i}", f"P{i}")
            own = [k for k, party in enumerate(inputs) if party == i]
            values = [value for k in own for values in operation.values[k : k + 1] for value in values]
            bits = [word for k in own for words in operation.bits[k : k + 1] for word in words]
            (data / values_file(i)).write_bytes(np.array(values, dtype="<i8").tobytes())
            (data / bits_file(i)).write_text("".join(f"{word}\n" for word in bits))
        for directory in self._directories:
            for i, other in enumerate(self._directories):
                trust(other / DATA / certificate_file(i), directory / DATA, f"P{i}")

    @contextmanager
    def laid_out(self) -> Iterator[None]:
        """Have the program compiled, and kept, meanwhile. Raises: UnsupportedError; CompileError."""
        engine = engine_of(self.model)
        with engine.prepared(self._job, self.model) as prepared:
            configs = [engine.config(prepared, i, []) for i in range(self.model.parties)]
            self._commands = [config["argv"] for config in configs]
            for directory, config in zip(self._directories, configs, strict=True):
                for name, target in config["links"].items():
                    (directory / name).symlink_to(target)
            yield

    def messages(self) -> list[Message]:
        """Return what the party sends in a run that it does not tamper with, whose result is right."""
        began = time.monotonic()
        outcome, lines = self._run("")
        self._limit_s = _TIMES * (time.monotonic() - began)
        assert outcome is Outcome.RIGHT, (self.model.name, self.operation.name, outcome)
        return [Message(*map(int, line.split())) for line in lines]

    def run(self, change: Change) -> Outcome:
        """Run once with this change; return what the honest parties made of it."""
        outcome, lines = self._run(str(change))
        changed = any(line.startswith(_CHANGED) for line in lines)
        return outcome if changed or outcome is Outcome.WRONG else Outcome.UNTOUCHED

    def _run(self, order: str) -> tuple[Outcome, list[str]]:
        messages = self._work / _MESSAGES
        messages.unlink(missing_ok=True)
        tampers = {
            "LD_PRELOAD": str(self._built),
            "FAIRSHARES_MESSAGES": str(messages),
            **({"FAIRSHARES_TAMPER": order} if order else {}),
        }
        parties: list[subprocess.Popen[bytes]] = []
        with free_ports(self.model.parties) as ports:
            try:
                for i, directory in enumerate(self._directories):
                    (directory / "hosts").write_text("".join(f"{LOOPBACK}:{port}\n" for port in ports))
                    with (directory / LOG).open("wb") as log:
                        parties.append(
                            subprocess.Popen(
                                self._commands[i],
                                cwd=directory,
                                env={**os.environ, **(tampers if i == self.tamperer else {})},
                                stdout=log,
                                stderr=log,
                                preexec_fn=die_with_parent,
                            )
                        )
                self._watch(parties)
                codes = [party.poll() for party in parties]
            finally:
                for party in parties:
                    party.kill()
                    party.wait()
        return self._outcome(codes), messages.read_text().splitlines() if messages.exists() else []

    def _watch(self, parties: Sequence[subprocess.Popen[bytes]]) -> None:
        """Wait until the honest parties have ended, or will not."""
        began = moved = time.monotonic()
        ended_at: float | None = None
        seen: list[tuple[str, ...] | None] = []
        while any(parties[i].poll() is None for i in self._honest):
            now = time.monotonic()
            if ended_at is None and any(party.poll() is not None for party in parties):
                ended_at = now
            steps = [idle_since(party.pid) for party in parties]
            if steps != seen or None in steps:
                moved, seen = now, steps
            over = ended_at is not None and now - ended_at > _GRACE_S
            if over or now - moved > _STILL_S or now - began > self._limit_s:
                return
            time.sleep(_POLL_S)

    def _outcome(self, codes: Sequence[int | None]) -> Outcome:
        right = f"OUT opened [{', '.join(map(str, self.operation.right))}]"
        opened = {i: self._opened(i) for i in self._honest}
        if any(codes[i] == 0 and opened[i] != [right] for i in self._honest):
            return Outcome.WRONG
        if all(codes[i] == 0 for i in self._honest):
            return Outcome.RIGHT
        shown = [line for lines in opened.values() for line in lines]
        if not shown:
            return Outcome.ABORTED
        return Outcome.OPENED if set(shown) == {right} else Outcome.SHIFTED

    def _opened(self, party: int) -> list[str]:
        lines = (self._directories[party] / LOG).read_text(errors="replace").splitlines()
        return [line for line in lines if line.startswith("OUT ")]
