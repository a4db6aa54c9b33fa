"""The study of caps: errors by the cap, caps by several rules, the paper's bounds; its numbers and tables."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import gmean

from benchmarks.studies.capping import figures
from benchmarks.studies.capping.bounds import Simulated, claims, simulate, users_of_theorem_1
from benchmarks.studies.capping.choices import (
    AIMS,
    ALL_QUANTITIES,
    COLUMNS,
    PI_CAP,
    SHARES,
    TRIED,
    Chooser,
    Found,
    Setting,
    by_rule,
)
from benchmarks.studies.capping.errors import (
    BINS,
    CHOICES,
    CURVE_QUANTITIES,
    DRAWS,
    NOISES,
    QUANTITIES,
    ExpectedCurveErrors,
    ExpectedErrors,
)
from benchmarks.studies.capping.population import MOST, Population
from benchmarks.studies.outcome import Outcome, Row, grouped, rounded
from harness.releases.contribution_cap import CAP_SHARE, CURVE_RATIOS, RATIOS
from harness.views.parts import Bad, Good, Part, Table
from protocols.mechanisms.above_threshold import caps_up_to

SEED = 20_191_210  # any
CAPS = caps_up_to(MOST)
EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(4))
SETTINGS = (*map(Setting, EPSILONS), Setting(Fraction(1), active=True))
GAMMAS, SIZES, RUNS = (0.3, 0.1, 0.03), (100, 300, 1_000, 3_000, 10_000, 30_000), 20  # of Theorem 1
RESULT, ERRORS = "capping.json", "errors.csv"
BOUNDS, PRICE, TARGETS = "bounds.png", "shares.png", "targets.png"
_SHOWN = "1"  # epsilon of the table that is printed
# By a name of results: whether populations were held out, and models active.
_KINDS = {
    "chosen": (False, False),
    "chosen_active": (False, True),
    "held_out": (True, False),
    "held_out_active": (True, True),
}


def study(
    populations: Sequence[Population],
    held_out: Sequence[Population] = (),
    detail: Callable[[str], None] = lambda _: None,
) -> tuple[list[Found], list[Simulated]]:
    """Compute what there is of each population, and Theorem 1's simulation for each cap.

    Args: held_out: populations that no target or share was chosen by; detail: told how far it is.
    """
    found = []
    for population in (*populations, *held_out):
        detail(population.name)
        found.append(_study_of(population, population in held_out))
    detail("Theorem 1")
    rng = np.random.default_rng(SEED)
    return found, [simulate(*users_of_theorem_1(), gamma, SIZES, RUNS, rng) for gamma in GAMMAS]


def _study_of(population: Population, held_out: bool) -> Found:
    seed = [SEED, *population.table.ravel()]  # whatever else is studied
    rng = np.random.default_rng(seed)
    expected = ExpectedErrors(population, CAPS, rng)
    chooser = Chooser(population, CAPS, rng)
    curves = ExpectedCurveErrors(population, CAPS, np.random.default_rng([*seed, 1]))
    found = Found(population, {}, {}, held_out)
    for setting in SETTINGS:
        epsilon = float(setting.left(Fraction(0)))
        found.errors[setting] = expected.at(epsilon) | curves.at(epsilon)
        for share in (CAP_SHARE,) if held_out or setting.active else SHARES:
            epsilon = float(setting.left(share))
            left = expected.at(epsilon)
            if share == CAP_SHARE:  # curves take longer
                left |= curves.at(epsilon, noise_alone=False)
            found.choices.update(chooser.choices(setting, share, left, found.errors[setting]))
    return found


def _about(found: Found) -> Row:
    """Return what results say of a population: its size, how much its clients have, and its table."""
    sizes = found.population.sizes
    return {
        "name": found.population.name,
        "held_out": found.held_out,
        "clients": len(sizes),
        "records": int(sizes.sum()),
        "median": float(np.median(sizes)),
        "largest": int(sizes.max()),
        "table": found.population.table.tolist(),
    }


def _caps(found: Found) -> Iterator[Row]:
    """Yield a row per setting and quantity: the best cap, the rule's, and what is chosen privately."""
    for setting, by_quantity in found.errors.items():
        for quantity, errors in by_quantity.items():
            rule = by_rule(found.population, errors.caps, setting.left(Fraction(0)), quantity)
            least = float(errors.total.min())
            row: dict[str, Any] = {
                "population": found.population.name,
                "epsilon": str(setting.epsilon),
                "models": setting.models,
                "quantity": quantity,
                "best_cap": errors.best,
                "least_error": rounded(least),
                "rule_cap": rule,
                "rule_regret": rounded(float(errors.total[errors.caps.index(rule)]) / least),
            }
            for name, mechanism in COLUMNS.items():
                choice = found.choices[mechanism, quantity, setting, CAP_SHARE, AIMS[quantity]]
                row |= {
                    f"{name}_5": choice.low,
                    f"{name}_50": choice.middle,
                    f"{name}_95": choice.high,
                    f"{name}_regret": rounded(choice.regret),
                }
            yield row


