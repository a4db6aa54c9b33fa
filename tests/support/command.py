"""Runs the commands as a user does, and looks for what they leave behind."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from fairshares.harness.cli.app import program
from fairshares.harness.errors import KINDS, USUAL_EXIT
from tests.conftest import PROJECT
from tests.support.running import SIGNALS, signals_not_ignored

# What ./inv becomes once its environment is there.
INVOKE = (sys.executable, "-P", str(PROJECT / "harness" / "cli" / "app.py"), "--search-root", str(PROJECT))
TIMEOUT_S = 600
CODES = frozenset({USUAL_EXIT, *(kind.code for kind in KINDS)})  # by which a command says that it failed


def start(*arguments: str, cwd: Path, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """Start a command in a directory, in a process group of its own, that no signal is kept from."""
    with signals_not_ignored():
        return subprocess.Popen(
            [*INVOKE, *arguments],
            cwd=cwd,
            env={**os.environ, "COLUMNS": "200", **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


def finish(process: subprocess.Popen[str], timeout_s: float = TIMEOUT_S) -> subprocess.CompletedProcess[str]:
    """Wait for a command's end; return its exit code and what it printed."""
    out, err = process.communicate(timeout=timeout_s)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def command(
    *arguments: str, cwd: Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return finish(start(*arguments, cwd=cwd, environment=environment))


def call(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command to its end in this process, which saves starting another."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    previous = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            program.run(["inv", "--search-root", str(PROJECT), *arguments])
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def succeed(*arguments: str, cwd: Path, environment: dict[str, str] | None = None) -> str:
    """Run a command that has to work, in this process if its environment is; return what it printed."""
    done = command(*arguments, cwd=cwd, environment=environment) if environment else call(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(*arguments: str, cwd: Path) -> str:
    """Run a command that has to refuse, by one error and without a trace; return that, on one line."""
    before = files_below(cwd)
    done = call(*arguments, cwd=cwd)
    assert done.returncode in CODES and done.stderr.count("Error: ") == 1 and "Traceback" not in done.stderr
    assert files_below(cwd) == before
    return " ".join(done.stderr.split())


def read_json(path: Path) -> dict[str, Any]:
    """Return what a JSON file holds."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def flat(results: Path) -> list[float]:
    """Return the noisy counts of a run of weights, group by group."""
    return [count for row in read_json(results / "weights.json")["noisy_counts"] for count in row]


def processes_below(directory: Path) -> dict[int, Path]:
    """Return the processes whose working directory is `directory` or below it (Linux; none elsewhere)."""
    processes = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            cwd = (entry / "cwd").readlink()
        except OSError:  # it has ended
            continue
        if cwd.is_relative_to(directory):
            processes[int(entry.name)] = cwd
    return processes


def files_below(directory: Path) -> set[str]:
    """Return the relative names of all files, links and directories; one that goes away may be missing."""
    return {
        str(Path(root, name).relative_to(directory))
        for root, directories, files in os.walk(directory)  # rglob fails when a directory goes away
        for name in (*directories, *files)
    }
