"""Types say what a value is: places where they do not are few, and each has a reason."""

import pytest

from tests.support.untyped import KINDS, found, listed, numbers_in


def test_places_without_a_type_are_those_on_the_list() -> None:
    """tests/untyped.toml has every module with such a place, and how many."""
    numbers, reasons = listed()
    assert found() == numbers
    assert all(reasons.values())


@pytest.mark.parametrize(
    ("source", "kind"),
    {
        "def f(x: Any) -> None: ...": "Any",
        "def f(x: 'list[Any]') -> None: ...": "Any",
        "Alias: TypeAlias = 'dict[str, Any]'": "Any",
        "def f(*more: object) -> None: ...": "object",
        "names: dict[str, object] = {}": "object",
        "def f() -> 'object': ...": "object",
        "x = cast(int, y)": "cast",
        "x = f(y)  # type: ignore[arg-type]": "type: ignore",
    }.items(),
)
def test_each_kind_is_counted(source: str, kind: str) -> None:
    assert kind in KINDS
    assert numbers_in(source) == {kind: 1}


@pytest.mark.parametrize(
    "source",
    [
        "x = np.array(y, dtype=object)",
        "x = y.astype(object)",
        "object.__setattr__(self, 'x', y)",
        "class A:\n    def __eq__(self, other: object) -> bool: ...",
    ],
)
def test_what_is_no_type_is_not_counted(source: str) -> None:
    assert numbers_in(source) == {}