def _errors(found: Found) -> Iterator[Row]:
    """Yield the errors at every cap; what was not computed is empty."""
    for setting, by_quantity in found.errors.items():
        for quantity, errors in by_quantity.items():
            for cap, noise, missing, total in zip(
                errors.caps, errors.noise, errors.bias, errors.total, strict=True
            ):
                yield {
                    "population": found.population.name,
                    "epsilon": str(setting.epsilon),
                    "models": setting.models,
                    "quantity": quantity,
                    "cap": cap,
                    "noise": "" if np.isnan(noise) else rounded(noise),
                    "bias": rounded(missing),
                    "total": rounded(total),
                }


def _regret(
    found: Sequence[Found],
    name: str,
    mechanism: str,
    quantity: str,
    share: Fraction,
    aim: int,
    held_out: bool = False,
    active: bool = False,
) -> Row:
    """Return the geometric mean of these populations and settings, and the worst; nothing of none."""
    regrets = [
        each.choices[mechanism, quantity, setting, share, aim].regret
        for each in found
        for setting in each.errors
        if each.held_out is held_out and setting.active is active
    ]
    return {name: rounded(gmean(regrets)), f"{name}_worst": rounded(max(regrets))} if regrets else {}


def _shares(found: Sequence[Found]) -> Iterator[Row]:
    """Yield, for each share of epsilon, the regret over the populations that it was chosen by."""
    for quantity in QUANTITIES:
        for aim in TRIED[quantity]:
            for share in SHARES:
                row: dict[str, Any] = {"quantity": quantity, "aim": aim, "share": str(share)}
                for name, mechanism in COLUMNS.items():
                    row |= _regret(found, name, mechanism, quantity, share, aim)
                yield row


def _targets(found: Sequence[Found]) -> Iterator[Row]:
    """Yield, for each target of ratios and curves, π_CAP's regret where it was chosen and held out."""
    for quantity in ALL_QUANTITIES:
        for aim in TRIED[quantity] if len(TRIED[quantity]) > 1 else ():
            row: dict[str, Any] = {"quantity": quantity, "aim": aim}
            for kind, (held_out, active) in _KINDS.items():
                row |= _regret(found, kind, PI_CAP, quantity, CAP_SHARE, aim, held_out, active)
            yield row


def outcome(found: Sequence[Found], simulated: Sequence[Simulated]) -> Outcome:
    """Return all numbers, the errors at every cap, and figures of each population but those held out."""
    numbers: dict[str, Any] = {
        "populations": [_about(each) for each in found],
        "choices": [row for each in found for row in _caps(each)],
        "shares": list(_shares(found)),
        "targets": list(_targets(found)),
        "theorem_1": [
            {
                "gamma": each.gamma,
                "bias": rounded(each.bias),
                "errors": {str(n): rounded(error) for n, error in each.errors.items()},
            }
            for each in simulated
        ],
        "claims": [asdict(claim) for claim in claims()],
    }
    drawn: dict[str, Callable[[], Figure]] = {
        f"{name}-{each.population.slug}.png": partial(figures.errors_by_cap, each, _about(each), quantities)
        for each in found
        if not each.held_out
        for name, quantities in (("errors", QUANTITIES), ("curves", CURVE_QUANTITIES))
    }
    drawn[TARGETS] = partial(figures.targets, numbers["targets"])
    drawn[PRICE] = partial(figures.shares, numbers["shares"], found)
    drawn[BOUNDS] = partial(figures.bounds, simulated)
    return Outcome(
        {
            "seed": SEED,
            "epsilons": [str(epsilon) for epsilon in EPSILONS],
            "drawn_per_cap": {"choices_of_records": CHOICES, "noises": NOISES, "curves": DRAWS},
            "thresholds": BINS,
            "runs_of_theorem_1": RUNS,
        },
        numbers,
        view(numbers),
        tables={ERRORS: [row for each in found for row in _errors(each)]},
        result=RESULT,
        figures=drawn,
        dpi=90,
    )


