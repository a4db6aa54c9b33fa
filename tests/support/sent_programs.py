"""Programs of a coordinator's own, made up, as a coordinator sends them to hosts."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from fairshares.harness.engines.compiled import CompiledProgram, MachineOptions, ScheduleFile, TapeFile
from fairshares.harness.hosts.messages import TakeProgram
from fairshares.harness.hosts.trials import ProgramTrial

VERSION = "MP-SPDZ 1 (of a test)"


@dataclass(frozen=True)
class SentProgram:
    """A program's trial, and the contents of its files in the order in which they are sent."""

    trial: ProgramTrial
    contents: tuple[bytes, ...]

    @property
    def digest(self) -> str:
        """By which an owner allows it."""
        return self.trial.foreign_program

    def messages(self, piece_bytes: int = 1 << 20) -> list[TakeProgram]:
        """Return the messages by which it is sent, in pieces of at most so many bytes."""
        return [
            TakeProgram(file=number, at=at, piece=content[at : at + piece_bytes])
            for number, content in enumerate(self.contents)
            for at in range(0, len(content), piece_bytes)
        ]


def schedule_of(*tapes: str) -> bytes:
    """Return a schedule that names these tapes, without the ends of their files' names."""
    named = " ".join(f"{tape}:3" for tape in tapes)
    return f"1\n{len(tapes)}\n{named}\n1 0\n0\ncompile.py square\nR:64\nopts: \nsec:0\nlg2:0\n\n".encode()


SQUARE = {"square-0": b"bytes of a tape", "square-multithread-1": b"bytes of another"}


def sent_program(
    tapes: Mapping[str, bytes] = SQUARE,
    *,
    schedule: bytes | None = None,
    options: MachineOptions | None = None,
    security: str = "ring",
    integers: int = 0,
) -> SentProgram:
    """Return a program with these tapes, by name, and by default with a schedule that names them."""
    text = schedule_of(*tapes) if schedule is None else schedule
    program = CompiledProgram(
        options=options or MachineOptions(),
        schedule=ScheduleFile(name="square.sch", size=len(text), sha256=_sha256(text)),
        tapes=tuple(
            TapeFile(name=f"{name}.bc", size=len(content), sha256=_sha256(content))
            for name, content in tapes.items()
        ),
    )
    trial = ProgramTrial(security=security, compiled_by=VERSION, program=program, integers=integers)
    return SentProgram(trial, (text, *tapes.values()))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
