"""Makes the project's virtual environments from their lock files, and hands over to invoke in the first.

Runs before any package is installed, so it imports the standard library only, and little of it: every
command starts here.
"""

import fcntl
import hashlib
import importlib
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

PROJECT = Path(__file__).resolve().parents[2]

LOCK = "requirements.lock"
TEST_LOCK = f"tests/{LOCK}"  # what tests need besides

_STAMP = "fairshares-lock"  # in a complete environment: what it was made from


def main(arguments: Sequence[str], project: Path = PROJECT) -> int:
    """Run invoke in the project's environment, which is made first if need be.

    Guarantees: the working directory stays the user's, so that relative paths in options mean what
    they say.  [test: tests/commands/test_bootstrap.py]
    Args: arguments: the command line after the program's name; project: the root, with the lock file.
    Returns: an exit code, if there was nothing to hand over to.
    """
    environment, locks = project / ".venv", [LOCK, TEST_LOCK] if arguments[:1] == ["test"] else [LOCK]
    if code := ensure(environment, *(project / lock for lock in locks)):
        return code
    words = ["--search-root", str(project), *spelled_out(arguments)]
    # A terminal that cannot show a letter shows a question mark; it does not end the command.
    encoding = os.environ.get("PYTHONIOENCODING", "")
    if ":" not in encoding:
        os.environ["PYTHONIOENCODING"] = f"{encoding}:replace"
    if Path(sys.prefix).samefile(environment):
        return _go_on(words, ":" not in encoding)
    _hand_over(environment, project, words)


def ensure(environment: Path, *locks: Path) -> int:
    """Make an environment, unless it is there as its lock files say; say what went wrong, if anything did.

    Guarantees: an environment that is not complete is never taken for one, whenever this is stopped.
    [test: tests/commands/test_bootstrap.py]
    Args: environment: in the project's root, maybe with more packages; locks: there or below.
    Returns: an exit code, 0 if the environment is there.
    """
    try:
        if not _is_current(environment, locks):
            of = " and ".join(map(str, locks))
            _say(f"setting up {environment.name} with the packages of {of}; another ./inv waits meanwhile")
            _make_alone(environment, locks)
    except subprocess.CalledProcessError as error:
        _say(
            f"{environment.name} was not made: {error.cmd[2]} failed, see above; then run the command again."
        )
        return 1
    except OSError as error:
        _say(f"{environment.name} was not made: {error}.")
        return 1
    except KeyboardInterrupt:
        _say(f"interrupted; {environment.name} was not made.")
        return 130
    return 0


def _is_current(environment: Path, locks: Sequence[Path]) -> bool:
    """Return whether the environment is complete, from today's lock files, and its Python still there."""
    stamp, python = environment / _STAMP, environment / "bin" / "python"
    return (
        stamp.exists() and python.exists() and _stamp(environment, locks) <= {*stamp.read_text().split("\n")}
    )


def _stamp(environment: Path, locks: Sequence[Path]) -> set[str]:
    """Return the lock files' digests, and the interpreter behind the environment's link.

    The interpreter is named because a system upgrade can turn the link into another Python, which
    would not see the packages.
    """
    digests = {hashlib.sha256(lock.read_bytes()).hexdigest() for lock in locks}
    return digests | {os.path.realpath(environment / "bin" / "python")}


def spelled_out(arguments: Sequence[str]) -> list[str]:
    """Return the arguments as invoke takes them: nothing lists the commands, `X --help` explains X."""
    help_flags = [argument for argument in arguments if argument in ("-h", "--help")]
    if not arguments or (help_flags and len(arguments) == 1):
        return ["--list"]
    if help_flags and not arguments[0].startswith("-"):
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


def _make_alone(environment: Path, locks: Sequence[Path]) -> None:
    # The project's directory itself is the lock: no file to leave behind, none that git could replace.
    locked = os.open(environment.parent, os.O_RDONLY)
    try:
        fcntl.flock(locked, fcntl.LOCK_EX)
        if not _is_current(environment, locks):
            _make(environment, locks, locked)
    finally:
        os.close(locked)


def _make(environment: Path, locks: Sequence[Path], held: int) -> None:
    """Make the environment beside its place, so that what runs in an older one goes on until the end.

    Args: held: the lock, which pip holds as well: if this process is killed, the next one waits for pip.
    """
    new, old = (environment.with_name(f"{environment.name}.{which}") for which in ("partial", "old"))
    _remove(new, old)  # of a start that was killed
    # --no-deps: the lock files are complete, so nothing that it does not pin can come in.
    # --no-compile: a module is compiled when first imported; most never are.
    options = ["--no-deps", "--no-compile", "--no-user", "--no-input", "--disable-pip-version-check"]
    pip = [str(new / "bin" / "python"), "-m", "pip", "install", *options]
    pip += [word for lock in locks for word in ("-r", str(lock))]
    try:
        for command in ([sys.executable, "-m", "venv", str(new)], pip):
            subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, pass_fds=[held], check=True)
        _rename_inside(new, environment)
        (new / _STAMP).write_text("\n".join(_stamp(new, locks)))
        if os.path.lexists(environment):
            environment.rename(old)
        new.rename(environment)
    finally:
        _remove(new, old)


def _rename_inside(new: Path, environment: Path) -> None:
    """Make scripts and settings of a finished environment name the place it is about to move to."""
    for file in [new / "pyvenv.cfg", *(new / "bin").iterdir()]:
        text = b"" if file.is_symlink() or file.is_dir() else file.read_bytes()
        if os.fsencode(new) in text and b"\0" not in text:
            file.write_bytes(text.replace(os.fsencode(new), os.fsencode(environment)))


def _remove(*paths: Path) -> None:
    for path in paths:
        if path.is_symlink():
            path.unlink()
        else:
            shutil.rmtree(path, ignore_errors=True)


def _say(text: str) -> None:
    print(f"inv: {text}", file=sys.stderr, flush=True)
