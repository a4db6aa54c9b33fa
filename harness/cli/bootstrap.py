"""Makes the project's virtual environments from their lock files, and hands over to invoke in the first.

Runs before any package is installed, so it imports the standard library only, and little of it: every
command starts here.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

PROJECT = Path(__file__).resolve().parents[2]

LOCK = "requirements.lock"

_STAMP = "fairshares-lock"  # in a complete environment: what it was made from
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SHOWN_LINES = 6  # of pip's output, when it fails
# In pip's last lines: it has no package of that name at all, or lost the connection.
_UNREACHABLE = re.compile(
    r"\(from versions: none\)|ConnectionPool\(|(Timeout|Connection|Protocol|Proxy)Error"
)
_WRONG_PYTHON = "require a different python version"
_ASKED_FOR = re.compile(r"(?:^Collecting|No matching distribution found for) (\S+)", re.MULTILINE)


class SetupError(Exception):
    """The environment could not be made; the message says what is missing and what to do."""


def main(arguments: Sequence[str], project: Path = PROJECT) -> int:
    """Run invoke in the project's environment, which is made first if need be.

    Guarantees: the working directory stays the user's, so that relative paths in options mean what
    they say; an interrupted or failed set-up leaves no environment behind.
    [test: tests/commands/test_bootstrap.py]
    Args: arguments: the command line after the program's name; project: the root, with the lock file.
    Returns: an exit code, if there was nothing to hand over to.
    """
    environment = project / ".venv"
    if code := ensure(environment, project / LOCK):
        return code
    words = ["--search-root", str(project), *spelled_out(arguments)]
    # A terminal that cannot show a letter shows a question mark; it does not end the command.
    encoding = os.environ.get("PYTHONIOENCODING", "")
    if ":" not in encoding:
        os.environ["PYTHONIOENCODING"] = f"{encoding}:replace"
    if Path(sys.prefix).samefile(environment):
        return _go_on(words, ":" not in encoding)
    _hand_over(environment, project, words)


def ensure(environment: Path, lock: Path) -> int:
    """Make an environment, unless it is there as its lock file says; say what went wrong, if anything did.

    Args: environment: in the project's root; lock: there or below.
    Returns: an exit code, 0 if the environment is there.
    """
    try:
        if not is_current(environment, lock):
            with _terminated_like_interrupted():
                _make_under_lock(environment, lock)
    except SetupError as error:
        _say(str(error))
        return 1
    except OSError as error:
        _say(f"cannot write {environment}: {error}; nothing was made.")
        return 1
    except KeyboardInterrupt:
        said = f"interrupted; {environment.name} was not made, and nothing of it is left"
        print(f"\ninv: {said}.", file=sys.stderr)
        return 130
    return 0


def is_current(environment: Path, lock: Path) -> bool:
    """Return whether the environment is complete, from today's lock file, and its Python still there."""
    try:
        stamp = (environment / _STAMP).read_text()
    except OSError:
        return False
    python = environment / "bin" / "python"
    return python.exists() and stamp == _stamp(environment, lock)


def _stamp(environment: Path, lock: Path) -> str:
    """Return the lock file's digest and the interpreter behind the environment's link.

    The interpreter is named because a system upgrade can turn the link into another Python, which
    would not see the packages.
    """
    digest = hashlib.sha256(_read_lock(lock)).hexdigest()
    return f"{digest}\n{os.path.realpath(environment / 'bin' / 'python')}\n"


def _read_lock(lock: Path) -> bytes:
    try:
        return lock.read_bytes()
    except FileNotFoundError:
        raise SetupError(f"{lock} is missing; restore it from the repository.") from None


def spelled_out(arguments: Sequence[str]) -> list[str]:
    """Return the arguments as invoke takes them: nothing lists the commands, `X --help` explains X."""
    asked = [argument for argument in arguments if argument in ("-h", "--help")]
    if not arguments or (asked and len(arguments) == 1):
        return ["--list"]
    if asked and not arguments[0].startswith("-"):
        return ["--help", arguments[0]]
    return list(arguments)


def _go_on(words: Sequence[str], replacing: bool) -> int:
    """Run invoke in this process, whose Python is the environment's.

    Args: replacing: whether letters that cannot be shown become question marks.
    """
    sys.path.append(sys.path.pop(0))  # the project's root: what is installed comes first
    if replacing and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    importlib.import_module("harness.system.signals").end_at_once()
    importlib.import_module("harness.cli.app").program.run_to_the_end(["inv", *words])
    return 0


def _hand_over(environment: Path, project: Path, words: Sequence[str]) -> NoReturn:
    python = str(environment / "bin" / "python")
    # -P: neither the user's directory nor that of the script is a place to import from.
    command = [python, "-P", str(project / "harness" / "cli" / "app.py"), *words]
    sys.stdout.flush()
    os.execv(python, command)


