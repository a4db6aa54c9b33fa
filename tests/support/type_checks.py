"""What mypy says of lines of code, by which tests see that a wrong one does not type-check."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from fairshares.harness.engines.execution import PROJECT


def check_lines(around: str, right: Sequence[str], wrong: Sequence[str], directory: Path) -> None:
    """Assert that each wrong line has a type error of its own, and that no right one has any.

    Args:
        around: The module of each line, which stands for `{line}`.
        right: Lines with no error.
        wrong: Lines with one each.
        directory: Where the modules are written.
    """
    files = {f"line_{number}.py": line for number, line in enumerate([*right, *wrong])}
    for name, line in files.items():
        (directory / name).write_text(around.format(line=line))
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--no-error-summary"]
        + [str(directory / name) for name in files],
        cwd=PROJECT,
        capture_output=True,
        text=True,
    )
    said = checked.stdout.splitlines()
    refused = {name for name in files if any(name in line and "error:" in line for line in said)}
    assert {files[name] for name in refused} == set(wrong), checked.stdout + checked.stderr
