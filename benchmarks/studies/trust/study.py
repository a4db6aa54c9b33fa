"""Whom one trusts and how many clients that takes: the gap between two groups, under three trust models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.studies.outcome import rounded
from benchmarks.studies.trust.models import MODELS, MOST, TrustModel, trust_model
from benchmarks.studies.utility.study import generator
from protocols.accounting.rounding import float_up
from protocols.local_dp.estimators import least_enough

Floats = npt.NDArray[np.float64]

FAILURE = 0.01
EPSILONS = tuple(map(Fraction, ("1/10", "1", "4")))
CLIENTS = tuple(10**power for power in range(2, 9))
ERRORS = (0.1, 0.01, 0.001)
RUNS_OF_NEEDED = 10_000  # in which an error is exceeded 100 times, give or take 10
_START = 8  # times fewer clients than by the bound: there the search among simulated ones starts


@dataclass(frozen=True, eq=False)
class Setting:
    """What is measured: every model at these ε, numbers of clients and errors."""

    epsilons: tuple[Fraction, ...] = EPSILONS
    clients: tuple[int, ...] = CLIENTS
    errors: tuple[float, ...] = ERRORS


QUICK = Setting((Fraction(1),), CLIENTS[:3], ERRORS[:1])


@dataclass(frozen=True, eq=False)
class Cell:
    """One model's error for so many clients.

    Attributes: bound: exceeded with probability `FAILURE` at most, by proof, whatever the values; None: none
    is known; deviation: predicted, of the simulated population; errors: simulated, a run each.
    """

    name: str
    epsilon: Fraction
    model: TrustModel
    clients: int
    bound: float | None
    deviation: float
    errors: Floats

    def parameters(self) -> dict[str, Any]:
        """Return what identifies the cell, as JSON; ε and δ are rounded up."""
        exact = self.model.guarantee
        return {
            "model": self.name,
            "epsilon": float(self.epsilon),
            "epsilon_exact": float_up(exact.epsilon),
            "delta_exact": float_up(exact.delta),
            "clients": self.clients,
        }

    def exceeded(self) -> float:
        """Return the error that all but 1 % of the simulated runs keep to."""
        return _exceeded(self.errors)

    def summary(self) -> dict[str, Any]:
        """Return the cell in numbers."""
        return {
            **self.parameters(),
            "bound_99": None if self.bound is None else rounded(self.bound),
            "simulated_99": rounded(self.exceeded()),
            "simulated_rms": rounded(float(np.sqrt(np.mean(self.errors**2)))),
            "predicted_rms": rounded(self.deviation),
        }


@dataclass(frozen=True)
class Need:
    """How many clients one model needs for an error that is not exceeded in 99 % of runs.

    Attributes: proven: by the bound, whatever the values; simulated: for the simulated population.
    """

    name: str
    epsilon: Fraction
    epsilon_exact: Fraction
    error: float
    proven: int
    simulated: int

    def summary(self) -> dict[str, Any]:
        return {
            "model": self.name,
            "epsilon": float(self.epsilon),
            "epsilon_exact": float_up(self.epsilon_exact),
            "error": self.error,
            "clients_proven": self.proven,
            "clients_simulated": self.simulated,
        }


def run(setting: Setting, runs: int, progress: Callable[[int, int], None]) -> tuple[list[Cell], list[Need]]:
    """Compute and simulate all. Args: progress: called with how many results there are, out of how many."""
    cells, needs = list[Cell](), list[Need]()
    total = len(setting.epsilons) * len(MODELS) * (len(setting.clients) + len(setting.errors))
    for epsilon in setting.epsilons:
        for name in MODELS:
            model = trust_model(name, epsilon)
            for clients in setting.clients:
                cells.append(_cell(name, epsilon, model, clients, runs))
                progress(len(cells) + len(needs), total)
            for error in setting.errors:
                needs.append(_need(name, epsilon, model, error))
                progress(len(cells) + len(needs), total)
    return cells, needs


def _cell(name: str, epsilon: Fraction, model: TrustModel, clients: int, runs: int) -> Cell:
    bound = model.half_width(clients, FAILURE)
    errors = model.errors(clients, runs, generator(name, epsilon, clients))
    return Cell(
        name, epsilon, model, clients, bound if bound < MOST else None, model.deviation(clients), errors
    )


def _need(name: str, epsilon: Fraction, model: TrustModel, error: float) -> Need:
    proven = least_enough(lambda clients: model.half_width(clients, FAILURE) <= error)

    def enough(clients: float) -> bool:
        drawn = model.errors(int(clients), RUNS_OF_NEEDED, generator(name, epsilon, error))
        return _exceeded(drawn) <= error

    simulated = least_enough(enough, proven / _START)
    return Need(name, epsilon, model.guarantee.epsilon, error, proven, simulated)


def _exceeded(errors: Floats) -> float:
    return float(np.quantile(abs(errors), 1 - FAILURE))
