"""What users install has nothing for benchmarks or tests alone: it uses each of its public names and modules.

Users' own code counts, too: the package's names are theirs, and so is what pages and examples show. A name
counts as used where it stands outside of its own definition: in an expression, an import, an argument's name,
or a text such as `module:name`. So a name that two things share can hide one that nothing uses.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.untyped import ROOT

PACKAGES = ("harness", "protocols", "fairshares")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_NAMES_IN_TEXT = re.compile(r"[A-Za-z_]\w*")
_MODULES_IN_TEXT = re.compile(r"fairshares(?:\.\w+)+")
_CODE_OF_A_PAGE = re.compile(r"^ *```python\n(.*?)^ *```", re.DOTALL | re.MULTILINE)

_LIBRARY = "a library calls it, by a class or an interface of its own"
_ORACLE = "an oracle: tests and studies hold results against it"
_SENT = "what a coordinator sends, beside how hosts read it"
_ALL = "all programs, of which tests try each and benchmarks offer each; beside the lists that it joins"
_HASHED = "the hash of programs has the circuit's text, and noise that version 1.0 made goes by it"
_LITERAL = "programs in `benchmarks/literal` import it, and programs may import circuits only"
EXCEPTIONS = {
    "fairshares/flower/noisy_mean.py: NoisyMean.aggregate_evaluate": _LIBRARY,
    "fairshares/flower/noisy_mean.py: NoisyMean.configure_evaluate": _LIBRARY,
    "fairshares/flower/noisy_mean.py: NoisyMean.configure_train": _LIBRARY,
    "harness/cli/app.py: Commands.core_args": _LIBRARY,
    "harness/cli/app.py: Commands.list_flat": _LIBRARY,
    "harness/cli/app.py: Commands.parse_tasks": _LIBRARY,
    "harness/cli/app.py: Commands.print_task_help": _LIBRARY,
    "harness/cli/app.py: Commands.print_version": _LIBRARY,
    "harness/cli/command_line.py: Command.get_arguments": _LIBRARY,
    "harness/engines/mpyc/connection.py: PeerConnection.close_connection": _LIBRARY,
    "harness/engines/mpyc/connection.py: PeerConnection.connection_lost": _LIBRARY,
    "harness/engines/mpyc/connection.py: PeerConnection.connection_made": _LIBRARY,
    "harness/engines/mpyc/connection.py: PeerConnection.data_received": _LIBRARY,
    "harness/system/sftp_keys.py: KnownKeysOnly.missing_host_key": _LIBRARY,
    "harness/engines/compiled.py: CompiledProgram.of_files": _SENT,
    "harness/engines/execution.py: TIMES": "the fields of `Times`, beside it; benchmarks record each",
    "harness/engines/mpyc/names.py: PORTABLE": "the subset in words, against which a test holds the engine",
    "harness/postprocessing/curves.py: exact_curves": _ORACLE,
    "harness/releases/programs.py": _ALL,
    "harness/releases/programs.py: PROTOCOLS": _ALL,
    "protocols/accounting/calibration.py: sums_from_ends": _ORACLE,
    "protocols/circuits/literal.py": _LITERAL,
    "protocols/circuits/literal.py: add_to": _LITERAL,
    "protocols/circuits/literal.py: instances": _LITERAL,
    "protocols/circuits/slots.py: cell_of_code": _HASHED,
    "protocols/local_dp/exact_privacy.py: log_ratio_of_l": _ORACLE,
    "protocols/mechanisms/above_threshold.py: best_cap": _ORACLE,
    "protocols/mechanisms/above_threshold.py: distribution_of_first_below": _ORACLE,
    "protocols/noise/truncated.py: probability_mass": _ORACLE,
    "protocols/reference.py: gaussian_of_bits": _ORACLE,
    "protocols/reference.py: noise_of_bits": _ORACLE,
    "protocols/reference.py: sums_from_ends": _ORACLE,
}
"""What users install and does not use itself, each with the reason. The list gets shorter, never longer."""
BY_NAME = (
    "harness/cli/commands/*.py",
    "harness/releases/*/view.py",
    "harness/reweighing/weightings/*.py",
    "*/__init__.py",
    "*/__main__.py",
)
"""Modules that are found by their names: commands, views and weightings; or that Python runs."""


@dataclass
class Uses:
    """What some code uses.

    Attributes:
        names: How often each name.
        modules: The modules, by dotted name; and what is imported from a module, as if it were one.
    """

    names: Counter[str] = field(default_factory=Counter)
    modules: set[str] = field(default_factory=set)

    def add(self, tree: ast.AST) -> None:
        """Add what a piece of code uses."""
        docstrings = set[int]()
        for node in ast.walk(tree):  # which has each statement before its parts
            if isinstance(node, ast.Expr):
                docstrings.add(id(node.value))
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self.names[node.id] += 1
            elif isinstance(node, ast.Attribute):
                self.names[node.attr] += 1
            elif isinstance(node, ast.keyword) and node.arg is not None:
                self.names[node.arg] += 1
            elif isinstance(node, ast.Import | ast.ImportFrom):
                self._add_import(node)
            elif (
                isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
            ):
                self.names.update(_NAMES_IN_TEXT.findall(node.value))
                self.modules.update(_MODULES_IN_TEXT.findall(node.value))

    def _add_import(self, node: ast.Import | ast.ImportFrom) -> None:
        imported = [alias.name for alias in node.names]
        self.names.update(imported)
        if isinstance(node, ast.ImportFrom):
            self.modules.add(node.module or "")
            imported = [f"{node.module}.{name}" for name in imported]
        self.modules.update(imported)


def definitions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield a module's public functions, classes, methods and constants, by qualified name."""
    for node in tree.body:
        if isinstance(node, _DEFINITIONS):
            yield node.name, node
        if isinstance(node, ast.ClassDef):
            for member in node.body:
                if isinstance(member, _DEFINITIONS):
                    yield f"{node.name}.{member.name}", member
        if isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    yield target.id, node


