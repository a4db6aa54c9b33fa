"""A class, a type or a constant has a name of its own: no two production modules define one name."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import pytest

from tests.support.untyped import PACKAGES, ROOT

_BESIDE_A_CLASS = (
    "`fairshares._arguments` has what a call's argument may be, and this class is what it becomes"
)
ALLOWED = {"Budget": _BESIDE_A_CLASS, "Features": _BESIDE_A_CLASS}
"""Names that two modules define, each with the reason."""

TYPE_VARIABLES = ("ParamSpec", "TypeVar")


def statements(block: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield a module's statements, with those in its conditions and handlers of errors."""
    for statement in block:
        yield statement
        if isinstance(statement, ast.If | ast.Try):
            yield from statements(
                inner for inner in ast.iter_child_nodes(statement) if isinstance(inner, ast.stmt)
            )


def type_names(source: str) -> dict[str, bool]:
    """Return the names of a module's classes, type aliases and type variables, and whether it is a variable.

    An alias without an annotation is known by its name, in which words begin with capital letters.
    """
    names = {}
    for statement in statements(ast.parse(source).body):
        if isinstance(statement, ast.ClassDef):
            names[statement.name] = False
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            if ast.unparse(statement.annotation).endswith("TypeAlias"):
                names[statement.target.id] = False
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name) and is_of_a_type(target.id):
                    names[target.id] = is_type_variable(statement.value)
    return names


def is_of_a_type(name: str) -> bool:
    """Return whether it is written as types are: neither as constants nor as variables."""
    bare = name.lstrip("_")
    return bare[:1].isupper() and not bare.isupper()


def is_type_variable(value: ast.expr) -> bool:
    return (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in TYPE_VARIABLES
    )


def defined_twice(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Return each name that several modules define, with the modules; type variables may share a name."""
    modules = defaultdict[str, list[str]](list)
    types = set()
    for module, source in sources.items():
        for name, is_variable in type_names(source).items():
            modules[name].append(module)
            if not is_variable:
                types.add(name)
    return {name: where for name, where in modules.items() if len(where) > 1 and name in types}


def production() -> dict[str, str]:
    """Return the text of each module that users install, by its path."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def test_a_name_of_a_class_or_type_is_defined_in_one_module() -> None:
    sources = production()
    assert len(sources) > 200
    twice = defined_twice(sources)
    assert {name: modules for name, modules in twice.items() if name not in ALLOWED} == {}
    assert twice.keys() == ALLOWED.keys(), "An exception that nothing needs goes."
    assert {"fairshares/_arguments.py"} < {module for name in ALLOWED for module in twice[name]}


@pytest.mark.parametrize(
    "second",
    [
        "class Column:\n    '''A column.'''",
        "Column: TypeAlias = list[int]",
        "Column = list[int]",
        "if TYPE_CHECKING:\n    Column = list[int]\nelse:\n    Column = list",
        "Column = TypeVar('Column')",
    ],
)
def test_a_second_definition_is_found(second: str) -> None:
    assert defined_twice({"one": "class Column: ...", "two": second}) == {"Column": ["one", "two"]}


@pytest.mark.parametrize(
    "second",
    [
        "from one import Column",
        "COLUMN = 1\ncolumn = 2\ncolumns: Column = 3",
        "def f():\n    class Column: ...",
    ],
)
def test_a_use_of_a_name_is_no_definition(second: str) -> None:
    assert defined_twice({"one": "class Column: ...", "two": second}) == {}


def test_type_variables_may_share_a_name() -> None:
    text = "T_co = TypeVar('T_co', covariant=True)"
    assert defined_twice({"one": text, "two": text}) == {}


INTERFACES = {
    "STEPS": "The steps of a run, of each view.",
    "REPLICATED": "Circuits keep their text, which programs' hashes cover, and this is what one is told.",
    "SHARES": "A folder of a host, by the name of what is in it; elsewhere the input path.",
}
"""Public constants that several modules define, and others import by their names, each with the reason."""


def constants(source: str) -> set[str]:
    """Return a module's public constants. Type variables are none."""
    found = set()
    for statement in statements(ast.parse(source).body):
        targets: list[ast.expr] = []
        if isinstance(statement, ast.Assign) and not is_type_variable(statement.value):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return {name for name in found if name.isupper() and not name.startswith("_")}


def imported(source: str) -> set[tuple[str, str]]:
    """Return the modules and names that a text imports, under these names."""
    return {
        (node.module, alias.name)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if alias.asname is None
    }


def imported_from_several(sources: Mapping[str, str], importing: Iterable[str] = ()) -> dict[str, list[str]]:
    """Return each constant of several modules that others import under one name, with the modules.

    Args:
        sources: The texts of the modules, by their names in imports.
        importing: Further texts, which import from them.
    """
    taken = set[tuple[str, str]]().union(*map(imported, [*sources.values(), *importing]))
    modules = defaultdict[str, list[str]](list)
    for module, source in sources.items():
        for name in sorted(constants(source)):
            if (module, name) in taken:
                modules[name].append(module)
    return {name: where for name, where in modules.items() if len(where) > 1}


def test_a_constant_that_is_imported_means_one_thing() -> None:
    """A reader who meets `FILE` would have to look up which of eight files it is."""
    sources = {}
    for path, source in production().items():
        name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        sources[name if name.startswith("fairshares") else f"fairshares.{name}"] = source
    benchmarks = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "benchmarks").rglob("*.py"))]
    found = imported_from_several(sources, benchmarks)
    assert {name: modules for name, modules in found.items() if name not in INTERFACES} == {}
    assert found.keys() == INTERFACES.keys(), "An exception that nothing needs goes."


@pytest.mark.parametrize(
    ("importing", "expected"),
    [
        ("from a import FILE\nfrom b import FILE", {"FILE": ["a", "b"]}),
        ("from a import FILE\nfrom b import FILE as LIST", {}),
        ("from a import FILE\nimport b\nb.FILE", {}),
    ],
)
def test_constants_of_one_name_are_found(importing: str, expected: dict[str, list[str]]) -> None:
    sources = {"a": "FILE = 'a'\n_OWN = 1", "b": "FILE: str = 'b'\n_OWN = 2"}
    assert imported_from_several(sources, [importing]) == expected


WORDS = ("of", "one")
"""Words that say nothing of what they name."""


def bound_names(source: str) -> set[str]:
    """Return a module's variables and parameters. A method such as `Law.of` has its class before it."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
    return found


def test_no_name_says_nothing() -> None:
    """Circuits keep theirs, as a program's hash, which files of version 1.0 hold, has their text."""
    sources = production() | {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "benchmarks").rglob("*.py"))
    }
    found = {
        module: sorted({*WORDS} & bound_names(source))
        for module, source in sources.items()
        if not module.startswith("protocols/circuits/")
    }
    assert {module: names for module, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "source",
    ["one = 1", "for one in range(3): pass", "def f(of): pass", "[one for one in x]"],
)
def test_the_check_of_words_sees_each_way_to_bind_a_name(source: str) -> None:
    assert bound_names(source) & {*WORDS}
