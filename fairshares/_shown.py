"""The base of results, plans and ledgers."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd
from rich.console import Console

from fairshares.harness.errors import PYTHON, naming
from fairshares.harness.views.parts import Part, Picture
from fairshares.harness.views.rendering.html import fragment
from fairshares.harness.views.rendering.plots import WIDTH
from fairshares.harness.views.rendering.text import render

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fairshares.protocols.json_values import JsonObject, JsonValue

_WIDTH = 80  # the width of tables where there is no terminal


@dataclass(frozen=True, repr=False, eq=False)
class Shown:
    """An object that people read: `print` it, or let a notebook show it."""

    def _view(self) -> Iterable[Part]:
        raise NotImplementedError

    def __str__(self) -> str:
        console = Console(  # a terminal, so that prose is wrapped, without its signs
            file=io.StringIO(),
            width=shutil.get_terminal_size((_WIDTH, 0)).columns,
            highlight=False,
            emoji=False,
            force_terminal=True,
            force_jupyter=False,  # or it would be shown at once, a second time
            color_system=None,
        )
        with naming(PYTHON):
            render(self._view(), console)
        return console.file.getvalue().rstrip()  # type: ignore[attr-defined]

    __repr__ = __str__

    def _repr_html_(self) -> str:
        with naming(PYTHON):
            return fragment(self._view())

    def plot(self, kind: str = "", ax: Axes | None = None) -> Axes:
        """Draw a picture, as a report has it.

        Args:
            kind: The picture's name, such as "privacy". By default the first picture.
            ax: Axes of Matplotlib to draw on. None: the axes of a new figure.
        Returns:
            The axes; `.figure.savefig("my.png")` makes a file.
        Raises:
            ValueError: There is no such picture. The message lists those that there are.
            MissingPackageError: Matplotlib is missing.
        """
        pictures = {part.name: part for part in self._view() if isinstance(part, Picture)}
        name = kind or next(iter(pictures), "")
        if name not in pictures:
            raise ValueError(
                f"There is no picture {kind!r} of this; there are: {', '.join(pictures) or 'none'}."
            )
        picture = pictures[name]
        with naming(PYTHON):
            if ax is None:
                from matplotlib import pyplot  # takes a second to load

                _, ax = pyplot.subplots(figsize=(WIDTH, picture.height), layout="constrained")
            picture.draw(ax)
        return ax


@dataclass(frozen=True, repr=False, eq=False)
class Report(Shown):
    """A plan, or the contents of a ledger.

    Attributes:
        fields: All of the report, as the command writes it with `--json`.
    """

    fields: dict[str, JsonValue]
    _parts: Sequence[Part]

    def _view(self) -> Iterable[Part]:
        return self._parts


class Plan(Report):
    """The expected costs and errors of releases."""

    @property
    def models(self) -> pd.DataFrame:
        """Expected costs, a row for each security model, by its name.

        Columns are tolerates, mpc_s (seconds), sent_bytes (by all parties together), rounds, reason,
        available, and wall_s, the seconds of a whole call, with its parts start_s, design_s, read_s, share_s,
        compile_s and derive_s.
        """
        return pd.DataFrame(_objects_in(self.fields["models"])).set_index("security")


class Spent(Report):
    """The charges of populations."""

    @property
    def charges(self) -> pd.DataFrame:
        """A row for each run: population, time, task, model, epsilon, delta, out and status."""
        rows = []
        for population in _objects_in(self.fields["populations"]):
            for charge in _objects_in(population["charges"]):
                rows.append({"population": population["population"], **charge})
        return pd.DataFrame(rows)


def _objects_in(listed: JsonValue) -> list[JsonObject]:
    """Return the objects of a list of objects."""
    if not isinstance(listed, list):
        return []
    return [value for value in listed if isinstance(value, dict)]
