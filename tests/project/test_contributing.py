"""CONTRIBUTING's examples work as they are written there: nobody has to read source for them."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PROJECT

FOLDER = "harness/releases/above"
FILES = {  # by a line that each block has
    "OUT counts": "Programs/Source/pi_above.mpc",
    "SPECS = ": f"{FOLDER}/spec.py",
    "class AboveRequest": f"{FOLDER}/request.py",
    "STATISTIC = ": f"{FOLDER}/statistic.py",
    "VIEW = ": f"{FOLDER}/view.py",
    "class Group": "harness/reweighing/weightings/group.py",
    "class Within": "harness/reweighing/weightings/within.py",
    "def test_revealed": "tests/harness/releases/test_above.py",
    "def load_recid": "data/recid.py",
}
INTO = {  # by the first words of a block: a file, and the lines that it goes after; at its end without any
    "def sums_from_bin": ("protocols/circuits/counts.py", ""),
    '"balanced_accuracy_parity":': (
        "harness/postprocessing/thresholds/constraints.py",
        "CONSTRAINTS: Mapping[str, Constraint] = {\n",
    ),
    "@property\n    def balanced_accuracy": (
        "harness/postprocessing/curves.py",
        "    positives: Floats\n    negatives: Floats\n\n",
    ),
    'tpr = widened(bands["true_positive_rate"]': (
        "harness/postprocessing/curves.py",
        '        of_both = {"accuracy": twice, "positive_predictive_value": precision}\n',
    ),
    "balanced_accuracy: EstimatedRate": (
        "harness/releases/files.py",
        "    positive_predictive_value: EstimatedRate | UnsetType = UNSET\n",
    ),
    'SecurityModel(\n            name="malicious-rep-ring"': (
        "harness/security_models.py",
        "    for model in (\n",
    ),
}
TEXT = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ADDED = sorted({*FILES.values(), *(file for file, _ in INTO.values())})
RECORDS = "client_id,group,label,score\n" + "".join(
    f"{i},{'ab'[i % 2]},{i // 2 % 2},0.{i % 10}\n" for i in range(80)
)


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
    for block in blocks(TEXT):
        for line, file in FILES.items():
            if line in block:
                (root / file).write_text(block, encoding="utf-8")
                written.add(file)
        for words, (file, after) in INTO.items():
            if block.lstrip().startswith(words):
                text = (root / file).read_text(encoding="utf-8")
                if after:
                    assert text.count(after) == 1, (file, after)
                    space = "\n" if after.endswith("\n\n") else ""
                    text = text.replace(after, f"{after}{block}{space}")
                else:
                    text += f"\n\n{block}"
                (root / file).write_text(text, encoding="utf-8")
                written.add(words)
    assert written == {*FILES.values(), *INTO}
    registry = root / "harness/releases/registry.py"
    text = registry.read_text(encoding="utf-8")
    first, listed = "\nfrom fairshares.harness", "    CapOptions,\n"
    assert first in text and listed in text
    text = text.replace(
        first, f"\nfrom fairshares.harness.releases.above.request import AboveOptions{first}", 1
    )
    registry.write_text(text.replace(listed, f"{listed}    AboveOptions,\n"), encoding="utf-8")


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
    for name in ("data", "protocols", "harness", "fairshares", "benchmarks", "Programs", "tests/support"):
        left_out = shutil.ignore_patterns("__pycache__", "results")
        shutil.copytree(PROJECT / name, tmp_path / name, ignore=left_out, symlinks=True)
    for name in ("tasks.py", "pyproject.toml"):
        shutil.copy(PROJECT / name, tmp_path)
    as_a_contributor(tmp_path)
    return tmp_path


def test_a_release_and_a_weighting_by_these_words_alone(copy: Path) -> None:
    (copy / "records.csv").write_text(RECORDS, encoding="utf-8")
    run = ("--records", "records.csv", "--epsilon", "20", "--security", "mpyc", "--population", "none")
    declared = ("--groups", "a,b", "--labels", "0,1", "--stock", "stock")
    inv(copy, "above", *declared, "--epsilon", "20", "--security", "mpyc", "--preprocess", "1")
    noises = {
        "joint": ("--noise", "joint"),
        "distributed": ("--noise", "distributed"),
        "ahead": (*declared, "--offline"),
    }
    for name, noise in noises.items():
        shown = inv(copy, "above", *run, "--bound", "0.6", *noise, "--out", name)
        assert "Records with a score of at least 0.6." in shown
        counts = json.loads((copy / name / "above.json").read_text())["noisy_counts"]
        assert counts == pytest.approx([16, 16], abs=4)  # of 20 to either side e^-80 is beyond
    assert "group" in inv(copy, "--help", "weights")
    for name in ("group", "within"):
        assert f"weight ({name})" in inv(copy, "weights", *run, "--reweighing", name)
    python(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/harness/releases/test_above.py")


def test_a_constraint_by_these_words_alone(copy: Path) -> None:
    """On curves without noise: a rate for which the interval holds, and which the rules have made alike."""
    program = """
