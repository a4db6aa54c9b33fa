"""Each call that makes noise takes the choices of noise, by keyword or once for a session."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import fairshares as fs

TABLE = {"client_id": [*range(8)], "group": ["a", "b"] * 4, "label": [0, 0, 1, 1] * 2, "x": [0.0, 1.0] * 4}
FEATURES = {"x": {"low": 0, "high": 1}}
JOINT_ALONE = {"count", "cap"}  # other noise has no place: logarithms, and a search
ONE_FAMILY = {"SumSession"}  # rounds have Gaussian noise
GIVEN: dict[str, dict[str, Any]] = {
    "weights": {},
    "confusion": {"prediction": TABLE["label"]},
    "thresholds": {"score": TABLE["x"]},
    "gap": {"value": "x", "range": (0, 1)},
    "count": {},
    "cap": {"release_epsilon": 1},
    "train": {"features": FEATURES},
}
SAYS = {
    "noise": "noise= must be joint( or distributed|, distributed or distributed-gaussian); got 'laplace'",
    "noise_family": "noise_family= must be by-epsilon or signed; got 'laplace'",
}
OFFERED = [
    (call, choice)
    for call in GIVEN
    for choice in SAYS
    if call not in (JOINT_ALONE if choice == "noise" else ONE_FAMILY)
]


def given(call: str) -> dict[str, Any]:
    return {"epsilon": 20, "security": "mpyc", **GIVEN[call]}


def check_refusal(call: Callable[..., object], choice: str, **arguments: Any) -> None:
    """Check that a call refuses a value of a choice by one sentence, which says what it takes."""
    with pytest.raises(fs.OptionError, match=rf"^{SAYS[choice]}\.$"):
        call(**arguments, **{choice: "laplace"})


def test_all_calls_that_make_noise_are_here() -> None:
    """A new call is tried below, or is named among those of one kind of noise."""
    offered = [name for name in fs.__all__ if inspect.isfunction(getattr(fs, name)) or name == "SumSession"]
    calls = {name for name in offered if "epsilon" in inspect.signature(getattr(fs, name)).parameters}
    assert calls == {*GIVEN, "SumSession", "plan", "preprocess"}
    for call in GIVEN:
        parameters = inspect.signature(getattr(fs, call)).parameters
        assert ("noise" in parameters) == (call not in JOINT_ALONE), call
        assert ("noise_family" in parameters) == (call not in ONE_FAMILY), call
        of_session = inspect.signature(getattr(fs.Session, call)).parameters
        assert ("noise" in of_session) == ("noise" in parameters), call
    assert "noise_family" in inspect.signature(fs.Session).parameters  # once, for all calls
    assert "noise" in inspect.signature(fs.SumSession).parameters


@pytest.mark.parametrize(("call", "choice"), OFFERED)
def test_a_call_says_what_noise_it_takes(call: str, choice: str) -> None:
    check_refusal(getattr(fs, call), choice, records=TABLE, **given(call))


@pytest.mark.parametrize(("call", "choice"), OFFERED)
def test_a_session_says_what_noise_it_takes(call: str, choice: str) -> None:
    arguments = {name: value for name, value in given(call).items() if name != "security"}
    if choice == "noise":
        check_refusal(getattr(fs.Session(TABLE, security="mpyc"), call), choice, **arguments)
        return
    session: Any = fs.Session
    check_refusal(lambda **family: getattr(session(TABLE, **family), call)(**arguments), choice)


@pytest.mark.parametrize(("call", "choice"), OFFERED)
def test_a_plan_and_noise_made_ahead_say_it_too(call: str, choice: str) -> None:
    arguments = {
        name: value for name, value in given(call).items() if name in ("epsilon", "range", "features")
    }
    shape = {"groups": 2} if call == "gap" else {"groups": 2, "labels": 2}
    plan: Any = fs.plan
    if call == "cap":
        arguments |= {"release_epsilon": 1, "max_count": 3}
        shape = {}
    if call != "train":
        check_refusal(lambda **told: plan(task=call, clients=8, **shape, **told), choice, **arguments)
    if call != "cap":  # whose noise is not made ahead
        check_refusal(lambda **told: fs.preprocess(call, 1, **told), choice, **arguments)


@pytest.mark.parametrize("noise", ["distributed", "distributed-gaussian"])
@pytest.mark.parametrize("call", [call for call in GIVEN if call not in JOINT_ALONE])
def test_a_family_is_of_joint_noise(call: str, noise: str) -> None:
    """By a call, by a session, in a plan, and of noise made ahead; nothing is spent."""
    if call == "train" and noise == "distributed-gaussian":
        return  # no noise of a training
    own = given(call)
    both: dict[str, Any] = {"noise": noise, "noise_family": "signed"}
    if call == "gap":
        own["groups"] = ["a", "b"]
    shaped = {name: value for name, value in own.items() if name not in ("prediction", "score", "value")}
    session: Any = fs.Session
    of_session = {name: value for name, value in own.items() if name not in ("security", "groups")}
    declared = {"groups": ["a", "b"]} if call == "gap" else {"groups": ["a", "b"], "labels": [0, 1]}
    tries: list[Callable[[], object]] = [
        lambda: getattr(fs, call)(TABLE, population="p", budget=30, **own, **both),
        lambda: getattr(session(TABLE, noise_family="signed"), call)(noise=noise, **of_session),
        lambda: fs.preprocess(call, 1, **{**shaped, **declared}, **both),
    ]
    if call != "train":
        tries.append(lambda: fs.plan(task=call, clients=8, **{**shaped, **declared}, **both))
    for one_try in tries:
        said = f"noise_family='signed' is of joint noise, and {noise} noise has no family; leave out "
        with pytest.raises(fs.OptionError, match=said.replace("'", "[\"']")):
            one_try()
    assert fs.ledger().charges.empty


def test_a_plan_of_signed_noise_compares_it_with_distributed_noise() -> None:
    plan: Any = fs.plan
    shape = {"clients": 1000, "groups": 2, "epsilon": 2, "security": "mpyc", "task": "thresholds"}
    compared = []
    for family in ("by-epsilon", "signed"):
        errors = plan(**shape, noise_family=family).fields["releases"][0]["count_rmse_by_noise"]
        compared.append({name: error for name, error in errors.items() if not name.startswith("joint")})
    assert compared[0] == compared[1] != {}


def test_rounds_say_what_noise_they_take() -> None:
    check_refusal(fs.SumSession, "noise", clients=8, coordinates=2, rounds=1, clip=1.0, epsilon=1)


@pytest.mark.parametrize("family", ["by-epsilon", "signed"])
def test_the_family_that_is_chosen_is_the_noise_that_is_made(family: str) -> None:
    """By a call, and by a session; without one it is that of the ε."""
    session: Any = fs.Session
    call: Any = fs.weights
    by_call = call(TABLE, epsilon=20, security="mpyc", noise_family=family)
    by_session = session(TABLE, security="mpyc", noise_family=family).weights(epsilon=20)
    for result in (by_call, by_session):
        stated = result.manifest["privacy"].get("noise_family")
        assert stated == ("symmetric" if family == "by-epsilon" else None)