def is_public(name: str) -> bool:
    return not any(part.startswith("_") for part in name.split("."))


def dotted(module: str) -> str:
    """Return the dotted name of a module, given its path in the project."""
    name = module.removesuffix(".py").replace("/", ".")
    return name if name.startswith("fairshares.") else f"fairshares.{name}"


def unused(modules: Mapping[str, str], others: Iterator[str]) -> set[str]:
    """Return what neither modules nor other code use: modules by path, and names as `path: name`."""
    uses = Uses()
    within: dict[str, int] = {}  # how often a name stands in its own definition
    for module, source in modules.items():
        tree = ast.parse(source)
        uses.add(tree)
        for name, node in definitions(tree):
            if is_public(name):
                own = Uses()
                own.add(node)
                within[f"{module}: {name}"] = own.names[name.rpartition(".")[2]]
    for source in others:
        uses.add(ast.parse(source))
    found = {name for name, own in within.items() if uses.names[re.split(r"[ .]", name)[-1]] <= own}
    for module in modules:
        by_name = any(Path(module).match(pattern) for pattern in BY_NAME)
        if not by_name and dotted(module) not in uses.modules:
            found.add(module)
    return found


def installed() -> dict[str, str]:
    """Return the text of each module that users install, by its path."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def others() -> Iterator[str]:
    """Yield the other code that users have: programs, commands, examples, data sets, and what pages show."""
    places = [*ROOT.glob("Programs/Source/*.mpc"), *ROOT.glob("data/*.py"), *ROOT.glob("examples/**/*.py")]
    for path in [*places, ROOT / "tasks.py"]:
        yield path.read_text(encoding="utf-8")
    for page in [*ROOT.glob("docs/**/*.md"), ROOT / "README.md"]:
        yield from _CODE_OF_A_PAGE.findall(page.read_text(encoding="utf-8"))


def test_what_users_install_uses_all_that_it_has() -> None:
    found = unused(installed(), others())
    assert found - EXCEPTIONS.keys() == set(), "Move it to what uses it: benchmarks, or tests/support."
    assert EXCEPTIONS.keys() - found == set(), "It is an exception no longer."


@pytest.mark.parametrize(
    ("added", "nobody_uses"),
    [
        ("def far(): return far()", "a.py: far"),
        ("class Far:\n    def near(self): '''Is near.'''\nFar()", "a.py: Far.near"),
        ("FAR = 1", "a.py: FAR"),
        ("def _far(): ...", None),
        ("def far(): ...\nfar()", None),
        ("def far(): ...\nload('a:far')", None),
    ],
)
def test_what_nobody_uses_is_found(added: str, nobody_uses: str | None) -> None:
    """And a module that nobody imports."""
    found = unused({"a.py": added, "b.py": "import fairshares.a"}, iter([]))
    assert found == {"b.py"} | ({nobody_uses} if nobody_uses else set())
