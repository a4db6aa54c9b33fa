"""Runs of MP-SPDZ's parties in which one of them changes a message, or noise that was made ahead."""

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
from typing import NamedTuple

import numpy as np

from benchmarks.tampering.operations import (
    OFFLINE,
    SAMPLERS,
    Integers,
    Operation,
    law_of,
    name_of,
)
from fairshares.harness.engines.execution import PROGRAMS as PRODUCTION, MadeUpJob
from fairshares.harness.engines.parties.certificates import make_key, trust
from fairshares.harness.engines.parties.config import VirtualMachine
from fairshares.harness.engines.parties.handle import move_piece
from fairshares.harness.engines.parties.supervisor import free_ports
from fairshares.harness.engines.parties.working_directory import (
    DATA,
    LOG,
    LOOPBACK,
    PIECE_FILES,
    bits_file,
    certificate_file,
    values_file,
)
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.errors import UnsupportedError
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.system.processes import die_with_parent
from fairshares.protocols.circuits.coins import NoiseFamily
from fairshares.protocols.spec import NO_INPUT, ProtocolSpec

PROGRAMS = Path(__file__).with_name("programs")

INTERPOSER = Path(__file__).with_name("interposer.c")

_POLL_S = 0.02  # between looks at the parties while they send
_SLOW_POLL_S = 0.1  # and while they do not
# Parties that send nothing for so long may wait for ever. MP-SPDZ itself waits a second at most.
_STILL_S = 1.5
_IN_VAIN = 50  # a thread that goes to sleep more often in that time waits in vain
_LANES = 4  # values in a vector; so few keep batches small
_LONGEST_S = 20  # the time of computing: twenty times as long as a run without changes
_INTEGER = re.compile(r"(?<![\w])-?\d+")
_MESSAGES = "messages"  # the interposer's list of a party's messages, a file in its directory
_CHANGED = "changed"  # begins the line about the message that was changed
# The line about a message: its receiver, its number, its bytes, and when it was sent, in nanoseconds.
_MESSAGE = re.compile(r"(\d+) (\d+) (\d+) (\d+)")


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


# Each change draws from these, so that a kind is as frequent as it is listed here.
KINDS = (
    Kind.SHIFT_ALL,
    Kind.SHIFT_ALL,
    Kind.SHIFT_ALL,
    Kind.SHIFT_ALL,
    Kind.SHIFT,
    Kind.SHIFT,
    Kind.FLIP,
    Kind.FLIP,
    Kind.ECHO,
    Kind.REPEAT,
    Kind.DROP,
    Kind.SWAP,
    Kind.STOP,
)


class Reaction(StrEnum):
    """The honest parties' reaction to a change."""

    ABORTED = "aborted"  # an error, or all waited for ever; nothing was opened
    OPENED = "opened, then aborted"  # the right result, which no honest party accepted
    SHIFTED = "opened another value, then aborted"
    RIGHT = "right"
    WRONG = "wrong"  # an honest party accepted another result
    UNTOUCHED = "untouched"  # the run had no such message


@dataclass(frozen=True, order=True)
class Message:
    """A message of the tampering party, by its receiver and its number among the messages to it."""

    receiver: int
    number: int
    length: int


@dataclass(frozen=True)
class TimedMessage:
    """A message that a party sent, and when, in nanoseconds of this machine's clock."""

    message: Message
    at_ns: int


@dataclass(frozen=True)
class AttackedRun:
    """The honest parties' behavior in a run.

    Attributes:
        reaction: The honest parties' reaction.
        opened: The values that they opened; empty if they opened none.
    """

    reaction: Reaction
    opened: Integers


@dataclass(frozen=True)
class _WatchedRun:
    """A run with what the interposer saw of it.

    Attributes:
        run: The honest parties' behavior.
        sent: Each party's messages.
        was_changed: Whether the tamperer sent the message that was to be changed.
    """

    run: AttackedRun
    sent: Sequence[Sequence[TimedMessage]]
    was_changed: bool


