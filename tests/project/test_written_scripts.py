"""Scripts that tests keep as text: no checker of types sees that the names they import are there."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import PROJECT

IMPORT = re.compile(r"^[ \t]*from (fairshares\.[\w.]+) import (\([^)]*\)|[^\n;]+)", re.MULTILINE)
MADE_UP = {  # modules that tests write themselves, or that are missing on purpose
    "fairshares.data.recid",
    "fairshares.harness.releases.above.request",
    "fairshares.protocols.circuits.sums",
    "fairshares.protocols.circuits.that_is_not_there",
}


class ImportedName(NamedTuple):
    """A name that a script, kept as text in a file, imports from a module of the package."""

    module: str
    name: str


def imported_in_texts(source: str) -> Iterator[ImportedName]:
    """Yield each name that the texts in a file's source import from the package."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for module, names in IMPORT.findall(node.value):
                for name in names.strip("()").replace("\n", " ").split(","):
                    if name.strip():
                        yield ImportedName(module, name.split()[0])


def is_there(imported: ImportedName) -> bool:
    """Return whether the package has the module, and this has the name, as a module or in its text."""
    path = PROJECT.joinpath(*imported.module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if (path / f"{imported.name}.py").is_file() or (path / imported.name).is_dir():
        return True
    return file.is_file() and re.search(rf"\b{imported.name}\b", file.read_text(encoding="utf-8")) is not None


def missing(files: list[Path]) -> list[str]:
    """Return what the scripts in the files import and the package does not have."""
    found = [(file, name) for file in files for name in imported_in_texts(file.read_text(encoding="utf-8"))]
    return [
        f"{file}: {name.module}.{name.name}"
        for file, name in found
        if name.module not in MADE_UP and not is_there(name)
    ]


def test_what_scripts_kept_as_text_import_is_there() -> None:
    files = sorted((PROJECT / "tests").rglob("*.py"))
    assert len(files) > 100
    assert missing([file for file in files if file != Path(__file__)]) == []


@pytest.mark.parametrize(
    ("script", "lost"),
    [
        ("from fairshares.harness.errors import OptionError", []),
        ("from fairshares.harness import errors", []),
        (
            "x = 1\nfrom fairshares.harness.errors import (\n    OptionError,\n    NoSuchError,\n)",
            ["NoSuchError"],
        ),
        ("    from fairshares.harness.errors import NoSuchError as error", ["NoSuchError"]),
        ("from fairshares.harness.no_such_module import anything", ["anything"]),
    ],
)
def test_a_name_that_is_not_there_is_found(tmp_path: Path, script: str, lost: list[str]) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(f"SCRIPT = {script!r}\n", encoding="utf-8")
    assert [name.rpartition(".")[2] for name in missing([file])] == lost
