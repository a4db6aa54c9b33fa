"""The functions of the project that a release's ε goes through, as a tracer sees them."""

import ast
import os
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from fairshares.harness.engines.execution import PROJECT
from tests.support.carriers import forms_of, leads_to

ASKED = Fraction(7310586, 10**7)  # an ε that nothing else is

_WORK = (
    ast.Assert,
    ast.BinOp,
    ast.BoolOp,
    ast.Compare,
    ast.comprehension,
    ast.For,
    ast.If,
    ast.IfExp,
    ast.Match,
    ast.Raise,
    ast.Try,
    ast.While,
)
_FEW_CALLS = 3


@dataclass(frozen=True)
class Hop:
    """A function, by its module's path in the project, its qualified name, and its first line."""

    module: str
    name: str
    line: int

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"

    @property
    def only_hands_on(self) -> bool:
        """Whether its code decides, repeats and computes nothing, and calls at most three others."""
        for node in ast.walk(_parsed(self.module)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                if first == self.line:
                    within = [inner for statement in node.body for inner in ast.walk(statement)]
                    calls = sum(isinstance(inner, ast.Call) for inner in within)
                    return calls <= _FEW_CALLS and not any(isinstance(inner, _WORK) for inner in within)
        raise LookupError(f"{self} is no function of its module")


@cache
def _parsed(module: str) -> ast.Module:
    return ast.parse((PROJECT / module).read_text())


@cache
def _module_of(code: CodeType) -> str:
    """Return the path of a function's module in the project, "" for code of others."""
    path = Path(os.path.realpath(code.co_filename))
    is_ours = path.is_relative_to(PROJECT) and path.relative_to(PROJECT).parts[0] in (
        "fairshares",
        "harness",
        "protocols",
    )
    return str(path.relative_to(PROJECT)) if is_ours else ""


@dataclass
class Walk:
    """The hops of a number: functions that are handed it, or a value that holds it, or that hand it back.

    A method that asks the value that it is of, and hands nothing back, is none, nor is a function without a
    name of its own: a lambda, a comprehension, or a method of Python's, such as `__init__`.

    Attributes:
        forms: How the number may be held.
        hops: The hops, in the order in which they came.
    """

    forms: Collection[Fraction | float | str]
    hops: dict[Hop, None] = field(default_factory=dict)
    _looking: bool = False

    def look(self, frame: FrameType, event: str, result: Any) -> None:
        """Note a call of the project's that is handed the number, or hands it back."""
        code = frame.f_code
        if self._looking or event not in ("call", "return") or not _module_of(code):
            return
        name = code.co_qualname.rpartition(".")[2]
        if name.startswith(("<", "__")):
            return
        self._looking = True
        try:
            handed = [result] if event == "return" else list(_arguments(frame))
            if any(leads_to(value, self.forms) for value in handed):
                self.hops[Hop(_module_of(code), code.co_qualname, code.co_firstlineno)] = None
        finally:
            self._looking = False


def _arguments(frame: FrameType) -> Iterator[object]:
    """Yield the arguments of a call, without the value that a method is of."""
    code = frame.f_code
    variadic = bool(code.co_flags & 4) + bool(code.co_flags & 8)  # *arguments and **keywords
    for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + variadic]:
        if name != "self" and name in frame.f_locals:
            yield frame.f_locals[name]


@contextmanager
def walked(*numbers: Fraction) -> Iterator[Walk]:
    """Follow numbers through the project in the block, in this thread."""
    walk = Walk({form for number in numbers for form in forms_of(number)})
    before: Callable[..., Any] | None = sys.getprofile()
    sys.setprofile(walk.look)
    try:
        yield walk
    finally:
        sys.setprofile(before)
