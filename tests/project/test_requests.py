"""A release is one value and the version is one: where each is declared, and what has to be the same."""

import ast
import inspect
import math
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from importlib import import_module
from inspect import isfunction
from pathlib import Path
from typing import Any

import pytest

import fairshares
from fairshares.harness import __version__
from fairshares.harness.engines.execution import PROJECT
from fairshares.harness.errors import FairSharesError, OptionError
from fairshares.harness.inputs.record_schema import Cap, RecordKind
from fairshares.harness.releases.base import kind_of
from fairshares.harness.releases.cap.request import CapRequest
from fairshares.harness.releases.registry import CALLS, RELEASES, REQUESTS, request_from_json
from fairshares.harness.releases.thresholds.request import EarlierCurves
from fairshares.harness.releases.weights.request import WeightsRequest
from fairshares.harness.request.fields import OptionGroup, Options, as_text
from fairshares.harness.request.plans import Expected
from fairshares.harness.request.releases import DeclaredDomain
from fairshares.harness.request.request import AccountOptions, Protect, Request, Trust, Where
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.harness.training.request import TrainRequest
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.guarantee import Budget, Guarantee

# `Spending` is what requests declare it by, and `Privacy` the guarantee as a result of Python shows it.
# Other classes take the declaration of `Spending`, with another help.
MAY_DECLARE = {"Spending", "Privacy"}
STATED = {  # in files, the ledger's among them
    "StatedLoss",
    "StatedPrivacy",
    "StatedBudget",
    "PrivacyOfSize",
    "SampleGuarantee",
    "_ChargeRow",
}
FOUND = {"CurveFigures", "LocalFigures", "ReleaseFigures"}  # by audits, of noise or of a protocol
FIRST = {"epsilon": "1", "security": "mpyc"}
DECLARED = [*REQUESTS.values(), *CALLS.values(), *RELEASES.values(), TrainRequest, Expected, AccountOptions]
OF_TASK = {"cap": {"release_epsilon": "1"}}


def declaring(text: str, field: str) -> set[str]:
    """Return the classes of a module that declare a field of this name, other than by `Spending`'s."""
    return {
        node.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign | ast.Assign)
        for target in ([statement.target] if isinstance(statement, ast.AnnAssign) else statement.targets)
        if isinstance(target, ast.Name) and target.id == field
        if not ast.unparse(statement.value or target).startswith(f"Spending.{field}.")
    }


def test_no_class_but_requests_guarantees_files_and_audits_declares_epsilon() -> None:
    classes: set[str] = set()
    for package in ("harness", "fairshares"):
        for path in sorted(PROJECT.joinpath(package).rglob("*.py")):
            classes |= declaring(path.read_text(encoding="utf-8"), "epsilon")
    assert classes == MAY_DECLARE | STATED | FOUND
    assert declaring("class A:\n    epsilon: float\nclass B:\n    epsilon = 1\n    delta = 2", "epsilon") == {
        "A",
        "B",
    }
    assert not declaring("class A:\n    epsilon = Spending.epsilon.optional()", "epsilon")


@pytest.mark.parametrize("task", REQUESTS)
def test_a_request_is_read_as_it_was_written(task: str) -> None:
    request = REQUESTS[task](**FIRST, **OF_TASK.get(task, {}), population="loans", delta="2^-200")
    written = request.to_json()
    assert request_from_json(written) == request and request_from_json(written).to_json() == written
    assert all(isinstance(text, str) for text in written.values())
    for name, option in request.declared.items():
        assert option.read(as_text(request.value_of(name))) == request.value_of(name), name


@pytest.mark.parametrize(
    "name", [name for name in fairshares.__all__ if isfunction(getattr(fairshares, name))]
)
def test_a_call_refuses_an_unknown_name(name: str) -> None:
    """Also those whose further arguments are of a task: nothing is swallowed."""
    call = getattr(fairshares, name)
    needed = {
        parameter: "1"
        for parameter, of in inspect.signature(call).parameters.items()
        if of.default is of.empty and of.kind is not of.VAR_KEYWORD and of.kind is not of.VAR_POSITIONAL
    }
    with pytest.raises(TypeError, match="'detla'"):
        call(**needed, detla="1e-6")


