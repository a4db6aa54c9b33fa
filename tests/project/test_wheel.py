"""The wheel: what is in it, and that it works where nothing of the project is."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.conftest import PROJECT

TREE = "fairshares/_tree/"
SCRIPT = """
import sys, fairshares as fs
r = fs.weights("my.csv", epsilon=5, security="mpyc")
assert len(r.weights) == 4 and fs.load("kept").weights.index.equals(r.weights.index)
import harness, protocols
print(harness.__file__, protocols.__file__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel, built as pip builds it; skip where its builder cannot be fetched."""
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(directory), str(PROJECT)]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if "No matching distribution found for hatchling" in done.stderr:
        pytest.skip("hatchling, which builds the wheel, cannot be fetched")
    assert done.returncode == 0, done.stderr
    (found,) = directory.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment with the wheel, and this one's packages behind it."""
    environment = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = environment / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", str(wheel)], check=True)
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def test_the_wheel_has_what_is_run_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tree = {name.removeprefix(TREE) for name in names if name.startswith(TREE)}
    tracked = subprocess.run(
        ["git", "ls-files", "harness", "protocols", "Programs"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert tree == set(tracked.stdout.splitlines())
    assert {name.partition("/")[0] for name in names - tree} == {
        "fairshares",
        wheel.name.removesuffix("-py3-none-any.whl") + ".dist-info",
    }


def test_it_works_from_another_directory(python: Path, tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def run(*command: str) -> str:
        program, *arguments = command
        done = subprocess.run(
            [python.with_name(program), *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    rows = "".join(f"{i},{'ab'[i % 2]},{i // 2 % 2}\n" for i in range(80))
    (tmp_path / "my.csv").write_text(f"client_id,group,label\n{rows}")
    assert "mpyc" in run("fairshares", "security")
    listed = run("fairshares")
    assert "hosts.check" in listed and "bench." not in listed and "\n  test " not in listed
    assert "./inv" not in listed + run("fairshares", "weights", "--help")
    assert "ring" in run("fairshares", "weights", "--plan", "100", "--groups", "2", "--epsilon", "1")
    assert "Not tracked. ε adds up" in run(
        "fairshares",
        "weights",
        "--records",
        "my.csv",
        "--epsilon",
        "5",
        "--security",
        "mpyc",
        "--out",
        "kept",
    )
    places = run("python", "-c", SCRIPT).split()
    assert all(f"site-packages/{TREE}" in place for place in places)
