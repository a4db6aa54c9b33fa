"""The project's own checks and documentation site."""

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.cli.bootstrap import LOCK, PROJECT, ensure

# A file's tests stay in one process, as many share fixtures. They start in the order of collection, slow
# directories first, so that no process is left with a long file at the end.
IN_PARALLEL = (
    *("--numprocesses", "logical", "--maxprocesses", "4"),
    *("--dist", "loadfile", "--no-loadscope-reorder"),
)
DEFAULT_ONLY = ("-m", "not exhaustive")

# Python modules, but for import-linter, which is a script beside the interpreter.
STATIC_CHECKS = {
    "ruff check": ("-m", "ruff", "check", "."),
    "ruff format": ("-m", "ruff", "format", "--check", "--diff", "."),
    "import-linter": (str(Path(sys.executable).with_name("lint-imports")), "--no-logo", "--no-cache"),
}
# All references must resolve, warnings are errors, and nothing is reused from an earlier build.
SPHINX = ("-m", "sphinx", "--quiet", "--nitpicky", "--fail-on-warning", "--keep-going", "--fresh-env")
# Takes a minute on one core without a cache; its output waits until the tests have ended.
BESIDE_TESTS = {"mypy": ("-m", "mypy")}


def run_checks(pytest_arguments: Sequence[str] = (), *, everything: bool = False) -> int:
    """Run every check, with `everything` also exhaustive tests; name failures; return an exit code."""
    chosen = () if everything else DEFAULT_ONLY
    with ThreadPoolExecutor() as pool:
        beside = {name: pool.submit(_run, command, lock_held=True) for name, command in BESIDE_TESTS.items()}
        codes = {name: _say_and_run(name, command) for name, command in STATIC_CHECKS.items()}
        if failed := [name for name, code in codes.items() if code]:
            print(f"\nFailed so far: {', '.join(failed)}. The tests run all the same.", flush=True)
        codes["pytest"] = _say_and_run("pytest", ("-m", "pytest", *IN_PARALLEL, *chosen, *pytest_arguments))
        for name, run in beside.items():
            print(f"\n--- {name}\n{run.result().stdout}", end="")
            codes[name] = run.result().returncode
    failed = [name for name, code in codes.items() if code]
    print(f"\nFailed: {', '.join(failed)}." if failed else "\nAll checks passed.", flush=True)
    return codes["pytest"] or int(bool(failed))


def build_docs(project: Path = PROJECT) -> int:
    """Build the documentation site in its own environment; return an exit code."""
    docs, environment = project / "docs", project / ".venv-docs"
    site = docs / "_build"
    code = ensure(environment, docs / LOCK)
    if not code:
        command = [str(environment / "bin" / "python"), *SPHINX, str(docs), str(site)]
        code = subprocess.run(command, cwd=project, check=False).returncode
    if not code:
        print(site / "index.html")
    return code


def _say_and_run(name: str, arguments: Sequence[str]) -> int:
    print(f"\n--- {name}", flush=True)
    return _run(arguments).returncode


def _run(arguments: Sequence[str], lock_held: bool = False) -> subprocess.CompletedProcess[str]:
    # Let modules compile once, not in each of the thousands of processes that tests start.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    to = subprocess.PIPE if lock_held else None
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=PROJECT,
        env=environment,
        stdout=to,
        stderr=to and subprocess.STDOUT,
        text=True,
        check=False,
    )
