"""Where a number is held: in attributes of living objects, or in what a function is handed."""

import gc
from collections.abc import Collection, Iterator
from fractions import Fraction

from fairshares.protocols.accounting.rounding import float_up

OURS = ("fairshares", "harness", "protocols")
_MOST = 100  # entries of a container that are looked at, more than any call or command has


def forms_of(number: Fraction) -> frozenset[Fraction | float | str]:
    """Return how a number may be held: exactly, rounded, or as a text."""
    return frozenset({number, float(number), float_up(number), str(number), f"{float(number):.7f}"})


def fields_of(thing: object) -> dict[str, object]:
    """Return the values of an object of ours by attribute; none of other objects."""
    kind = type(thing)
    if str(kind.__module__).partition(".")[0] not in OURS or isinstance(thing, type):
        return {}
    structs = {name: getattr(thing, name, None) for name in getattr(kind, "__struct_fields__", ())}
    return {**getattr(thing, "__dict__", {}), **structs}


def alive() -> Iterator[object]:
    """Yield all objects of ours, also those that the interpreter knows by their holders alone."""
    gc.collect()
    waiting, seen = [*gc.get_objects()], set[int]()
    while waiting:
        thing = waiting.pop()
        if id(thing) not in seen and (fields := fields_of(thing)):
            seen.add(id(thing))
            waiting.extend(fields.values())
            yield thing


def _within(value: object) -> Collection[object]:
    """Return the entries of a container, if it is one."""
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, tuple | list):
        return value
    return ()


def attributes_with(number: Fraction) -> set[str]:
    """Return the attributes of living objects that hold a number, themselves or within one container."""
    forms = forms_of(number)
    found = set()
    for thing in alive():
        for name, value in fields_of(thing).items():
            held = _within(value) or [value]
            if any(isinstance(entry, Fraction | float | str) and entry in forms for entry in held):
                found.add(f"{type(thing).__qualname__}.{name}")
    return found


def leads_to(value: object, forms: Collection[Fraction | float | str], depth: int = 8) -> bool:
    """Return whether a value is one of these forms of a number, or holds it, so many holders deep."""
    if isinstance(value, Fraction | float | str):
        return value in forms
    if depth == 0:
        return False
    entries = _within(value) or fields_of(value).values()
    return len(entries) <= _MOST and any(leads_to(entry, forms, depth - 1) for entry in entries)
