"""The project's own checks, in the order in which they are run: format, lint, imports, types, tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]

# A file's tests stay in one process, as many share what their module made. They start in the order in which
# they are collected, slow directories first, so that no long file is left to one process at the end.
IN_PARALLEL = ("--numprocesses", "logical", "--maxprocesses", "4", "--dist", "loadfile")
IN_ORDER = ("--no-loadscope-reorder",)
DEFAULT_ONLY = ("-m", "not exhaustive")

# Python modules, but for import-linter, which is a script beside the interpreter.
STATIC_CHECKS = {
    "ruff check": ("-m", "ruff", "check", "."),
    "ruff format": ("-m", "ruff", "format", "--check", "--diff", "."),
    "import-linter": (str(Path(sys.executable).with_name("lint-imports")), "--no-logo", "--no-cache"),
    "mypy": ("-m", "mypy"),
}


def run_checks(pytest_arguments: Sequence[str] = (), *, everything: bool = False) -> int:
    """Run every check to its end, whatever the others say; pytest is last, so its summary closes the output.

    Args: pytest_arguments: passed on to pytest; everything: exhaustive tests (`tests/exhaustive.toml`), too.
    Returns: an exit code: 0 if all passed, else that of pytest or 1.
    """
    failed = [name for name, command in STATIC_CHECKS.items() if _run(name, command)]
    if failed:
        print(f"\nFailed so far: {', '.join(failed)}. The tests run all the same.", flush=True)
    chosen = () if everything else DEFAULT_ONLY
    code = _run("pytest", ("-m", "pytest", *IN_PARALLEL, *IN_ORDER, *chosen, *pytest_arguments))
    return code or int(bool(failed))


def _run(name: str, arguments: Sequence[str]) -> int:
    print(f"\n--- {name}", flush=True)
    # Compiled once, not anew by each of the thousands of processes that tests start.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=PROJECT, env=environment, check=False).returncode
