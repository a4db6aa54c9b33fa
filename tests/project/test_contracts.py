"""import-linter's contracts in pyproject.toml hold, and an import that they forbid is found."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli.project_checks import STATIC_CHECKS
from tests.conftest import PROJECT

PACKAGES = ("protocols", "harness", "fairshares", "benchmarks")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the code that the contracts are about."""
    root = tmp_path_factory.mktemp("copy")
    shutil.copy(PROJECT / "pyproject.toml", root)
    for name in PACKAGES:
        if (PROJECT / name).exists():
            shutil.copytree(
                PROJECT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "results")
            )
    return root


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("harness.errors", "harness.pipeline.run"),
        ("harness.inputs.shares.client", "harness.engines.registry"),
        ("harness.engines.registry", "harness.privacy.ledger.entries"),
        ("harness.postprocessing.curves", "harness.engines.registry"),
        ("harness.releases.weights", "harness.pipeline.run"),
        ("harness.pipeline.run", "harness.cli.app"),
        ("harness.cli.user_commands", "fairshares"),
        ("protocols.spec", "harness.security_models"),
        ("benchmarks.measure.cell", "harness.cli.terminal"),
    ],
)
def test_a_forbidden_import_is_found(module: str, forbidden: str, copy: Path) -> None:
    file = copy / f"{module.replace('.', '/')}.py"
    text = file.read_text()
    file.write_text(f"{text}\n\ndef late():\n    import {forbidden}\n")
    command = [sys.executable, *STATIC_CHECKS["import-linter"]]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    file.write_text(text)
    assert done.returncode == 1 and "BROKEN" in done.stdout
    assert f"{module} -> {forbidden}" in done.stdout
