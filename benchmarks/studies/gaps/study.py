"""`./inv reproduce.gaps`: Tables 1 and 2, Figures 1 to 4 of Juarez and Korolova 2022, each number again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers import gaps, rounds_to
from benchmarks.studies.gaps.figures import Claim, Convergence, claims, figure4
from benchmarks.studies.gaps.rates import (
    NAMES,
    RATES,
    Rates,
    activity_rates,
    printed_figures,
    synthetic_rates,
)
from benchmarks.studies.gaps.tables import Table1Cell, Table2Cell, table1, table2
from protocols.accounting.rounding import float_up

SCHEMA = 1
SEED = 20_230_417  # any; fixed, so that figures can be repeated


@dataclass(frozen=True)
class Extent:
    """How much is simulated. Attributes: runs: of Table 2's cells; splits: of the activity data."""

    runs: int
    splits: int
    runs_of_figure_4: int


WHOLE = Extent(10_000, gaps()["activity"]["splits"], 100_000)
QUICK = Extent(200, 1, 1_000)


@dataclass(frozen=True)
class Stated:
    """What the paper says of the data or the model, and what was found.

    Attributes: deviation: over splits, None where there is none, or where nothing was measured.
    """

    what: str
    published: str
    found: float
    deviation: float | None

    @property
    def agrees(self) -> bool:
        """Whether it is the same, rounded; or within three deviations over the splits."""
        near = self.deviation is not None and abs(self.found - float(self.published)) <= 3 * self.deviation
        return near or rounds_to(self.found, self.published)


@dataclass(frozen=True, eq=False)
class Reproduction:
    """All of it. Attributes: activity: empty where the population is synthetic."""

    rates: Rates
    activity: list[Stated]
    table1: list[Table1Cell]
    table2: list[Table2Cell]
    claims: list[Claim]
    figure4: list[Convergence]

    def to_json(self) -> dict[str, Any]:
        """Return every number beside the published one; epsilons are rounded up."""
        return {
            "schema": SCHEMA,
            "population": {"source": self.rates.source, "is": NAMES[self.rates.source]},
            "table1": [_plain(cell) for cell in self.table1],
            "table2": [{"population": self.rates.source, **_plain(cell)} for cell in self.table2],
            "claims": [_plain(claim) for claim in self.claims],
            "figure4": [_plain(curve) for curve in self.figure4],
            "activity": [_plain(stated) for stated in self.activity],
            "caveats": gaps()["caveats"],
        }


def reproduce(
    data: Path | None,
    extent: Extent,
    begin: Callable[[str], None] = lambda _: None,
    detail: Callable[[str], None] = lambda _: None,
) -> Reproduction:
    """Compute all of it.

    Args: data: the activity archive, None: a synthetic population; begin: called with "data", "table1",
    "table2" and "figures" as each begins; detail: with how far the data are.
    Raises: DataSetError: the archive cannot be used.
    """
    of_table2, of_figure4 = np.random.default_rng(SEED).spawn(2)
    begin("data")
    rates = (
        synthetic_rates()
        if data is None
        else activity_rates(data, extent.splits, lambda done: detail(f"{done} of {extent.splits} splits"))
    )
    begin("table1")
    first = table1()
    begin("table2")
    second = list(table2(rates, RATES[0], extent.runs, of_table2))
    begin("figures")
    stated = [
        Stated(name, printed, rates.figures[name].value, rates.figures[name].deviation)
        for name, printed in printed_figures().items()
        if name in rates.figures
    ]
    return Reproduction(rates, stated, first, second, claims(), figure4(extent.runs_of_figure_4, of_figure4))


def _plain(value: Any) -> Any:
    """Return a dataclass as JSON has it, with what it says of its agreement."""
    if is_dataclass(value):
        plain = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return {**plain, "agrees": value.agrees} if hasattr(value, "agrees") else plain
    if isinstance(value, Fraction):
        return float_up(value)
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return list(value) if isinstance(value, tuple) else value