@dataclass(frozen=True)
class Change:
    """A change of a message: how, at which byte, and with which number."""

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
    """The parties of an operation, one of which tampers.

    Args:
        model: The security model.
        operation: The program, its inputs and its right result.
        tamperer: The number of the party that tampers.
        built: The interposer.
        work: An empty directory, in which each party gets a directory.
    """

    kinds: tuple[Kind, ...] = KINDS

    def __init__(
        self, model: SecurityModel, operation: Operation, tamperer: int, built: Path, work: Path
    ) -> None:
        self.model = model
        self.operation = operation
        self.tamperer = tamperer
        self._built = built
        self._work = work
        self._honest = [party for party in range(model.parties) if party != tamperer]
        self._inputs = (self._honest[0], tamperer if operation.noise else self._honest[-1])
        self.directories = [work / f"party-{party}" for party in range(model.parties)]
        for party, directory in enumerate(self.directories):
            data = directory / DATA
            data.mkdir(parents=True)
            make_key(data, f"P{party}", f"P{party}")
        self.feed(operation.values, operation.bits)
        for directory in self.directories:
            for party, other in enumerate(self.directories):
                trust(other / DATA / certificate_file(party), directory / DATA, f"P{party}")

    def feed(self, values: Sequence[Integers], bits: Sequence[Sequence[Integers]]) -> None:
        """Give values and bits to the two parties with inputs.

        Args:
            values: The values of the first and of the second party with inputs; empty for none.
            bits: The words of the first and of the second party, for each block.
        """
        for party, directory in enumerate(self.directories):
            inputs = [place for place, owner in enumerate(self._inputs) if owner == party]
            numbers: list[int] = []
            for place in inputs:
                if place < len(values):
                    numbers += values[place]
            words: list[str] = []
            for block in bits:
                for place in inputs:
                    words += [f"{word}\n" for word in block[place]]
            ring = self.model.ring
            elements = ring.signed_words(ring.encode(np.array(numbers, dtype=np.int64)))
            (directory / DATA / values_file(party)).write_bytes(ring.to_bytes(elements))
            (directory / DATA / bits_file(party)).write_text("".join(words))

    def _job(self) -> MadeUpJob:
        operation = self.operation
        source = PROGRAMS / f"{operation.program}.mpc"
        if not source.exists():
            text = (PROGRAMS / "two_parties.mpc").read_text() + (PRODUCTION / source.name).read_text()
            source = self._work / source.name
            source.write_text(text)
        spec = ProtocolSpec(
            name=operation.program,
            source="active security, tried",
            arguments=("first", "second"),
            input_forms={NO_INPUT.name: NO_INPUT},
            outputs=("opened",),
            revealed=(),
            uses_edabits=False,  # as in all programs of ours that compare
        )
        arguments = [str(argument) for argument in [*self._inputs, *operation.arguments]]
        return MadeUpJob(spec, source, tuple(arguments), fair_bits=((1, operation.noise or _LANES),))

    def lay_out(self) -> None:
        """Compile the program."""
        engine = engine_of(self.model)
        prepared = engine.prepared(self._job(), self.model)
        self._commands: list[tuple[str, ...]] = []
        for party, directory in enumerate(self.directories):
            setup = engine.setup(prepared, party, [])
            assert isinstance(setup.config.engine, VirtualMachine), "attacks are on machines of MP-SPDZ"
            self._commands.append(setup.config.engine.argv)
            for name, target in setup.links.items():
                (directory / name).symlink_to(target)

    def messages(self) -> list[Message]:
        """Return the tamperer's messages in a run without changes."""
        watched = self._run(None)
        reaction = watched.run.reaction
        assert reaction is Reaction.RIGHT, (self.model.name, self.operation.name, reaction)
        return [sent.message for sent in watched.sent[self.tamperer]]

    def watch(self) -> Sequence[Sequence[TimedMessage]]:
        """Return each party's messages in a run without changes."""
        watched = self._run(None)
        assert watched.run.reaction is not Reaction.ABORTED, (self.model.name, self.operation.name)
        return watched.sent

    def run(self, change: Change | None = None) -> AttackedRun:
        """Run the parties with this change."""
        watched = self._run(change)
        is_untouched = change is not None and not watched.was_changed
        if is_untouched and watched.run.reaction is not Reaction.WRONG:
            return AttackedRun(Reaction.UNTOUCHED, watched.run.opened)
        return watched.run

    def _run(self, change: Change | None) -> _WatchedRun:
        """Run the parties once, with a change of a message, or without any."""
        samples = self.operation.noise
        if samples:
            drawn = tuple(secrets.randbits(SAMPLERS[self.operation.family].fair_bits) for _ in range(samples))
            zeros = tuple(0 for _ in range(samples))
            self.feed((), ((drawn, zeros),))
        parties: list[subprocess.Popen[bytes]] = []
        with free_ports(self.model.parties) as ports:
            try:
                for party, directory in enumerate(self.directories):
                    (directory / "hosts").write_text("".join(f"{LOOPBACK}:{port}\n" for port in ports))
                    (directory / _MESSAGES).write_text("")
                    environment = {
                        **os.environ,
                        "LD_PRELOAD": str(self._built),
                        "FAIRSHARES_MESSAGES": _MESSAGES,
                    }
                    if change is not None and party == self.tamperer:
                        environment["FAIRSHARES_TAMPER"] = str(change)
                    with (directory / LOG).open("wb") as log:
                        parties.append(
                            subprocess.Popen(
                                self._commands[party],
                                cwd=directory,
                                env=environment,
                                stdout=log,
                                stderr=log,
                                preexec_fn=_on_a_leash,
                            )
                        )
                self._wait(parties)
                codes = [process.poll() for process in parties]
            finally:
                for process in parties:
                    process.kill()
                    process.wait()
        sent: list[list[TimedMessage]] = []
        was_changed = False
        for directory in self.directories:
            messages: list[TimedMessage] = []
            for line in (directory / _MESSAGES).read_text().splitlines():
                was_changed = was_changed or line.startswith(_CHANGED)
                told = _MESSAGE.fullmatch(line)
                if told is not None:
                    receiver, number, length, at_ns = map(int, told.groups())
                    messages.append(TimedMessage(Message(receiver, number, length), at_ns))
            sent.append(messages)
        return _WatchedRun(self._outcome(codes), sent, was_changed)

    def _wait(self, parties: Sequence[subprocess.Popen[bytes]]) -> None:
        """Wait until the honest parties have ended, or are seen to wait for ever.

        They do if for a while no party sends, or ends, and no thread does anything.
        """
        progress_before = -1
        since = 0.0  # when the threads were looked at
        before: dict[str, Thread] | None = None  # the threads then; None while parties make progress
        while any(parties[party].poll() is None for party in self._honest):
            now = time.monotonic()
            running = [process.pid for process in parties if process.poll() is None]
            progress = sum((path / _MESSAGES).stat().st_size for path in self.directories) - len(running)
            if progress != progress_before:
                progress_before = progress
                before = None
            elif before is None:
                since = now
                before = _threads(running)
            elif now - since > _STILL_S:
                after = _threads(running)
                if before.keys() == after.keys() and all(map(_waited, before.values(), after.values())):
                    return
                since = now
                before = after
            time.sleep(_POLL_S if before is None else _SLOW_POLL_S)

    def _outcome(self, codes: Sequence[int | None]) -> AttackedRun:
        """Return the honest parties' behavior, by all parties' exit codes; None for a party that ran on."""
        results = {party: self._opened(party) for party in self._honest}
        accepted = {results[party] for party in self._honest if codes[party] == 0}
        shown = {values for values in results.values() if values}
        any_opened = next(iter(shown), ())
        if len(accepted) > 1 or not all(map(self.operation.is_right, accepted)):
            return AttackedRun(Reaction.WRONG, any_opened)
        if all(codes[party] == 0 for party in self._honest):
            return AttackedRun(Reaction.RIGHT, any_opened)
        if not shown:
            return AttackedRun(Reaction.ABORTED, ())
        if all(map(self.operation.is_right, shown)):
            return AttackedRun(Reaction.OPENED, any_opened)
        return AttackedRun(Reaction.SHIFTED, any_opened)

    def _opened(self, party: int) -> Integers:
        """Return the values that a party printed; an empty tuple if it printed none."""
        lines = (self.directories[party] / LOG).read_text(errors="replace").splitlines()
        opened: list[int] = []
        for line in lines:
            if line.startswith("OUT "):
                opened += map(int, _INTEGER.findall(line))
        return tuple(opened)


