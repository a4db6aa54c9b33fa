"""Types say what a value is: places where they do not are few, and each has a reason."""

import re

import pytest

from tests.support.untyped import KINDS, ROOT, found, listed, numbers_in


def test_places_without_a_type_are_those_on_the_list() -> None:
    """tests/untyped.toml has every module with such a place, and how many."""
    numbers, reasons = listed()
    assert found() == numbers
    assert all(reasons.values())


def exemptions(text: str) -> dict[str, str]:
    """Return the modules that may have `Any` within a type, each with the reason on its line, or ""."""
    block = text[: text.index("disallow_any_explicit = false")].rpartition("[[tool.mypy.overrides]]")[2]
    reasons = {}
    for line in block.splitlines():
        code, _, reason = line.partition("#")
        for module in re.findall(r'"([\w.*]+)"', code):
            reasons[module] = reason.strip()
    return reasons


def test_each_module_that_may_have_any_within_a_type_has_a_reason() -> None:
    """mypy's own setting, which counts more than the list: `Any` by an alias, and of other packages."""
    reasons = exemptions((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "fairshares.harness.request.readers" in reasons
    assert [module for module, reason in reasons.items() if not reason] == []


def test_a_module_without_a_reason_is_found() -> None:
    text = '[[tool.mypy.overrides]]\nmodule = [\n  "a.b", "a.c",\n  "a.d", # a reason\n]\n'
    assert exemptions(f"{text}disallow_any_explicit = false\n") == {"a.b": "", "a.c": "", "a.d": "a reason"}


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
        "problem = getattr(run.found, 'problem', None)": "getattr",
        "fields: JsonObject = json.loads(text)": "json.loads",
        "fields = json.load(file)": "json.loads",
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
        "value = getattr(self, name)",
        "json.dumps(fields)",
        "class A:\n    def __eq__(self, other: object) -> bool: ...",
    ],
)
def test_what_is_no_type_is_not_counted(source: str) -> None:
    assert numbers_in(source) == {}
