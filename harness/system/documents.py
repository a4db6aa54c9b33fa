"""JSON and TOML from others, read strictly as the expected types.

Functions import msgspec, so that commands start fast:
docs/decisions/others.md#0023-what-the-structure-left-out.
"""

import json
import math
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from harness.errors import FairSharesError, cannot
from harness.system.spelling import similar

T = TypeVar("T")

MAX_BYTES = 1 << 26  # of a document; the identities of a million uploads fit
_MAX_VALUES = 1 << 23  # of JSON; an empty list takes twenty times the memory of its text
_SHOWN = 40  # characters of an unknown name


@dataclass(frozen=True)
class Refusal:
    """A document's refusal: error, place, expected kind, and remedy."""

    error: type[FairSharesError]
    where: str
    what: str
    way_out: str

    def say(self, fault: str) -> NoReturn:
        """Raise the error for a `fault`, which names no value."""
        raise self.error(f"{self.where} is not {self.what}: {fault}; {self.way_out}.") from None


def read_json(path: Path, refusal: Refusal, schema: int | None = None) -> Any:
    """Return a JSON file's content, at most `MAX_BYTES`, or raise as `parse_json`."""
    return parse_json(_read(path, refusal), refusal, schema)


def read_toml(path: Path, refusal: Refusal) -> Any:
    """Return a TOML file's content, or raise the refusal's error."""
    try:
        return tomllib.loads(_read(path, refusal).decode())
    except (ValueError, RecursionError) as error:
        refusal.say(f"it is not TOML in UTF-8, {error}")


def parse_json(text: bytes, refusal: Refusal, schema: int | None = None) -> Any:
    """Return JSON's content without its "schema", which must equal `schema` if that is given.

    Raises the refusal's error, also for repeated keys or millions of values.
    """
    try:
        value = strict_json(text)
    except (ValueError, RecursionError):
        refusal.say("it is not JSON in UTF-8, has a key twice, or millions of values")
    if schema is not None:
        if not isinstance(value, dict) or type(value.get("schema")) is not int:
            refusal.say("it names no schema")
        if (other := value.pop("schema")) != schema:
            refusal.say(f"it has schema {other}; this version reads schema {schema}")
    return value


def strict_json(text: bytes) -> Any:
    """Return JSON's content, or raise ValueError or RecursionError."""
    if sum(map(text.count, (b",", b"[", b"{"))) > _MAX_VALUES:
        raise ValueError("too many values")
    value = _STRICT.decode(text.decode())
    if rb"\ud" in text.lower():
        json.dumps(value, ensure_ascii=False).encode()  # a ValueError for half a character
    return value


def as_type(kind: type[T], value: Any, refusal: Refusal, *, more: bool = False) -> T:
    """Return a value as a type, such as a dataclass, or raise the refusal's error or the type's own.

    Nothing is converted, but whole numbers are also floats. `more` allows keys that the type does not have.
    Guarantees: messages hold no value.  [test: tests/harness/system/test_documents.py]
    """
    try:
        return _as_type(kind, value, refusal, more)
    except RecursionError:
        refusal.say("it has too many values within values")


def _as_type(kind: type[T], value: Any, refusal: Refusal, more: bool) -> T:
    import msgspec

    try:
        converted = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        fault, _, place = str(error).partition(" '")[0].partition(" - ")  # without values
        message = f"{fault[0].lower()}{fault[1:]} {place.replace('$.', '').replace('$', '')}".rstrip()
        _, _, missing = fault.partition("missing required field ")
        close = get_close_matches(missing.strip("`"), _keys(value), 1)
        refusal.say(
            message
            + (f" (it has {close[0][:_SHOWN]!r}: did you mean {missing.strip('`')}?)" if close else "")
        )
    except FairSharesError as error:  # from a type that checks itself
        raise type(error)(f"{refusal.where}: {error}") from None
    if not more:
        _check_known(value, converted, refusal)
    return converted


def call(function: Callable[..., T], arguments: dict[str, Any], refusal: Refusal) -> T:
    """Call a function with values of its parameters' types by name, or raise as `as_type`."""
    import msgspec

    parameters = signature(function, eval_str=True).parameters.values()
    fields = [
        (one.name, one.annotation, msgspec.NODEFAULT if one.default is one.empty else one.default)
        for one in parameters
    ]
    kind = msgspec.defstruct("Arguments", fields, kw_only=True)
    return function(**msgspec.structs.asdict(as_type(kind, arguments, refusal)))


def _check_known(document: Any, made: Any, refusal: Refusal) -> None:
    if isinstance(document, dict):
        fields = getattr(made, "__dataclass_fields__", getattr(made, "__struct_fields__", ()))
        known = made if isinstance(made, dict) else {name: getattr(made, name) for name in fields}
        for name, value in document.items():
            if name not in known:
                refusal.say(f"it has an unknown key {name[:_SHOWN]!r}{similar(name, known)}")
            if value != known[name]:  # JSON that became another type
                _check_known(value, known[name], refusal)
    elif isinstance(document, list):
        for value, one in zip(document, made, strict=True):
            _check_known(value, one, refusal)


def _keys(document: Any) -> list[str]:
    if isinstance(document, dict):
        return [*document, *(key for value in document.values() for key in _keys(value))]
    return [key for value in document for key in _keys(value)] if isinstance(document, list) else []


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError("no number")
    return number


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a key twice")
    return fields


_STRICT = json.JSONDecoder(object_pairs_hook=_once, parse_constant=int, parse_float=_finite)  # int: no NaN


def _read(path: Path, refusal: Refusal) -> bytes:
    with cannot(f"read {refusal.where}", refusal.error, refusal.way_out), path.open("rb") as file:
        text = file.read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        refusal.say(f"it is larger than {MAX_BYTES >> 20} MiB")
    return text
