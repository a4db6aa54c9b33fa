"""Code that is short because it is clever is read twice: ways to save a line that say nothing by it."""

import ast
from collections.abc import Callable, Iterator

import pytest

from tests.support.untyped import PACKAGES, ROOT

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# On shares, a circuit names what one vector gives, and writes tables of rows as the paper does.
CIRCUITS = "protocols/circuits/"


def starred_literals(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of literals that are unpacked into what is written around them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Starred) and isinstance(node.value, ast.Tuple | ast.List | ast.Set):
            yield node.lineno


def assigned_tuples(tree: ast.Module) -> Iterator[int]:
    """Yield the lines on which several names get a value each, which are as many statements."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
            continue
        if any(isinstance(target, ast.Tuple) for target in node.targets):
            yield node.lineno


def nested_comprehensions(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of comprehensions in which there is another one, which has no name."""
    for node in ast.walk(tree):
        if not isinstance(node, COMPREHENSIONS):
            continue
        if any(isinstance(inner, COMPREHENSIONS) for inner in ast.walk(node) if inner is not node):
            yield node.lineno


Finder = Callable[[ast.Module], Iterator[int]]


def test_no_line_is_saved_by_what_has_to_be_read_twice() -> None:
    everywhere: list[Finder] = [starred_literals]
    found = []
    for package in (*PACKAGES, "benchmarks"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            finders = everywhere
            if not name.startswith(CIRCUITS):
                finders = [*everywhere, assigned_tuples, nested_comprehensions]
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for finder in finders:
                found += [f"{name}:{line}: {finder.__name__}" for line in finder(tree)]
    assert found == []


@pytest.mark.parametrize(
    ("finder", "source", "lines"),
    [
        (starred_literals, "x = {*('a', 'b'), *('c', 'd')}", [1, 1]),
        (starred_literals, "f(*(sys.executable, '-m'), name)", [1]),
        (starred_literals, "x = [*[1, 2], 3]", [1]),
        (starred_literals, "x = [*others, 3]\nf(*others)", []),
        (starred_literals, "f(*(name for name in names))", []),
        (assigned_tuples, "a, b = 1, 2", [1]),
        (assigned_tuples, "x = a, b = 1, f(2)", [1]),
        (assigned_tuples, "a, b = f()\nc = 1, 2\nfor d, e in c: pass", []),
        (nested_comprehensions, "x = 1\ny = [max(b for b in a) for a in c]", [2]),
        (nested_comprehensions, "x = {a: [b] for a, b in c if any(d for d in b)}", [1]),
        (nested_comprehensions, "x = [b for a in c for b in a]\ny = [max(x) for x in c]", []),
    ],
)
def test_ways_to_save_a_line_are_found(finder: Finder, source: str, lines: list[int]) -> None:
    assert list(finder(ast.parse(source))) == lines
