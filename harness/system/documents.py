"""JSON and TOML from others, read strictly as the expected types, and within limits.

docs/reference/files.md states the limits. Functions import msgspec, so that commands start fast:
docs/decisions/others.md#0023-what-the-structure-left-out.
"""

import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from difflib import get_close_matches
from fractions import Fraction
from itertools import accumulate, islice
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NoReturn, Protocol, TypeAlias, TypeVar, overload

from fairshares.harness.errors import FairSharesError, cannot
from fairshares.harness.system.files import larger_than, read_bounded
from fairshares.harness.system.spelling import similar
from fairshares.protocols.exact_numbers import MAX_DIGITS, stated_number
from fairshares.protocols.json_values import JsonValue

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")

TomlValue: TypeAlias = "JsonValue | date | time | Sequence[TomlValue] | Mapping[str, TomlValue]"
"""Parsed TOML or JSON, before `as_type` checks it."""

_MAX_DEPTH = 100  # values within values
_MAX_DIGITS = 100  # digits of a number outside of texts
_MAX_DOTS = 16  # dots of a key in TOML, whose reader takes time that grows with their square
_SHOWN = 40  # characters of an unknown name
_NAMES_COMPARED = 1000  # names that are compared for a guess at a misspelled name


@dataclass(frozen=True)
class Limits:
    """The most of a document that is read.

    Attributes:
        size: Bytes.
        values: Values of JSON, as a list of numbers takes several times the memory of its text.
        containers: Lists and objects of JSON. An empty one takes twenty times the memory of its text.
    """

    size: int
    values: int
    containers: int

    @classmethod
    def for_size(cls, size: int) -> "Limits":
        """Return the limits of documents of a size."""
        return cls(size, size >> 3, size >> 6)


MAX_BYTES = 1 << 26
RESULT = Limits.for_size(MAX_BYTES)  # the limits of runs, whose tables may have millions of counts
DECLARATION = Limits.for_size(1 << 24)  # for tasks, domains and features, which name groups and categories
SMALL = Limits.for_size(1 << 20)  # the limits of all else
MESSAGE = Limits(1 << 27, 1 << 23, 1 << 20)  # for hosts, where the identities of a million uploads fit


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


def read_json(path: Path, refusal: Refusal, schema: int | None = None, limits: Limits = RESULT) -> JsonValue:
    """Return a JSON file's content, or raise as `parse_json`.

    Guarantees: only a regular file is read, at most `limits.size` bytes of it, and nothing waits.
    [test: tests/harness/system/test_hostile_files.py]
    """
    return parse_json(_read(path, refusal, limits), refusal, schema, limits)


def read_toml(path: Path, refusal: Refusal) -> dict[str, TomlValue]:
    """Return the content of a TOML file within the `SMALL` limits, or raise the refusal's error."""
    try:
        text = _read(path, refusal, SMALL).decode()
        _check_toml(text)
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        refusal.say(f"it is not TOML in UTF-8, {error}")


def parse_json(
    text: bytes, refusal: Refusal, schema: int | None = None, limits: Limits = RESULT
) -> JsonValue:
    """Return JSON's content without its "schema", which must equal `schema` if that is given.

    Raises the refusal's error for what is not JSON in UTF-8, and as `strict_json` says.
    """
    try:
        value = strict_json(text, limits)
    except (UnicodeError, json.JSONDecodeError, RecursionError):
        refusal.say("it is not JSON in UTF-8")
    except ValueError as error:
        refusal.say(str(error))
    if schema is not None:
        if not isinstance(value, dict) or type(value.get("schema")) is not int:
            refusal.say("it names no schema")
        if (other := value.pop("schema")) != schema:
            refusal.say(f"it has schema {other}; this version reads schema {schema}")
    return value


def strict_json(text: bytes, limits: Limits = RESULT) -> JsonValue:
    """Return JSON's content.

    Guarantees: before the content is built, sizes, depth and digits are known to be within the limits, in
    time that grows with the text's length.
    [test: tests/harness/system/test_hostile_files.py]

    Raises:
        ValueError: The text is not JSON in UTF-8, has a key twice, half a character, a number that is not
            finite, or more than the limits allow. The message says which, and quotes names and digits in
            part.
        RecursionError: The text has too many values within values for the caller's own depth.
    """
    _check_json(text, limits)
    value: JsonValue = _STRICT.decode(text.decode())
    if rb"\ud" in text.lower():
        json.dumps(value, ensure_ascii=False).encode()  # a UnicodeError for half a character
    return value


_TEXTS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)  # also one without an end
_NUMBERS = re.compile(rb"(?<![-+.0-9eE])[-+.0-9eE]{%d}" % (_MAX_DIGITS + 1))
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def _check_json(text: bytes, limits: Limits) -> None:
    """Raise ValueError for a text of JSON beyond the limits."""
    if len(text) > limits.size:
        raise ValueError(larger_than(limits.size))
    # As Latin-1, in which bytes are characters: joining pieces of `bytes` takes 80 bytes for each piece.
    outside = _TEXTS.sub('"', text.decode("latin-1")).encode("latin-1")
    opened = outside.count(b"[") + outside.count(b"{")
    if opened > limits.containers:
        raise ValueError(f"it has more than {limits.containers:,} lists and objects")
    if opened + outside.count(b",") > limits.values:
        raise ValueError(f"it has more than {limits.values:,} values")
    if opened > _MAX_DEPTH:
        steps = (1 if bracket in b"[{" else -1 for bracket in outside.translate(None, _NO_BRACKETS))
        if max(accumulate(steps)) > _MAX_DEPTH:
            raise ValueError(f"it has more than {_MAX_DEPTH} values within values")
    if (long := _NUMBERS.search(outside)) is not None:
        raise ValueError(f"it has a number of more than {_MAX_DIGITS} digits, {long[0][:12].decode()}…")


