"""Finds the user's build of MP-SPDZ, and compiles programs.

Bytecode is kept by a hash of all that it depends on; MP-SPDZ's own names leave out options.
"""

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import IO

from fairshares.harness.engines.execution import PROJECT, Job
from fairshares.harness.engines.mpspdz.cache import (
    check_entry,
    is_intact,
    keep,
    kept_directory,
    trusted_place,
)
from fairshares.harness.engines.program_hash import program_hash
from fairshares.harness.errors import CompileError, cannot
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.system.files import scratch_directory, working_directory
from fairshares.harness.system.processes import leashed

_REFUSED = re.compile(r"^Compiler\.exceptions\.CompilerError: (.*)", re.MULTILINE)  # by a rule of its own
_LOOK_S = 0.1  # between two looks at a compiler that runs
_MOST_OUTPUT = 1 << 26  # bytes that the compiler and a program's Python may print, far more than any does
_PROGRAMS = "bytecode"  # the place of programs in the cache
_ESTIMATE = "estimate"


@dataclass(frozen=True)
class Bytecode:
    """A compiled program; parties' `Programs` link to `programs`."""

    programs: Path
    name: str
    program_hash: str
    compile_s: float
    estimate: str


def cache_directory() -> Path:
    """Return the place of compiled programs."""
    return kept_directory() / _PROGRAMS


def is_cached(digest: str) -> bool:
    """Return whether this program is compiled, and as it was made."""
    return is_intact(cache_directory() / digest)


def compile_options(job: Job, model: SecurityModel) -> tuple[str, ...]:
    """Return the job's own options, or the model's.

    If the program would use few edaBits, the model's option -Y, which has them, is replaced by -X.
    """
    if job.compile_options:
        return job.compile_options
    if job.spec.uses_edabits:
        return model.compile_options
    return tuple("-X" if option == "-Y" else option for option in model.compile_options)


def compile_program(job: Job, home: Path, version: str, options: tuple[str, ...]) -> Bytecode:
    """Compile the job's program for MP-SPDZ's `version`, or find it compiled; or raise CompileError.

    Guarantees: a cached program is complete and as it was made, from the same sources, arguments and options,
    by the same MP-SPDZ. Only this user could change it. A changed program could leave out the noise, and a
    damaged program would be charged before it fails. A program that differs is compiled again.
    [test: tests/programs/test_bytecode.py]
    """
    digest = program_hash(job, (*options, version))
    words = [job.spec.name]
    words += [argument.replace("/", "_") for argument in job.arguments]
    name = "-".join(words)
    compile_s = 0.0
    started = time.monotonic()
    with cannot(
        f"keep compiled programs in {cache_directory()}",
        CompileError,
        "make room there, or set XDG_CACHE_HOME to another directory of yours",
    ):
        entry = trusted_place(_PROGRAMS) / digest
        if entry.exists():
            check_entry(entry)
        if not is_intact(entry):
            with scratch_directory(entry.parent) as partial:
                (partial / _ESTIMATE).write_text(_compile_in(partial, job, home, options))
                keep(partial, entry)
            compile_s = time.monotonic() - started
        estimate = (entry / _ESTIMATE).read_text()
        return Bytecode(entry / "Programs", name, digest, compile_s, estimate)


def compilers_estimate(job: Job, home: Path, options: tuple[str, ...]) -> str:
    """Return the compiler's output, or raise CompileError."""
    with (
        cannot(f"compile in {gettempdir()}", CompileError),
        working_directory(Path(gettempdir())) as directory,
    ):
        return _compile_in(directory, job, home, options)


def counted(output: str) -> dict[str, int]:
    """Return the compiler's counts by their names."""
    return {what: int(number) for number, what in re.findall(r"^ *(\d+) (\S.*)$", output, re.MULTILINE)}


def _compile_in(directory: Path, job: Job, home: Path, options: tuple[str, ...]) -> str:
    (directory / "Programs").mkdir(mode=0o700)
    (directory / "Programs" / "Source").symlink_to(job.source.resolve().parent)
    with TemporaryFile() as out, TemporaryFile() as err:
        process = subprocess.Popen(
            leashed(sys.executable, str(home / "compile.py"), *options, job.spec.name, *job.arguments),
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(PROJECT), "PYTHONHASHSEED": "0"},
            umask=0o077,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )
        try:
            _wait(process, job, (out, err))
        finally:
            process.kill()
            process.wait()
        output = _text(out)
        errors = _text(err)
    if process.returncode:
        refused = _REFUSED.search(errors)
        if refused is not None and not job.is_production:
            line = re.findall(rf'{re.escape(job.source.name)}", line (\d+)', errors)
            at = f", at line {line[-1]}" if line else ""
            raise CompileError(f"MP-SPDZ's compiler refused {job.source.name}{at}: {refused[1].strip()}")
        lines = [
            line.strip() for line in (errors.strip() or output.strip()).splitlines() if line.strip("^~ ")
        ]
        most = 1 if job.is_production else 3
        last = " | ".join(lines[-most:]) or "no message"
        raise CompileError(f"MP-SPDZ's compiler refused {' '.join([job.spec.name, *job.arguments])}: {last}")
    return output


def _wait(process: subprocess.Popen[bytes], job: Job, outputs: Sequence[IO[bytes]]) -> None:
    """Wait for a compiler's end, or raise CompileError if it takes too long or prints too much."""
    deadline = time.monotonic() + job.compile_timeout_s
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_LOOK_S)
            return
        if time.monotonic() > deadline:
            raise CompileError(
                f"Compiling {job.spec.name} took more than {job.compile_timeout_s:g} s and was stopped."
            )
        if sum(os.fstat(output.fileno()).st_size for output in outputs) > _MOST_OUTPUT:
            raise CompileError(
                f"Compiling {job.spec.name} printed more than {_MOST_OUTPUT >> 20} MiB and was stopped."
            )


