"""What differs by release is an attribute of it: no code elsewhere asks which release it has before it.

A new release would be left out there, or taken for another one, without a word.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairshares.harness.releases.base import Statistic, statistic_class
from fairshares.harness.releases.programs import PROTOCOLS
from fairshares.harness.releases.registry import CALLS, RELEASES, REQUESTS, with_distributed_noise
from tests.conftest import PROJECT

PACKAGES = ("harness", "protocols", "fairshares")
OF_RELEASES = ("harness/releases/",)
# Training joins certain releases: its `with_` names them, not a task that is asked for.
OF_TRAINING = ("harness/training/",)

MODULES = {statistic_class(task).__module__ for task in REQUESTS}
STATISTICS = [statistic for statistic in Statistic.__subclasses__() if statistic.__module__ in MODULES]
NAMES = {"train", *REQUESTS, *PROTOCOLS, *(statistic.name for statistic in STATISTICS)}
TYPES = {kind.__name__ for kind in (*REQUESTS.values(), *CALLS.values(), *RELEASES.values(), *STATISTICS)}
PROTOCOL_CONSTANTS = {name.upper() for name in PROTOCOLS}


def _names_a_release(node: ast.expr) -> bool:
    """Whether an operand is a task's, a statistic's or a protocol's name, or a collection with one."""
    if isinstance(node, ast.Constant):
        return node.value in NAMES
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(map(_names_a_release, node.elts))
    if isinstance(node, ast.Attribute) and node.attr == "name":
        return _last_name(node.value) in PROTOCOL_CONSTANTS
    return _last_name(node) in PROTOCOL_CONSTANTS


def _is_of_a_release(node: ast.expr) -> bool:
    """Whether an operand is a release's own class, an entry of a list of these, or an attribute of either."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(map(_is_of_a_release, node.elts))
    if isinstance(node, ast.Call):
        return _is_of_a_release(node.func)
    if _last_name(node) in TYPES:
        return True
    if isinstance(node, ast.Attribute):
        return _is_of_a_release(node.value)
    return isinstance(node, ast.Subscript) and _names_a_release(node.slice)


def _last_name(node: ast.expr) -> str:
    """Return the name of a variable, or of a module's or a class's attribute; "" of anything else."""
    return ast.unparse(node).rpartition(".")[2] if isinstance(node, ast.Name | ast.Attribute) else ""


def _asks_for_a_task(node: ast.expr) -> bool:
    """Whether an operand is by its name a task, a release, a protocol, or the name of one."""
    text = ast.unparse(node)
    last = text.rpartition(".")[2]
    return last in ("task", "release", "statistic", "protocol", "spec", "program", "call", "name")


def questions(text: str) -> Iterator[int]:
    """Yield the lines of comparisons with a release, and of tests for a release's type."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            by_name = any(map(_names_a_release, operands)) and any(map(_asks_for_a_task, operands))
            if by_name or any(map(_is_of_a_release, operands)):
                yield node.lineno
        if isinstance(node, ast.MatchValue) and (
            _names_a_release(node.value) or _is_of_a_release(node.value)
        ):
            yield node.lineno
        if isinstance(node, ast.MatchClass) and _is_of_a_release(node.cls):
            yield node.lineno
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            asked = {_last_name(part) for part in ast.walk(node.args[1]) if isinstance(part, ast.expr)}
            if asked & TYPES:
                yield node.lineno


def places(root: Path) -> list[str]:
    """Return the file and line of each question outside the releases' own modules."""
    found = []
    for package in PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            name = file.relative_to(root).as_posix()
            if not name.startswith(OF_RELEASES + OF_TRAINING):
                found += [f"{name}:{line}" for line in questions(file.read_text(encoding="utf-8"))]
    return found


def test_no_code_asks_which_release_it_is() -> None:
    assert places(PROJECT) == []


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
    ],
)
def test_each_way_to_ask_is_noticed(text: str) -> None:
    assert len(list(questions(text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        'if "weights" in request.parts: pass',
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
