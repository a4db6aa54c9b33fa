"""Runs of MP-SPDZ's parties in which one changes a message, or noise made ahead."""

import os
import re
import resource
import secrets
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import numpy as np

from benchmarks.tampering.operations import LAW, OFFLINE, SAMPLER, Integers, Operation
from harness.engines.base import PROGRAMS as PRODUCTION, MadeUpJob
from harness.engines.parties.certificates import make_key, trust
from harness.engines.parties.config import Machine
from harness.engines.parties.handle import move_piece
from harness.engines.parties.supervisor import free_ports
from harness.engines.parties.working_directory import (
    DATA,
    LOG,
    LOOPBACK,
    PIECE,
    bits_file,
    certificate_file,
    values_file,
)
from harness.engines.registry import engine_of
from harness.errors import UnsupportedError
from harness.security_models import SecurityModel
from harness.system.processes import die_with_parent
from protocols.spec import NO_INPUT, ProtocolSpec

PROGRAMS = Path(__file__).with_name("programs")

INTERPOSER = Path(__file__).with_name("interposer.c")

_POLL_S, _SLOW_POLL_S = 0.02, 0.1  # while parties send, and while they do not
_STILL_S = 1.5  # without messages; MP-SPDZ itself waits a second at most
_IN_VAIN = 50  # wake-ups in that time, of a thread that waits in vain
_LANES = 4  # for which batches are small
_LONGEST_S = 20  # of computing: twenty times as long as without changes
_INTEGER = re.compile(r"(?<![\w])-?\d+")
_MESSAGES, _CHANGED = "messages", "changed"


class Kind(StrEnum):
    """How a message is changed; see `interposer.c`."""

    FLIP = "flip"
    SHIFT = "shift"
    SHIFT_ALL = "shift_all"
    ECHO = "echo"
    REPEAT = "repeat"
    DROP = "drop"
    SWAP = "swap"
    STOP = "stop"


KINDS = (
    *[Kind.SHIFT_ALL] * 4,
    *[Kind.SHIFT] * 2,
    *[Kind.FLIP] * 2,
    *(Kind.ECHO, Kind.REPEAT, Kind.DROP, Kind.SWAP, Kind.STOP),
)  # in proportion to a walk's changes


class Outcome(StrEnum):
    """The honest parties' reaction to a change."""

    ABORTED = "aborted"  # an error, or all waited for ever; nothing was opened
    OPENED = "opened, then aborted"  # the right result, which no honest party accepted
    SHIFTED = "opened another value, then aborted"
    RIGHT = "right"
    WRONG = "wrong"  # an honest party accepted another result
    UNTOUCHED = "untouched"  # the run had no such message


@dataclass(frozen=True, order=True)
class Message:
    """A message of the tampering party, by its number to that receiver."""

    receiver: int
    number: int
    length: int


@dataclass(frozen=True)
class Change:
    """A change of a message at a byte."""

    message: Message
    kind: Kind
    where: int
    what: int

    def __str__(self) -> str:
        return f"{self.message.receiver} {self.message.number} {self.kind} {self.where} {self.what}"


def build_interposer(directory: Path) -> Path:
    """Build the interposer into a directory, and return it."""
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
    return built


