"""Code that is short because it is clever is read twice: ways to save a line that say nothing by it."""

import ast
from collections.abc import Iterator

import pytest

from tests.support.untyped import PACKAGES, ROOT


def starred_literals(source: str) -> Iterator[int]:
    """Yield the lines of literals that are unpacked into what is written around them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Starred) and isinstance(node.value, ast.Tuple | ast.List | ast.Set):
            yield node.lineno


def test_no_literal_is_unpacked_where_its_values_could_stand() -> None:
    found = []
    for package in (*PACKAGES, "benchmarks"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            found += [f"{name}:{line}" for line in starred_literals(path.read_text(encoding="utf-8"))]
    assert found == []


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("x = {*('a', 'b'), *('c', 'd')}", [1, 1]),
        ("f(*(sys.executable, '-m'), name)", [1]),
        ("x = [*[1, 2], 3]", [1]),
        ("x = [*others, 3]\nf(*others)", []),
        ("f(*(name for name in names))", []),
    ],
)
def test_unpacked_literals_are_found(source: str, lines: list[int]) -> None:
    assert list(starred_literals(source)) == lines