def _on_a_leash() -> None:
    """End with the process that began this one, or after too much computation."""
    die_with_parent()
    resource.setrlimit(resource.RLIMIT_CPU, (_LONGEST_S, _LONGEST_S))


class Thread(NamedTuple):
    """The operating system's facts about a thread."""

    sleeps: bool
    ran_ns: int
    went_to_sleep: int  # how often, of its own accord


def _threads(processes: Sequence[int]) -> dict[str, Thread]:
    """Return all threads of these processes, by number."""
    threads = {}
    for process in processes:
        for thread in sorted(Path(f"/proc/{process}/task").glob("*")):
            with suppress(OSError):  # the thread has ended
                status = (thread / "status").read_text()
                ran = (thread / "schedstat").read_text()
                slept = re.search(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.MULTILINE)
                assert slept is not None
                ran_ns, *_ = ran.split()
                threads[thread.name] = Thread(
                    sleeps="State:\tS" in status, ran_ns=int(ran_ns), went_to_sleep=int(slept[1])
                )
    return threads


def _waited(before: Thread, after: Thread) -> bool:
    """Return whether a thread slept, or woke up again and again to no effect."""
    if before.sleeps and before == after:
        return True
    return after.went_to_sleep - before.went_to_sleep > _IN_VAIN


class Stage(StrEnum):
    """Where noise that is made ahead is changed."""

    MAKING = "making"
    ONLINE = "online"
    STORED = "stored"


