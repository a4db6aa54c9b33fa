"""Every module of ours has one name, in a clone as in a wheel, and is loaded once."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from fairshares.harness.engines.program_hash import _code
from tests.conftest import PROJECT
from tests.support.sources import files

LINKED = ("data", "harness", "protocols")
CODE = (".py", ".mpc")
# A user's own packages of these names, in sources that tests write.
OF_USERS = ("tests/project/test_wheel.py", "tests/project/test_one_name.py")
OTHER_NAME = re.compile(rf"(?:{'|'.join(LINKED)})(?:\.\w+)+(?::\w+)?")


def other_names(text: str) -> Iterator[str]:
    """Yield names of our modules, in imports and in strings, that lack `fairshares.`."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            named = [str(node.module)] if not node.level else []
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            named = [str(word.value) for word in node.args if isinstance(word, ast.Constant)]
        else:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
                if OTHER_NAME.fullmatch(text) and _is_module(text):
                    yield text
            continue
        yield from (name for name in named if name.partition(".")[0] in LINKED)


def _is_module(name: str) -> bool:
    place = PROJECT / name.partition(":")[0].replace(".", "/")
    return place.is_dir() or place.with_suffix(".py").is_file()


@pytest.mark.parametrize("package", LINKED)
def test_the_links_lead_to_the_folders(package: str) -> None:
    link = PROJECT / "fairshares" / package
    assert link.is_symlink() and str(link.readlink()) == f"../{package}"


def test_no_source_names_a_module_otherwise() -> None:
    sources = [file for file in files(PROJECT) if file.suffix in CODE or file.name == "inv"]
    names = {str(file.relative_to(PROJECT)): file for file in sources}
    assert {"inv", "harness/errors.py", "protocols/spec.py", "Programs/Source/pi_rw.mpc"} <= {*names}
    found = {
        name: [*other_names(file.read_text(encoding="utf-8"))]
        for name, file in names.items()
        if name not in OF_USERS
    }
    assert {name: others for name, others in found.items() if others} == {}


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("import harness.errors", ["harness.errors"]),
        ('importlib.import_module("protocols")', ["protocols"]),
        ("def f():\n    from protocols import spec", ["protocols"]),
        ('place = "harness.cli.app:program"', ["harness.cli.app:program"]),
        ('place = "harness/cli/app.py"', []),
        ("from fairshares.harness import errors", []),
        ("from .circuits import noise", []),
    ],
)
def test_another_name_is_found(text: str, others: list[str]) -> None:
    assert [*other_names(text)] == others


@pytest.mark.parametrize("package", LINKED)
@pytest.mark.parametrize("first", ["", "import fairshares.harness.errors, fairshares.protocols.spec; "])
def test_a_second_name_is_refused(package: str, first: str) -> None:
    command = [sys.executable, "-c", f"{first}import {package}"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"ImportError: import fairshares.{package}: under a second name" in done.stderr


EVERYTHING = """
import importlib, json, sys
for name in json.load(sys.stdin):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:  # Flower has an environment of its own
        assert error.name.partition(".")[0] == "flwr", name
places = {}
ours = ("fairshares", "data", "harness", "protocols")
for name, module in list(sys.modules.items()):
    if name.split(".")[0] in ours and getattr(module, "__file__", None):
        places.setdefault(importlib.import_module("os").path.realpath(module.__file__), []).append(name)
print(json.dumps({place: names for place, names in places.items() if len(names) > 1}))
"""


def _modules() -> list[str]:
    """Return all modules of ours by name, but those that are run."""
    found = []
    for package in ("fairshares", *LINKED):
        for file in files(PROJECT / package):
            name = ".".join(file.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__")
            if file.suffix == ".py" and not name.endswith("__main__"):
                found.append(name if package == "fairshares" else f"fairshares.{name}")
    return found


def test_all_modules_are_loaded_once() -> None:
    modules = _modules()
    assert len(modules) > 150 and "fairshares.harness.hosts.agent" in modules
    done = subprocess.run(
        [sys.executable, "-c", EVERYTHING],
        input=json.dumps(modules),
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == {}


def test_the_package_itself_loads_nothing_before_it_is_asked() -> None:
    """Each of our processes passes through it, also before anything is installed."""
    script = "import sys; before = set(sys.modules); import fairshares; print(*set(sys.modules) - before)"
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({str(PROJECT)!r}); {script}"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    ours = {name for name in loaded if name.partition(".")[0] == "fairshares"}
    assert ours == {"fairshares"}
    assert {name.partition(".")[0] for name in loaded} - ours <= sys.stdlib_module_names


def test_programs_have_the_hashes_that_they_had() -> None:
    """Parties keep noise by a program's hash, which was of the names of version 1.0."""
    now, before = (
        _code(f"from {prefix}protocols.circuits.noise import flip") for prefix in ("fairshares.", "")
    )
    assert now == before
    assert _code("from fairshares.protocols import circuits") != _code("from protocols import circuits")
