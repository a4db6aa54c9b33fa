"""A program of MP-SPDZ that was compiled elsewhere: its files, and one digest of all that its run depends on.

A host runs such a program if its owner allows this digest. Bytecode reads and writes files of its directory,
and no other ones: the party's sandbox sees to that.
"""

import hashlib
import json
import re
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Self

from msgspec import Meta, Struct

from fairshares.harness.engines.execution import MadeUpJob
from fairshares.harness.errors import UnsupportedError
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.system.documents import as_json
from fairshares.harness.system.files import sha256_of
from fairshares.protocols.spec import ProtocolSpec

MOST_TAPES = 256
MOST_BYTES = 1 << 28  # bytes of all files of a program together
MOST_INTEGERS = 10**7  # integers that each party reads

_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.,=+-]{0,99}"  # nothing that is a path, an option or hidden
_SCHEDULE = ".sch"
_TAPE = ".bc"
_STATISTICAL_SECURITY = "-SP"

ScheduleName = Annotated[str, Meta(pattern=rf"^{_NAME}\.sch\Z")]
TapeName = Annotated[str, Meta(pattern=rf"^{_NAME}\.bc\Z")]
ContentDigest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
"""The SHA-256 of a file, or of a program, in hexadecimal digits."""

ContentSize = Annotated[int, Meta(ge=1, le=MOST_BYTES)]
"""The number of bytes of a file, of which none is empty."""


def options_of(model: SecurityModel) -> tuple[str, ...]:
    """Return the options that a model's machine always has; if it asks, how many parties there are."""
    if model.numbers is not None:
        return ("-N", str(model.parties), *model.run_options)
    return tuple(model.run_options)


class MachineOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a virtual machine beside its security model's options.

    Attributes:
        batch: How much is prepared at once; None for the machine's choice.
        statistical_security: The bits of a check's security in place of the model's bits; None for the
            model's bits.
    """

    batch: Annotated[int, Meta(ge=1, le=10**7)] | None = None
    statistical_security: Annotated[int, Meta(ge=1, le=128)] | None = None

    def words(self, model: SecurityModel) -> tuple[str, ...]:
        """Return the options with which a model's machine is started.

        Raises UnsupportedError if the model has no such security.
        """
        words = list(options_of(model))
        if self.statistical_security is not None:
            if _STATISTICAL_SECURITY not in words:
                raise UnsupportedError(f"The machine of {model.name} has no statistical security to set.")
            words[words.index(_STATISTICAL_SECURITY) + 1] = str(self.statistical_security)
        if self.batch is not None:
            words += ["-b", str(self.batch)]
        return tuple(words)


class ScheduleFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program's schedule, which names its tapes."""

    name: ScheduleName
    size: ContentSize
    sha256: ContentDigest


class TapeFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tape of a program: a file of bytecode."""

    name: TapeName
    size: ContentSize
    sha256: ContentDigest


ProgramFile = ScheduleFile | TapeFile


class CompiledProgram(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program's files, and how its machine is started.

    Attributes:
        options: The machine's options.
        schedule: The program's schedule.
        tapes: The program's tapes, in the order of the schedule.
    """

    options: MachineOptions
    schedule: ScheduleFile
    tapes: Annotated[tuple[TapeFile, ...], Meta(min_length=1, max_length=MOST_TAPES)]

    @classmethod
    def of_files(cls, directory: Path, options: MachineOptions) -> Self:
        """Describe the program in a directory, of which there is one.

        Raises UnsupportedError if it has a name, a file or a size that no host takes.
        """
        schedules = sorted((directory / "Schedules").glob("*"))
        if len(schedules) != 1:
            raise UnsupportedError(f"{directory} has no single program.")
        (path,) = schedules
        public = [file.name for file in (directory / "Public-Input").glob("*")]
        if public:
            raise UnsupportedError(
                f"The program reads the public input {public[0]}, and hosts get schedule and tapes alone; "
                "make such values in the program, or have parties read them as inputs."
            )
        names = tapes_in(path.read_bytes())
        for name in (path.name, *names):
            if not re.fullmatch(rf"{_NAME}(\.sch|\.bc)", name):
                raise UnsupportedError(
                    f"Hosts take no file {name!r}: give the program a name, and arguments, of letters, "
                    "digits and _.,=+- alone, of 100 characters in all."
                )
        if len(names) > MOST_TAPES:
            raise UnsupportedError(f"The program has {len(names)} tapes, and hosts take {MOST_TAPES}.")
        tapes = [directory / "Bytecode" / name for name in names]
        size = sum(file.stat().st_size for file in (path, *tapes))
        if size > MOST_BYTES:
            raise UnsupportedError(
                f"The program has {size:,} bytes, and hosts take {MOST_BYTES:,}; compile loops as loops."
            )
        return cls(
            options=options,
            schedule=ScheduleFile(name=path.name, size=path.stat().st_size, sha256=sha256_of(path)),
            tapes=tuple(
                TapeFile(name=tape.name, size=tape.stat().st_size, sha256=sha256_of(tape)) for tape in tapes
            ),
        )

    @property
    def name(self) -> str:
        """The name by which the machine finds the schedule."""
        return self.schedule.name.removesuffix(_SCHEDULE)

    @property
    def files(self) -> tuple[ProgramFile, ...]:
        """All files, in the order in which they are sent: the schedule first."""
        return (self.schedule, *self.tapes)

    def digest(self, model: SecurityModel) -> str:
        """Return the SHA-256 of schedule, tapes, machine and options, by which an owner allows the program.

        All that a run in the model depends on is in it, but for the version of MP-SPDZ and the inputs.

        Raises UnsupportedError if the model has no machine of MP-SPDZ, or not these options.
        """
        if model.virtual_machine is None:
            raise UnsupportedError(
                f"Model {model.name} runs no bytecode of MP-SPDZ; choose one of its models."
            )
        fields = {
            "machine": model.virtual_machine,
            "options": list(self.options.words(model)),
            "schedule": as_json(self.schedule),
            "tapes": [as_json(tape) for tape in self.tapes],
        }
        text = json.dumps(fields, sort_keys=True)
        return hashlib.sha256(f"FairShares program 1\n{text}".encode()).hexdigest()

    def fault(self) -> str | None:
        """Return why no host takes it, None if a host may."""
        names = [tape.name for tape in self.tapes]
        if len({*names}) < len(names):
            return "It was offered a program with two tapes of one name."
        size = sum(file.size for file in self.files)
        if size > MOST_BYTES:
            return f"It was offered a program of {size:,} bytes, and takes {MOST_BYTES:,}."
        return None


def place_of(file: ProgramFile, directory: Path) -> Path:
    """Return the place at which the machine looks for a program's file in a directory `Programs`."""
    return directory / ("Schedules" if isinstance(file, ScheduleFile) else "Bytecode") / file.name


def tapes_in(schedule: bytes) -> list[str]:
    """Return the names of the files of tapes that a schedule names, in order, as the machine reads them.

    Raises UnsupportedError if it is no schedule.
    """
    words = schedule.split()
    try:
        number = int(words[1])
        named = [word.decode("ascii") for word in words[2:][:number]]
    except (IndexError, ValueError):
        number = -1
        named = []
    if number < 1 or len(named) < number:
        raise UnsupportedError("What should be a program's schedule is none.")
    # A count of instructions follows the name; the machine looks for the last colon.
    return [f"{name.rpartition(':')[0] or name}{_TAPE}" for name in named]


@dataclass(frozen=True)
class CompiledJob(MadeUpJob):
    """A program that was compiled elsewhere, on public integers alone.

    Attributes:
        program: The compiled program.
        digest: The program's digest in the model whose parties run it.
        programs: The directory with its files, which the machine knows as `Programs`.
    """

    _: KW_ONLY
    program: CompiledProgram
    digest: str
    programs: Path

    @classmethod
    def of_program(cls, program: CompiledProgram, model: SecurityModel, programs: Path) -> Self:
        """Return the job of a program in a directory. Raises UnsupportedError as `CompiledProgram.digest`."""
        spec = ProtocolSpec(
            program.name, "a program of the coordinator's", (), {}, (), ("whatever it opens",)
        )
        source = place_of(program.schedule, programs)
        return cls(spec, source, (), program=program, digest=program.digest(model), programs=programs)

    @property
    def is_foreign(self) -> bool:
        return True

    def check_parties(self, model: SecurityModel) -> None:
        """Raise UnsupportedError unless the digest is of this model."""
        if self.program.digest(model) != self.digest:
            raise UnsupportedError(f"The program was not allowed in model {model.name}, but in another one.")
        super().check_parties(model)
