"""The study of caps: errors by the cap, caps by several rules, the paper's bounds; and its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.studies.capping.bounds import Simulated, simulate, zipf_shares
from benchmarks.studies.capping.choices import (
    AIMS,
    ALL_QUANTITIES,
    MECHANISMS,
    PI_CAP,
    SHARES,
    TRIED,
    Choice,
    Chooser,
    Setting,
    by_rule,
    geometric_mean,
)
from benchmarks.studies.capping.claims import Claim, claims
from benchmarks.studies.capping.curves import ExpectedCurveErrors
from benchmarks.studies.capping.errors import QUANTITIES, Errors, ExpectedErrors
from benchmarks.studies.capping.population import MOST, Floats, Population
from benchmarks.studies.outcome import rounded
from harness.releases.contribution_cap import CAP_SHARE
from protocols.mechanisms.above_threshold import caps_up_to

SEED = 20_191_210  # any
CAPS = caps_up_to(MOST)
EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(4))
SETTINGS = (*map(Setting, EPSILONS), Setting(Fraction(1), active=True))

# Of Theorem 1, simulated.
USERS = 100
GAMMAS = (0.3, 0.1, 0.03)
SIZES = (100, 300, 1_000, 3_000, 10_000, 30_000)
RUNS = 20


@dataclass(frozen=True, eq=False)
class Found:
    """What was found of one population.

    Attributes: errors: by setting and quantity; choices: with epsilon the total of choice and release;
    held_out: whether nothing in `cap` was chosen by it.
    """

    population: Population
    errors: dict[Setting, dict[str, Errors]]
    choices: tuple[Choice, ...]
    held_out: bool

    def choice(self, mechanism: str, quantity: str, setting: Setting, share: Fraction, aim: int) -> Choice:
        """Return the one of that description."""
        wanted = (mechanism, quantity, setting, share, aim)
        return next(c for c in self.choices if (c.mechanism, c.quantity, c.setting, c.share, c.aim) == wanted)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row per setting and quantity: the best cap, the rule's, and what is chosen privately."""
        for setting, by_quantity in self.errors.items():
            for quantity, errors in by_quantity.items():
                rule = by_rule(self.population, errors.caps, setting.left(Fraction(0)), quantity)
                least = float(errors.total.min())
                row: dict[str, Any] = {
                    "population": self.population.name,
                    "epsilon": str(setting.epsilon),
                    "models": setting.models,
                    "quantity": quantity,
                    "best_cap": errors.best,
                    "least_error": rounded(least),
                    "rule_cap": rule,
                    "rule_regret": rounded(float(errors.total[errors.caps.index(rule)]) / least),
                }
                for mechanism, name in zip(MECHANISMS, ("pi_cap", "histogram"), strict=True):
                    choice = self.choice(mechanism, quantity, setting, CAP_SHARE, AIMS[quantity])
                    row |= {
                        f"{name}_5": choice.low,
                        f"{name}_50": choice.middle,
                        f"{name}_95": choice.high,
                        f"{name}_regret": rounded(choice.regret),
                    }
                yield row

    def about(self) -> dict[str, Any]:
        sizes = self.population.sizes
        return {
            "name": self.population.name,
            "held_out": self.held_out,
            "clients": len(sizes),
            "records": int(sizes.sum()),
            "median": float(np.median(sizes)),
            "largest": int(sizes.max()),
            "table": self.population.table.tolist(),
        }


