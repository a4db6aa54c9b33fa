"""Python calls state their parameters, as editors read these; they are compared with the declarations."""

import ast
import inspect
import re
from collections.abc import Mapping
from typing import get_args

import pytest

import fairshares
from fairshares import _types
from fairshares.harness.errors import OptionError, is_function
from fairshares.harness.inputs.columns import COLUMN_ROLES
from fairshares.harness.releases.registry import CALLS
from fairshares.harness.request.fields import Option, Options
from fairshares.harness.request.plans import Expected
from fairshares.harness.request.request import AccountOptions
from fairshares.harness.training.request import TrainRequest

IN_PYTHON = {task: call for task, call in CALLS.items() if is_function(task)}  # others are commands alone
DECLARED: Mapping[str, type[Options]] = {**IN_PYTHON, "train": TrainRequest}
COLUMNS = {
    "records",
    "features",
    "client_id",
    "group",
    "label",
}  # a frame and a dict, not files
MORE_COLUMNS = {"confusion": {"prediction", "score"}, "thresholds": {"score"}, "gap": {"value"}}
# One process plays all roles, so these change nothing that a caller sees but time and the size of errors.
OF_COMMANDS = {"input_form", "input_path", "blocks"}
NO_SHARES = {"confusion", "thresholds", "gap", "count", "cap"}  # calls count uploads for weights alone
LEFT_OUT = {
    **{task: OF_COMMANDS | ({"shares"} if task in NO_SHARES else set()) for task in IN_PYTHON},
    "cap": OF_COMMANDS | {"shares", "thresholds"},
    "train": set[str](),
}
# What a plan has by other names, and what its declaration has not: the task's own arguments.
OF_A_PLAN = {
    "epsilon",
    "delta",
    "privacy_unit",
    "cap",
    "neighboring_relation",
    "security",
    "parties",
    "ledger",
}
STATED_ONCE = dict(inspect.signature(fairshares.Session).parameters)  # by a session
OF_UPLOADS = {"weights": {"shares", "chain"}}  # a session is of records
NOT_SPELLED_OUT = {("security", model) for model in get_args(_types.Security)} | {
    ("neighboring_relation", "zero_out_one")
}


def parameters_of(call: str) -> dict[str, inspect.Parameter]:
    """Return a call's parameters, other than columns and those by any name."""
    columns = MORE_COLUMNS.get(call, set()) | (COLUMNS if call in DECLARED else set())
    parameters = inspect.signature(getattr(fairshares, call)).parameters
    return {
        name: parameter
        for name, parameter in parameters.items()
        if name not in columns and parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }


def said_of_arguments(call: str) -> dict[str, str]:
    """Return what a call's docstring says of each argument, also by reference to other calls."""
    text = inspect.getdoc(getattr(fairshares, call)) or ""
    section = re.search(r"^Args:(.*?)(?=^\w+:)", text + "\nEnd:", re.MULTILINE | re.DOTALL)
    assert section is not None, call
    first, *_ = section[1].split("\n")
    said = dict[str, str]()
    for other in re.findall("`(\\w+)`", first):
        said |= said_of_arguments(other)
    for name, words in re.findall(r"^    (\w+): (.*(?:\n     .*)*)", section[1], re.MULTILINE):
        said[name] = words
    return said


def own_arguments(call: str) -> set[str]:
    """Return the arguments that a call's own docstring explains."""
    text = inspect.getdoc(getattr(fairshares, call)) or ""
    return {*re.findall(r"^    (\w+): ", text[text.index("Args:") : text.index("Returns:")], re.MULTILINE)}


