"""CONTRIBUTING's release and weighting work as they are written there: nobody has to read source for them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.conftest import PROJECT

FOLDER = "harness/releases/maxima"
FILES = {  # by a line that each block has
    "OUT maxima": "Programs/Source/pi_max.mpc",
    "SPECS = ": f"{FOLDER}/spec.py",
    "class MaximaRequest": f"{FOLDER}/request.py",
    "STATISTIC = ": f"{FOLDER}/statistic.py",
    "VIEW = ": f"{FOLDER}/view.py",
    "class Group": "harness/reweighing/weightings/group.py",
}
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


def inv(root: Path, *words: str) -> str:
    """Run a command of the copy, and return what it prints."""
    program = "import sys; from tasks import namespace; from fairshares.harness.cli.app import Commands; "
    program += "Commands(namespace=namespace, name='FairShares', binary='./inv').run_to_the_end(sys.argv)"
    command = [sys.executable, "-c", program, *words]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_release_and_a_weighting_by_these_words_alone(tmp_path: Path) -> None:
    for name in ("protocols", "harness", "fairshares", "benchmarks", "Programs"):
        left_out = shutil.ignore_patterns("__pycache__", "results")
        shutil.copytree(PROJECT / name, tmp_path / name, ignore=left_out, symlinks=True)
    shutil.copy(PROJECT / "tasks.py", tmp_path)
    as_a_contributor(tmp_path)
    (tmp_path / "records.csv").write_text(RECORDS, encoding="utf-8")
    run = ("--records", "records.csv", "--epsilon", "20", "--security", "mpyc", "--population", "none")
    for noise in ("joint", "distributed"):
        shown = inv(tmp_path, "maxima", *run, "--noise", noise, "--out", noise)
        assert "Records with the label 1." in shown
        assert (tmp_path / noise / "maxima.json").is_file()
    assert "group" in inv(tmp_path, "--help", "weights")
    assert "weight (group)" in inv(tmp_path, "weights", *run, "--reweighing", "group")