@pytest.mark.parametrize("task", [*(task for task in CALLS if task != "cap"), "train"])
def test_noise_made_ahead_refuses_an_unknown_name(task: str) -> None:
    more: dict[str, Any] = {"features": {"x": {"low": 0, "high": 1}}} if task == "train" else {}
    with pytest.raises(TypeError, match="no argument 'detla' here"):
        fairshares.preprocess(task, epsilon=1, **more, detla="1e-6")


@pytest.mark.parametrize(
    ("task", "column"), [("weights", "score"), ("gap", "label"), ("count", "value"), ("train", "prediction")]
)
def test_a_column_that_a_task_lacks_is_an_unknown_name(task: str, column: str) -> None:
    """A plan and noise made ahead take the columns of the call that they stand for, and read none."""
    more: dict[str, Any] = {"features": {"x": {"low": 0, "high": 1}}} if task == "train" else {}
    given: dict[str, Any] = {column: "x"}
    with pytest.raises(TypeError, match=f"no argument '{column}' here"):
        fairshares.preprocess(task, epsilon=1, **more, **given)
    if task != "train":
        with pytest.raises(TypeError, match=f"no argument '{column}' here"):
            fairshares.plan(task=task, clients=10, groups=2, epsilon=1, **given)


@pytest.mark.parametrize("runs", [0, -1, 1.5, "two", True, None, 1001])
def test_noise_is_made_for_a_number_of_runs(runs: Any) -> None:
    with pytest.raises(OptionError, match="runs= must be a whole number from 1 to 1000; got"):
        fairshares.preprocess("weights", runs, epsilon=1, groups=["a", "b"], labels=[0, 1], security="mpyc")


def test_noise_made_ahead_is_of_no_records() -> None:
    with pytest.raises(OptionError, match="made without records; leave out records="):
        fairshares.preprocess("weights", epsilon=1, records={"group": ["a"], "label": ["secret"]})


def test_a_plan_refuses_a_unit_that_its_run_refuses() -> None:
    """Counts have no cap, so to advise one would lead nowhere."""
    asked: dict[str, Any] = {"epsilon": 1, "privacy_unit": "client"}
    for call in (
        lambda: fairshares.plan(task="count", clients=10, groups=2, **asked),
        lambda: fairshares.count(client_id=[1, 2], group=["a", "b"], label=[0, 1], **asked),
    ):
        with pytest.raises(OptionError, match=r"^privacy_unit= must be record; got 'client'"):
            call()


@pytest.mark.parametrize("task", REQUESTS)
def test_a_release_offers_clients_if_something_bounds_what_one_adds(task: str) -> None:
    """A cap, or the range of a client's value; else advice would end at an option that is not there."""
    declared = REQUESTS[task].declared
    if "privacy_unit" not in declared:
        return
    unit = declared["privacy_unit"]
    if "cap" in declared or kind_of(task) is RecordKind.VALUE:
        assert unit.read("client") is PrivacyUnit.CLIENT
        return
    with pytest.raises(OptionError, match=r"^privacy_unit= must be record; got 'client'\.$"):
        unit.read("client")
    assert unit.explained == "what is protected: record, one record of a client; default: record"


def test_a_plan_of_a_fixed_unit_reads_the_unit() -> None:
    with pytest.raises(OptionError, match="privacy_unit= must be record or client; got 'household'"):
        fairshares.plan(
            task="cap",
            clients=10,
            groups=2,
            epsilon=1,
            release_epsilon=1,
            privacy_unit="household",  # type: ignore[arg-type]
        )


@pytest.mark.parametrize(
    ("task", "given"),
    [("gap", {"cap": 3}), ("cap", {"neighboring_relation": "replace_one"}), ("count", {"cap": 1})],
)
def test_a_plan_refuses_what_its_task_has_not(task: str, given: dict[str, Any]) -> None:
    """These are parameters of `plan`, since most tasks have them."""
    with pytest.raises(TypeError, match=f"no argument '{min(given)}' here"):
        fairshares.plan(task=task, clients=10, groups=2, epsilon=1, **given)


