"""Programs of a user's own, which are compiled here and sent to hosts."""

import shutil
from pathlib import Path

from fairshares.harness.engines.compiled import CompiledJob, CompiledProgram
from fairshares.harness.engines.execution import MadeUpJob
from fairshares.harness.engines.mpspdz.compiler import compile_options, compile_program, find_installation
from fairshares.harness.engines.mpspdz.engine import machine_options
from fairshares.harness.errors import UnsupportedError
from fairshares.harness.security_models import SecurityModel

_FOLDERS = ("Schedules", "Bytecode", "Public-Input")  # the folders of MP-SPDZ's `Programs` that machines read
_COMPILER_LINE = 5  # the line of a schedule, from 0, with the command that compiled the program


def compiled_apart(job: MadeUpJob, model: SecurityModel, directory: Path) -> CompiledJob:
    """Compile a program whose files are sent to hosts, into a new directory.

    Its schedule is without the place of this installation, so that it has the same digest wherever it is
    compiled.

    Raises UnsupportedError, also if no host takes such files, or CompileError.
    """
    installation = find_installation()
    if isinstance(installation, str):
        raise UnsupportedError(installation)
    options = compile_options(job, model)
    bytecode = compile_program(job, installation.home, installation.full_version, options)
    directory.mkdir(mode=0o700)
    for name in _FOLDERS:
        if (bytecode.programs / name).is_dir():
            shutil.copytree(bytecode.programs / name, directory / name)
    for schedule in (directory / "Schedules").iterdir():
        schedule.write_bytes(without_place(schedule.read_bytes()))
    program = CompiledProgram.of_files(directory, machine_options(job, model, bytecode.estimate))
    return CompiledJob.of_program(program, model, directory)


def without_place(schedule: bytes) -> bytes:
    """Return a schedule whose command names the compiler without the directory of its installation.

    So whoever compiles the same program elsewhere gets the same digest.
    """
    lines = schedule.split(b"\n")
    if len(lines) > _COMPILER_LINE:
        command, *words = lines[_COMPILER_LINE].split(b" ")
        lines[_COMPILER_LINE] = b" ".join([command.rpartition(b"/")[2], *words])
    return b"\n".join(lines)