@dataclass(frozen=True)
class StockOperation(Operation):
    """Noise that is made ahead and used, of which one stage is changed.

    Attributes:
        stage: The stage in which shares are changed.
        make: The program that makes a piece.
        use: The program that takes the piece.
    """

    stage: Stage = Stage.MAKING
    make: Operation = OFFLINE[NoiseFamily.SIGNED]
    use: Operation = OFFLINE[NoiseFamily.SIGNED]


def _stock(family: NoiseFamily) -> tuple[StockOperation, ...]:
    use = OFFLINE[family]
    sums = len(use.right)
    arguments = (2, sums, *law_of(family))
    make = replace(use, name=name_of("pi_preprocess", family), values=(), arguments=arguments, right=(sums,))
    operations = []
    for stage in Stage:
        name = name_of(f"{use.program} {stage}", family)
        operations.append(StockOperation(name=name, stage=stage, make=make, use=use))
    return tuple(operations)


STOCK = {family: _stock(family) for family in NoiseFamily}
_PLACES = 16  # the number of places of each stored file that are changed

Files = dict[Path, bytes]  # a party's part of a piece of noise, by the path in its directory


class StockAttack:
    """An `Attack` on parties that make a piece of noise, then use it.

    The attacker knows earlier pieces of the same noise. SHIFT adds to a stored number, SWAP uses a piece that
    nobody else uses, and REPEAT a used one.
    """

    def __init__(
        self, model: SecurityModel, operation: StockOperation, tamperer: int, built: Path, work: Path
    ) -> None:
        self.model = model
        self.operation = operation
        self._making = Attack(model, operation.make, tamperer, built, work / "making")
        self._using = Attack(model, operation.use, tamperer, built, work / "using")
        self.directories = self._using.directories
        self._own = self.directories[tamperer]
        self.kinds: tuple[Kind, ...] = KINDS
        if operation.stage is Stage.STORED:
            self.kinds = (Kind.SHIFT, Kind.SWAP, Kind.REPEAT)

    def lay_out(self) -> None:
        """Compile both programs."""
        self._making.lay_out()
        self._using.lay_out()

    def messages(self) -> list[Message]:
        """Return the messages that are changed.

        For stored noise these stand for places in files: the file's number in place of a receiver, and the
        place's number.
        """
        sent = self._making.messages()
        self._hand_over()
        if self.operation.stage is Stage.STORED:
            places = []
            for file, content in enumerate(self.stored().values()):
                places += [Message(file, place, len(content)) for place in range(_PLACES)]
            return places
        if self.operation.stage is Stage.ONLINE:
            return self._using.messages()
        return sent

    def run(self, change: Change) -> AttackedRun:
        """Make a piece and use it, with this change. A piece that a party fails to make is not kept."""
        if self.operation.stage is Stage.MAKING:
            making = self.make(change)
            if making is not Reaction.RIGHT:
                return AttackedRun(making, ())
            return self._using.run()
        if self.operation.stage is Stage.ONLINE:
            making = self.make()
            if making is not Reaction.RIGHT:
                return AttackedRun(making, ())
            return self._using.run(change)
        if change.kind is Kind.SHIFT:
            self.make()
            return self.use(changed(self.stored(), change))
        self.make()
        another = self.stored()
        if change.kind is Kind.REPEAT:
            self._using.run()
        self.make()
        return self.use(another)

    def make(self, change: Change | None = None) -> Reaction:
        """Make a piece, and store it if all goes well; return the reaction of the parties that make it."""
        made = self._making.run(change)
        self._hand_over()
        return made.reaction

    def stored(self) -> Files:
        """Return the attacker's part of the piece."""
        files: list[Path] = []
        for pattern in PIECE_FILES:
            files += self._own.glob(pattern)
        return {file.relative_to(self._own): file.read_bytes() for file in sorted(files)}

    def use(self, files: Mapping[Path, bytes]) -> AttackedRun:
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
    """Return the files, with the change's number added at the change's place in one of them."""
    name, content = list(files.items())[change.message.receiver]
    start = change.where
    end = start + 8
    word = content[start:end]
    total = (int.from_bytes(word, "little") + change.what) % (1 << 8 * len(word))
    return files | {name: content[:start] + total.to_bytes(len(word), "little") + content[end:]}
