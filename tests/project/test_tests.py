"""Tests that the tests run: every test that is written down is collected, and no file is overlooked."""

import ast
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.protocols.guarantee import Budget
from tests import conftest
from tests.conftest import COLLECTED, EXHAUSTIVE, PROJECT, UNMET, USERS_OWN, mark_exhaustive
from tests.faults.__main__ import read_faults
from tests.faults.crashes import FaultyLines
from tests.support.command import succeed

TESTS = PROJECT / "tests"


def functions_in(file: Path) -> list[str]:
    """Return the names of the test functions and methods that a file defines."""
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    return [node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test")]


def uncollected(collected: Counter[tuple[Path, str]], asked_for: list[Path]) -> list[str]:
    """Return what below the given paths looks like a test but was not collected."""
    files = [file for path in asked_for for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    lost = []
    for file in files:
        names = functions_in(file)
        if not names and file.name.startswith("test_"):
            lost.append(f"{file}: no tests")
        lost += [f"{file}: {name}" for name in names if not collected[file, name]]
    return lost


@pytest.fixture
def asked_for(request: pytest.FixtureRequest) -> list[Path]:
    """The files and directories that this run of the tests is of."""
    config = request.config
    return [config.invocation_params.dir / name for name in config.args if "::" not in name]


def test_every_test_below_the_given_paths_was_collected(
    asked_for: list[Path], request: pytest.FixtureRequest
) -> None:
    assert not uncollected(request.config.stash[COLLECTED], asked_for)


def test_every_exhaustive_test_is_there(asked_for: list[Path], request: pytest.FixtureRequest) -> None:
    assert TESTS not in asked_for or not request.config.stash[UNMET]


def test_exhaustive_tests_have_a_reason_and_the_default_covers_the_same() -> None:
    for entry in EXHAUSTIVE:
        assert set(entry) - {"keep"} == {"tests", "reason", "covered"}, entry
    names = [name for entry in EXHAUSTIVE for name in entry["tests"]]
    assert len(names) == len(set(names))


def test_every_seeded_fault_fits_the_code_and_its_tests_are_there() -> None:
    faults = read_faults().values()
    named = {file_of(test) for fault in faults for test in fault.caught_by}
    tests = {file: functions_in(PROJECT / file) for file in named}
    for fault in faults:
        assert (PROJECT / fault.file).read_text(encoding="utf-8").count(fault.find) == 1, fault.name
        lost = [test for test in fault.caught_by if function_of(test) not in tests[file_of(test)]]
        assert not lost, fault.name


def undefined_in(sources: Mapping[str, str], place: Path) -> dict[str, set[str]]:
    """Return what Ruff says of names that nothing defines, and of syntax, in sources of Python by name."""
    for name, source in sources.items():
        (place / f"{name}.py").write_text(source, encoding="utf-8")
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select", "F821,F823"]
    checked = subprocess.run([*ruff, "--output-format", "json", str(place)], stdout=subprocess.PIPE)
    found: dict[str, set[str]] = {name: set() for name in sources}
    for fault in json.loads(checked.stdout):
        found[Path(fault["filename"]).stem].add(fault["message"])
    return found


def test_no_seeded_fault_names_what_is_not_there(tmp_path: Path) -> None:
    """A test fails with any text that cannot run, so it says nothing of that fault."""
    faults = [fault for fault in read_faults().values() if Path(fault.file).suffix in (".py", ".mpc")]
    files = {fault.file.replace("/", "+"): (PROJECT / fault.file).read_text() for fault in faults}
    seeded = {fault.name: fault.seeded(files[fault.file.replace("/", "+")]) for fault in faults}
    assert not files.keys() & seeded.keys() and len(seeded) > 400
    wrong = {"wrong": "x = 1\ndef f() -> None:\n    print(x, other)\n"}
    found = undefined_in(files | seeded | wrong, tmp_path)
    assert found.pop("wrong") == {"Undefined name `other`"}
    new = {fault.name: found[fault.name] - found[fault.file.replace("/", "+")] for fault in faults}
    assert {name: messages for name, messages in new.items() if messages} == {}


@pytest.mark.parametrize(
    ("text", "has_crashed"),
    [
        ("    return value.absent\n", True),
        ("    return absent\n", True),
        ("    return f(value, value)\n", True),
        ("    return int('x')\n", False),
        ("    return g(value)\n", False),  # which fails elsewhere
        ("", False),  # what comes after it fails
    ],
)
def test_a_fault_whose_own_text_cannot_run_is_told_from_what_it_breaks(
    text: str, has_crashed: bool, tmp_path: Path
) -> None:
    before = "def g(value):\n    return value.absent\n\n\ndef f(value):\n"
    (tmp_path / "faulty.py").write_text(f"{before}{text}    return len(value)\n")
    lines = FaultyLines.of_text("faulty.py", before, text)
    assert FaultyLines.parse(lines.option.partition("=")[2]) == lines
    names: dict[str, Any] = {}
    exec(compile((tmp_path / "faulty.py").read_text(), tmp_path / "faulty.py", "exec"), names)
    with pytest.raises((ValueError, AttributeError, TypeError, NameError)) as raised:
        names["f"](5)
    assert lines.raised(raised.value, tmp_path) == has_crashed
    later = LookupError()
    later.__context__ = raised.value
    assert lines.raised(later, tmp_path) == has_crashed


def file_of(test: str) -> str:
    return test.partition("::")[0]


def function_of(test: str) -> str:
    """Return the function of a test, or of one of its cases."""
    return test.partition("::")[2].partition("[")[0].rpartition("::")[2]


def test_no_test_comes_near_the_users_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data_home: Path
) -> None:
    """Whatever would open or make something there fails first; what tests start is told of another place."""
    assert Path.home() in USERS_OWN[-1].parents
    for event in ("open", "os.mkdir", "os.link", "sqlite3.connect"):
        with pytest.raises(AssertionError, match="a test would touch"):
            sys.audit(event, str(USERS_OWN[-1] / "ledger.sqlite"), 0, 0)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(conftest, "USERS_OWN", [tmp_path / "fairshares"])  # stands for the user's
    with pytest.raises(AssertionError, match="a test would touch"):
        Ledger().set_budget("people", Budget(Fraction(1)))
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("XDG_DATA_HOME", str(data_home))
    assert succeed("ledger", cwd=tmp_path).startswith(f"Ledger: {data_home}")


def test_all_tests_are_below_the_configured_paths(request: pytest.FixtureRequest) -> None:
    assert request.config.getini("testpaths") == ["tests"]
    test_files = (file for file in PROJECT.glob("[!.]*/**/test_*.py") if "_build" not in file.parts)
    elsewhere = [file for file in test_files if not file.is_relative_to(TESTS)]
    assert not elsewhere


def test_a_test_that_was_not_collected_is_reported(tmp_path: Path) -> None:
    (tmp_path / "test_empty.py").write_text("")
    (tmp_path / "test_good.py").write_text("def test_seen(): pass\ndef test_lost(): pass\n")
    (tmp_path / "misnamed.py").write_text("def test_overlooked(): pass\n")
    collected = Counter({(tmp_path / "test_good.py", "test_seen"): 2})
    assert uncollected(collected, [tmp_path]) == [
        f"{tmp_path / 'misnamed.py'}: test_overlooked",
        f"{tmp_path / 'test_empty.py'}: no tests",
        f"{tmp_path / 'test_good.py'}: test_lost",
    ]


class Item:
    """A test, as far as marking it goes."""

    def __init__(self, nodeid: str) -> None:
        self.nodeid, self.markers = nodeid, list[pytest.MarkDecorator]()
        self.add_marker = self.markers.append


def test_exhaustive_tests_are_marked() -> None:
    marked = {
        "tests/a/test_x.py::test_slow": True,
        "tests/a/test_x.py::test_slower": False,
        "tests/a/test_y.py::test_sweep[1-2]": True,
        "tests/a/test_y.py::test_sweep[1-1]": False,
        "tests/b/test_z.py::test_one": True,
        "tests/c/test_z.py::Test::test_one": True,
        "tests/c/d/test_z.py::test_one": False,
    }
    items = [Item(nodeid) for nodeid in marked]
    entries = [
        {"reason": "slow", "tests": ["tests/a/test_x.py::test_slow", "tests/b/test_z.py", "tests/c/"]},
        {"reason": "swept", "tests": ["tests/a/test_y.py::test_sweep"], "keep": ["*-1", "x"]},
        {"reason": "gone", "tests": ["tests/a/test_x.py::test_slo"]},
    ]
    assert mark_exhaustive(items, entries) == {"tests/a/test_x.py::test_slo", "x"}  # type: ignore[arg-type]
    assert {item.nodeid: bool(item.markers) for item in items} == marked
