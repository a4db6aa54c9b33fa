"""Tests that the tests run: every test that is written down is collected, and no file is overlooked."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import COLLECTED, PROJECT

TESTS = PROJECT / "tests"


def functions_in(file: Path) -> list[str]:
    """Return the names of the test functions and methods that a file defines."""
    found = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    return [node.name for node in found if isinstance(node, ast.FunctionDef) and node.name.startswith("test")]


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


def test_every_test_below_the_given_paths_was_collected(request: pytest.FixtureRequest) -> None:
    config = request.config
    asked_for = [config.invocation_params.dir / name for name in config.args if "::" not in name]
    assert not uncollected(config.stash[COLLECTED], asked_for)


def test_all_tests_are_below_the_configured_paths(request: pytest.FixtureRequest) -> None:
    assert request.config.getini("testpaths") == ["tests"]
    elsewhere = [file for file in PROJECT.glob("[!.]*/**/test_*.py") if not file.is_relative_to(TESTS)]
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
