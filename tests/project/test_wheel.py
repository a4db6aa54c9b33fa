"""The wheel: what is in it, and that it works where nothing of the project is."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

import pytest

import fairshares as fs
from fairshares.harness.engines.program_hash import sources_hash
from fairshares.harness.hosts.local_host import COMPARED_FOLDERS
from fairshares.harness.uploads.page import BUILT
from tests.conftest import PROJECT
from tests.locks.__main__ import BUILD_LOCK
from tests.support.user_types import KINDS, said_by_mypy

USERS_OWN = ("data", "harness", "protocols")  # packages of theirs that are called as ours
SCRIPT = """
import sys
if sys.argv[2] == "before":
    import data, harness, protocols
import fairshares as fs
assert fs.OptionError.__module__ == "fairshares" and issubclass(fs.OptionError, fs.FairSharesError)
r = fs.weights("my.csv", epsilon=5, security=sys.argv[1])
assert len(r.weights) == 4 and fs.load("kept").weights.index.equals(r.weights.index)
import data, harness, protocols
assert data.MINE and harness.MINE and protocols.MINE
assert not [name for name in sys.modules if name.startswith(("data.", "harness.", "protocols."))]
from fairshares.data.loanapp import load_loanapp
assert len(load_loanapp().y_true) == 1989  # for the quickstart
from fairshares.harness.engines.program_hash import sources_hash
from fairshares.harness.hosts.local_host import COMPARED_FOLDERS
print(r.manifest["program_hash"], *(sources_hash(*directories) for directories in COMPARED_FOLDERS.values()))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel, built by packages whose hashes are known; skip where these cannot be fetched."""
    directory, builders = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("builders")
    pip = [sys.executable, "-m", "pip"]
    checked = ["--no-deps", "--require-hashes", "--only-binary=:all:", "-r", str(PROJECT / BUILD_LOCK)]
    fetched = [*pip, "install", "--quiet", "--target", str(builders), *checked]
    done = subprocess.run(fetched, cwd=directory, capture_output=True, text=True, check=False)
    if "No matching distribution found for hatchling" in done.stderr:
        pytest.skip("hatchling, which builds the wheel, cannot be fetched")
    assert done.returncode == 0, done.stderr
    command = [
        *pip,
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(directory),
        str(PROJECT),
    ]
    environment = {**os.environ, "PYTHONPATH": str(builders)}
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (path,) = directory.glob("*.whl")
    return path


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
    folders = ("fairshares", "data", "harness", "protocols", "Programs")
    command = ["git", "ls-files", *folders]
    tracked = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout.split()
    inside = {name for name in names if name.startswith("fairshares/")}
    sources = {f"fairshares/{name.removeprefix('fairshares/')}": PROJECT / name for name in tracked}
    texts = {name: file for name, file in sources.items() if file.is_file()}  # without the links
    for file in BUILT.glob("*"):  # the page's script and style, where `npm run build` was run
        texts[f"fairshares/harness/uploads/{BUILT.name}/{file.name}"] = file
    assert inside == {*texts}
    with zipfile.ZipFile(wheel) as archive:
        other = [name for name, file in texts.items() if archive.read(name) != file.read_bytes()]
    assert other == [], "the same text runs in a clone and in a wheel"
    described = wheel.name.removesuffix("-py3-none-any.whl") + ".dist-info"
    assert {name.partition("/")[0] for name in names - inside} == {described}


@pytest.mark.parametrize("model", ["mpyc", pytest.param("ring", marks=pytest.mark.mpspdz("ring"))])
def test_it_works_beside_users_packages(python: Path, tmp_path: Path, model: Any) -> None:
    cache = tmp_path / "cache"  # where nothing is compiled yet
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(cache)}
    for name in USERS_OWN:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("MINE = True")

    def run(*command: str | Path, where: Path = tmp_path) -> str:
        done = subprocess.run(
            command, cwd=where, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    rows = "".join(f"{i},{'ab'[i % 2]},{i // 2 % 2}\n" for i in range(80))
    (tmp_path / "my.csv").write_text(f"client_id,group,label\n{rows}")
    fairshares = python.with_name("fairshares")
    assert model in run(fairshares, "security")
    listed = run(fairshares)
    assert "hosts.check" in listed and "bench." not in listed and "\n  test " not in listed
    said = listed + run(fairshares, "weights", "--help") + run(fairshares, "hosts.check", "--help")
    assert "./inv" not in said and "docs/" not in said
    assert "the page on several hosts in the documentation" in " ".join(said.split())
    assert model in run(fairshares, "weights", "--plan", "100", "--groups", "2", "--epsilon", "1")
    release = ("weights", "--records", "my.csv", "--epsilon", "5", "--security", model, "--out", "kept")
    assert "Not tracked. ε adds up" in run(fairshares, *release)
    here = fs.weights(tmp_path / "my.csv", epsilon=5, security=model).manifest["program_hash"]
    sources = [sources_hash(*directories) for directories in COMPARED_FOLDERS.values()]
    for when in ("before", "after"):
        assert run(python, "-c", SCRIPT, model, when).split() == [here, *sources]


def test_users_check_their_types_against_the_wheel(python: Path, tmp_path: Path) -> None:
    said = said_by_mypy(tmp_path, "--python-executable", python)
    assert said["right"] == []
    assert [line.rpartition("[")[2] for line in said["wrong"]] == [f"{kind}]" for kind in KINDS]
