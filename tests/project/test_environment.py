"""Commands need no package but those of `requirements.lock`, as where no test ever ran."""

import ast
import json
import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from benchmarks.validation.cells import RESULTS
from tests.conftest import PROJECT
from tests.support.command import INVOKE

# Packages that a user may have, or that a command asks for in a sentence, by the modules that import them.
OPTIONAL = {
    "IPython": {"fairshares/_progress.py"},  # only if it runs already
    "_typeshed": {  # of type checkers alone
        "harness/uploads/signatures.py",
        "harness/system/documents.py",
        "harness/uploads/limited_connections.py",
    },
    "typing_extensions": {"harness/engines/mpyc/exchange.py"},  # of type checkers alone
    "dask": {"harness/pipeline/cluster_client.py"},  # the extra `cluster`
    "distributed": {"harness/pipeline/cluster_client.py"},
    "fsspec": {"harness/system/stores.py"},  # of users who name such a place
    "declearn": {"benchmarks/studies/training/declearn_models.py"},  # has an environment of its own
}
OURS = {"fairshares", "benchmarks", "tasks"}
# Runs a command where packages of tests alone can't be imported, as if they were not installed.
WITHOUT = """\
import runpy, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
ABSENT = set(sys.argv[1].split(","))
sys.meta_path.insert(0, Absent())
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def plain(name: str) -> str:
    """Return a distribution's name as an index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked() -> set[str]:
    lock = (PROJECT / "requirements.lock").read_text()
    return {plain(name) for name in re.findall(r"^([A-Za-z0-9_.-]+)==", lock, re.MULTILINE)}


def of_tests_alone() -> set[str]:
    """Return the modules here of which no locked distribution is a source."""
    pinned = locked()
    absent = set()
    for module, sources in packages_distributions().items():
        if module not in OURS and not {plain(source) for source in sources} & pinned:
            absent.add(module)
    return absent


def imported(file: Path) -> set[str]:
    """Return the first names of all modules that a file imports, in functions, too."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(str(node.module))
    return {name.partition(".")[0] for name in names}


def test_commands_import_locked_packages_alone() -> None:
    pinned = locked()
    sources = packages_distributions()
    found: dict[str, set[str]] = {}
    files = [PROJECT / "tasks.py"]
    for directory in ("benchmarks", "data", "fairshares", "harness", "protocols"):
        files += (PROJECT / directory).rglob("*.py")
    for file in files:
        for name in imported(file) - sys.stdlib_module_names - OURS:
            if not {plain(source) for source in sources.get(name, ())} & pinned:
                found.setdefault(name, set()).add(str(file.resolve().relative_to(PROJECT)))
    assert found == OPTIONAL


def without_test_packages(*arguments: str, cwd: Path) -> str:
    """Run a command as in an environment that never ran the tests; return what it prints."""
    absent = of_tests_alone() - {"pip", "setuptools", "pkg_resources", "_distutils_hack"}
    assert {"pyarrow", "fairlearn", "pytest", "polars"} <= absent
    python, _, app, *search = INVOKE
    done = subprocess.run(
        [python, "-P", "-c", WITHOUT, ",".join(sorted(absent)), app, *search, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_export_needs_no_package_of_tests(tmp_path: Path) -> None:
    without_test_packages("bench.export", str(RESULTS / "noise"), "--out", "tables", cwd=tmp_path)
    made = {path.name for path in (tmp_path / "tables").iterdir()}
    assert {"runs.csv", "runs.parquet", "cells.csv", "cells.parquet", "table.tex", "cells.pdf"} <= made


# Commands that pages name, each list in one directory.
COMMANDS = {
    "releases": (
        "thresholds --records scored.csv --epsilon 20 --security mpyc --plot --out curves",
        "thresholds --curves curves --constraint four_fifths --out again",
        "weights --records scored.csv --epsilon 20 --security mpyc --out weights --json",
    ),
    "benchmarks": (
        "bench.run noise --quick --security mpyc --repetitions 1 --out noise",
        "bench.validate --results noise --json",
    ),
}


@pytest.mark.parametrize("kind", COMMANDS)
def test_commands_run_where_no_test_ever_ran(kind: str, tmp_path: Path) -> None:
    rows = ["client_id,group,label,score"]
    for number in range(400):
        group = "ab"[number % 2]
        label = number // 2 % 2
        rows.append(f"c{number},{group},{label},{(number * 37 % 60 + 40 * label) / 100}")
    (tmp_path / "scored.csv").write_text("\n".join(rows) + "\n")
    for text in COMMANDS[kind]:
        printed = without_test_packages(*text.split(), cwd=tmp_path)
        if "--json" in text:
            assert json.loads(printed)


def test_what_is_absent_here_is_noticed(tmp_path: Path) -> None:
    """A command whose package is absent fails: the stand-in for a fresh environment works."""
    (tmp_path / "app.py").write_text(
        "import pandas as pd\npd.DataFrame({'a': [1]}).to_parquet('a.parquet')\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", WITHOUT, "pyarrow,fastparquet", "app.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and "ImportError" in done.stderr
