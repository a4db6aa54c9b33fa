"""Identifies a compiled program by everything that it depends on."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.engines.base import PROJECT, Job

_CIRCUITS = "protocols.circuits."
_BY_NAME = {"__import__", "eval", "exec", "importlib"}  # ways to import what no `import` tells


def program_hash(job: Job, extra: Sequence[str] = ()) -> str:
    """Return a SHA-256 over the program's text, its circuits, its arguments and what the engine adds."""
    texts = [[path.name, path.read_text(encoding="utf-8")] for path in sources_of(job.source)]
    whole = json.dumps([texts, list(job.arguments), list(extra)])
    return hashlib.sha256(whole.encode()).hexdigest()


def sources_of(source: Path) -> list[Path]:
    """Return the program, and the circuits that it imports, directly or through others, by name.

    Guarantees: no circuit is left out that the program could use: where imports are not written as
    `from protocols.circuits.x import y`, all circuits count.  [test: tests/programs/test_bytecode.py]
    """
    directory = PROJECT / "protocols" / "circuits"
    circuits: set[Path] = {directory / "__init__.py"}
    waiting = [source]
    while waiting:
        names = _circuits_in(waiting.pop().read_text(encoding="utf-8"))
        if names is None:
            return [source, *sorted(directory.glob("*.py"))]
        new = {directory / f"{name}.py" for name in names} - circuits
        if not all(path.is_file() for path in new):
            return [source, *sorted(directory.glob("*.py"))]
        circuits |= new
        waiting += new
    return [source, *sorted(circuits)]


def _circuits_in(text: str) -> set[str] | None:
    """Return the names of the circuits that a text imports, None if it does not say so plainly."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except SyntaxError:
        return None
    circuits = set()
    for node in nodes:
        if isinstance(node, ast.Name) and node.id in _BY_NAME:
            return None
        for name in _modules_in(node):
            if name.startswith(_CIRCUITS):
                circuits.add(name.removeprefix(_CIRCUITS))
            elif name.partition(".")[0] in {"", "protocols", *_BY_NAME}:
                return None
    return circuits


def _modules_in(node: ast.AST) -> Iterator[str]:
    """Yield the modules that a statement imports from; of relative ones, and of packages as such, no more."""
    if isinstance(node, ast.ImportFrom):
        yield "" if node.level else str(node.module)
    elif isinstance(node, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)


def sources_hash(*directories: str) -> str:
    """Return a SHA-256 over all programs and modules below directories of the project, names included."""
    digest = hashlib.sha256()
    for directory in directories:
        for path in sorted(PROJECT.joinpath(directory).rglob("*")):
            if path.suffix in (".py", ".mpc"):
                text = path.read_bytes()
                digest.update(f"{path.relative_to(PROJECT).as_posix()} {len(text)}\n".encode() + text)
    return digest.hexdigest()