@pytest.mark.parametrize("kind", DECLARED, ids=lambda kind: kind.__name__)
def test_declared_options_refuse_an_unknown_name(kind: type[Options]) -> None:
    with pytest.raises(TypeError, match="no argument 'detla' here"):
        kind(**{name: option.example for name, option in kind.declared.items() if option.example}, detla="1")


@pytest.mark.parametrize("task", REQUESTS)
def test_the_wire_refuses_an_unknown_name(task: str) -> None:
    written = REQUESTS[task](**FIRST, **OF_TASK.get(task, {})).to_json()
    for unknown in (
        {"detla": "1e-6"},
        {"ledger": "x"},
        {"delta": 0.5},
        {"task": "weight"},
        {"offline": "False"},
    ):
        with pytest.raises(OptionError, match="none that this version knows"):
            request_from_json({**written, **unknown})


@pytest.mark.parametrize(
    ("name", "given"),
    [("epsilon", [1]), ("delta", {"a": 0.1}), ("population", ["loans"]), ("security", ("mpyc",))],
)
def test_a_field_of_one_value_refuses_several(name: str, given: Any) -> None:
    """Those of several values take a list, or a text with commas, alike."""
    with pytest.raises(OptionError, match=rf"{name}.* takes one value, not several; got "):
        REQUESTS["weights"](**{**FIRST, name: given})
    of_several = CALLS["weights"](**FIRST, groups=["a", "b"], labels="0,1", budget=(3, "1e-6"))
    assert (of_several.declares.groups, of_several.declares.labels) == (["a", "b"], ["0", "1"])
    assert of_several.account.budget == Budget(Fraction(3), Fraction(1, 10**6))


def test_a_fixed_field_is_no_choice_and_has_its_value() -> None:
    request = CapRequest(**FIRST, release_epsilon="1")
    assert request.protect.privacy_unit is PrivacyUnit.CLIENT
    assert request.but(Protect.epsilon, Fraction(2)).protect.privacy_unit is PrivacyUnit.CLIENT
    assert "privacy_unit" not in request.to_json()
    with pytest.raises(TypeError, match="no argument 'privacy_unit' here"):
        CapRequest(**FIRST, release_epsilon="1", privacy_unit="record")
    with pytest.raises(TypeError, match="no argument 'privacy_unit' here"):
        request.but(Protect.privacy_unit, PrivacyUnit.RECORD)


def test_a_whole_holds_what_its_parts_read() -> None:
    call = CALLS["weights"](epsilon="1/3", cap="10", privacy_unit="client", groups="a,b", budget="3", out="x")
    assert call.request.protect.guarantee == Guarantee(Fraction(1, 3), Fraction(1, 2**40))
    assert call.request.protect.bound == Cap(10) and not call.request.protect.chooses_cap
    assert (call.declares.groups, call.account.budget, call.where.out) == (
        ["a", "b"],
        Budget(Fraction(3)),
        Path("x"),
    )
    of_chosen_cap = call.but(Protect.cap, "auto")
    assert of_chosen_cap.request.protect.chooses_cap and of_chosen_cap.declares == call.declares
    assert call.values().keys() == call.declared.keys()