import numpy as np
from fairshares.harness.postprocessing.curves import GroupCurves
from fairshares.harness.postprocessing.thresholds.choose import choose_thresholds
from fairshares.harness.releases.thresholds.statistic import state_thresholds
tp, fp = np.array([[50.0, 40, 0], [50, 20, 0]]), np.array([[50.0, 20, 0], [50, 10, 0]])
fifty = np.full(2, 50.0)
curves = GroupCurves(("a", "b"), np.array([0, 0.5, 1]), tp, fp, fifty, fifty)
for tolerance in (0, 0.1):
    chosen = choose_thresholds(curves, "balanced_accuracy_parity", tolerance=tolerance)
    print(round(chosen.gap, 6), *chosen.rates["balanced_accuracy"].round(6))
    assert (chosen.intervals["balanced_accuracy"][:, 0] < chosen.rates["balanced_accuracy"]).all()
    assert (chosen.intervals["balanced_accuracy"][:, 1] > chosen.rates["balanced_accuracy"]).all()
    assert "balanced_accuracy" in state_thresholds(chosen).rates["a"].by_name
"""
    assert python(copy, "-c", program) == "0.0 0.6 0.6\n0.1 0.7 0.6\n"


def test_a_data_set_and_a_model_by_these_words_alone(copy: Path) -> None:
    program = """
from fairshares.data.recid import load_recid
from fairshares.harness.security_models import get_model
data = load_recid()
print(len(data.y_true), *map(len, data.split()), get_model("malicious-rep-ring").tolerates)
"""
    assert python(copy, "-c", program) == "1445 1011 434 active\n"


def test_what_is_written_there_passes_the_checks(copy: Path) -> None:
    """Types, of the whole release; format and lint, of each file."""
    python(copy, "-m", "ruff", "check", *ADDED)
    python(copy, "-m", "ruff", "format", "--check", *ADDED)
    modules = [f"fairshares/{file}" for file in ADDED if file.startswith(("harness/", "data/"))]
    python(copy, "-m", "mypy", *modules)


def texts_of_code() -> str:
    """Return the text of the project's code, and of the examples of CONTRIBUTING."""
    files = [*PROJECT.glob("*.py"), *PROJECT.glob("*.toml"), *PROJECT.glob("fairshares/*.py")]
    for folder in ("protocols", "harness", "benchmarks", "data", "tests", "Programs/Source"):
        for ends in ("py", "mpc"):
            files += (PROJECT / folder).rglob(f"*.{ends}")
    files.remove(Path(__file__))
    texts = [f"{file.stem}\n{file.read_text(encoding='utf-8')}" for file in files]
    return "\n".join([*texts, *blocks(TEXT)])


def quoted(page: str) -> list[str]:
    """Return what a page has as code within its sentences."""
    sentences = re.sub(r"^ *```.*?^ *```$", "", page, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"`([^`\n]+)`", sentences)


def names_in(page: str) -> set[str]:
    """Return the names of code on a page: of several words, or of capitals; and the parts of dotted ones."""
    names = [text for text in quoted(page) if " " not in text and "/" not in text]
    words = re.findall(r"\w+", "\n".join(names))
    return {word for word in words if "_" in word.strip("_") or re.search(r"[A-Z].*[A-Za-z]", word)}


def test_names_are_there() -> None:
    """A name that the code has no more would send a contributor looking for it."""
    code = texts_of_code()
    named = names_in(TEXT)
    assert {"OPENINGS", "SMALL_ARGUMENTS", "LinearQueries", "OperatingPoints", "prepares_ands"} <= named
    placeholders = {"NAME", "PATH"}
    assert named - {*re.findall(r"\w+", code)} - placeholders == set()
    called = {call[1] for text in quoted(TEXT) if (call := re.match(r"(\w+)\(", text))}
    assert {"usual", "Whole", "ratio_intervals", "get_vector"} <= called
    of_mp_spdz = {"check_point"}
    assert called - {*re.findall(r"(?:def|class) (\w+)", code)} - of_mp_spdz == set()
