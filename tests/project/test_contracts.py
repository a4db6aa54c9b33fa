"""import-linter's contracts in pyproject.toml hold, and an import that they forbid is found."""

import shutil
import subprocess
import sys
from pathlib import Path

from fairshares.harness.cli.project_checks import STATIC_CHECKS
from tests.conftest import PROJECT

PACKAGES = ("protocols", "harness", "data", "fairshares", "benchmarks")


FORBIDDEN = (
    ("fairshares.harness.errors", "fairshares.harness.pipeline.run"),
    ("fairshares.harness.uploads.client", "fairshares.harness.engines.registry"),
    ("fairshares.harness.engines.registry", "fairshares.harness.privacy.ledger.entries"),
    ("fairshares.harness.privacy.ledger.charge", "fairshares.harness.uploads.envelope"),
    ("fairshares.harness.uploads.policy", "fairshares.harness.uploads.envelope"),
    ("fairshares.harness.postprocessing.curves", "fairshares.harness.engines.registry"),
    ("fairshares.harness.releases.weights.statistic", "fairshares.harness.pipeline.run"),
    ("fairshares.harness.pipeline.run", "fairshares.harness.cli.app"),
    ("fairshares.harness.cli.user_commands", "fairshares"),
    ("fairshares.protocols.spec", "fairshares.harness.security_models"),
    ("benchmarks.measure.cell", "fairshares.harness.cli.terminal"),
    ("fairshares.data.movielens", "fairshares.harness.engines.registry"),
    ("fairshares.harness.privacy.audit.samplers", "benchmarks.papers.published_baselines"),
    ("fairshares.protocols.reference", "benchmarks.papers"),
    ("fairshares.harness.evaluation.before_after", "fairshares.data.loanapp"),
)


def test_forbidden_imports_are_found(tmp_path: Path) -> None:
    """All of them at once, in a copy of the code that the contracts are about."""
    shutil.copy(PROJECT / "pyproject.toml", tmp_path)
    for name in PACKAGES:
        left_out = shutil.ignore_patterns("__pycache__", "results")
        shutil.copytree(PROJECT / name, tmp_path / name, symlinks=True, ignore=left_out)
    for module, forbidden in FORBIDDEN:
        with (tmp_path / f"{module.replace('.', '/')}.py").open("a") as file:
            file.write(f"\n\ndef late():\n    import {forbidden}\n")
    command = [sys.executable, *STATIC_CHECKS["import-linter"]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "BROKEN" in done.stdout
    said = " ".join(done.stdout.split())  # long lines are wrapped
    assert [pair for pair in FORBIDDEN if " -> ".join(pair) not in said] == []