def test_a_copy_has_the_changed_values_and_shares_the_other_parts() -> None:
    call = CALLS["weights"](**FIRST, groups="a,b", labels="0,1")
    in_place = call.but(Where.out, Path("y")).but(Request.population, "loans")
    changed = in_place.but(Protect.epsilon, Fraction(1, 3)).but(Request.population, None)
    assert in_place.values() == {**call.values(), "population": "loans", "out": Path("y")}
    assert changed.values() == {**call.values(), "epsilon": Fraction(1, 3), "out": Path("y")}
    assert changed.request.protect.epsilon == Fraction(1, 3) != call.request.protect.epsilon
    assert changed.declares is call.declares and changed.request.randomness is call.request.randomness


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("epsilon", Fraction(500), "epsilon= must be a number above 0 and at most 20"),
        ("epsilon", Fraction(0), "epsilon= must be a number above 0 and at most 20"),
        ("epsilon", None, "epsilon= is missing; give it a value, for example epsilon=1"),
        ("delta", Fraction(1), "delta= must be a number between 0 and 1"),
        ("max_count", 0, "max_count= must be a whole number of at least 1"),
        ("noise", "none", "noise= must be joint, distributed or distributed-gaussian"),
        ("population", " loans", "population= must be a name"),
        ("timeout", math.inf, "timeout= must be a number of seconds above 0"),
        ("budget", Budget(Fraction(-1)), "budget= must be a total ε, of at least 0"),
        ("security", replace(MODELS["ring"], name="rings"), "There is no model 'rings'"),
        ("parties", 17, "parties= must be a whole number from 2 to 16"),
    ],
)
def test_a_copy_is_refused_a_value_that_no_constructor_takes(name: str, value: object, said: str) -> None:
    """Also one that a type checker lets pass."""
    call = CALLS["weights"](epsilon="1")
    with pytest.raises(OptionError, match=re.escape(said)):
        call.but(call.declared[name], value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", "1/3"),
        ("delta", None),
        ("offline", "yes"),
        ("privacy_unit", None),
        ("groups", "a,b"),
        ("out", "runs"),
        ("budget", 3),
        ("security", "mpyc"),
        ("security", replace(MODELS["mpyc"], corruptions=2)),
        ("input_path", None),
    ],
)
def test_a_copy_takes_values_as_readers_return_them(name: str, value: object) -> None:
    """So no value changes on its way, as a text would that becomes a number."""
    call = CALLS["weights"](epsilon="1")
    with pytest.raises(TypeError, match=f"'{name}' is no .* here, which is read as "):
        call.but(call.declared[name], value)


def test_a_field_that_another_one_stands_for_can_be_left_out() -> None:
    options = RELEASES["thresholds"](curves="runs/earlier")
    assert options.but(options.declared["epsilon"], None) == options
    with pytest.raises(OptionError, match="epsilon= is missing"):
        options.but(EarlierCurves.curves, None)


# Texts of every kind of field; which of them are values of a field, its reader says.
TEXTS = (
    *("1", "2", "3", "7", "100", "1000", "0.5", "1/3", "2^-40", "1e-3", "0,1", "0.3,0.5", "1,2", "-0.1,1e9"),
    *("a,b", "a:0.7,b:0.3", "a:1/3,b:2/3", "loans", "3,1e-6", "3,1e-6,renyi", "3,1/3,5", "0"),
    *("client", "record", "auto", "weight-one", "add_or_remove_one", "zero_out_one", "clients", "replicated"),
    *("split", "x.csv", "s3://a/b", "lan", "none", "40ms,100Mbit", "100,300,network=wan", "file"),
    *("ring", "ring,semi2k", "2027-12-31", "weights,thresholds", "distributed", "signed", "ab" * 32, "tree"),
    *("equalized_odds", "accuracy_score", "balanced", "counts", "histogram", "x25519", "weights"),
    *("published", "pi_rw", "mascot", "https://take-part.example.org/"),
)


def all_options() -> list[type[Options]]:
    """Return the classes of options of all commands and calls, benchmarks' and parts' among them."""
    for module in ("benchmarks.commands.options", "fairshares.harness.cli.options"):
        import_module(module)
    found: list[type[Options]] = []
    classes = [Options]
    while classes:
        below = classes.pop().__subclasses__()
        classes += below
        found += [kind for kind in below if not kind.__module__.startswith("tests.")]
    return found


def test_what_an_option_has_read_is_read_alike() -> None:
    """Each value of each reader: `but` takes what an instance holds, and a constructor does so, too."""
    unread = set()
    for kind in all_options():
        for name, option in kind.declared.items():
            values = []
            for text in ("", option.default, option.example, *TEXTS):
                with suppress(FairSharesError):
                    values.append(option.read(text))
            for value in values:
                assert option.read_again(value) == value, (kind, name)
                assert option.read(as_text(value)) == value, (kind, name)
            if not any(values):
                unread.add((kind.__name__, name))
    assert unread == set(), "Add a text to TEXTS of which such a field is read."


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_model_of_any_number_is_read_alike(model: SecurityModel) -> None:
    """Its text has no number, so a constructor takes the number beside it, or the model itself."""
    for number in model.numbers.taken if model.numbers else [model.parties]:
        numbered = model.with_parties(number)
        assert Trust.security.read_again(numbered) == numbered
        asked = WeightsRequest(epsilon=1).but(Trust.security, numbered)
        assert asked.trust == Trust(security=numbered) == Trust(**asked.trust.values())
        assert asked == request_from_json(asked.to_json()) and asked.model == numbered


