"""Commands need no package but those of `requirements.lock`, as where no test ever ran."""

import ast
import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from benchmarks.validation.cells import RESULTS
from fairshares.harness.security_models import MODELS
from tasks import namespace
from tests.conftest import PROJECT
from tests.support.documents import pages
from tests.support.fresh_environment import fresh_invoke, locked, plain, run_fresh
from tests.support.running import until
from tests.support.ssh import set_up, site

# Packages that a user may have, or that a command asks for in a sentence, by the modules that import them.
OPTIONAL = {
    "IPython": {"fairshares/_progress.py"},  # only if it runs already
    "_typeshed": {  # of type checkers alone
        "harness/uploads/signatures.py",
        "harness/system/documents.py",
    },
    "typing_extensions": {"harness/engines/mpyc/exchange.py"},  # of type checkers alone
    "dask": {"harness/pipeline/cluster_client.py"},  # the extra `cluster`
    "distributed": {"harness/pipeline/cluster_client.py"},
    "fsspec": {"harness/system/stores.py"},  # of users who name such a place
    "flwr": {  # the extra `flower`
        "fairshares/flower/noisy_mean.py",
        "fairshares/flower/records.py",
        "fairshares/flower/sealed_updates.py",
    },
    "declearn": {"benchmarks/studies/training/declearn_models.py"},  # has an environment of its own
}
OURS = {"fairshares", "benchmarks", "tasks"}


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


def test_an_export_needs_no_package_of_tests(tmp_path: Path) -> None:
    run_fresh("bench.export", str(RESULTS / "noise"), "--out", "tables", cwd=tmp_path)
    made = {path.name for path in (tmp_path / "tables").iterdir()}
    assert {"runs.csv", "runs.parquet", "cells.csv", "cells.parquet", "table.tex", "cells.pdf"} <= made


# Commands that run in a fresh environment here, each list in one directory. Pages' own commands run likewise.
COMMANDS = {
    "releases": (
        "thresholds --records scored.csv --epsilon 20 --security mpyc --plot --out curves",
        "thresholds --curves curves --constraint four_fifths --out again",
        "weights --records scored.csv --epsilon 20 --security mpyc --out weights --json",
    ),
    "benchmarks": (
        "bench.run noise --quick --security mpyc --repetitions 1 --out noise",
        "bench.validate --results noise --json",
        "reproduce utility --quick --repetitions 2 --out utility",
    ),
}
LONGER = {
    "first steps": ("quickstart",),
    "security": (
        "bench.timing --programs pi_rw --security ring --minutes 1 --out timing",
        "bench.tampering --security rep4-ring --minutes 1 --out tampering",
    ),
}
ON_HOSTS = ("hosts.collect --out collected", "hosts.clean")
OF_OWNERS = ("hosts.policy", "hosts.log")
# For people who change the project: they run where the tests' packages are.
OF_CONTRIBUTORS = {"check", "docs", "test"}


def run_by_pages() -> set[str]:
    """Return the commands that pages' blocks run, which tests/project/test_documents.py does."""
    found = set()
    for page in pages():
        for snippet in page.snippets:
            if snippet.language == "sh" and not snippet.not_run:
                found |= set(re.findall(r"^\s*\./inv ([\w.-]+)", snippet.text, re.MULTILINE))
    return found


def test_every_command_runs_where_no_test_ever_ran() -> None:
    here = {text.split()[0] for lists in (COMMANDS, LONGER) for texts in lists.values() for text in texts}
    here |= {text.split()[0] for text in (*ON_HOSTS, *OF_OWNERS)} | {"send"}
    left = set(namespace.task_names) - run_by_pages() - here
    assert left <= OF_CONTRIBUTORS, (
        f"no page runs these commands: {', '.join(sorted(left - OF_CONTRIBUTORS))}; add a line to an `sh` "
        "block, as in docs/how-to/records.md"
    )
    assert left == OF_CONTRIBUTORS


def scored(directory: Path) -> None:
    """Write scored.csv, the scores of 400 clients."""
    rows = ["client_id,group,label,score"]
    for number in range(400):
        group = "ab"[number % 2]
        label = number // 2 % 2
        rows.append(f"c{number},{group},{label},{(number * 37 % 60 + 40 * label) / 100}")
    (directory / "scored.csv").write_text("\n".join(rows) + "\n")


@pytest.mark.parametrize("kind", COMMANDS)
def test_commands_run_where_no_test_ever_ran(kind: str, tmp_path: Path) -> None:
    scored(tmp_path)
    for text in COMMANDS[kind]:
        printed = run_fresh(*text.split(), cwd=tmp_path)
        if "--json" in text:
            assert json.loads(printed)


@pytest.mark.mpspdz
@pytest.mark.parametrize("kind", LONGER)
def test_longer_commands_run_where_no_test_ever_ran(kind: str, tmp_path: Path) -> None:
    for text in LONGER[kind]:
        assert run_fresh(*text.split(), cwd=tmp_path)


def test_commands_for_hosts_run_where_no_test_ever_ran(tmp_path: Path) -> None:
    model = MODELS["mpyc"]
    with site(tmp_path, model.parties) as made:
        set_up(made, model)
        run = "weights --hosts hosts.toml --security mpyc --epsilon 1 --population people --out results"
        run_fresh(*run.split(), cwd=made.home)
        for text in ON_HOSTS:
            assert run_fresh(*text.split(), cwd=made.home)
        for text in OF_OWNERS:
            assert run_fresh(*text.split(), "--directory", str(made.directory(0)), cwd=made.home)


@pytest.mark.mpspdz("rep4-ring")
def test_a_client_sends_where_no_test_ever_ran(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("client_id,group,label\nme,a,0\nme,a,1\n")
    run = (
        "weights --invite for-clients --clients 1 --groups a,b --labels 0,1 --max-count 1000 --epsilon 20 "
        "--security rep4-ring --population people --out out"
    )
    invitation = tmp_path / "for-clients" / "client-0.json"
    with ThreadPoolExecutor() as pool:
        parties = pool.submit(run_fresh, *run.split(), cwd=tmp_path)
        until(lambda: invitation.exists() or parties.done())
        sent = run_fresh("send", "--records", "mine.csv", "--invitation", str(invitation), cwd=tmp_path)
        assert "all 4 parties have its values" in sent
        assert parties.result()


def test_what_is_absent_there_is_noticed(tmp_path: Path) -> None:
    """A command whose package is absent fails: the environment has what is locked, and nothing else."""
    (tmp_path / "app.py").write_text(
        "import pandas as pd\npd.DataFrame({'a': [1]}).to_parquet('a.parquet')\n"
    )
    python = fresh_invoke()[0]
    done = subprocess.run([python, "-P", "app.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "ImportError" in done.stderr
    for absent in ("pyarrow", "fairlearn", "pytest", "polars"):
        assert subprocess.run([python, "-c", f"import {absent}"], capture_output=True, check=False).returncode
