"""Printed numbers of papers, kept as text, with their sources and faults."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import msgspec


@dataclass(frozen=True)
class Printed:
    """Seconds with the paper's digits."""

    text: str

    @property
    def seconds(self) -> float:
        """The number as printed."""
        return float(self.text)

    @property
    def range(self) -> tuple[float, float]:
        """The numbers that round to it."""
        value = Fraction(self.text)
        half = _half_a_digit(self.text)
        return float(value - half), float(value + half)

    def __str__(self) -> str:
        return f"{Decimal(self.text):,}"


@dataclass(frozen=True)
class Shape:
    """The size of one of the paper's training sets."""

    name: str
    title: str
    clients: int
    records: int


@dataclass(frozen=True)
class FigureClaim:
    """A figure's claim of seconds."""

    title: str
    protocol: str
    security: str
    factor: str
    at: tuple[int, int]  # levels of the factor, from and to
    seconds: float
    text: str


@dataclass(frozen=True)
class PrivFairFL:
    """The paper's figures."""

    table2: Mapping[tuple[str, str, str], Printed]  # by model, shape and protocol, preprocessing included
    schemes: Mapping[str, str]  # the paper's name of each model of ours that is MP-SPDZ's
    parties: Mapping[str, int]  # numbers of parties by model
    shapes: Mapping[str, Shape]
    figures: Mapping[str, FigureClaim]
    thresholds: int  # the thresholds of π_ROC
    claims: Mapping[str, str]  # sentence and source, by name
    machine: str
    caveats: tuple[str, ...]


@cache
def privfairfl() -> PrivFairFL:
    """Return the contents of `privfairfl.json`."""
    published = _read("privfairfl.json")
    phases = {protocol["phase"]: name for name, protocol in published["protocols"].items()}
    cells = {cell["security"]: cell for cell in published["table2"]["cells"]}
    table2 = {}
    for model, cell in cells.items():
        for shape in published["shapes"]:
            for phase, seconds in cell[shape].items():
                table2[model, shape, phases[phase]] = Printed(seconds)
    return PrivFairFL(
        table2=table2,
        schemes={model: cell["scheme"] for model, cell in cells.items()},
        parties={model: cell["parties"] for model, cell in cells.items()},
        shapes={
            name: msgspec.convert({"name": name, **shape}, Shape)
            for name, shape in published["shapes"].items()
        },
        figures=msgspec.convert(published["figures"], dict[str, FigureClaim], strict=False),
        thresholds=published["protocols"]["pi_roc"]["thresholds"],
        claims={name: f"{claim['text']} ({claim['source']})" for name, claim in published["claims"].items()},
        machine=published["machine"]["text"],
        caveats=tuple(published["caveats"]),
    )


@cache
def table3() -> dict[str, Any]:
    """Return PrivFairFL's Table 3, as printed; accuracy in percent."""
    return dict(_read("privfairfl.json")["table3"])


@cache
def gaps() -> dict[str, Any]:
    """Return the contents of `gaps.json`."""
    return _read("gaps.json")


def rounds_to(value: float, printed: str) -> bool:
    """Return whether a number rounds to the printed one."""
    return abs(Fraction(value) - Fraction(printed)) <= _half_a_digit(printed)


def _half_a_digit(printed: str) -> Fraction:
    return Fraction(10) ** int(Decimal(printed).as_tuple().exponent) / 2


def _read(name: str) -> dict[str, Any]:
    return msgspec.json.decode(Path(__file__).with_name(name).read_bytes(), type=dict[str, Any])
