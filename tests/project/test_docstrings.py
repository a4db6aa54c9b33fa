"""Every public method says what it does, itself or where it is declared; ruff asks the same of all else."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import FunctionType, ModuleType

import fairshares

PACKAGES = ("benchmarks", "data", "fairshares", "harness", "protocols")
METHODS = (FunctionType, classmethod, staticmethod, property, cached_property)
HEADINGS = ("Source", "Computes", "Reveals", "Arguments")


def undocumented(module: ModuleType) -> Iterator[str]:
    """Yield the public methods of public classes that say nothing, nor override one that does."""
    for owner in [found for found in vars(module).values() if isinstance(found, type)]:
        if owner.__module__ == module.__name__ and not owner.__qualname__.startswith("_"):
            for name, member in vars(owner).items():
                public = not name.startswith("_") and isinstance(member, METHODS)
                if public and not inspect.getdoc(getattr(owner, name)):
                    yield f"{module.__name__}.{owner.__qualname__}.{name}"


def test_methods_say_what_they_do(project: Path) -> None:
    names = [each.name for name in PACKAGES for each in walk_packages([str(project / name)], f"{name}.")]
    assert len(names) > 200
    assert [found for name in names for found in undocumented(import_module(name))] == []


def test_what_users_import_says_what_it_does() -> None:
    assert [name for name in fairshares.__all__ if not inspect.getdoc(getattr(fairshares, name))] == []


def test_programs_say_what_they_compute_and_reveal(project: Path) -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in project.glob("Programs/Source/*.mpc")}
    assert texts
    assert [
        f"{name}: {heading}"
        for name, text in texts.items()
        for heading in HEADINGS
        if f"\n# {heading}" not in text
    ] == []


def test_what_is_not_documented_is_found() -> None:
    class Base(ABC):
        @abstractmethod
        def one(self) -> int:
            """Return one."""

        @property
        def two(self) -> int:
            return 2

    class Derived(Base):
        def one(self) -> int:
            return 1

        @cached_property
        def three(self) -> int:
            return 3

        @staticmethod
        def four() -> int:
            return 4

        def _five(self) -> int:
            return 5

    module = ModuleType(__name__)
    vars(module).update(Base=Base, Derived=Derived, _Private=type("_Private", (), {"six": lambda _: 6}))
    ends = [name.rpartition(".")[2] for name in undocumented(module)]
    assert ends == ["two", "three", "four"]
