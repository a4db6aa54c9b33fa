"""The arguments of `SumSession` are fields with the readers of releases' fields, but for those named here."""

import inspect
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from fairshares.harness.request.fields import Option, Options
from fairshares.harness.request.request import Request
from fairshares.harness.training.request import TrainRequest
from fairshares.harness.training.session import SumSession
from fairshares.harness.training.sums_request import MAX_SUMS_EPSILON, SumsRequest
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.accounting.rounds import plan_rounds

SMALLEST: Mapping[str, Any] = {"clients": 4, "coordinates": 3, "rounds": 2, "clip": 1.0, "epsilon": 20}
# What `train` calls by another name, or has not.
OWN_NAMES = {"unit": "privacy_unit", "rows": "", "clients": "", "coordinates": "", "step": ""}
OWN_READERS = {"epsilon", "rounds", "clip", "largest_weight"}  # with other bounds; a comment says why
OWN_DEFAULTS = {"unit", "clip", "rounds", "largest_weight"}  # likewise


def declared_by_train(name: str) -> Option[object] | None:
    """Return the field of a training that means the same as a session's, if there is one."""
    return TrainRequest.declared.get(OWN_NAMES.get(name, name))


def test_a_session_has_the_names_and_defaults_of_its_fields() -> None:
    parameters = dict(inspect.signature(SumSession).parameters)
    assert parameters.keys() == SumsRequest.declared.keys()
    for name, parameter in parameters.items():
        option = SumsRequest.declared[name]
        assert (parameter.default is parameter.empty) == bool(option.example), name
        if parameter.default is not parameter.empty:
            assert option.read(parameter.default) == option.read(None), name
        assert parameter.kind is parameter.KEYWORD_ONLY or name == "security"


def test_a_field_differs_from_that_of_a_training_only_where_it_is_meant_to() -> None:
    for name, option in SumsRequest.declared.items():
        other = declared_by_train(name)
        assert (other is None) == (OWN_NAMES.get(name) == ""), name
        if other is not None:
            assert (option.parse == other.parse) == (name not in OWN_READERS), name
            same_default = (option.default, bool(option.example)) == (other.default, bool(other.example))
            assert same_default == (name not in OWN_DEFAULTS), name
    of_releases: type[Options] = Request
    for name in ("security", "population"):
        assert SumsRequest.declared[name].parse == of_releases.declared[name].parse


def test_the_largest_epsilon_is_that_of_the_noise_of_rounds() -> None:
    plan_rounds(1 << 20, 1, 1, Fraction(MAX_SUMS_EPSILON), Fraction(1, 10**5))
    with pytest.raises(ValueError, match="epsilon must be above 0"):
        plan_rounds(1 << 20, 1, 1, Fraction(MAX_SUMS_EPSILON + 1), Fraction(1, 10**5))


@pytest.mark.parametrize(
    ("name", "given", "read"),
    [
        ("epsilon", "1/3", Fraction(1, 3)),
        ("epsilon", np.float64(0.1234567), Fraction(1234567, 10**7)),
        ("delta", "2^-40", Fraction(1, 2**40)),
        ("clip", 1e9, 1e9),
        ("clip", np.float64(0.1234567), 0.1234567),
        ("clip", 0.1 + 0.2, 0.1 + 0.2),
        ("clients", np.int64(7), 7),
        ("rounds", "3", 3),
        ("largest_weight", 1e-6, 1e-6),
        ("unit", "record", PrivacyUnit.RECORD),
        ("rows", None, None),
    ],
)
def test_numbers_are_read_as_they_are(name: str, given: Any, read: Any) -> None:
    request = SumsRequest(**{**SMALLEST, name: given})
    assert request.value_of(name) == read and type(request.value_of(name)) is type(read)


def test_an_unknown_argument_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'budgets'"):
        SumSession("mpyc", **SMALLEST, budgets=1)  # type: ignore[call-arg]