@dataclass(frozen=True, eq=False)
class Study:
    """All of it."""

    found: tuple[Found, ...]
    simulated: tuple[Simulated, ...]
    claims: tuple[Claim, ...]

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of all populations."""
        return [row for each in self.found for row in each.rows()]

    def errors(self) -> list[dict[str, Any]]:
        """Return the errors at every cap; what was not computed is empty."""
        return [
            {
                "population": each.population.name,
                "epsilon": str(setting.epsilon),
                "models": setting.models,
                "quantity": quantity,
                "cap": cap,
                "noise": "" if np.isnan(noise) else rounded(noise),
                "bias": rounded(missing),
                "total": rounded(total),
            }
            for each in self.found
            for setting, by_quantity in each.errors.items()
            for quantity, e in by_quantity.items()
            for cap, noise, missing, total in zip(e.caps, e.noise, e.bias, e.total, strict=True)
        ]

    def shares(self) -> list[dict[str, Any]]:
        """Return, for each share of epsilon, the regret over the populations that it was chosen by."""
        rows = []
        for quantity in QUANTITIES:
            for aim in TRIED[quantity]:
                for share in SHARES:
                    row: dict[str, Any] = {"quantity": quantity, "aim": aim, "share": str(share)}
                    for mechanism, name in zip(MECHANISMS, ("pi_cap", "histogram"), strict=True):
                        row |= _summed_up(name, self._regrets(mechanism, quantity, share, aim))
                    rows.append(row)
        return rows

    def targets(self) -> list[dict[str, Any]]:
        """Return, for each target of ratios and curves, π_CAP's regret where it was chosen and held out."""
        rows = []
        for quantity in ALL_QUANTITIES:
            for aim in TRIED[quantity] if len(TRIED[quantity]) > 1 else ():
                row: dict[str, Any] = {"quantity": quantity, "aim": aim}
                for held_out, name in ((False, "chosen"), (True, "held_out")):
                    for active in (False, True):
                        regrets = self._regrets(PI_CAP, quantity, CAP_SHARE, aim, held_out, active)
                        row |= _summed_up(f"{name}{'_active' * active}", regrets)
                rows.append(row)
        return rows

    def _regrets(
        self,
        mechanism: str,
        quantity: str,
        share: Fraction,
        aim: int,
        held_out: bool = False,
        active: bool = False,
    ) -> list[float]:
        return [
            each.choice(mechanism, quantity, setting, share, aim).regret
            for each in self.found
            for setting in each.errors
            if each.held_out is held_out and setting.active is active
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "populations": [each.about() for each in self.found],
            "choices": self.rows(),
            "shares": self.shares(),
            "targets": self.targets(),
            "theorem_1": [
                {
                    "gamma": each.gamma,
                    "bias": rounded(each.bias),
                    "errors": {str(n): rounded(error) for n, error in each.errors.items()},
                }
                for each in self.simulated
            ],
            "claims": [claim.to_json() for claim in self.claims],
        }


def users_of_theorem_1() -> tuple[Floats, Floats]:
    """Return p_j, the most active first, and the thresholds t_j of users' labels: they grow as p_j falls."""
    return zipf_shares(USERS), np.linspace(0.2, 0.8, USERS)


def _summed_up(name: str, regrets: Sequence[float]) -> dict[str, float]:
    """Return the geometric mean and the worst, nothing of none."""
    if not regrets:
        return {}
    return {name: rounded(geometric_mean(list(regrets))), f"{name}_worst": rounded(max(regrets))}


def _study_of(population: Population, held_out: bool) -> Found:
    rng = np.random.default_rng([SEED, *population.table.ravel()])  # whatever else is studied
    expected = ExpectedErrors(population, CAPS, rng)
    chooser = Chooser(population, CAPS, rng)
    curves = ExpectedCurveErrors(
        population, CAPS, np.random.default_rng([SEED, *population.table.ravel(), 1])
    )

    errors: dict[Setting, dict[str, Errors]] = {}
    choices: list[Choice] = []
    for setting in SETTINGS:
        epsilon = float(setting.left(Fraction(0)))
        errors[setting] = expected.at(epsilon) | curves.at(epsilon)
        for share in (CAP_SHARE,) if held_out or setting.active else SHARES:
            epsilon = float(setting.left(share))
            left = expected.at(epsilon)
            if share == CAP_SHARE:  # curves take longer
                left |= curves.at(epsilon, noise_alone=False)
            choices.extend(chooser.choices(setting, share, left, errors[setting]))
    return Found(population, errors, tuple(choices), held_out)


def study(
    populations: Sequence[Population],
    held_out: Sequence[Population] = (),
    detail: Callable[[str], None] = lambda _: None,
) -> Study:
    """Compute all of it.

    Args: held_out: populations that no target or share was chosen by; detail: told how far it is.
    """
    found = []
    for population in (*populations, *held_out):
        detail(population.name)
        found.append(_study_of(population, population in held_out))
    detail("Theorem 1")
    p, thresholds = users_of_theorem_1()
    rng = np.random.default_rng(SEED)
    simulated = tuple(simulate(p, thresholds, gamma, SIZES, RUNS, rng) for gamma in GAMMAS)
    return Study(tuple(found), simulated, tuple(claims()))
