"""Whose performance values the tables measure: recordings of the activity data, or a synthetic stand-in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.papers import gaps
from benchmarks.studies.local_simulation import Floats, Population

SEXES = ("M", "F")
SYNTHETIC, ACTIVITY = "synthetic", "activity"
NAMES = {
    SYNTHETIC: "SYNTHETIC population: values made up around the means that the paper prints, not measured",
    ACTIVITY: "activity data (UCI 427): rates of recordings under a model trained here",
}
RATES = ("true_positive_rate", "false_positive_rate")


@dataclass(frozen=True)
class Measured:
    """A figure of the data or the model. Attributes: deviation: over splits, None where there are none."""

    value: float
    deviation: float | None = None


@dataclass(frozen=True, eq=False)
class Rates:
    """Per sex, in the order of `SEXES`: a rate of every recording, nan where it is 0/0.

    Attributes: source: SYNTHETIC or ACTIVITY; values: by a name of `RATES`; figures: what the paper says of
    the data and the model, by the names of `printed_figures`, in its units; about: for about.json.
    """

    source: str
    values: dict[str, tuple[Floats, ...]]
    figures: dict[str, Measured]
    about: dict[str, Any]

    def of(self, name: str) -> tuple[Floats, ...]:
        """Return the rates that are defined."""
        return tuple(of_sex[~np.isnan(of_sex)] for of_sex in self.values[name])


def printed_figures() -> dict[str, str]:
    """Return what the paper prints of the data and the model, by name; of a sex, name and sex."""
    printed: dict[str, str] = {}
    for name, value in gaps()["activity"].items():
        if name in ("source", "test_share", "splits"):
            continue
        of_sexes = value.items() if isinstance(value, dict) else [("", value)]
        printed |= {f"{name}_{sex}".rstrip("_"): str(each) for sex, each in of_sexes}
    return printed


def resampled(values: tuple[Floats, ...], sizes: tuple[int, ...]) -> Population:
    """Return groups of these sizes, in which each value has as many clients as any other, to one."""
    clients = [
        size // len(of_group) + (np.arange(len(of_group)) < size % len(of_group)).astype(np.int64)
        for of_group, size in zip(values, sizes, strict=True)
    ]
    return Population(values, tuple(clients))


def synthetic_rates() -> Rates:
    """Return as many rates per sex as the paper has recordings, with its means: nothing else is known.

    Computes: equally spaced around the mean, as far as 0 or 1, whichever is nearer.
    """
    printed = gaps()["activity"]
    values = {}
    for name in RATES:
        means = (float(printed[f"mean_{name}"][sex]) / 100 for sex in SEXES)
        spread = [np.linspace(-1, 1, printed["recordings"][sex]) for sex in SEXES]
        values[name] = tuple(mean + min(mean, 1 - mean) * at for mean, at in zip(means, spread, strict=True))
    return Rates(SYNTHETIC, values, {}, {"source": SYNTHETIC, "is": NAMES[SYNTHETIC]})
