"""Documents are read as the types that are asked for; messages say where, and no value."""

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from fairshares.harness.errors import ResultFileError
from fairshares.harness.system.documents import Limits, Refusal, as_type, parse_json
from fairshares.protocols.json_values import JsonFields, JsonValue

REFUSAL = Refusal(ResultFileError, "x.json", "a thing", "make it again")


@dataclass(frozen=True)
class Inner:
    size: float
    name: str | None = None

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ResultFileError("A size is not negative.")


@dataclass(frozen=True)
class Outer:
    count: int
    inner: list[Inner]
    rest: dict[str, Any]


GOOD: dict[str, Any] = {"count": 1, "inner": [{"size": 2}], "rest": {"a": [None]}}


def test_dataclasses_are_made() -> None:
    outer = as_type(Outer, GOOD, REFUSAL)
    assert outer == Outer(1, [Inner(2.0)], {"a": [None]}) and type(outer.inner[0].size) is float
    assert as_type(Inner, {"size": 1.5, "secret": 1}, REFUSAL, more=True) == Inner(1.5)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"count": True}, "expected `int`, got `bool` at `count`"),
        ({"count": "5ecre7"}, "expected `int`, got `str` at `count`"),
        ({"inner": [{"size": "5ecre7"}]}, r"expected `float`, got `str` at `inner\[0\].size`"),
        ({"inner": [{"size": 10**400}]}, r"number out of range at `inner\[0\].size`"),
        ({"inner": [{"size": 1, "nam": "5ecre7"}]}, "it has an unknown key 'nam' \\(did you mean name\\?\\)"),
        ({"inner": [{}]}, r"object missing required field `size` at `inner\[0\]`"),
    ],
)
def test_what_is_wrong_is_said_with_its_place_and_no_value(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ResultFileError, match=f"^x.json is not a thing: {said}; make it again.$"):
        as_type(Outer, {**GOOD, **changes}, REFUSAL)


@dataclass(frozen=True)
class Carrier:
    fields: JsonFields


def test_fields_that_another_reader_checks_stay_as_they_are() -> None:
    given: dict[str, JsonValue] = {"a": [1, {"b": None}], "c": "text"}
    assert as_type(Carrier, {"fields": given}, REFUSAL).fields == given


@pytest.mark.parametrize(("value", "kind"), [(3, "int"), ("5ecre7", "str"), ([], "array"), (None, "null")])
def test_fields_that_another_reader_checks_are_an_object(value: Any, kind: str) -> None:
    said = f"^x.json is not a thing: expected `object`, got `{kind}` at `fields`; make it again.$"
    with pytest.raises(ResultFileError, match=said):
        as_type(Carrier, {"fields": value}, REFUSAL)


def test_a_document_of_too_many_values_within_values_is_refused() -> None:
    deep: dict[str, Any] = {"count": []}
    for _ in range(10_000):  # which no version of Python follows to the end
        deep["count"] = [deep["count"]]
    with pytest.raises(
        ResultFileError, match=r"^x.json is not a thing: it has too many values within values"
    ):
        as_type(Outer, deep, REFUSAL)


def test_a_document_of_more_values_than_any_has_is_refused() -> None:
    """Else a short text would take a lot of memory: an empty list takes many times its two characters."""
    values = Limits(size=100, values=7, containers=100)
    assert parse_json(b"[[], {}, [1, 2]]", REFUSAL, limits=values) == [[], {}, [1, 2]]
    for text in (b"[[], {}, [1, 2, 3]]", b"[[], {}, [1, 2, {}]]", b"[[[[[[[[]]]]]]]]"):
        with pytest.raises(ResultFileError, match="more than 7 values"):
            parse_json(text, REFUSAL, limits=values)
    containers = Limits(size=100, values=100, containers=2)
    assert parse_json(b'[1, 2, 3, {"[[[": "{{{"}]', REFUSAL, limits=containers) == [1, 2, 3, {"[[[": "{{{"}]
    with pytest.raises(ResultFileError, match="more than 2 lists and objects"):
        parse_json(b"[[], {}]", REFUSAL, limits=containers)
    with pytest.raises(ResultFileError, match="larger than 0 KiB"):
        parse_json(b"1" * 101, REFUSAL, limits=containers)


def test_a_schema_is_checked_and_left_out() -> None:
    assert parse_json(b'{"schema": 1, "a": 2}', REFUSAL, 1) == {"a": 2}
    for text in (b'{"schema": 2}', b'{"schema": true}', b'{"schema": "1"}', b"{}", b"[]"):
        with pytest.raises(ResultFileError, match="schema"):
            parse_json(text, REFUSAL, 1)


@pytest.mark.parametrize(
    "module",
    [
        "fairshares.harness.cli.options",
        "fairshares.harness.cli.terminal",
        "fairshares.harness.cli.commands.installation",
        "tasks",
        "fairshares",
    ],
)
def test_nothing_is_imported_before_something_is_read(module: str) -> None:
    """The library takes time to load, which a command that reads nothing should not take."""
    code = f"import sys, {module}; sys.exit('msgspec' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
