"""What differs by release is an attribute of it: no code elsewhere asks which release it has before it.

A new release would be left out there, or taken for another one, without a word.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import get_type_hints

import pytest

from fairshares.harness.releases.base import Statistic, statistic_class
from fairshares.harness.releases.programs import PROTOCOLS
from fairshares.harness.releases.registry import CALLS, RELEASES, REQUESTS, with_distributed_noise
from tests.conftest import PROJECT

PACKAGES = ("harness", "protocols", "fairshares")
EXPORTS = "fairshares/__init__.py"  # names of the package's functions, which no code may make up
LIST = 5  # so many releases named in one place are a list of them
OF_RELEASES = "harness/releases/"  # a release's own folder may name the release, and no other one
# A word that is a release's name, and a field's or a mitigation's, too: where it is asked for such a one.
OTHER_WORDS = ("declared", "sizes", "model")

MODULES = {statistic_class(task).__module__ for task in REQUESTS}
STATISTICS = [statistic for statistic in Statistic.__subclasses__() if statistic.__module__ in MODULES]
NAMES = {"train", *REQUESTS, *PROTOCOLS, *(statistic.name for statistic in STATISTICS)}
FILE_TYPES = {kind for statistic in STATISTICS for kind in statistic.file_types}


def _results() -> set[type]:
    """Return the classes of results and of expected errors that one release alone has.

    They are what its statistic returns. Two statistics in one folder are of one release.
    """
    modules = defaultdict[type, set[str]](set)
    for statistic in STATISTICS:
        for method in (statistic.read_opened, statistic.expected_error):
            modules[get_type_hints(method)["return"]].add(statistic.__module__)
    return {kind for kind, of_kind in modules.items() if len(of_kind) == 1}


CLASSES = (
    *REQUESTS.values(),
    *CALLS.values(),
    *RELEASES.values(),
    *STATISTICS,
    *FILE_TYPES,
    *_results(),
)
TYPES = {kind.__name__ for kind in CLASSES}


@dataclass(frozen=True)
class Named:
    """What names a release: its names, its classes, and constants of its protocols."""

    names: Collection[str] = frozenset(NAMES)
    types: Collection[str] = frozenset(TYPES)
    protocols: Collection[str] = frozenset(name.upper() for name in PROTOCOLS)

    def without(self, task: str) -> "Named":
        """Return what names any release but one, in whose folder this is asked."""
        folder = f"fairshares.harness.releases.{task}."
        own_types = {kind.__name__ for kind in CLASSES if kind.__module__.startswith(folder)}
        own = {statistic.name for statistic in STATISTICS if statistic.__module__.startswith(folder)}
        own |= {task, *REQUESTS[task].programs()}
        return Named(
            names={*self.names} - own,
            types={*self.types} - own_types,
            protocols={*self.protocols} - {name.upper() for name in own},
        )

    def by_name(self, node: ast.expr) -> bool:
        """Whether an operand is a task's, a statistic's or a protocol's name, or a collection with one."""
        if isinstance(node, ast.Constant):
            return node.value in self.names
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return any(map(self.by_name, node.elts))
        if isinstance(node, ast.Attribute) and node.attr == "name":
            return _last_name(node.value) in self.protocols
        return _last_name(node) in self.protocols

    def by_task(self, node: ast.expr) -> bool:
        """Whether an operand is the name of a command, or a collection with one."""
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return any(map(self.by_task, node.elts))
        return isinstance(node, ast.Constant) and node.value in REQUESTS and node.value in self.names

    def by_class(self, node: ast.expr) -> bool:
        """Whether an operand is a release's own class, is made with one, or is an attribute of one."""
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return any(map(self.by_class, node.elts))
        if isinstance(node, ast.Call):
            return any(map(self.by_class, (node.func, *node.args)))
        if _last_name(node) in self.types:
            return True
        if isinstance(node, ast.Attribute):
            return self.by_class(node.value)
        return isinstance(node, ast.Subscript) and self.by_name(node.slice)


ANY = Named()


def _last_name(node: ast.expr) -> str:
    """Return the name of a variable, or of a module's or a class's attribute; "" of anything else."""
    return ast.unparse(node).rpartition(".")[2] if isinstance(node, ast.Name | ast.Attribute) else ""


def _asks_for_a_task(node: ast.expr) -> bool:
    """Whether an operand is by its name a task, a release, a protocol, or the name of one."""
    text = ast.unparse(node)
    last = text.rpartition(".")[2]
    return last in ("task", "release", "statistic", "protocol", "spec", "program", "call", "name")


def _asks_for_another_word(node: ast.expr) -> bool:
    """Whether an operand is by its name something that has words in common with releases."""
    return ast.unparse(node).rpartition(".")[2] in OTHER_WORDS


