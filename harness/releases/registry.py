"""All statistics that can be released, by the names of their commands; and each with its options, as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from fractions import Fraction
from importlib import import_module
from typing import Any, get_type_hints

from harness.releases.base import Statistic
from protocols.spec import PROTOCOLS, ProtocolSpec

_PLACES = {
    "weights": "weights:WeightsStatistic",
    "confusion": "confusion:ConfusionStatistic",
    "thresholds": "score_curves:ThresholdsStatistic",
    "gap": "gaps:GapStatistic",
    "count": "counts:CountStatistic",
    "cap": "contribution_cap:CapStatistic",
}


class _Statistics(Mapping[str, type[Statistic[Any]]]):
    """Each is loaded when it is asked for: a command should not pay for the others."""

    def __getitem__(self, task: str) -> type[Statistic[Any]]:
        module, _, name = _PLACES[task].partition(":")
        found: type[Statistic[Any]] = getattr(import_module(f"harness.releases.{module}"), name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


STATISTICS: Mapping[str, type[Statistic[Any]]] = _Statistics()

_POSITIVE = re.compile("[1-9][0-9]{0,199}(/[1-9][0-9]{0,199})?")


def options_to_json(statistic: Any) -> dict[str, Any]:
    """Return what a statistic was made with, for `statistic_from_json`."""
    return {field.name: _told(getattr(statistic, field.name)) for field in fields(statistic)}


def statistic_from_json(task: str, protocol: str, options: Mapping[str, Any]) -> Statistic[Any]:
    """Return the statistic of that command that runs that protocol, with these options.

    Raises: KeyError, TypeError, ValueError: there is none.
    """
    made: Statistic[Any] = _made(STATISTICS[task], options)
    if (made.name, made.spec.name) != (task, protocol) or made.spec not in (*made.specs.values(), made.slots):
        raise ValueError(protocol)
    return made


def positive(text: str) -> Fraction:
    """Return a positive number that is written as `p` or `p/q`. Raises: ValueError: it is none."""
    if not _POSITIVE.fullmatch(text):
        raise ValueError(text)
    return Fraction(text)


def _told(value: Any) -> Any:
    if isinstance(value, ProtocolSpec):
        return value.name
    if isinstance(value, Fraction):
        return str(value)
    return options_to_json(value) if is_dataclass(value) else value


def _made(kind: type[Any], told: Any) -> Any:
    """Return what `_told` was told of. Raises: as `statistic_from_json`."""
    if kind is ProtocolSpec:
        return PROTOCOLS[told]
    if kind is Fraction:
        return positive(told)
    if is_dataclass(kind):
        types = get_type_hints(kind)
        return kind(**{name: _made(types[name], value) for name, value in told.items()})
    if not isinstance(told, kind):
        raise TypeError(kind)
    return told