def choices_of(annotation: str) -> set[str]:
    """Return the texts that a parameter's annotation allows, if it lists them."""
    choices = set[str]()
    for node in ast.walk(ast.parse(annotation)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            choices.add(node.value)
        if isinstance(node, ast.Name) and hasattr(_types, node.id):
            choices |= {*map(str, get_args(getattr(_types, node.id)))}
    return choices


def check_parameter(name: str, parameter: inspect.Parameter, option: Option[object]) -> None:
    """Compare a parameter's default, kind and choices with a field's declaration."""
    required = bool(option.example) and not option.unless
    if name != "range":  # which a command can have from a domain file
        assert (parameter.default is parameter.empty) == required, name
    if parameter.default is not parameter.empty:
        assert option.read(parameter.default) == option.read(None), name
    assert (parameter.annotation == "bool") == (option.parse is None), name
    for choice in choices_of(parameter.annotation):
        assert option.read(choice) is not None
        assert (name, choice) in NOT_SPELLED_OUT or choice in option.help, (name, choice)


@pytest.mark.parametrize("task", DECLARED)
def test_a_call_has_the_names_and_defaults_of_its_declaration(task: str) -> None:
    parameters, declared = parameters_of(task), DECLARED[task].declared
    columns = {name for name in declared if name in COLUMN_ROLES}
    every = inspect.signature(getattr(fairshares, task)).parameters.keys()
    assert columns == every & {*COLUMN_ROLES}
    assert parameters.keys() == declared.keys() - LEFT_OUT[task] - columns - {"records", "features"}
    for name, parameter in parameters.items():
        check_parameter(name, parameter, declared[name])


@pytest.mark.parametrize("task", DECLARED)
def test_a_command_offers_no_noise_that_a_call_lacks(task: str) -> None:
    parameters = parameters_of(task)
    if "noise" in parameters:
        for noise in {*get_args(_types.NoiseKind)} - choices_of(parameters["noise"].annotation):
            with pytest.raises(OptionError, match=f"must be joint or distributed; got '{noise}'"):
                DECLARED[task].declared["noise"].read(noise)
            assert noise not in DECLARED[task].declared["noise"].help


def test_a_plan_has_the_names_and_defaults_of_its_declaration() -> None:
    parameters = parameters_of("plan")
    left_out = {"thresholds", "units"}  # the first by the task's own name
    assert parameters.keys() - {"task"} - OF_A_PLAN == Expected.declared.keys() - left_out
    for name in parameters.keys() & Expected.declared.keys():
        option = Expected.declared[name]
        assert option.read(parameters[name].default) == option.read(None), name
    for name in OF_A_PLAN:
        check_parameter(name, parameters[name], CALLS["weights"].declared[name])


def test_a_ledger_has_the_names_and_defaults_of_its_declaration() -> None:
    parameters = parameters_of("ledger")
    assert parameters.keys() - {"population", "retire"} == AccountOptions.declared.keys()
    assert all(parameter.default is None for parameter in parameters.values())


@pytest.mark.parametrize("call", [*DECLARED, "plan"])
def test_a_docstring_explains_each_argument_and_its_choices(call: str) -> None:
    said, parameters = said_of_arguments(call), inspect.signature(getattr(fairshares, call)).parameters
    assert own_arguments(call) <= parameters.keys()
    if call == "plan":  # and as for the release
        said |= said_of_arguments("weights")
    for name, parameter in parameters.items():
        assert name in said, name
        for choice in choices_of(parameter.annotation):
            is_said = (name, choice) in NOT_SPELLED_OUT or f'"{choice}"' in said[name]
            assert is_said, (
                f"The docstring of {call} says nothing of {name}={choice!r}; see fairshares/_calls.py."
            )


@pytest.mark.parametrize("call", DECLARED)
def test_a_session_has_the_calls_with_all_that_it_does_not_state(call: str) -> None:
    stated = {"privacy_unit" if name == "unit" else name for name in STATED_ONCE}
    of_call = inspect.signature(getattr(fairshares, call)).parameters
    of_method = dict(inspect.signature(getattr(fairshares.Session, call)).parameters)
    del of_method["self"]
    assert of_method.keys() == of_call.keys() - stated - OF_UPLOADS.get(call, set())
    for name, parameter in of_method.items():
        assert parameter.default == of_call[name].default, name
        assert parameter.annotation == of_call[name].annotation, name


def test_a_session_states_what_calls_take_with_the_same_defaults() -> None:
    of_call = inspect.signature(fairshares.train).parameters
    for name, parameter in STATED_ONCE.items():
        other = of_call["privacy_unit" if name == "unit" else name]
        assert parameter.annotation == other.annotation, name
        assert name == "records" or parameter.default == other.default, name


def test_a_difference_is_found() -> None:
    declared = CALLS["weights"].declared
    parameter = parameters_of("weights")["reweighing"]
    for wrong in (
        parameter.replace(default="label"),
        parameter.replace(default=inspect.Parameter.empty),
        parameter.replace(annotation="bool"),
    ):
        with pytest.raises(AssertionError):
            check_parameter("reweighing", wrong, declared["reweighing"])
    wrong = parameter.replace(annotation='Literal["kamiran"]')
    with pytest.raises(OptionError):
        check_parameter("reweighing", wrong, declared["reweighing"])
