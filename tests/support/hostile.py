"""Documents with one fault each, made from one that is right: what every reader has to refuse."""

import json
from collections.abc import Callable, Collection, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from fairshares.harness.errors import FairSharesError

WRONG: tuple[Any, ...] = (None, True, 7, 2.5, "x", [[]], {"x": "x"})
SECRET = "5ecre7"  # stands in documents where secrets do; in no message


def spoilt(
    good: Any, optional: Collection[str] = (), either: Collection[str] = ()
) -> Iterator[tuple[str, Any]]:
    """Yield documents with a wrong type, a key more or a key less, and what is wrong.

    Args: optional: keys that may be left out; either: keys whose values may be of several types.
    """
    for place in list(_places(good)):
        old, key = _at(good, place), str(place[-1]) if place else ""
        for wrong in () if key in either else WRONG:
            if type(old) is not type(wrong) and not (type(old) is float and type(wrong) is int):
                yield f"{place} is {wrong!r}", _changed(good, place, wrong)
        if isinstance(old, dict) and key not in either:
            yield f"{place} has a key more", _changed(good, place, {**old, "more": 1})
            for name in [name for name in old if name not in optional]:
                yield f"{place} has no {name}", _changed(good, place, {k: old[k] for k in old if k != name})


def texts(good: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Yield texts that are no JSON of one object with each key once, and what is wrong."""
    text, (first, *_) = json.dumps(good).encode(), good
    yield "nothing", b""
    yield "cut off", text[:-1]
    yield "a list", b"[" + text + b"]"
    yield "deep", b"[" * 100_000
    yield "not UTF-8", text.replace(b"{", b'{"\xff": 1, ', 1)
    yield "half a character", text.replace(b"{", b'{"\\ud800": 1, ', 1)
    yield "a key twice", text.replace(b"{", f'{{"{first}": {json.dumps(good[first])}, '.encode(), 1)
    yield "no number", text.replace(b"{", b'{"more": NaN, ', 1)
    yield "too large", text + b" " * (1 << 26)


def check_refuses(
    read: Callable[[Any], Any],
    error: type[FairSharesError] | tuple[type[FairSharesError], ...],
    cases: Iterator[tuple[str, Any]],
) -> None:
    """Assert that all are refused, in a sentence that holds no secret."""
    taken = []
    for fault, case in cases:
        try:
            read(case)
        except error as refused:
            said = str(refused)
            assert said.endswith(".") and "\n" not in said and len(said) < 600, (fault, said)
            assert SECRET not in said, (fault, said)
        else:
            taken.append(fault)
    assert not taken


def check_file(
    read: Callable[[Path], Any],
    error: type[FairSharesError],
    path: Path,
    good: dict[str, Any],
    *,
    there: bool = True,
    **which: Collection[str],
) -> None:
    """Assert that a reader takes a file of JSON as it is, and refuses it with any fault.

    Args: there: whether it has to be there.
    """

    def written(document: Any) -> Any:
        path.write_bytes((document if isinstance(document, bytes) else json.dumps(document).encode()) + b"\n")
        return read(path)

    written(deepcopy(good))
    check_refuses(written, error, spoilt(good, **which))
    check_refuses(written, error, texts(good))
    if not there:
        return
    path.unlink()
    with pytest.raises(error, match="Cannot read"):
        read(path)


def _places(document: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield place
    if isinstance(document, dict | list):
        for key, value in document.items() if isinstance(document, dict) else enumerate(document[:1]):
            yield from _places(value, (*place, key))


def _at(document: Any, place: tuple[str | int, ...]) -> Any:
    for key in place:
        document = document[key]
    return document


def _changed(good: Any, place: tuple[str | int, ...], value: Any) -> Any:
    if not place:
        return value
    changed = deepcopy(good)
    _at(changed, place[:-1])[place[-1]] = value
    return changed
