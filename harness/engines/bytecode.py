"""Compiles programs with MP-SPDZ's compiler, once per everything that the bytecode depends on.

MP-SPDZ names bytecode after the program and its arguments, not after the compile options, so that one
model could silently run another's. Here each combination has a directory of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from harness.engines.base import PROJECT, Job
from harness.engines.hashing import program_hash
from harness.errors import CompileError

_TIMEOUT_S = 1800


@dataclass(frozen=True)
class Bytecode:
    """A compiled program. `programs` is what a party's `Programs` links to, `name` what it runs."""

    programs: Path
    name: str
    program_hash: str
    compile_s: float


def cache_directory() -> Path:
    """Return where compiled programs are kept: `$XDG_CACHE_HOME/fairshares`, else `~/.cache/fairshares`."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "fairshares" / "bytecode"


def compile_program(job: Job, home: Path, commit: str, options: tuple[str, ...]) -> Bytecode:
    """Compile the job's program, or find it compiled.

    Guarantees: a cached program was compiled to the end, from the same sources, arguments and options,
    by the same MP-SPDZ.  [test: tests/matrix/test_bytecode.py]
    Raises: CompileError: MP-SPDZ's compiler refused it; nothing is kept.
    """
    digest = program_hash(job, (*options, commit))
    name = "-".join([job.spec.name, *(argument.replace("/", "_") for argument in job.arguments)])
    final = cache_directory() / digest
    if final.is_dir():
        return Bytecode(final / "Programs", name, digest, 0.0)
    started = time.monotonic()
    try:
        final.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f"{digest[:12]}.partial-", dir=final.parent))
    except OSError as error:
        raise CompileError(
            f"Cannot write compiled programs to {final.parent}: {error.strerror}; "
            "set XDG_CACHE_HOME to a directory of yours."
        ) from None
    try:
        (partial / "Programs").mkdir()
        (partial / "Programs" / "Source").symlink_to(job.source.resolve().parent)
        _compile(job, home, partial, options)
        try:
            partial.rename(final)
        except OSError:
            if not final.is_dir():  # another process was first: its result is the same
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return Bytecode(final / "Programs", name, digest, time.monotonic() - started)


def _compile(job: Job, home: Path, directory: Path, options: tuple[str, ...]) -> None:
    command = [sys.executable, str(home / "compile.py"), *options, job.spec.name, *job.arguments]
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(PROJECT), "PYTHONHASHSEED": "0"},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CompileError(
            f"Compiling {job.spec.name} took more than {_TIMEOUT_S} s and was stopped."
        ) from None
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:] or ["no message"]
        raise CompileError(f"MP-SPDZ's compiler refused {job.spec.name} {' '.join(job.arguments)}: {last[0]}")