def view(numbers: Mapping[str, Any]) -> Iterator[Part]:
    """View what the caps are at epsilon 1, what choosing costs, and what the paper states."""
    yield _table_of_caps(numbers["choices"])
    yield _table_of_shares(numbers["shares"])
    yield _table_of_targets(numbers["targets"])
    marks = {True: Good("holds"), False: Bad("no"), None: ""}
    yield grouped(
        ["", "stated", "", "found"],
        [
            [each["where"], each["published"], marks[each["holds"]], each["found"]]
            for each in numbers["claims"]
        ],
        alignment="llll",
        title="What the paper states",
    )
    yield (
        "Regret: the expected error over the least that any cap leaves with all of ε. π_CAP and histograms "
        f"spend {CAP_SHARE} of ε on the cap; for weights and gaps they let {RATIOS} times as many "
        f"clients exceed it as the rule does, for curves {CURVE_RATIOS} times. The rule reads the "
        "contributions themselves: it is not private."
    )


def _table_of_caps(rows: Sequence[Row]) -> Table:
    return grouped(
        (
            *("", "of", "best cap", "error", "rule: cap", "regret"),
            *("π_CAP: 5, 50, 95 %", "regret", "histogram: regret"),
        ),
        [
            [
                row["population"],
                row["quantity"],
                f"{row['best_cap']:,}",
                f"{row['least_error']:,.3g}" if row["least_error"] < 1000 else f"{row['least_error']:,.0f}",
                f"{row['rule_cap']:,}",
                f"{row['rule_regret']:.2f}",
                ", ".join(f"{row[f'pi_cap_{at}']:,}" for at in (5, 50, 95)),
                f"{row['pi_cap_regret']:.2f}",
                f"{row['histogram_regret']:.2f}",
            ]
            for row in rows
            if (row["epsilon"], row["models"]) == (_SHOWN, "passive")
        ],
        alignment="llrrrrrrr",
        title=f"Caps at ε = {_SHOWN}",
    )


def _table_of_shares(rows: Sequence[Row]) -> Table:
    return grouped(
        ("of", "clients above", "share", "π_CAP: regret", "worst", "histogram: regret", "worst"),
        [
            [
                row["quantity"],
                "B/ε" if row["aim"] == 1 else f"{row['aim']} B/ε",
                row["share"],
                *(f"{row[name]:.2f}" for name in ("pi_cap", "pi_cap_worst", "histogram", "histogram_worst")),
            ]
            for row in rows
            if row["aim"] in (1, AIMS[row["quantity"]])
        ],
        2,
        title="The price of choosing the cap, over all populations and ε",
    )


def _table_of_targets(rows: Sequence[Row]) -> Table:
    """Of what was held out, if anything was."""
    heads = {"chosen": "chosen by", "chosen_active": "active, ε = 1"}
    if "held_out" in rows[0]:
        heads |= {"held_out": "held out", "held_out_active": "active, ε = 1"}
    return grouped(
        ["of", "clients above", *heads.values()],
        [
            [
                row["quantity"],
                f"{row['aim']}{' *' * (row['aim'] == AIMS[row['quantity']])}",
                *(f"{row[kind]:.2f} ({row[f'{kind}_worst']:.1f})" for kind in heads),
            ]
            for row in rows
        ],
        title=f"How low to aim: π_CAP's regret with {CAP_SHARE} of ε, and the worst",
    )