class Attack:
    """The parties of one operation, one of which tampers."""

    kinds: tuple[Kind, ...] = KINDS

    def __init__(
        self, model: SecurityModel, operation: Operation, tamperer: int, built: Path, work: Path
    ) -> None:
        self.model, self.operation, self.tamperer = model, operation, tamperer
        self._built, self._work = built, work
        self._honest = [i for i in range(model.parties) if i != tamperer]
        self._inputs = (self._honest[0], tamperer if operation.noise else self._honest[-1])
        self.directories = [work / f"party-{i}" for i in range(model.parties)]
        for i, directory in enumerate(self.directories):
            data = directory / DATA
            data.mkdir(parents=True)
            make_key(data, f"P{i}", f"P{i}")
        self.feed(operation.values, operation.bits)
        for directory in self.directories:
            for i, other in enumerate(self.directories):
                trust(other / DATA / certificate_file(i), directory / DATA, f"P{i}")

    def feed(self, values: Sequence[Integers], bits: Sequence[Sequence[Integers]]) -> None:
        """Give these to the two parties with inputs."""
        for i, directory in enumerate(self.directories):
            columns = [k for k, party in enumerate(self._inputs) if party == i]
            numbers = [value for k in columns for column in values[k : k + 1] for value in column]
            words = [f"{word}\n" for block in bits for k in columns for word in block[k]]
            (directory / DATA / values_file(i)).write_bytes(np.array(numbers, dtype="<i8").tobytes())
            (directory / DATA / bits_file(i)).write_text("".join(words))

    def _job(self) -> MadeUpJob:
        operation = self.operation
        source = PROGRAMS / f"{operation.program}.mpc"
        if not source.exists():
            text = (PROGRAMS / "two_parties.mpc").read_text() + (PRODUCTION / source.name).read_text()
            source = self._work / source.name
            source.write_text(text)
        spec = ProtocolSpec(
            *(operation.program, "active security, tried", ("first", "second")),
            *({NO_INPUT.name: NO_INPUT}, ("opened",), ()),
            uses_edabits=False,  # as in all programs of ours that compare
        )
        arguments = tuple(map(str, (*self._inputs, *operation.arguments)))
        return MadeUpJob(spec, source, arguments, fair_bits=((1, operation.noise or _LANES),))

    def lay_out(self) -> None:
        """Compile the program."""
        engine = engine_of(self.model)
        prepared = engine.prepared(self._job(), self.model)
        self._commands: list[tuple[str, ...]] = []
        for party, directory in enumerate(self.directories):
            setup = engine.setup(prepared, party, [])
            assert isinstance(setup.config.engine, Machine), "attacks are on machines of MP-SPDZ"
            self._commands.append(setup.config.engine.argv)
            for name, target in setup.links.items():
                (directory / name).symlink_to(target)

    def messages(self) -> list[Message]:
        """Return the tamperer's messages in a run without changes."""
        outcome, _, lines = self._run("")
        assert outcome is Outcome.RIGHT, (self.model.name, self.operation.name, outcome)
        return [Message(*map(int, line.split()[:3])) for line in lines[self.tamperer]]

    def watch(self) -> list[list[tuple[int, int, int]]]:
        """Return each party's messages: receiver, bytes, and nanoseconds."""
        outcome, _, lines = self._run("")
        assert outcome is not Outcome.ABORTED, (self.model.name, self.operation.name)
        return [
            [(to, length, at) for to, _, length, at in (map(int, line.split()) for line in file)]
            for file in lines
        ]

    def run(self, change: Change | None = None) -> tuple[Outcome, Integers]:
        """Return the outcome of a run with this change, and the honest parties' values."""
        outcome, opened, lines = self._run(str(change or ""))
        changed = change is None or any(line.startswith(_CHANGED) for line in lines[self.tamperer])
        return outcome if changed or outcome is Outcome.WRONG else Outcome.UNTOUCHED, opened

    def _run(self, order: str) -> tuple[Outcome, Integers, list[list[str]]]:
        if samples := self.operation.noise:
            drawn = tuple(secrets.randbits(SAMPLER.fair_bits) for _ in range(samples))
            self.feed((), ((drawn, (0,) * samples),))
        parties: list[subprocess.Popen[bytes]] = []
        with free_ports(self.model.parties) as ports:
            try:
                for i, directory in enumerate(self.directories):
                    (directory / "hosts").write_text("".join(f"{LOOPBACK}:{port}\n" for port in ports))
                    (directory / _MESSAGES).write_text("")
                    with (directory / LOG).open("wb") as log:
                        parties.append(
                            subprocess.Popen(
                                self._commands[i],
                                cwd=directory,
                                env={
                                    **os.environ,
                                    "LD_PRELOAD": str(self._built),
                                    "FAIRSHARES_MESSAGES": _MESSAGES,
                                    **({"FAIRSHARES_TAMPER": order} if order and i == self.tamperer else {}),
                                },
                                stdout=log,
                                stderr=log,
                                preexec_fn=_on_a_leash,
                            )
                        )
                self._wait(parties)
                codes = [party.poll() for party in parties]
            finally:
                for party in parties:
                    party.kill()
                    party.wait()
        sent = [(directory / _MESSAGES).read_text().splitlines() for directory in self.directories]
        return *self._outcome(codes), sent

    def _wait(self, parties: Sequence[subprocess.Popen[bytes]]) -> None:
        """Wait until the honest parties have ended or wait for ever."""
        sent, since, before = -1, 0.0, None
        while any(parties[i].poll() is None for i in self._honest):
            now, running = time.monotonic(), [party.pid for party in parties if party.poll() is None]
            steps = sum((path / _MESSAGES).stat().st_size for path in self.directories) - len(running)
            if steps != sent:
                sent, before = steps, None
            elif before is None:
                since, before = now, _threads(running)
            elif now - since > _STILL_S:
                after = _threads(running)
                if before.keys() == after.keys() and all(map(_waited, before.values(), after.values())):
                    return
                since, before = now, after
            time.sleep(_POLL_S if before is None else _SLOW_POLL_S)

    def _outcome(self, codes: Sequence[int | None]) -> tuple[Outcome, Integers]:
        results = {i: self._opened(i) for i in self._honest}
        accepted = {results[i] for i in self._honest if codes[i] == 0}
        shown = {values for values in results.values() if values}
        any_opened = next(iter(shown), ())
        if len(accepted) > 1 or not all(map(self.operation.is_right, accepted)):
            return Outcome.WRONG, any_opened
        if all(codes[i] == 0 for i in self._honest):
            return Outcome.RIGHT, any_opened
        if not shown:
            return Outcome.ABORTED, ()
        return Outcome.OPENED if all(map(self.operation.is_right, shown)) else Outcome.SHIFTED, any_opened

    def _opened(self, party: int) -> Integers:
        lines = (self.directories[party] / LOG).read_text(errors="replace").splitlines()
        return tuple(
            int(word) for line in lines if line.startswith("OUT ") for word in _INTEGER.findall(line)
        )