def _make_under_lock(environment: Path, lock: Path) -> None:
    if importlib.util.find_spec("ensurepip") is None or importlib.util.find_spec("venv") is None:
        raise SetupError(
            f"this Python ({sys.executable}) has no ensurepip, so it cannot make a virtual environment; "
            "install the system package python3-venv and run the command again."
        )
    # The project's directory itself is the lock: no file to leave behind, none that git could replace.
    descriptor = os.open(environment.parent, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"waiting for another ./inv that is setting up {environment.name}")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if not is_current(environment, lock):
            _make(environment, lock)
    finally:
        os.close(descriptor)


def _make(environment: Path, lock: Path) -> None:
    """Make the environment beside its place, so that what runs in an older one goes on until the end."""
    started, project, name = time.monotonic(), environment.parent, environment.name
    packages = len(re.findall(rb"^\w", _read_lock(lock), re.MULTILINE))
    if not os.path.lexists(environment):
        why = "first use"
    elif (environment / _STAMP).exists():
        why = f"{lock.relative_to(project)} or Python has changed"
    else:
        why = f"replacing the {name} there, which ./inv did not make"
    said = f"the {packages} packages of {lock.relative_to(project)}"
    _say(f"{why}: setting up {name} with {said}, a minute on a fast network")
    for leftover in [*project.glob(f"{name}.partial-*"), *project.glob(f"{name}.old-*")]:
        _remove(leftover)  # of a start that was killed, as we hold the lock
    partial = project / f"{name}.partial-{os.getpid()}"
    old = project / f"{name}.old-{os.getpid()}"
    try:
        _install(partial, lock, said)
        _rename_inside(partial, environment)
        (partial / _STAMP).write_text(_stamp(partial, lock))
        if os.path.lexists(environment):
            environment.rename(old)
        partial.rename(environment)
    finally:
        for leftover in (partial, old):
            _remove(leftover)
    _say(f"{name} is ready after {time.monotonic() - started:.0f} s")


def _rename_inside(partial: Path, environment: Path) -> None:
    """Make scripts and settings of a finished environment name the place it is about to move to."""
    for file in [partial / "pyvenv.cfg", *(partial / "bin").iterdir()]:
        if not file.is_symlink() and file.is_file():
            text = file.read_bytes()
            if os.fsencode(partial) in text and b"\0" not in text:
                file.write_bytes(text.replace(os.fsencode(partial), os.fsencode(environment)))


def _remove(path: Path) -> None:
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def _install(environment: Path, lock: Path, packages: str) -> None:
    """Make an environment with the lock file's packages. Args: packages: what to call them.

    Raises: SetupError: pip or venv refused.
    """
    code, lines = _run(sys.executable, "-m", "venv", str(environment))
    if code:
        raise SetupError(_failed(f"`{sys.executable} -m venv` failed", lines))
    # --no-deps: the lock file is complete, so nothing that it does not pin can come in.
    # --no-compile: a module is compiled when first imported; most never are.
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--no-deps", "--no-compile"]
    quiet = ["--no-user", "--disable-pip-version-check", "--no-input", "--no-color", "--progress-bar", "off"]
    code, lines = _run(*pip, *quiet, "-r", str(lock))
    if not code:
        return
    if _UNREACHABLE.search("\n".join(lines[-_SHOWN_LINES:])) and _WRONG_PYTHON not in "\n".join(lines):
        asked_for = _ASKED_FOR.findall("\n".join(lines)) or ["the first"]
        raise SetupError(
            f"could not fetch {asked_for[-1]}, one of {packages}, "
            "as PyPI, or the package index that pip is set to use, could not be reached. "
            "Connect this machine to the network and run the command again; nothing was made."
        )
    raise SetupError(_failed(f"pip could not install {packages}", lines))


def _failed(what: str, lines: Sequence[str]) -> str:
    last = "".join(f"\n    {line}" for line in lines[-_SHOWN_LINES:])
    return f"{what}; nothing was made. Its last lines:{last}"


def _run(*command: str) -> tuple[int, list[str]]:
    """Run a command to its end; return its exit code and what it printed.

    It runs in a session of its own, so that an interrupt reaches it through us: all its processes
    have ended when this returns or raises. An interrupt while it starts is held back until it is known.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTS)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        with process:
            try:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
                printed, _ = process.communicate()
            finally:
                with contextlib.suppress(ProcessLookupError, PermissionError):  # all of them have ended
                    os.killpg(process.pid, signal.SIGKILL)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return process.returncode, printed.splitlines()


def _say(text: str) -> None:
    print(f"inv: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Have a termination or a closed terminal unwind the set-up as Ctrl-C does."""

    def interrupt(_number: int, _frame: object) -> NoReturn:
        raise KeyboardInterrupt

    previous = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
