"""CONTRIBUTING's examples work as they are written there: nobody has to read source for them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PROJECT

FOLDER = "harness/releases/maxima"
FILES = {  # by a line that each block has
    "OUT maxima": "Programs/Source/pi_max.mpc",
    "SPECS = ": f"{FOLDER}/spec.py",
    "class MaximaRequest": f"{FOLDER}/request.py",
    "STATISTIC = ": f"{FOLDER}/statistic.py",
    "VIEW = ": f"{FOLDER}/view.py",
    "class Group": "harness/reweighing/weightings/group.py",
    "class Within": "harness/reweighing/weightings/within.py",
    "def test_revealed": "tests/harness/releases/test_maxima.py",
}
ADDED = sorted(FILES.values())
RECORDS = "client_id,group,label\n" + "".join(f"{i},{'ab'[i % 2]},{i // 2 % 2}\n" for i in range(80))


def blocks(text: str) -> list[str]:
    """Return a page's blocks of Python, those within lists without their indentation."""
    found = []
    for indent, block in re.findall(r"^( *)```python\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL):
        found.append(re.sub(rf"^{indent}", "", block, flags=re.MULTILINE))
    return found


def as_a_contributor(root: Path) -> None:
    """Write what CONTRIBUTING says into a copy of the code."""
    (root / FOLDER).mkdir(exist_ok=True)
    (root / FOLDER / "__init__.py").touch()
    (root / "tests/harness/releases").mkdir(parents=True)
    written = set()
    for block in blocks((PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")):
        if block.startswith("def last_of_each"):
            with (root / "protocols/circuits/counts.py").open("a", encoding="utf-8") as circuits:
                circuits.write(f"\n\n{block}")
        for line, file in FILES.items():
            if line in block:
                (root / file).write_text(block, encoding="utf-8")
                written.add(file)
    assert written == {*FILES.values()}
    registry = root / "harness/releases/registry.py"
    text = registry.read_text(encoding="utf-8")
    first, listed = "\nfrom fairshares.harness", "    CapOptions,\n"
    assert first in text and listed in text
    text = text.replace(
        first, f"\nfrom fairshares.harness.releases.maxima.request import MaximaOptions{first}", 1
    )
    registry.write_text(text.replace(listed, f"{listed}    MaximaOptions,\n"), encoding="utf-8")


def python(root: Path, *words: str) -> str:
    """Run Python on the copy, and return what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, *words], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def inv(root: Path, *words: str) -> str:
    """Run a command of the copy, and return what it prints."""
    program = "import sys; from tasks import namespace; from fairshares.harness.cli.app import Commands; "
    program += "Commands(namespace=namespace, name='FairShares', binary='./inv').run_to_the_end(sys.argv)"
    return python(root, "-c", program, *words)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the code, with what CONTRIBUTING adds to it."""
    for name in ("protocols", "harness", "fairshares", "benchmarks", "Programs", "tests/support"):
        left_out = shutil.ignore_patterns("__pycache__", "results")
        shutil.copytree(PROJECT / name, tmp_path / name, ignore=left_out, symlinks=True)
    for name in ("tasks.py", "pyproject.toml"):
        shutil.copy(PROJECT / name, tmp_path)
    as_a_contributor(tmp_path)
    return tmp_path


def test_a_release_and_a_weighting_by_these_words_alone(copy: Path) -> None:
    (copy / "records.csv").write_text(RECORDS, encoding="utf-8")
    run = ("--records", "records.csv", "--epsilon", "20", "--security", "mpyc", "--population", "none")
    for noise in ("joint", "distributed"):
        shown = inv(copy, "maxima", *run, "--noise", noise, "--out", noise)
        assert "Records with the label 1." in shown
        assert (copy / noise / "maxima.json").is_file()
    assert "group" in inv(copy, "--help", "weights")
    for name in ("group", "within"):
        assert f"weight ({name})" in inv(copy, "weights", *run, "--reweighing", name)
    python(
        copy,
        "-c",
        "from tests.harness.releases import test_maxima; test_maxima.test_revealed_integers_become_counts()",
    )


def test_what_is_written_there_passes_the_checks(copy: Path) -> None:
    """Types, of the whole release; format and lint, of each file."""
    python(copy, "-m", "ruff", "check", *ADDED)
    python(copy, "-m", "ruff", "format", "--check", *ADDED)
    modules = [f"fairshares/{file}" for file in ADDED if file.startswith("harness/")]
    python(copy, "-m", "mypy", *modules)
