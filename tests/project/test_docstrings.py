"""Every public method says what it does, itself or where it is declared; ruff asks the same of all else."""

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.support.sources import files

HEADINGS = ("Source", "Computes", "Reveals", "Arguments")
Classes = dict[str, list[ast.ClassDef]]


def undocumented(sources: Iterable[str]) -> list[str]:
    """Return the public methods of public classes that say nothing, nor override one that does."""
    classes: Classes = defaultdict(list)
    for source in sources:
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(node)
    return [
        f"{owner.name}.{method.name}"
        for owner in [one for name in classes if not name.startswith("_") for one in classes[name]]
        for method in methods_of(owner)
        if not method.name.startswith("_") and not says(owner, method.name, classes)
    ]


def methods_of(owner: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in owner.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def says(owner: ast.ClassDef, name: str, classes: Classes) -> bool:
    """Return whether a class, or one that it derives from, says what a method does."""
    if any(ast.get_docstring(method) for method in methods_of(owner) if method.name == name):
        return True
    bases = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in owner.bases]
    return any(says(one, name, classes) for base in bases for one in classes.get(base, ()))


def test_methods_say_what_they_do(project: Path) -> None:
    paths = [
        path for path in files(project) if path.suffix == ".py" and project / "tests" not in path.parents
    ]
    assert len(paths) > 200
    assert undocumented(path.read_text(encoding="utf-8") for path in paths) == []


def test_programs_say_what_they_compute_and_reveal(project: Path) -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in project.glob("Programs/Source/*.mpc")}
    pairs = [(name, heading) for name in texts for heading in HEADINGS]
    assert pairs and [pair for pair in pairs if f"\n# {pair[1]}" not in texts[pair[0]]] == []


def test_what_is_not_documented_is_found() -> None:
    base = '''
class Base(ABC):
    @abstractmethod
    def one(self):
        """Return one."""
    @property
    def two(self): ...
'''
    derived = """
class Derived(Other, base.Base[int]):
    def one(self): ...
    def _private(self): ...
    @staticmethod
    async def three(): ...
class _Private:
    def four(self): ...
"""
    assert undocumented([derived, base]) == ["Derived.three", "Base.two"]
