"""Places of the code whose types say nothing: `Any`, `object`, `cast` and `type: ignore`.

So are `getattr` with a name that is written there, of which no type says whether it exists, and a bare
`json.loads`, whose result is of any type: `documents.strict_json` returns a `JsonValue` in its place.

python -m tests.support.untyped    # prints the numbers of each module, as tests/untyped.toml lists them
"""

import ast
import io
import re
import tokenize
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("fairshares", "data", "harness", "protocols")
FILE = ROOT / "tests" / "untyped.toml"
KINDS = ("Any", "object", "cast", "type: ignore", "getattr", "json.loads")
_GIVEN_BY_PYTHON = ("__contains__", "__eq__", "__ne__")  # they take any object, whatever a class wants
_IGNORED = re.compile(r"#\s*type:\s*ignore")

Numbers = Mapping[str, int]
"""How many places there are, by kind."""


def found() -> dict[str, Numbers]:
    """Return the numbers of each module that has some."""
    by_module = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            numbers = numbers_in(path.read_text(encoding="utf-8"))
            if numbers:
                name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                by_module[name if package == "fairshares" else f"fairshares.{name}"] = numbers
    return by_module


def listed() -> tuple[dict[str, Numbers], dict[str, str]]:
    """Return the numbers that the list has of each module, and the reason for them."""
    numbers, reasons = {}, {}
    for group in tomllib.loads(FILE.read_text(encoding="utf-8"))["reason"]:
        for module, of_module in group["modules"].items():
            assert module not in numbers, f"{module} is listed twice"
            numbers[module] = of_module
            reasons[module] = group["why"]
    return numbers, reasons


def numbers_in(source: str) -> Numbers:
    """Return the numbers in a module's text."""
    places = _Places()
    places.visit(ast.parse(source))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and _IGNORED.search(token.string):
            places.numbers["type: ignore"] += 1
    return {kind: places.numbers[kind] for kind in KINDS if places.numbers[kind]}


class _Places(ast.NodeVisitor):
    """Counts uses of the names `Any`, `object` and `cast`, in quoted types, too, and calls without a type."""

    def __init__(self) -> None:
        self.numbers: Counter[str] = Counter()

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in ("Any", "object", "cast"):
            self.numbers[node.id] += 1

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not (isinstance(node.value, ast.Name) and node.value.id == "object"):  # as `object.__setattr__`
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = ast.unparse(node.func)
        if called in ("json.load", "json.loads"):
            self.numbers["json.loads"] += 1
        if called == "getattr" and isinstance(node.args[1], ast.Constant):
            self.numbers["getattr"] += 1
        for part in (node.func, *node.args, *node.keywords):
            if not (isinstance(part, ast.Name) and part.id == "object"):  # as `array.astype(object)`
                self.visit(part)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg != "dtype":  # of an array
            self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._type(node.returns)
        if node.name not in _GIVEN_BY_PYTHON:
            self.visit(node.args)
        for part in (*node.decorator_list, *node.body):
            self.visit(part)

    def visit_arg(self, node: ast.arg) -> None:
        self._type(node.annotation)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._type(node.annotation)
        if node.value is not None:
            is_alias = isinstance(node.annotation, ast.Name) and node.annotation.id == "TypeAlias"
            self._type(node.value) if is_alias else self.visit(node.value)

    def _type(self, annotation: ast.expr | None) -> None:
        """Count in a type, which may be quoted in part or as a whole."""
        if annotation is None:
            return
        self.visit(annotation)
        for part in ast.walk(annotation):
            if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value.strip("-"):
                self.visit(ast.parse(part.value.strip(), mode="eval"))


if __name__ == "__main__":
    for module, of_module in found().items():
        pairs = ", ".join(f'"{kind}" = {number}' for kind, number in of_module.items())
        print(f'"{module}" = {{ {pairs} }}')
