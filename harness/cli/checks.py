"""The project's own checks, in the order in which they are run: format, lint, types, tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]

# A file's tests stay in one process, as many share what their module made.
IN_PARALLEL = ("--numprocesses", "auto", "--maxprocesses", "4", "--dist", "loadfile")

STATIC_CHECKS = {
    "ruff check": ("ruff", "check", "."),
    "ruff format": ("ruff", "format", "--check", "--diff", "."),
    "mypy": ("mypy",),
}


def run_checks(pytest_arguments: Sequence[str] = ()) -> int:
    """Run every check to its end, whatever the others say; pytest is last, so its summary closes the output.

    Args: pytest_arguments: passed on to pytest.
    Returns: an exit code: 0 if all passed, else that of pytest or 1.
    """
    failed = [name for name, command in STATIC_CHECKS.items() if _run(name, command)]
    if failed:
        print(f"\nFailed so far: {', '.join(failed)}. The tests run all the same.", flush=True)
    code = _run("pytest", ("pytest", *IN_PARALLEL, *pytest_arguments))
    return code or int(bool(failed))


def _run(name: str, command: Sequence[str]) -> int:
    print(f"\n--- {name}", flush=True)
    return subprocess.run([sys.executable, "-m", *command], cwd=PROJECT, check=False).returncode