def _on_a_leash() -> None:
    """End with the process that began this one, or after too much computation."""
    die_with_parent()
    resource.setrlimit(resource.RLIMIT_CPU, (_LONGEST_S, _LONGEST_S))


# Whether it sleeps, the nanoseconds that it has run, and how often it went to sleep of its own accord.
Thread = tuple[bool, int, int]


def _threads(processes: Sequence[int]) -> dict[str, Thread]:
    threads = {}
    for process in processes:
        for thread in sorted(Path(f"/proc/{process}/task").glob("*")):
            with suppress(OSError):  # it has ended
                status, ran = (thread / "status").read_text(), (thread / "schedstat").read_text()
                slept = re.search(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.MULTILINE)
                assert slept is not None
                threads[thread.name] = ("State:\tS" in status, int(ran.split()[0]), int(slept[1]))
    return threads


def _waited(before: Thread, after: Thread) -> bool:
    """Return whether a thread slept, or woke up again and again to no effect."""
    return (before[0] and before == after) or after[2] - before[2] > _IN_VAIN


_SUMS = len(OFFLINE.right)
_MAKE = replace(OFFLINE, name="pi_preprocess", values=(), arguments=(2, _SUMS, *LAW), right=(_SUMS,))
MAKING, ONLINE, STORED = (
    replace(OFFLINE, name=f"{OFFLINE.name} {part}") for part in ("making", "online", "stored")
)
STOCK = (MAKING, ONLINE, STORED)
_PLACES = 16  # that are changed in each stored file

Files = dict[Path, bytes]  # a party's part of a piece, by the place in its directory


class StockAttack:
    """An `Attack` on parties that make a piece of noise, then use it.

    The attacker knows earlier pieces of the same noise. SHIFT adds to a stored number, SWAP uses a piece that
    nobody else uses, and REPEAT a used one.
    """

    def __init__(
        self, model: SecurityModel, operation: Operation, tamperer: int, built: Path, work: Path
    ) -> None:
        self.model, self.operation = model, operation
        self._making = Attack(model, _MAKE, tamperer, built, work / "making")
        self._using = Attack(model, OFFLINE, tamperer, built, work / "using")
        self.directories = self._using.directories
        self._own = self.directories[tamperer]
        self.kinds = (Kind.SHIFT, Kind.SWAP, Kind.REPEAT) if operation is STORED else KINDS

    def lay_out(self) -> None:
        """Compile both programs."""
        self._making.lay_out()
        self._using.lay_out()

    def messages(self) -> list[Message]:
        """Return the messages that are changed, or places in stored files."""
        sent = self._making.messages()
        self._hand_over()
        if self.operation is STORED:
            return [
                Message(file, place, len(content))
                for file, content in enumerate(self.stored().values())
                for place in range(_PLACES)
            ]
        return self._using.messages() if self.operation is ONLINE else sent

    def run(self, change: Change) -> tuple[Outcome, Integers]:
        """Make a piece and use it, with this change. A piece that a party fails to make is not kept."""
        if self.operation is not STORED:
            outcome = self.make(change if self.operation is MAKING else None)
            used = change if self.operation is ONLINE else None
            return self._using.run(used) if outcome is Outcome.RIGHT else (outcome, ())
        another: Files = {}
        if change.kind is not Kind.SHIFT:
            self.make()
            another = self.stored()
        if change.kind is Kind.REPEAT:
            self._using.run()
        self.make()
        return self.use(another or changed(self.stored(), change))

    def make(self, change: Change | None = None) -> Outcome:
        """Make a piece, and store it if all goes well."""
        outcome, _ = self._making.run(change)
        self._hand_over()
        return outcome

    def stored(self) -> Files:
        """Return the attacker's part of the piece."""
        return {
            file.relative_to(self._own): file.read_bytes()
            for file in sorted(file for pattern in PIECE for file in self._own.glob(pattern))
        }

    def use(self, files: Mapping[Path, bytes]) -> tuple[Outcome, Integers]:
        """Use the piece, with these files of the attacker."""
        for name in self.stored():
            (self._own / name).unlink()
        for name, content in files.items():
            (self._own / name).write_bytes(content)
        return self._using.run()

    def _hand_over(self) -> None:
        """Move the piece, so that the next is made without it."""
        for new, used in zip(self._making.directories, self._using.directories, strict=True):
            move_piece(new, used)


def changed(files: Files, change: Change) -> Files:
    """Return files with a number added in one."""
    name, content = [*files.items()][change.message.receiver]
    start, end = change.where, change.where + 8
    word = content[start:end]
    total = (int.from_bytes(word, "little") + change.what) % (1 << 8 * len(word))
    return files | {name: content[:start] + total.to_bytes(len(word), "little") + content[end:]}
