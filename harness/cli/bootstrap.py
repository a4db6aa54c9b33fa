"""Makes the project's virtual environments from lock files, and starts invoke.

It runs before any package is installed.
"""

import hashlib
import importlib
import io
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

CHECKOUT = Path(__file__).resolve().parents[2]

LOCK = "requirements.lock"
TEST_LOCK = f"tests/{LOCK}"  # further packages for tests

_STAMP = "fairshares-lock"  # in a complete environment: its sources
_OTHER_FILE = "DO NOT MATCH THE HASHES"  # pip's words for a file that no lock file knows
_TEST_COMMANDS = ("check", "test")  # the commands that need the packages of tests, too
_HELP = ("-h", "--help")


class OtherFileError(Exception):
    """The package index gave a file whose SHA-256 is not in the lock files."""


def main(arguments: Sequence[str], project: Path = CHECKOUT) -> int:
    """Run invoke in the project's environment, or return an exit code if that cannot be made.

    Guarantees: the working directory stays the user's, so relative paths in options keep their meaning.
    [test: tests/commands/test_bootstrap.py]
    """
    environment = project / ".venv"
    locks = [project / LOCK]
    if arguments and arguments[0] in _TEST_COMMANDS:
        locks.append(project / TEST_LOCK)
    code = ensure(environment, *locks)
    if code:
        return code
    words = ["--search-root", str(project), *spelled_out(arguments)]
    # A letter that the terminal cannot show becomes a question mark instead of an error.
    encoding = os.environ.get("PYTHONIOENCODING", "")
    replacing = ":" not in encoding  # else the user has chosen what becomes of such letters
    if replacing:
        os.environ["PYTHONIOENCODING"] = f"{encoding}:replace"
    if Path(sys.prefix).samefile(environment):
        return _go_on(words, replacing)
    _hand_over(environment, project, words)


def ensure(environment: Path, *locks: Path) -> int:
    """Make an environment unless it matches the lock files; return an exit code.

    Guarantees: an incomplete environment never passes for a complete one. Only files whose SHA-256 is in a
    lock file are installed, and none is built here.
    [test: tests/commands/test_bootstrap.py]
    """
    try:
        if not _is_current(environment, locks):
            sources = " and ".join(str(lock) for lock in locks)
            _say(
                f"setting up {environment.name} with the packages of {sources}; another ./inv waits meanwhile"
            )
            _make_alone(environment, locks)
    except OtherFileError:
        _say(
            f"{environment.name} was not made: a package is not the file that the lock file pins by its "
            "SHA-256, as pip says above; somebody may have changed the package, or the lock file."
        )
        return 1
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
    """Return whether an environment is complete, and was made from these lock files among others."""
    stamp = environment / _STAMP
    python = environment / "bin" / "python"
    return (
        stamp.exists() and python.exists() and _stamp(environment, locks) <= {*stamp.read_text().split("\n")}
    )


def _stamp(environment: Path, locks: Sequence[Path]) -> set[str]:
    """Return the lines of a stamp: the lock files' digests, and the interpreter's real path."""
    lines = {hashlib.sha256(lock.read_bytes()).hexdigest() for lock in locks}
    lines.add(os.path.realpath(environment / "bin" / "python"))
    return lines


def spelled_out(arguments: Sequence[str]) -> list[str]:
    """Return arguments as invoke takes them.

    Without an argument, and for help without a command, invoke lists all commands. Help on a command goes
    before its name, wherever the user wrote it.
    """
    if not arguments:
        return ["--list"]
    asks_for_help = any(argument in _HELP for argument in arguments)
    if asks_for_help and len(arguments) == 1:
        return ["--list"]
    if asks_for_help and not arguments[0].startswith("-"):
        return ["--help", arguments[0]]
    return list(arguments)


def _go_on(words: Sequence[str], replacing: bool) -> int:
    """Run invoke in this process, which is one of the environment already."""
    sys.path.append(sys.path.pop(0))  # the project's root, after installed packages
    if replacing and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    importlib.import_module("fairshares.harness.system.signals").end_at_once()
    importlib.import_module("fairshares.harness.cli.app").program.run_to_the_end(["inv", *words])
    return 0


def _hand_over(environment: Path, project: Path, words: Sequence[str]) -> NoReturn:
    """Go on as the environment's interpreter, in place of this process."""
    python = str(environment / "bin" / "python")
    sys.stdout.flush()
    # -P: import neither from the user's directory nor from the script's.
    os.execv(python, [python, "-P", str(project / "harness" / "cli" / "app.py"), *words])


def _make_alone(environment: Path, locks: Sequence[Path]) -> None:
    """Make the environment unless another process has made it while this one waited for its turn."""
    from fairshares.harness.system.files import in_turn  # slow to load, and seldom needed

    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: _say(str(message))
        with in_turn(environment.parent) as held:
            if not _is_current(environment, locks):
                _make(environment, locks, held)


def _make(environment: Path, locks: Sequence[Path], held: int) -> None:
    """Make the environment beside its place, then move it there.

    Processes that run in an older environment keep it until then. pip inherits the lock's descriptor `held`,
    so that the turn ends no sooner than pip does, even if this process is killed.
    """
    new = environment.with_name(f"{environment.name}.partial")
    old = environment.with_name(f"{environment.name}.old")
    _remove(new, old)  # of a start that was killed
    pip = [
        str(new / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--no-deps",  # the lock files are complete, so only pinned packages come in
        "--require-hashes",  # and of these only the files that the lock files know
        "--only-binary=:all:",  # what builds a package would come in without a hash
        "--no-compile",  # a module is compiled when first imported; most never are
        "--no-user",
        "--no-input",
        "--disable-pip-version-check",
    ]
    for lock in locks:
        pip.extend(("-r", str(lock)))
    try:
        venv = [sys.executable, "-m", "venv", str(new)]
        subprocess.run(venv, stdin=subprocess.DEVNULL, stdout=sys.stderr, pass_fds=[held], check=True)
        _install(pip, held)
        _rename_inside(new, environment)
        (new / _STAMP).write_text("\n".join(_stamp(new, locks)))
        if os.path.lexists(environment):
            environment.rename(old)
        new.rename(environment)
    finally:
        _remove(new, old)


def _install(pip: Sequence[str], held: int) -> None:
    """Run pip and show what it says.

    Raises:
        OtherFileError: A package is not the file whose hash the lock files have.
        CalledProcessError: pip failed for another reason.
    """
    said = []
    with subprocess.Popen(
        pip,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        pass_fds=[held],
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                said.append(line)
                sys.stderr.write(line)
        except KeyboardInterrupt:
            process.terminate()
            raise
    if process.returncode:
        if _OTHER_FILE in "".join(said):
            raise OtherFileError
        raise subprocess.CalledProcessError(process.returncode, list(pip))


def _rename_inside(new: Path, environment: Path) -> None:
    """Replace the path in the environment's text files by the one to which it is moved."""
    present_path = os.fsencode(new)
    later_path = os.fsencode(environment)
    for file in [new / "pyvenv.cfg", *(new / "bin").iterdir()]:
        if file.is_symlink() or file.is_dir():
            continue
        content = file.read_bytes()
        is_text = b"\0" not in content
        if is_text and present_path in content:
            file.write_bytes(content.replace(present_path, later_path))


def _remove(*paths: Path) -> None:
    for path in paths:
        if path.is_symlink():
            path.unlink()
        else:
            shutil.rmtree(path, ignore_errors=True)


def _say(text: str) -> None:
    print(f"inv: {text}", file=sys.stderr, flush=True)
