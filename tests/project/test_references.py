"""Every test that a source or a document names is there."""

import re
from pathlib import Path

from tests.support.sources import files

REFERENCE = re.compile(r"\[tests?: ([^\]]*)\]")
TEST = re.compile(r"\btests/[\w/.]*\w(?:::\w+)?")


def lost_references(root: Path) -> list[str]:
    """Return the tests that a source or a document refers to and that are not there."""
    lost = []
    for path in files(root):
        if path.suffix not in (".py", ".mpc", ".md") or path == Path(__file__):
            continue
        for reference in REFERENCE.finditer(path.read_text(encoding="utf-8")):
            names = TEST.findall(reference[1])
            if not names:
                lost.append(f"{path.relative_to(root)} names no test: {reference[0]}")
            lost += [f"{path.relative_to(root)} refers to {name}" for name in names if not exists(root, name)]
    return lost


def exists(root: Path, name: str) -> bool:
    file, _, function = name.partition("::")
    path = root / file
    if path.is_dir():
        return any(path.glob("test_*.py"))
    return path.is_file() and (not function or f"def {function}(" in path.read_text(encoding="utf-8"))


def test_every_test_that_is_referred_to_is_there(project: Path) -> None:
    assert lost_references(project) == []


def test_lost_references_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("def test_one(): ...\n")
    (tmp_path / "a.py").write_text(
        '"""\n[test: tests/test_a.py::test_one, and more]  [test: tests/test_a.py]\n"""'
    )
    assert lost_references(tmp_path) == []
    (tmp_path / "a.py").write_text(
        '"""[test: tests/test_a.py::test_on]  [test: tests/b.py,\n`tests/c`] [test: x]"""'
    )
    assert lost_references(tmp_path) == [
        "a.py refers to tests/test_a.py::test_on",
        "a.py refers to tests/b.py",
        "a.py refers to tests/c",
        "a.py names no test: [test: x]",
    ]
