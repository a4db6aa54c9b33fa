"""Hashes of programs and of the project's code."""

import ast
import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from fairshares.harness.engines.compiled import CompiledJob
from fairshares.harness.engines.execution import PROJECT, Job

_CIRCUITS = "fairshares.protocols.circuits."
_NOT_PLAIN = {"", "fairshares", "__import__", "eval", "exec", "importlib"}  # may import any circuit
_PARSING = threading.Lock()  # Python 3.11 counts the depth of all threads' trees in one number
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def program_hash(job: Job, extra: Sequence[str] = ()) -> str:
    """Return a SHA-256 over the code of the program and its circuits, its arguments and `extra`.

    A program that was compiled elsewhere counts by its digest.

    Guarantees: every change of the code changes it, but for comments, docstrings and layout. Circuits
    count by the names that they had up to version 1.0, `protocols.circuits`, so that noise made by 1.0 stays
    usable.
    [test: tests/programs/test_bytecode.py, tests/project/test_wheel.py]
    """
    if isinstance(job, CompiledJob):
        return hashlib.sha256(json.dumps([job.digest, list(extra)]).encode()).hexdigest()
    sources = [[path.name, _code(path.read_text(encoding="utf-8"))] for path in sources_of(job.source)]
    return hashlib.sha256(json.dumps([sources, list(job.arguments), list(extra)]).encode()).hexdigest()


def _parsed(text: str) -> ast.Module:
    with _PARSING:
        return ast.parse(text)


@cache
def _code(text: str) -> str:
    """Return a text's syntax tree without docstrings, as JSON; the text itself if it is not Python.

    Without empty fields, Python 3.11 to 3.14 agree.
    """
    try:
        tree = _parsed(text)
    except SyntaxError:
        return text
    plain: dict[int, _Plain] = {}  # the form of each node, by the node's identity
    for node in reversed([*ast.walk(tree)]):  # children before their parents
        if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(_CIRCUITS):
            node.module = node.module.removeprefix("fairshares.")
        fields: dict[str, _Plain] = {}
        for name, value in ast.iter_fields(node):
            if isinstance(value, list) and value:
                fields[name] = [_plain_of(item, plain) for item in value]
            elif value not in (None, []):
                fields[name] = _plain_of(value, plain)
        plain[id(node)] = [type(node).__name__, fields]
    return json.dumps(plain[id(tree)])


_Plain = str | list["_Plain"] | dict[str, "_Plain"]


def _plain_of(part: object, plain: Mapping[int, _Plain]) -> _Plain:
    """Return a part of a node as JSON has it: a node as `plain` has it, a constant as its text."""
    return plain[id(part)] if isinstance(part, ast.AST) else ascii(part)


def sources_of(source: Path) -> list[Path]:
    """Return the program, and all circuits that it imports, by name.

    Guarantees: no circuit that it could use is left out; all count unless imports are written as
    `from fairshares.protocols.circuits.x import y`.  [test: tests/programs/test_bytecode.py]
    """
    directory = PROJECT / "protocols" / "circuits"
    all_circuits = sorted(directory.glob("*.py"))
    imported = {directory / "__init__.py"}
    unread = [source]
    while unread:
        names = _circuits_in(unread.pop().read_text(encoding="utf-8"))
        new = {directory / f"{name}.py" for name in names or ()} - imported
        if names is None or not new.issubset(all_circuits):
            return [source, *all_circuits]
        imported |= new
        unread += new
    return [source, *sorted(imported)]


def _circuits_in(text: str) -> set[str] | None:
    """Return the circuits that a text imports; None if it may import others."""
    try:
        nodes = [*ast.walk(_parsed(text))]
    except SyntaxError:
        return None
    modules = {"" if node.level else str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    circuits = {module for module in modules if module.startswith(_CIRCUITS)}
    # Other names may be another way to a circuit.
    named = {node.name.partition(".")[0] for node in nodes if isinstance(node, ast.alias)}
    named |= {node.id for node in nodes if isinstance(node, ast.Name)}
    named |= {module.partition(".")[0] for module in modules - circuits}
    if named & _NOT_PLAIN:
        return None
    return {circuit.removeprefix(_CIRCUITS) for circuit in circuits}


def sources_hash(*directories: str) -> str:
    """Return a SHA-256 over paths and texts of all code in directories."""
    digest = hashlib.sha256()
    for directory in directories:
        for path in sorted(PROJECT.joinpath(directory).rglob("*")):
            if path.suffix in (".py", ".mpc"):
                text = path.read_bytes()
                digest.update(f"{path.relative_to(PROJECT).as_posix()} {len(text)}\n".encode() + text)
    return digest.hexdigest()