_TOML_TEXTS = re.compile(  # each also without its end, so that no part of a document is looked at twice
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*+(?:"{3,5}|\\?\Z)'
    r"|'''(?:[^']|'{1,2}(?!'))*+(?:'{3,5}|\Z)"
    r'|"(?:[^"\\\n]|\\[^\n])*+"?'
    r"|'[^'\n]*+'?"
    r"|#[^\n]*+",
    re.DOTALL,
)
_TOML_KEYS = re.compile(r"[=,{}\[\]\n]")


def _check_toml(text: str) -> None:
    """Raise ValueError for a key of many parts, `a.b.c`, or a number of many digits."""
    outside = _TOML_TEXTS.sub("", text)
    if any(part.count(".") > _MAX_DOTS for part in _TOML_KEYS.split(outside)):
        raise ValueError(f"as it has a key of more than {_MAX_DOTS} parts")
    if re.search(f"[0-9_]{{{_MAX_DIGITS + 1}}}", outside):
        raise ValueError(f"as it has a number of more than {_MAX_DIGITS} digits")


def as_type(kind: type[T], value: TomlValue, refusal: Refusal, *, more: bool = False) -> T:
    """Return a value as a type, such as a dataclass, or raise the refusal's error or the type's own.

    Nothing is converted, but whole numbers are also floats, and exact numbers, as `"355/113"`, become
    fractions. `more` allows keys that the type does not have.
    Guarantees: messages hold no value.  [test: tests/harness/system/test_documents.py]
    """
    try:
        return _as_type(kind, value, refusal, more)
    except RecursionError:
        refusal.say("it has too many values within values")


def _as_type(kind: type[T], value: TomlValue, refusal: Refusal, more: bool) -> T:
    import msgspec

    try:
        converted = msgspec.convert(value, kind, dec_hook=_of_json)
    except msgspec.ValidationError as error:
        fault, _, place = str(error).partition(" - at ")
        fault = fault.partition(" '")[0]  # without values
        message = f"{fault[0].lower()}{fault[1:]}"
        if place:
            message += f" at {place.replace('$.', '').replace('$', '')}"
        missing = fault.partition("missing required field ")[2].strip("`")
        names = [name[:_SHOWN] for name in islice(_keys(value), _NAMES_COMPARED)]
        close = get_close_matches(missing, names, 1)
        if close and close[0] != missing:
            message += f" (it has {close[0]!r}: did you mean {missing}?)"
        refusal.say(message)
    except FairSharesError as error:  # raised by a type that checks itself
        raise type(error)(f"{refusal.where}: {error}") from None
    if not more:
        _check_known(value, converted, refusal)
    return converted


class AnyStruct(Protocol):
    """A struct of msgspec, which loads slowly; or a protocol of its structs."""

    __struct_fields__: ClassVar[tuple[str, ...]]


@overload
def as_json(value: None) -> None: ...


@overload
def as_json(value: "AnyStruct | DataclassInstance") -> dict[str, JsonValue]: ...


def as_json(value: "AnyStruct | DataclassInstance | None") -> dict[str, JsonValue] | None:
    """Return a struct as JSON has it; fractions become texts, as `"355/113"`."""
    import msgspec

    fields: dict[str, JsonValue] | None = msgspec.to_builtins(value, enc_hook=number_as_text)
    return fields


def _of_json(kind: type, value: TomlValue) -> Fraction:
    """Return a value as the one type of fields that msgspec does not know."""
    if kind is Fraction:
        return _fraction(value)
    raise NotImplementedError(f"no file has a {kind.__name__}")


def _fraction(value: TomlValue) -> Fraction:
    try:
        return stated_number(value)
    except ValueError:
        expected = f"expected an exact number of at most {MAX_DIGITS} digits, such as 355/113"
        raise ValueError(expected) from None


def number_as_text(value: object) -> str:
    """Return an exact number as JSON has it, for msgspec, which knows no fractions."""
    if not isinstance(value, Fraction):
        raise NotImplementedError(f"no file has a {type(value).__name__}")
    return str(value)


def _check_known(document: TomlValue, made: object, refusal: Refusal) -> None:
    if isinstance(document, dict):
        fields = getattr(made, "__dataclass_fields__", getattr(made, "__struct_fields__", ()))
        known = made if isinstance(made, dict) else {name: getattr(made, name) for name in fields}
        structure = getattr(made, "__struct_config__", None)
        if structure is not None and structure.tag_field is not None:  # says which struct of several it is
            known[structure.tag_field] = structure.tag
        for name, value in document.items():
            if name not in known:
                refusal.say(f"it has an unknown key {name[:_SHOWN]!r}{similar(name[:_SHOWN], known)}")
            if value != known[name]:  # JSON that became another type
                _check_known(value, known[name], refusal)
    elif isinstance(document, list) and isinstance(made, Iterable):
        for value, converted in zip(document, made, strict=True):
            _check_known(value, converted, refusal)


def _keys(document: TomlValue) -> Iterator[str]:
    inner: Iterable[TomlValue] = ()
    if isinstance(document, dict):
        yield from document
        inner = document.values()
    elif isinstance(document, list):
        inner = document
    for value in inner:
        yield from _keys(value)


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError(f"it has {text[:12]}, which is larger than any number")
    return number


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"it has {text}, which is no number")


def _once(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, number in counts.items() if number > 1)
        raise ValueError(f"it has the key {twice[:_SHOWN]!r} twice")
    return fields


_STRICT = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_number, parse_float=_finite)


def _read(path: Path, refusal: Refusal, limits: Limits) -> bytes:
    with cannot(f"read {refusal.where}", refusal.error, refusal.way_out):
        return read_bounded(path, limits.size)
