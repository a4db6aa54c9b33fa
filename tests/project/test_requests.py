"""A release is one value and the version is one: where each is declared, and what has to be the same."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import fairshares
from harness import __version__
from harness.engines.base import PROJECT
from harness.request.base import Request
from harness.request.fields import as_text
from harness.request.releases import CALLS, REQUESTS, request_from_json
from harness.training.request import TrainRequest

# `Spending` is what requests declare it by, and `Privacy` the guarantee as a result of Python shows it.
MAY_DECLARE = {"Spending", "Privacy"}
STATED = {"StatedLoss", "StatedPrivacy", "StatedBudget", "PrivacyOfSize", "SampleGuarantee"}  # in files
COLUMNS = {"records", "client_id", "group", "label", "score", "prediction", "value"}
FIRST = {"epsilon": "1", "security": "mpyc"}
OF_TASK = {"cap": {"release_epsilon": "1"}}


def declaring(text: str, field: str) -> set[str]:
    """Return the classes of a module that declare a field of this name."""
    return {
        node.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign | ast.Assign)
        for target in ([statement.target] if isinstance(statement, ast.AnnAssign) else statement.targets)
        if isinstance(target, ast.Name) and target.id == field
    }


def test_no_class_but_request_guarantee_and_what_files_state_declares_epsilon() -> None:
    classes: set[str] = set()
    for package in ("harness", "fairshares"):
        for path in sorted(PROJECT.joinpath(package).rglob("*.py")):
            classes |= declaring(path.read_text(encoding="utf-8"), "epsilon")
    assert classes == MAY_DECLARE | STATED
    assert declaring("class A:\n    epsilon: float\nclass B:\n    epsilon = 1\n    delta = 2", "epsilon") == {
        "A",
        "B",
    }


@pytest.mark.parametrize("task", [*CALLS, "train"])
def test_a_call_has_the_fields_of_its_request_and_their_defaults(task: str) -> None:
    kind = TrainRequest if task == "train" else CALLS[task]
    parameters = inspect.signature(getattr(fairshares, task)).parameters
    for name, parameter in parameters.items():
        if name in COLUMNS | {"features"}:
            continue
        option = kind.declared[name]
        required = bool(option.example) and not option.unless
        if parameter.default is inspect.Parameter.empty:
            assert option.example or name == "range", name  # which a command can have from a domain file
        elif parameter.default not in (None, False):
            assert option.read(parameter.default) == option.read(None), name
        else:
            assert not required, name


@pytest.mark.parametrize("task", REQUESTS)
def test_a_request_is_read_as_it_was_written(task: str) -> None:
    request = REQUESTS[task](**FIRST, **OF_TASK.get(task, {}), population="loans", delta="2^-200")
    written = request.to_json()
    assert request_from_json(written) == request and request_from_json(written).to_json() == written
    assert all(isinstance(text, str) for text in written.values())
    for name, option in request.declared.items():
        assert option.read(as_text(getattr(request, name))) == getattr(request, name), name


def test_a_request_does_not_change() -> None:
    request: Request = REQUESTS["weights"](**FIRST)
    with pytest.raises(AttributeError, match="does not change"):
        request.epsilon = 2  # type: ignore[assignment]
    assert request.but(population="loans") != request == REQUESTS["weights"](**FIRST)
    assert len({request, REQUESTS["weights"](**FIRST)}) == 1


def test_the_version_is_the_same_wherever_it_stands(project: Path) -> None:
    cited = re.search(r"^version: (\S+)$", (project / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None and cited[1] == __version__
    assert re.search(
        rf"^## \[{re.escape(__version__)}\] - \d{{4}}-\d\d-\d\d$",
        (project / "CHANGELOG.md").read_text(),
        re.MULTILINE,
    )