def _text(output: IO[bytes]) -> str:
    output.seek(0)
    return output.read(_MOST_OUTPUT).decode(errors="replace")


DOCUMENTATION = "https://mp-spdz.readthedocs.io"

# A race in the MAC check, which active security rests on, was fixed on 11 May 2026, after 0.4.2.
_FIX_COMMIT = "7bf16a74e10bb07850b762797e603a8eca8785c2"
_FIX_TIME = 1778496164
_UNKNOWN = "unknown"  # the commit of what is no git clone


@dataclass(frozen=True)
class Installation:
    """A directory with MP-SPDZ in it; `fixed` if its MAC check has no race."""

    home: Path
    commit: str
    release: str
    fixed: bool

    @property
    def version(self) -> str:
        """Release, and 12 digits of the commit."""
        return f"MP-SPDZ {self.release} ({self.commit[:12]})"

    @property
    def full_version(self) -> str:
        """Release and commit."""
        return f"{self.release} {self.commit}"

    def fault(self, virtual_machine: str) -> str | None:
        """Return the thing that a program lacks here, with the remedy; None if it can run."""
        if not self.fixed and self.commit == _UNKNOWN:
            return (
                f"Whether MP-SPDZ {self.release} at {self.home} has the fix of 11 May 2026 to its MAC check "
                "is unknown, as git does not tell its commit; clone it with git, or take a release after "
                f"0.4.2, see {DOCUMENTATION}."
            )
        if not self.fixed:
            return (
                f"{self.version} at {self.home} is older than the fix of 11 May 2026 to its MAC check; "
                f"update it, see {DOCUMENTATION}."
            )
        machine = self.home / virtual_machine
        if machine.is_file() and not os.access(machine, os.X_OK):
            return (
                f"Nobody may run {machine}: it lacks its permission to be executed; run chmod +x {machine}."
            )
        if not machine.is_file():
            return (
                f"MP-SPDZ at {self.home} has no {virtual_machine}; build it there by make {virtual_machine}, "
                f"see {DOCUMENTATION}."
            )
        missing = missing_libraries(str(machine))
        if missing:
            return (
                f"{machine} cannot start: {'; '.join(missing)}. Install what it was built with, or build it "
                "again here."
            )
        return None


@lru_cache(maxsize=1)
def find_installation() -> Installation | str:
    """Return the user's MP-SPDZ, or a sentence on why there is none.

    It is at `$MP_SPDZ_HOME` (`none` disables it, empty counts as unset), `~/MP-SPDZ` or `/opt/MP-SPDZ`.
    """
    chosen = os.environ.get("MP_SPDZ_HOME", "")
    if chosen == "none":
        return "MP-SPDZ is switched off by MP_SPDZ_HOME=none."
    candidates = [Path(chosen).expanduser()] if chosen else [Path.home() / "MP-SPDZ", Path("/opt/MP-SPDZ")]
    for home in candidates:
        if (home / "compile.py").is_file():
            return _inspect(home.resolve())
    if chosen:
        return f"MP_SPDZ_HOME is {chosen}, but there is no compile.py in it; point it at a build of MP-SPDZ."
    return (
        "MP-SPDZ was not found at $MP_SPDZ_HOME, ~/MP-SPDZ or /opt/MP-SPDZ; "
        f"build it as its documentation says, {DOCUMENTATION}."
    )


def _inspect(home: Path) -> Installation:
    """Return the release and the commit of an installation, and whether it has the fix."""
    release = "unknown"
    number: tuple[int, ...] = ()
    changes = home / "CHANGELOG.md"
    if changes.is_file():
        match = re.search(r"^## (\d+(?:\.\d+)+)", changes.read_text(), re.MULTILINE)
        if match:
            release = match[1]
            number = tuple(int(part) for part in release.split("."))
    commit: str | None = None
    if (home / ".git").exists():
        commit = git(home, "rev-parse", "HEAD")
    if commit is None:
        return Installation(home, _UNKNOWN, release, number >= (0, 4, 3))
    fixed = git(home, "merge-base", "--is-ancestor", _FIX_COMMIT, "HEAD") is not None
    if not fixed and git(home, "cat-file", "-e", f"{_FIX_COMMIT}^{{commit}}") is None:  # a shallow clone
        fixed = int(git(home, "log", "-1", "--format=%ct") or 0) >= _FIX_TIME
    return Installation(home, commit, release, fixed)


def linker_says(machine: str) -> str:
    """Return the dynamic linker's lines on a program's shared libraries; "" where there is no `ldd`."""
    try:
        done = subprocess.run(["ldd", machine], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout + done.stderr


def libraries_of(machine: str) -> tuple[str, ...]:
    """Return the shared libraries that a virtual machine loads, by their paths; none if it is no program."""
    return tuple(re.findall(r"(?:=> |^\s*)(/\S.*?) \(0x", linker_says(machine), re.MULTILINE))


def missing_libraries(machine: str) -> tuple[str, ...]:
    """Return the linker's lines on shared libraries that a program needs and the machine lacks."""
    lines = [line.strip() for line in linker_says(machine).splitlines()]
    return tuple(line for line in lines if line.endswith("not found") or "not found (required by" in line)


def git(home: Path, *arguments: str) -> str | None:
    """Return git's answer, None if it fails."""
    try:
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", str(home), *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
