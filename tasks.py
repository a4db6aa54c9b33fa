"""The commands of `./inv`: thin, so that listing them imports nothing that is slow."""

from __future__ import annotations

import shlex
import sys

from invoke import Context, task


@task(help={"keyword": "only tests whose names match, as pytest's -k", "args": "more of pytest's options"})
def test(_context: Context, keyword: str = "", args: str = "") -> None:
    """Run ruff, mypy and pytest."""
    from harness.checks import run_checks

    selected = ["-k", keyword] if keyword else []
    sys.exit(run_checks([*selected, *shlex.split(args)]))
