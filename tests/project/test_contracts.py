"""import-linter's contracts in pyproject.toml hold, and an import that they forbid is found."""

import shutil
import subprocess
import sys
from pathlib import Path

from harness.cli.project_checks import STATIC_CHECKS
from tests.conftest import PROJECT

PACKAGES = ("protocols", "harness", "fairshares", "benchmarks")


FORBIDDEN = (
    ("harness.errors", "harness.pipeline.run"),
    ("harness.uploads.client", "harness.engines.registry"),
    ("harness.engines.registry", "harness.privacy.ledger.entries"),
    ("harness.postprocessing.curves", "harness.engines.registry"),
    ("harness.releases.weights.statistic", "harness.pipeline.run"),
    ("harness.pipeline.run", "harness.cli.app"),
    ("harness.cli.user_commands", "fairshares"),
    ("protocols.spec", "harness.security_models"),
    ("benchmarks.measure.cell", "harness.cli.terminal"),
)


def test_forbidden_imports_are_found(tmp_path: Path) -> None:
    """All of them at once, in a copy of the code that the contracts are about."""
    shutil.copy(PROJECT / "pyproject.toml", tmp_path)
    for name in PACKAGES:
        left_out = shutil.ignore_patterns("__pycache__", "results")
        shutil.copytree(PROJECT / name, tmp_path / name, ignore=left_out)
    for module, forbidden in FORBIDDEN:
        with (tmp_path / f"{module.replace('.', '/')}.py").open("a") as file:
            file.write(f"\n\ndef late():\n    import {forbidden}\n")
    command = [sys.executable, *STATIC_CHECKS["import-linter"]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "BROKEN" in done.stdout
    assert [pair for pair in FORBIDDEN if " -> ".join(pair) not in done.stdout] == []
