"""The library's own checks pass, its lock file pins what it installs, and its build repeats itself."""

import gzip
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.web_client import WEB, check_installed

BUILT = {"@hpke/common", "@hpke/core", "@hpke/dhkem-x25519", "@hpke/hybridkem-x-wing", "mlkem"}


def npm(*arguments: str, directory: Path = WEB) -> str:
    environment = {**os.environ, "npm_config_update_notifier": "false", "npm_config_cache": os.devnull}
    done = subprocess.run(
        ["npm", *arguments], cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    return done.stdout


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of the library's files, with the installed packages as a link."""
    check_installed()
    shutil.copytree(WEB, tmp_path / "web", ignore=shutil.ignore_patterns("node_modules", "build", "dist"))
    (tmp_path / "web" / "node_modules").symlink_to(WEB / "node_modules")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "fixtures").symlink_to(WEB.parent / "tests" / "fixtures")
    return tmp_path / "web"


def test_its_own_tests_pass(copy: Path) -> None:
    said = npm("test", directory=copy)
    passed = re.search(r"^# pass (\d+)$", said, re.MULTILINE)
    assert passed is not None and int(passed[1]) > 150
    assert "# skipped 0" in said and "# todo 0" in said


def test_a_build_repeats_itself(copy: Path) -> None:
    builds = []
    for _ in range(2):
        for folder in (copy / "dist", copy.parent / "harness"):
            shutil.rmtree(folder, ignore_errors=True)
        npm("run", "build", directory=copy)
        built = (copy / "dist", copy.parent / "harness" / "uploads" / "page_files")
        files = sorted(file for folder in built for file in folder.rglob("*") if file.is_file())
        builds.append({file.relative_to(copy.parent): file.read_bytes() for file in files})
    assert builds[0] == builds[1]
    library = {Path("web/dist/index.js"), Path("web/dist/opening.js"), Path("web/dist/types/index.d.ts")}
    page = {Path("harness/uploads/page_files") / name for name in ("page.js", "page.css", "LICENSES.txt")}
    assert library | page <= builds[0].keys()
    packed = [gzip.compress(builds[0][file], 9) for file in page]
    assert sum(map(len, packed)) < 80_000, "with its task, a page is to stay below 100 kB"
    assert not any(b"Math.random" in text for text in builds[0].values())
    licenses = builds[0][Path("web/dist/LICENSES.txt")].decode()
    assert all(f"{name} " in licenses for name in BUILT)


def test_the_lock_file_pins_what_is_installed() -> None:
    lock = json.loads((WEB / "package-lock.json").read_text())
    asked = json.loads((WEB / "package.json").read_text())
    wanted = {**asked["dependencies"], **asked["devDependencies"]}
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted.values())
    for name, package in lock["packages"].items():
        if name:
            assert package["integrity"].startswith("sha512-"), name
            assert "resolved" not in package, name
    for name, version in wanted.items():
        assert lock["packages"][f"node_modules/{name}"]["version"] == version


def test_what_the_library_needs_of_a_runtime_is_stated() -> None:
    """Whoever tries one that is none of those named sees what it has to have."""
    known = r"\b(AbortSignal\.\w+|Text\w+coder|\w*Stream|setTimeout|crypto\.\w+|structuredClone|Blob)\b"
    used = set[str]()
    for path in (WEB / "src").glob("*.ts"):
        used.update(re.findall(known, path.read_text(encoding="utf-8")))
    assert used == {
        "AbortSignal.timeout",
        "TextDecoder",
        "setTimeout",
        "crypto.getRandomValues",
        "crypto.subtle",
    }
    said = (WEB / "README.md").read_text(encoding="utf-8")
    (row,) = [line for line in said.splitlines() if line.startswith("| React Native |")]
    assert all(f"`{name}`" in row for name in used)


def test_few_packages_are_part_of_what_is_built() -> None:
    lock = json.loads((WEB / "package-lock.json").read_text())
    built = {
        name.removeprefix("node_modules/")
        for name, package in lock["packages"].items()
        if name and not package.get("dev")
    }
    assert built == BUILT
