"""What papers print, as data: each number in one place, with its source and its faults.

`privfairfl.json`: runtimes and what the text says of them (Table 2, Figures 1 and 2), accuracy and
fairness (Table 3). `gaps.json`: Juarez and
Korolova on measuring gaps under local privacy (Tables 1 and 2, Figures 1 to 4). Numbers as printed are text.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from harness.security_models import MODELS


@dataclass(frozen=True)
class Printed:
    """A number of seconds as the paper prints it, with as many digits."""

    text: str

    @property
    def seconds(self) -> float:
        """The number as it is printed; see `range`."""
        return float(self.text)

    @property
    def range(self) -> tuple[float, float]:
        """What may have been rounded to it."""
        value, half = Fraction(self.text), _half_a_digit(self.text)
        return float(value - half), float(value + half)

    def __str__(self) -> str:
        return f"{Decimal(self.text):,}"


@dataclass(frozen=True)
class Shape:
    """The size of one of the paper's data sets. Attributes: records: for training."""

    name: str
    title: str
    clients: int
    records: int


@dataclass(frozen=True)
class FigureClaim:
    """What a figure's caption and text say in numbers.

    Attributes: factor: of the horizontal axis; at: the levels, from and to, that `seconds` is said of,
    roughly.
    """

    title: str
    protocol: str
    security: str
    factor: str
    at: tuple[int, int]
    seconds: float
    text: str


@dataclass(frozen=True)
class PrivFairFL:
    """The paper's figures.

    Attributes: table2: seconds by (model, shape, protocol), preprocessing included; parties: of each model
    that the paper has; thresholds: of π_ROC; claims: sentence and source by name;
    machine: what it was measured on; caveats: sentences.
    """

    table2: Mapping[tuple[str, str, str], Printed]
    parties: Mapping[str, int]
    shapes: Mapping[str, Shape]
    figures: Mapping[str, FigureClaim]
    thresholds: int
    claims: Mapping[str, str]
    machine: str
    caveats: tuple[str, ...]


@cache
def privfairfl() -> PrivFairFL:
    """Return what the paper publishes, from `privfairfl.json`."""
    published = _read("privfairfl.json")
    phases = {protocol["phase"]: name for name, protocol in published["protocols"].items()}
    cells = {cell["security"]: cell for cell in published["table2"]["cells"]}
    shapes = {name: {"name": name, **shape} for name, shape in published["shapes"].items()}
    assert all(MODELS[model].paper_name == cell["scheme"] for model, cell in cells.items())
    return PrivFairFL(
        table2={
            (model, shape, phases[phase]): Printed(seconds)
            for model, cell in cells.items()
            for shape in published["shapes"]
            for phase, seconds in cell[shape].items()
        },
        parties={model: cell["parties"] for model, cell in cells.items()},
        shapes=msgspec.convert(shapes, dict[str, Shape]),
        figures=msgspec.convert(published["figures"], dict[str, FigureClaim], strict=False),
        thresholds=published["protocols"]["pi_roc"]["thresholds"],
        claims={name: f"{claim['text']} ({claim['source']})" for name, claim in published["claims"].items()},
        machine=published["machine"]["text"],
        caveats=tuple(published["caveats"]),
    )


@cache
def table3() -> dict[str, Any]:
    """Return PrivFairFL's Table 3: under `rows`, by scheme and shape, as printed; accuracy in percent."""
    return dict(_read("privfairfl.json")["table3"])


@cache
def gaps() -> dict[str, Any]:
    """Return what `gaps.json` holds; numbers as printed are text there."""
    return _read("gaps.json")


def rounds_to(value: float, printed: str) -> bool:
    """Whether a number is what may have been rounded to the printed one."""
    return abs(Fraction(value) - Fraction(printed)) <= _half_a_digit(printed)


def _half_a_digit(printed: str) -> Fraction:
    """Return half of the last digit's unit."""
    return Fraction(10) ** int(Decimal(printed).as_tuple().exponent) / 2


def _read(name: str) -> dict[str, Any]:
    published: dict[str, Any] = json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    return published
