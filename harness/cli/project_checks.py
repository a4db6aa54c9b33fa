"""The project's own checks and documentation site."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fairshares.harness.cli.bootstrap import CHECKOUT, LOCK, ensure

# A file's tests stay in one process, as many share fixtures. They start in the order of collection, slow
# directories first, so that no process is left with a long file at the end. There is a process more than
# processors, up to four, as many tests wait for parties and servers.
IN_PARALLEL = (
    f"--numprocesses={min(4, 1 + (os.cpu_count() or 1))}",
    "--dist=loadfile",
    "--no-loadscope-reorder",
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
# The whole tree, so that a changed signature is checked where it is called. It takes a minute on one core
# without a cache, and up to 10 s with one. So it runs beside the tests, and its output waits for theirs.
TYPES: Mapping[str, Sequence[str]] = {"mypy": ("-m", "mypy")}


def run_checks(pytest_arguments: Sequence[str] = (), *, everything: bool = False) -> int:
    """Run every check of the project, name those that failed, and return an exit code.

    Args:
        pytest_arguments: Further arguments of pytest.
        everything: Run exhaustive tests, too.
    """
    arguments = list(IN_PARALLEL)
    if not everything:
        arguments.extend(DEFAULT_ONLY)
    arguments.extend(pytest_arguments)
    return run_all(STATIC_CHECKS, arguments, TYPES)


def run_all(
    static: Mapping[str, Sequence[str]],
    pytest_arguments: Sequence[str] | None,
    beside: Mapping[str, Sequence[str]],
) -> int:
    """Run checks, name those that failed, and return an exit code.

    Args:
        static: The checks before the tests, by name: what Python is given.
        pytest_arguments: The arguments of pytest; None if there are no tests.
        beside: The checks that run beside the others, and whose output comes last.

    Returns:
        0 if all passed, else pytest's code if it failed, else 1.
    """
    codes: dict[str, int] = {}
    with ThreadPoolExecutor() as pool:
        running = {name: pool.submit(_run, command, captured=True) for name, command in beside.items()}
        for name, command in static.items():
            codes[name] = _say_and_run(name, command)
        failed_so_far = _failed(codes)
        if failed_so_far:
            print(f"\nFailed so far: {', '.join(failed_so_far)}. The tests run all the same.", flush=True)
        if pytest_arguments is not None:
            codes["pytest"] = _say_and_run("pytest", ("-m", "pytest", *pytest_arguments))
        for name, run in running.items():
            print(f"\n--- {name}\n{run.result().stdout}", end="")
            codes[name] = run.result().returncode
    failed = _failed(codes)
    if not failed:
        print("\nAll checks passed.", flush=True)
        return 0
    print(f"\nFailed: {', '.join(failed)}.", flush=True)
    return codes.get("pytest", 0) or 1


def _failed(codes: Mapping[str, int]) -> list[str]:
    """Return the names of the checks whose exit code is not 0."""
    return [name for name, code in codes.items() if code]


def build_docs(project: Path = CHECKOUT) -> int:
    """Build the documentation site in its own environment, and print its path; return an exit code."""
    docs = project / "docs"
    environment = project / ".venv-docs"
    site = docs / "_build"
    code = ensure(environment, docs / LOCK)
    if code:
        return code
    python = str(environment / "bin" / "python")
    command = [python, *SPHINX, str(docs), str(site)]
    code = subprocess.run(command, cwd=project, check=False).returncode
    if not code:
        print(site / "index.html")
    return code


def _say_and_run(name: str, arguments: Sequence[str]) -> int:
    """Name a check, run it, and return its exit code."""
    print(f"\n--- {name}", flush=True)
    return _run(arguments).returncode


def _run(arguments: Sequence[str], captured: bool = False) -> subprocess.CompletedProcess[str]:
    """Run Python with arguments, in the project; with `captured`, keep the output instead of showing it."""
    # Let modules compile once, not in each of the thousands of processes that tests start.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=CHECKOUT,
        env=environment,
        stdout=subprocess.PIPE if captured else None,
        stderr=subprocess.STDOUT if captured else None,
        text=True,
        check=False,
    )
