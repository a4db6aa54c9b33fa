"""The study of caps: errors by the cap, caps by several rules, the paper's bounds; and its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.files import rounded
from benchmarks.reproduce.capping.bounds import Simulated, simulate, zipf_shares
from benchmarks.reproduce.capping.choices import (
    AIMS,
    MECHANISMS,
    SHARES,
    TRIED,
    Choice,
    Chooser,
    by_rule,
    geometric_mean,
)
from benchmarks.reproduce.capping.claims import Claim, claims
from benchmarks.reproduce.capping.errors import QUANTITIES, Errors, ExpectedErrors
from benchmarks.reproduce.capping.population import MOST, Floats, Population
from harness.chosen_cap import CAP_SHARE
from protocols.capping import caps_up_to

SEED = 20_191_210  # any
CAPS = caps_up_to(MOST)
EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(4))

# Of Theorem 1, simulated.
USERS = 100
GAMMAS = (0.3, 0.1, 0.03)
SIZES = (100, 300, 1_000, 3_000, 10_000, 30_000)
RUNS = 20


@dataclass(frozen=True, eq=False)
class Found:
    """What was found of one population.

    Attributes: errors: by epsilon and quantity; choices: with epsilon the total of choice and release.
    """

    population: Population
    errors: dict[Fraction, dict[str, Errors]]
    choices: tuple[Choice, ...]

    def choice(self, mechanism: str, quantity: str, epsilon: Fraction, share: Fraction, aim: int) -> Choice:
        """Return the one of that description."""
        wanted = (mechanism, quantity, epsilon, share, aim)
        return next(c for c in self.choices if (c.mechanism, c.quantity, c.epsilon, c.share, c.aim) == wanted)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row per epsilon and quantity: the best cap, the rule's, and what is chosen privately."""
        for epsilon, by_quantity in self.errors.items():
            for quantity, errors in by_quantity.items():
                rule = by_rule(self.population, errors.caps, epsilon, quantity)
                least = float(errors.total.min())
                row: dict[str, Any] = {
                    "population": self.population.name,
                    "epsilon": str(epsilon),
                    "quantity": quantity,
                    "best_cap": errors.best,
                    "least_error": rounded(least),
                    "rule_cap": rule,
                    "rule_regret": rounded(float(errors.total[errors.caps.index(rule)]) / least),
                }
                for mechanism, name in zip(MECHANISMS, ("pi_cap", "histogram"), strict=True):
                    choice = self.choice(mechanism, quantity, epsilon, CAP_SHARE, AIMS[quantity])
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
        """Return the errors at every cap."""
        return [
            {
                "population": each.population.name,
                "epsilon": str(epsilon),
                "quantity": quantity,
                "cap": cap,
                "noise": rounded(noise),
                "bias": rounded(missing),
                "total": rounded(total),
            }
            for each in self.found
            for epsilon, by_quantity in each.errors.items()
            for quantity, e in by_quantity.items()
            for cap, noise, missing, total in zip(e.caps, e.noise, e.bias, e.total, strict=True)
        ]

    def shares(self) -> list[dict[str, Any]]:
        """Return, for each share of epsilon, the regret over all populations and epsilons."""
        rows = []
        for quantity in QUANTITIES:
            for aim in TRIED[quantity]:
                for share in SHARES:
                    row: dict[str, Any] = {"quantity": quantity, "aim": aim, "share": str(share)}
                    for mechanism, name in zip(MECHANISMS, ("pi_cap", "histogram"), strict=True):
                        regrets = [
                            each.choice(mechanism, quantity, epsilon, share, aim).regret
                            for each in self.found
                            for epsilon in each.errors
                        ]
                        row[name] = rounded(geometric_mean(regrets))
                        row[f"{name}_worst"] = rounded(max(regrets))
                    rows.append(row)
        return rows

    def to_json(self) -> dict[str, Any]:
        return {
            "populations": [each.about() for each in self.found],
            "choices": self.rows(),
            "shares": self.shares(),
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


def study(populations: Sequence[Population], detail: Callable[[str], None] = lambda _: None) -> Study:
    """Compute all of it. Args: detail: told how far it is."""
    found = []
    for population in populations:
        detail(population.name)
        rng = np.random.default_rng([SEED, *population.table.ravel()])  # whatever else is studied
        expected = ExpectedErrors(population, CAPS, rng)
        chooser = Chooser(expected, rng)
        errors = {epsilon: expected.at(float(epsilon)) for epsilon in EPSILONS}
        choices = [c for epsilon, least in errors.items() for c in chooser.choices(epsilon, least)]
        found.append(Found(population, errors, tuple(choices)))
    detail("Theorem 1")
    p, thresholds = users_of_theorem_1()
    rng = np.random.default_rng(SEED)
    simulated = tuple(simulate(p, thresholds, gamma, SIZES, RUNS, rng) for gamma in GAMMAS)
    return Study(tuple(found), simulated, tuple(claims()))
