"""`security`, `check`, `test` and `docs`."""

import shlex
import sys

from fairshares.harness.cli import terminal
from fairshares.harness.cli.module_checks import check as check_path
from fairshares.harness.cli.options import CheckOptions, DocsOptions, SecurityOptions, TestOptions
from fairshares.harness.cli.project_checks import build_docs, run_checks


def security(_options: SecurityOptions) -> None:
    """Print which models can run here."""
    # Slow to load, and the other commands need neither.
    from fairshares.harness.engines.registry import security_models
    from fairshares.harness.views import run_summary as view

    rows = security_models()
    terminal.show_or_print(rows, *view.security_models(rows))


def check(options: CheckOptions) -> None:
    """Run the checks and tests of one file or folder, and exit with their code."""
    sys.exit(check_path(options.path, fix=options.fix, everything=options.all))


def test(options: TestOptions) -> None:
    """Run every check, and exit with its code."""
    sys.exit(run_checks(shlex.split(options.args or ""), everything=options.all))


def docs(_options: DocsOptions) -> None:
    """Build the documentation site, and exit with its code."""
    sys.exit(build_docs())
