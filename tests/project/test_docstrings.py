"""Every public method says what it does, itself or where it is declared; ruff asks the same of all else.

Functions of the public package and of `protocols` say what they take, return and raise, too.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.sources import files

HEADINGS = ("Source", "Computes", "Guarantees", "Reveals", "Edge cases", "Arguments")
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


AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Documented:
    """A public function or method, with the texts that document it."""

    name: str
    function: AnyFunction
    is_method: bool
    docstring: str

    @property
    def parameters(self) -> list[str]:
        """The names of all parameters, without that of the object or class itself."""
        arguments = self.function.args
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        named += [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
        names = [one.arg for one in named]
        return names[1:] if self.is_method and names[:1] in (["self"], ["cls"]) else names

    @property
    def returns_nothing(self) -> bool:
        """Whether a function says that it returns None, or returns nothing in its whole body.

        What a `with` block gets that yields nothing is no value, either.
        """
        declared = self.function.returns
        if declared is not None:
            return ast.unparse(declared) in {"None", "Iterator[None]"}
        return not any(
            isinstance(node, ast.Yield) or (isinstance(node, ast.Return) and node.value is not None)
            for node in ast.walk(self.function)
        )

    def section(self, heading: str) -> str | None:
        """Return the text below a heading, up to the next one; None if it is not there."""
        found = re.search(rf"^{heading}:(.*?)(?=^\w[\w ]*:|\Z)", self.docstring, re.MULTILINE | re.DOTALL)
        return None if found is None else found[1]

    @property
    def raised(self) -> set[str]:
        """The names of the errors that the function's own body raises."""
        calls = [node.exc for node in ast.walk(self.function) if isinstance(node, ast.Raise)]
        names = {
            call.func.id for call in calls if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        }
        return {name for name in names if name[:1].isupper()}  # others are variables, or functions of ours

    def faults(self) -> Iterator[str]:
        """Yield what the docstring leaves out."""
        taken = self.section("Args")
        if self.parameters and taken is None:
            yield f"{self.name} has no Args"
        elif taken is not None and not taken.lstrip().startswith("as "):
            explained = {
                name for names in re.findall(ITEM, taken, re.MULTILINE) for name in names.split(", ")
            }
            for parameter in self.parameters:
                if parameter not in explained:
                    yield f"{self.name} says nothing of {parameter}"
            for name in sorted(explained - {*self.parameters}):
                yield f"{self.name} has no parameter {name}"
        if self.parameters and not self.returns_nothing and self.section("Returns") is None:
            yield f"{self.name} has no Returns"
        errors = self.section("Raises") or ""
        for error in sorted(self.raised):
            if not re.search(rf"\b{error}\b", errors):
                yield f"{self.name} raises {error}"


ITEM = r"^    \*{0,2}(\w+(?:, \w+)*): "


def public_functions(source: str) -> Iterator[Documented]:
    """Yield the public functions of a module, and the methods of its public classes.

    A method without a docstring has that of the class that it overrides one of, which the test above asks
    for. A class says what it takes in its own docstring or in that of `__init__`.
    """
    for node in ast.parse(source).body:
        if isinstance(node, AnyFunction) and not node.name.startswith("_"):
            yield Documented(node.name, node, False, ast.get_docstring(node) or "")
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for method in methods_of(node):
                text = ast.get_docstring(method) or ""
                if method.name == "__init__":
                    text = f"{ast.get_docstring(node) or ''}\n\n{text}"
                if method.name == "__init__" or (text and not method.name.startswith("_")):
                    yield Documented(f"{node.name}.{method.name}", method, True, text)


def left_out(source: str) -> list[str]:
    """Return what the docstrings of a module's public functions leave out."""
    return [fault for function in public_functions(source) for fault in function.faults()]


def public_modules(project: Path) -> Iterator[Path]:
    """Yield the modules that `fairshares` exports from, that the package's page names, and for Flower."""
    init = (project / "fairshares/__init__.py").read_text(encoding="utf-8")
    page = (project / "docs/reference/python.md").read_text(encoding="utf-8")
    names = {node.module for node in ast.walk(ast.parse(init)) if isinstance(node, ast.ImportFrom)}
    names |= {*re.findall(r"^\.\. auto\w+:: (fairshares\.[\w.]+)\.\w+", page, re.MULTILINE)}
    for name in sorted(name for name in names if name and name.startswith("fairshares.")):
        path = project.joinpath(*name.split("."))
        yield path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
    yield from sorted(project.glob("fairshares/flower/*.py"))


def test_the_public_package_says_what_it_takes_returns_and_raises(project: Path) -> None:
    paths = [*public_modules(project)]
    assert len(paths) > 10
    found = {path.name: left_out(path.read_text(encoding="utf-8")) for path in paths}
    assert {name: faults for name, faults in found.items() if faults} == {}


def test_protocols_and_circuits_say_what_they_take_return_and_raise(project: Path) -> None:
    paths = sorted(project.glob("protocols/**/*.py"))
    assert len(paths) > 30
    found = {path.name: left_out(path.read_text(encoding="utf-8")) for path in paths}
    assert {name: faults for name, faults in found.items() if faults} == {}


def test_what_a_docstring_leaves_out_is_found() -> None:
    whole = '''
class Sum:
    """A sum.

    Args:
        first: A number.
    """
    def __init__(self, first: int) -> None: ...
    def add(self, one: int, *others: int, **named: int) -> int:
        """Add.

        Args:
            one, others: Numbers.
            named: Numbers, too.
        Returns:
            The sum.
        Raises:
            OptionError: There is none.
        """
        raise OptionError("none")
    def like(self, one: int) -> None:
        """Add as another.

        Args: as in `add`.
        """
'''
    assert left_out(whole) == []
    for without, faults in {
        "first: A number.": ["Sum.__init__ says nothing of first"],
        "named: Numbers, too.": ["Sum.add says nothing of named"],
        "Returns:": ["Sum.add has no Returns"],
        "OptionError: There is none.": ["Sum.add raises OptionError"],
        "Args: as in `add`.": ["Sum.like has no Args"],
    }.items():
        assert whole.count(without) == 1
        assert left_out(whole.replace(without, "")) == faults
    assert left_out(whole.replace("one, others", "one, others, more")) == ["Sum.add has no parameter more"]
    circuit = 'def count(bits):\n    """Count.\n\n    Args:\n        bits: Bits.\n    """\n    return bits\n'
    assert left_out(circuit) == ["count has no Returns"]


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