def questions(text: str, named: Named = ANY) -> Iterator[int]:
    """Yield the lines of comparisons with a release, and of tests for a release's type."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            by_name = any(map(named.by_name, operands)) and any(map(_asks_for_a_task, operands))
            by_task = any(map(named.by_task, operands)) and not any(map(_asks_for_another_word, operands))
            if by_name or by_task or any(map(named.by_class, operands)):
                yield node.lineno
        if isinstance(node, ast.MatchValue) and (named.by_name(node.value) or named.by_class(node.value)):
            yield node.lineno
        if isinstance(node, ast.MatchClass) and named.by_class(node.cls):
            yield node.lineno
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            asked = {_last_name(part) for part in ast.walk(node.args[1]) if isinstance(part, ast.expr)}
            if asked & {*named.types}:
                yield node.lineno


def listed(text: str) -> Iterator[int]:
    """Yield the lines of texts that list releases, which a new release would be missing from.

    Docstrings are left out: editors show them as they are written, and tests compare them with signatures.
    """
    tree = ast.parse(text)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        words: set[str] = set()
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            words = {*re.findall("[a-z]+", node.value)}
        elif isinstance(node, ast.Tuple | ast.List | ast.Set):
            words = {str(part.value) for part in node.elts if isinstance(part, ast.Constant)}
        if isinstance(node, ast.expr) and len(REQUESTS.keys() & words) >= LIST:
            yield node.lineno


def named_in(file: str) -> Named:
    """Return what a file may not ask for: any release, or any other one than that in whose folder it is."""
    task = file.removeprefix(OF_RELEASES).partition("/")[0] if file.startswith(OF_RELEASES) else ""
    return ANY.without(task) if task in REQUESTS else ANY


def places(root: Path) -> list[str]:
    """Return the file and line of each question outside the release's own folder."""
    found = []
    for package in PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            name = file.relative_to(root).as_posix()
            text = file.read_text(encoding="utf-8")
            found += [f"{name}:{line}" for line in questions(text, named_in(name))]
    return found


def test_no_code_asks_which_release_it_is() -> None:
    assert places(PROJECT) == []


def test_no_code_lists_releases_but_the_registry() -> None:
    found = []
    for package in PACKAGES:
        for file in sorted((PROJECT / package).rglob("*.py")):
            name = file.relative_to(PROJECT).as_posix()
            if not name.startswith((OF_RELEASES, EXPORTS)):
                found += [f"{name}:{line}" for line in listed(file.read_text(encoding="utf-8"))]
    assert found == []
    assert list(listed('help = "what runs may release: weights, confusion, thresholds, gap, cap or count"'))
    assert list(listed('CALLS = frozenset({"cap", "confusion", "count", "gap", "ledger", "thresholds"})'))
    assert not list(listed('def load():\n    """Load weights, confusion, thresholds, gap, cap or count."""'))


def test_what_one_release_has_is_defined_in_its_folder() -> None:
    assert [kind for kind in CLASSES if not kind.__module__.startswith("fairshares.harness.releases.")] == []
    general = {"base", "files", "programs", "registry"}
    assert [kind for kind in CLASSES if kind.__module__.split(".")[3] in general] == []


def test_a_releases_own_folder_may_ask_for_it_and_for_no_other_one() -> None:
    own = 'if self.release == "cap" or isinstance(request, CapRequest): pass'
    other = "if self.release != ThresholdsRequest.task: pass"
    assert not list(questions(own, named_in("harness/releases/cap/request.py")))
    assert list(questions(other, named_in("harness/releases/cap/request.py"))) == [1]
    assert list(questions(own, named_in("harness/releases/base.py"))) == [1, 1]


@pytest.mark.parametrize(
    "text",
    [
        'if request.task == "gap": pass',
        'if task in ("weights", "confusion"): pass',
        'if "thresholds" != manifest.task: pass',
        'if task == "count" and expected.error: pass',
        "if spec.name == PI_ROC_RECORDS.name: pass",
        "if spec is PI_COUNT: pass",
        'x = 1 if self.statistic.name == "curves" else 2',
        "if isinstance(request, CapRequest) and request.curves: pass",
        "if isinstance(statistic, (GapStatistic, WeightsStatistic)): pass",
        "if manifest.task != ThresholdsRequest.task: pass",
        "if request.task != WeightsStatistic.name: pass",
        "if asked == statistic.WeightsStatistic.name: pass",
        "if chosen in (GapRequest.task, other): pass",
        "if name == WeightsOptions.task(): pass",
        "if type(request) is thresholds.ThresholdsRequest: pass",
        'if kind is REQUESTS["gap"]: pass',
        'if wanted == CALLS["gap"].request: pass',
        "if spec is spec.PI_COUNT: pass",
        'if manifest.task != "train": pass',
        "match request:\n    case CapRequest(): pass",
        'x = () if call == "gap" else y',
        'match task:\n    case "gap": pass',
        'if "weights" in request.parts: pass',
        'if "weights" not in self.parts: pass',
        "if CurvesFile not in file_types: pass",
        "if isinstance(expected, ExpectedCap): pass",
        "match found:\n    case GroupCounts(): pass",
        "if file_in(earlier.files, CurvesFile) is not None: pass",
    ],
)
def test_each_way_to_ask_is_noticed(text: str) -> None:
    assert len(list(questions(text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        'if "thresholds" in kind.declared: pass',
        "if task not in REQUESTS: pass",
        'if step == "train": pass',
        'if values["x"] == other["y"]: pass',
        "if statistic.kind is RecordKind.SCORE: pass",
        'if command == "noise": pass',
    ],
)
def test_what_asks_for_something_else_is_not(text: str) -> None:
    assert not list(questions(text))


def test_lists_of_names_are_what_releases_say() -> None:
    """Messages name these."""
    offered = {
        task
        for task, kind in REQUESTS.items()
        if any(spec.distributed_noise for spec in kind.specs().values())
    }
    assert set(with_distributed_noise()) == offered