def test_names_with_commas_are_read_alike() -> None:
    """In a list, or with their shares; a text would divide them."""
    named_groups = ["a,b", "c:d", "e"]
    assert DeclaredDomain.groups.read_again(named_groups) == named_groups
    shares = {name: Fraction(1, 3) for name in named_groups}
    assert Expected.groups.read_again(shares) == shares


def names_given(text: str) -> Iterator[tuple[str, str]]:
    """Yield each name by which a call in a module's text gives a class of options a value, and the class."""
    classes = {kind.__name__ for kind in all_options()}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func).rpartition(".")[2]
            if called in classes:
                yield from ((called, keyword.arg) for keyword in node.keywords if keyword.arg is not None)


def test_constructors_are_called_with_names_that_are_declared() -> None:
    """What type checkers can't see, as a constructor takes texts by the names of all parts' fields."""
    assert [*names_given("a.TrainRequest(detla=1, **x), Other(detla=1)")] == [("TrainRequest", "detla")]
    declared = {kind.__name__: kind.declared for kind in all_options()}
    assert len(declared) == len(all_options())
    given = set[tuple[str, str]]()
    for package in ("harness", "fairshares", "benchmarks"):
        for path in sorted(PROJECT.joinpath(package).rglob("*.py")):
            given |= {*names_given(path.read_text(encoding="utf-8"))}
    assert {called for called, _ in given} >= {
        "WeightsRequest",
        "TrainRequest",
        "CapRequest",
        "AccountOptions",
    }
    assert [(called, name) for called, name in given if name not in declared[called]] == []


def test_options_for_runs_alone_are_declared_so() -> None:
    """A plan and noise made ahead refuse these, and take none of them from the file of options."""
    of_all = ["shares", "hosts"]
    assert RELEASES["weights"].names_of_runs() == ["chain", *of_all, "invite", "clients"]
    assert {tuple(kind.names_of_runs()) for task, kind in RELEASES.items() if task != "weights"} == {
        tuple(of_all)
    }
    assert TrainRequest.names_of_runs() == []


def test_two_parts_of_a_whole_have_no_field_in_common() -> None:
    with pytest.raises(TypeError, match="two fields 'budget'"):

        class _Twice(Options):
            account = OptionGroup(AccountOptions)
            other = OptionGroup(AccountOptions)


def test_a_part_changes_fields_that_it_has() -> None:
    with pytest.raises(TypeError, match="no argument 'bugdet' here"):
        OptionGroup(AccountOptions, bugdet={"help": "a total"})
    with pytest.raises(TypeError, match="no argument 'bugdet' here"):
        OptionGroup(AccountOptions, without=("bugdet",))
    with pytest.raises(TypeError, match="no argument 'hlep' here"):
        OptionGroup(AccountOptions, budget={"hlep": "a total"})


@pytest.mark.parametrize("kind", DECLARED)
def test_a_request_takes_values_by_name_alone(kind: Any) -> None:
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        kind("1")


def test_a_request_does_not_change() -> None:
    request: Request = REQUESTS["weights"](**FIRST)
    with pytest.raises(AttributeError, match="does not change"):
        request.population = "others"  # type: ignore[assignment]
    with pytest.raises(AttributeError, match="does not change"):
        request.protect = Protect(epsilon=2)  # type: ignore[assignment]
    assert request.but(Request.population, "loans") != request == REQUESTS["weights"](**FIRST)
    assert len({request, REQUESTS["weights"](**FIRST)}) == 1


def test_the_version_is_the_same_wherever_it_stands(project: Path) -> None:
    cited = re.search(r"^version: (\S+)$", (project / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None and cited[1] == __version__
    assert re.search(
        rf"^## \[{re.escape(__version__)}\] - \d{{4}}-\d\d-\d\d$",
        (project / "CHANGELOG.md").read_text(),
        re.MULTILINE,
    )
