"""Rules on source that import-linter cannot see, each seen to fail once."""

import ast
import re
import sys
from pathlib import Path

import pytest

from tests.support.sources import files

# What a file may import beside the standard library; the first pattern that fits its path decides.
CIRCUITS = "fairshares.protocols.circuits"
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "*.mpc": (CIRCUITS, "Compiler"),  # Compiler is MP-SPDZ's
    "protocols/circuits/*.py": (CIRCUITS,),
    "protocols/__init__.py": (),  # MP-SPDZ's compiler passes through it
    # These run before anything is installed, and so does all that they import.
    "harness/cli/bootstrap.py": ("fairshares.harness.system.files",),
    "harness/system/files.py": (
        "fairshares.harness.errors",
        "fairshares.harness.system.places",
        "fairshares.harness.system.signals",
    ),
    "harness/system/places.py": (),
    "harness/system/signals.py": (),
    "harness/errors.py": ("fairshares.harness.command_name",),
    "harness/command_name.py": (),
    "harness/cli/project_checks.py": ("fairshares.harness.cli.bootstrap",),
    "inv": ("fairshares.harness.cli.bootstrap",),
}
IN_TESTS_ONLY = ("aif360", "fairlearn", "hypothesis", "pytest")
# Processes of a pool go on after the process that began them is killed, unless they are told not to.
POOLS = ("multiprocessing", "concurrent.futures.ProcessPoolExecutor", "concurrent.futures.process")
MAKES_POOLS = "harness/system/worker_pools.py"
# Written so that this file does not contain what it looks for.
MACHINE_PATH = re.compile(r"/(?:wor[k]|roo[t]|Users|home)/\w|/op[t]/(?:pypi|wheels)")
INDEX = re.compile(r"pypi[.]org|pythonhosted[.]org|npmjs[.]|(?:extra-)?index-ur[l][ =]|--find-link[s]")


def imports(file: Path, root: Path) -> set[str]:
    """Return the dotted names that a file imports, relative ones resolved."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            place = file.relative_to(root).parts
            inside = ("fairshares", *place) if place[0] in ("data", "harness", "protocols") else place
            package = inside[: -node.level] if node.level else ()
            origin = ".".join([*package, *([node.module] if node.module else [])])
            names |= {f"{origin}.{alias.name}" for alias in node.names}
    return names


def faults(root: Path) -> list[str]:
    """Return a sentence for every import and every line of text that the rules do not allow."""
    sentences = []
    for file in files(root):
        name, text = file.relative_to(root), file.read_text(encoding="utf-8")
        for broken, pattern in (("a path of one machine", MACHINE_PATH), ("a package index", INDEX)):
            for match in pattern.finditer(text):
                sentences.append(f"{name}:{1 + text.count(chr(10), 0, match.start())} names {broken}")
        if file.suffix not in (".py", ".mpc") and file.name != "inv":
            continue
        allowed = next((may for names, may in MAY_IMPORT.items() if name.match(names)), None)
        refused: tuple[str, ...] = IN_TESTS_ONLY if name.parts[0] != "tests" else ()
        if name.parts[0] != "tests" and str(name) != MAKES_POOLS:
            refused += POOLS
        if str(name) == "protocols/reference.py":
            refused += (CIRCUITS,)  # an oracle does not know the circuits that it judges
        if allowed is None and not any(package.rpartition(".")[2] in text for package in refused):
            continue
        for target in sorted(imports(file, root)):
            known = target.partition(".")[0] in sys.stdlib_module_names
            if below(target, refused) or not (allowed is None or known or below(target, allowed)):
                sentences.append(f"{name} imports {target}")
    return sentences


def below(name: str, packages: tuple[str, ...]) -> bool:
    """Return whether a module is one of the packages or inside one."""
    return any(f"{name}.".startswith(f"{package}.") for package in packages)


def test_project_keeps_the_rules(project: Path) -> None:
    names = {str(file.relative_to(project)) for file in files(project)}
    assert {"inv", "harness/cli/bootstrap.py", "Programs/Source/pi_lap.mpc", ".ci/run", "README.md"} <= names
    assert faults(project) == []


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("protocols/circuits/coins.py", "import numpy", "imports numpy"),
        (
            "protocols/circuits/coins.py",
            "from ..spec import PI_LAP",
            "imports fairshares.protocols.spec.PI_LAP",
        ),
        (
            "protocols/__init__.py",
            "from fairshares.protocols import spec",
            "imports fairshares.protocols.spec",
        ),
        (
            "protocols/reference.py",
            "from fairshares.protocols import circuits",
            "imports fairshares.protocols.circuits",
        ),
        (
            "Programs/Source/pi_x.mpc",
            "from fairshares.protocols.spec import PI_LAP",
            "imports fairshares.protocols.spec.PI_LAP",
        ),
        ("Programs/Source/pi_x.mpc", "import numpy", "imports numpy"),
        ("tests/programs/probe.mpc", "def f():\n    import tests", "imports tests"),
        ("harness/cli/bootstrap.py", "import invoke", "imports invoke"),
        (
            "harness/cli/project_checks.py",
            "from fairshares.harness import errors",
            "imports fairshares.harness.errors",
        ),
        ("inv", "import rich", "imports rich"),
        ("harness/x.py", "from fairlearn.metrics import rate", "imports fairlearn.metrics.rate"),
        ("harness/x.py", "from multiprocessing import Pool", "imports multiprocessing.Pool"),
        (
            "benchmarks/x.py",
            "from concurrent.futures import ProcessPoolExecutor",
            "imports concurrent.futures.ProcessPoolExecutor",
        ),
        ("docs/where.md", "see /wo" + "rk/main", ":1 names a path of one machine"),
        ("docs/where.md", "\nsee /ho" + "me/somebody/x", ":2 names a path of one machine"),
        ("requirements.lock", "--extra-index-ur" + "l file:///x", ":1 names a package index"),
        (".ci/run", "pip install --find-lin" + "ks x", ":1 names a package index"),
        ("docs/where.md", "https://pypi." + "org/simple", ":1 names a package index"),
        ("web/package-lock.json", "https://registry.npm" + "js.org/a", ":1 names a package index"),
        ("protocols/reference.py", "import numpy\nfrom fairshares.protocols.spec import PI_LAP", None),
        ("protocols/circuits/noise.py", "from fractions import Fraction\nfrom .coins import check", None),
        (
            "Programs/Source/pi_x.mpc",
            "import math\nfrom fairshares.protocols.circuits.noise import flip",
            None,
        ),
        ("Programs/Source/pi_y.mpc", "from Compiler import sorting", None),
        ("tests/test_x.py", "import fairlearn, tasks, fairshares.harness.pipeline.run", None),
        ("inv", "import sys\nfrom fairshares.harness.cli.bootstrap import main", None),
        (MAKES_POOLS, "from multiprocessing import get_context", None),
        ("harness/x.py", "from concurrent.futures import BrokenExecutor, ThreadPoolExecutor", None),
        ("docs/x.md", "~/MP-SPDZ or /opt/MP-SPDZ", None),
        ("runs/x.md", "/wo" + "rk/x", None),
        ("web/node_modules/x/x.md", "/wo" + "rk/x", None),
    ],
)
def test_what_breaks_a_rule_is_named_and_nothing_else_is(
    name: str, text: str, fault: str | None, tmp_path: Path
) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text)
    sentences = faults(tmp_path)
    assert len(sentences) == (fault is not None)
    assert all(sentence.startswith(name) and sentence.endswith(str(fault)) for sentence in sentences)
