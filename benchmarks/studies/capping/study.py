"""The study of caps: the best cap for each quantity, by the paper's rule and by π_CAP; and the bounds."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import gmean

from benchmarks.figures import LOGARITHMIC, Panel, draw, heights_as_numbers, line, place, shown, ticks
from benchmarks.studies.capping.bounds import claims
from benchmarks.studies.capping.errors import (
    BINS,
    CHOICES,
    COUNTS,
    CURVE_QUANTITIES,
    DRAWS,
    GAP,
    MOST,
    NOISES,
    QUANTITIES,
    RATES,
    SUM,
    THRESHOLDS,
    WEIGHTS,
    ExpectedCurveErrors,
    ExpectedErrors,
    Population,
    tree_of_curves,
)
from benchmarks.studies.outcome import Outcome, Row, grouped, rounded
from harness.releases.contribution_cap import CAP_SHARE, CURVE_RATIOS, RATIOS, counts_of_curves
from harness.views.palette import COLOURS, GREY, MARKERS
from harness.views.parts import Bad, Good, Part
from protocols.accounting.calibration import AboveThreshold, NeighboringRelation, Neighbors, plan_noise
from protocols.arrays import Floats
from protocols.mechanisms.above_threshold import (
    allowed_above,
    best_cap,
    caps_up_to,
    clients_above,
    distribution_of_first_below,
)

SEED = 20_191_210  # any
CAPS = caps_up_to(MOST)
CELLS = {SUM: 1, COUNTS: 4, WEIGHTS: 4, GAP: 4}  # how many counts are released
# The clients that may exceed the cap, over the number that is best for the counts: ratios tried, and that of
# `cap`. Records that all clients lose alike do not change ratios.
TRIED: Mapping[str, Sequence[int]] = {
    **dict.fromkeys((SUM, COUNTS), (1,)),
    **dict.fromkeys((WEIGHTS, GAP), (1, 4, 8, 16)),
    **dict.fromkeys(CURVE_QUANTITIES, (1, 4, 8, 16, 32)),
}
AIMS = {
    **dict.fromkeys((SUM, COUNTS), 1),
    **dict.fromkeys((WEIGHTS, GAP), RATIOS),
    **dict.fromkeys(CURVE_QUANTITIES, CURVE_RATIOS),
}
RESULT, TARGETS = "capping.json", "targets.png"
_SHOWN = "1"  # epsilon of the table that is printed
_TITLES = {
    WEIGHTS: "sample weights",
    GAP: "gap between groups",
    RATES: "true and false positive rates",
    THRESHOLDS: "gap left by thresholds",
}


@dataclass(frozen=True)
class Setting:
    """A total epsilon, and whether models are active: noise is then for exchanged records."""

    epsilon: Fraction
    active: bool = False

    def left(self, share: Fraction) -> Fraction:
        """Return the release's epsilon, after a share for the cap."""
        return self.epsilon * (1 - share) / (2 if self.active else 1)


EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(4))
SETTINGS = (*map(Setting, EPSILONS), Setting(Fraction(1), active=True))


def target(epsilon: Fraction, quantity: str, aim: int) -> int:
    """Return how many clients should exceed the cap."""
    if quantity in CURVE_QUANTITIES:
        tree = tree_of_curves()
        return allowed_above(epsilon / aim, 4 * counts_of_curves(tree), (tree.bins + 1) // 2)
    return allowed_above(epsilon / aim, CELLS[quantity])


def distribution_of_cap(population: Population, epsilon: Fraction, above: int) -> Floats:
    """Return the probability of each of `CAPS` by π_CAP, exactly but for floats."""
    exceeding = clients_above(population.sizes, CAPS[:-1])
    unit = Neighbors(NeighboringRelation.ZERO_OUT_ONE)
    plan = plan_noise(AboveThreshold(len(exceeding)), unit, epsilon, Fraction(1, 1 << 40))
    return distribution_of_first_below(plan.coins, exceeding, above)


def study(
    populations: Sequence[Population],
    held_out: Sequence[Population] = (),
    detail: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Study each population; no target was chosen by those held out."""
    about, caps, tried = list[Row](), list[Row](), list[Row]()
    for population in (*populations, *held_out):
        detail(population.name)
        sizes, kind = population.sizes, "held_out" if population in held_out else "chosen"
        about.append(
            {
                "name": population.name,
                "held_out": population in held_out,
                "clients": len(sizes),
                "records": int(sizes.sum()),
                "median": float(np.median(sizes)),
                "largest": int(sizes.max()),
                "table": population.table.tolist(),
            }
        )
        seed = [SEED, *population.table.ravel()]  # independent of other populations
        errors = (
            ExpectedErrors(population, CAPS, np.random.default_rng(seed)),
            ExpectedCurveErrors(population, CAPS, np.random.default_rng([*seed, 1])),
        )
        for setting in SETTINGS:
            least, left = (
                pd.concat([of.at(float(setting.left(share))) for of in errors], axis=1)
                for share in (Fraction(0), CAP_SHARE)
            )
            for quantity in least:
                row, regrets = _chosen(population, setting, str(quantity), least[quantity], left[quantity])
                caps.append(row)
                kinds = {"quantity": quantity, "kind": kind + "_active" * setting.active}
                tried += [{**kinds, "aim": aim, "regret": regret} for aim, regret in regrets.items()]
    numbers: dict[str, Any] = {
        "populations": about,
        "choices": caps,
        "targets": _regrets(pd.DataFrame(tried)),
        "claims": claims(),
    }
    return Outcome(
        {
            "seed": SEED,
            "epsilons": [str(epsilon) for epsilon in EPSILONS],
            "drawn_per_cap": {"choices_of_records": CHOICES, "noises": NOISES, "curves": DRAWS},
            "thresholds": BINS,
        },
        numbers,
        view(numbers),
        result=RESULT,
        figures={TARGETS: lambda: targets(numbers["targets"])},
        dpi=90,
    )


def _chosen(
    population: Population,
    setting: Setting,
    quantity: str,
    errors: "pd.Series[float]",
    left: "pd.Series[float]",
) -> tuple[Row, dict[int, float]]:
    """Return a quantity's best cap, the rule's, and π_CAP's by percentiles; and the regret of each aim.

    The regret is the error over the least of any cap with all of epsilon.
    """
    # The paper's rule, from the contributions themselves: it is not private.
    rule = best_cap(population.sizes, CAPS, target(setting.left(Fraction(0)), quantity, 1))
    distributions = {
        aim: distribution_of_cap(
            population, setting.epsilon * CAP_SHARE, target(setting.left(CAP_SHARE), quantity, aim)
        )
        for aim in TRIED[quantity]
    }
    least = float(errors.min())
    regrets = {aim: float(np.dot(chances, left)) / least for aim, chances in distributions.items()}
    below = np.cumsum(distributions[AIMS[quantity]])
    row = {
        "population": population.name,
        "epsilon": str(setting.epsilon),
        "models": "active" if setting.active else "passive",
        "quantity": quantity,
        "best_cap": CAPS[int(errors.argmin())],
        "least_error": rounded(least),
        "rule_cap": rule,
        "rule_regret": rounded(float(errors[rule]) / least),
        **{
            f"pi_cap_{at}": CAPS[min(int(np.searchsorted(below, at / 100)), len(CAPS) - 1)]
            for at in (5, 50, 95)
        },
        "pi_cap_regret": rounded(regrets[AIMS[quantity]]),
    }
    return row, regrets


def _regrets(tried: pd.DataFrame) -> list[Any]:
    """Return regrets' geometric mean and the worst, a row per quantity and aim."""
    several = [name for name in (*QUANTITIES, *CURVE_QUANTITIES) if len(TRIED[name]) > 1]
    means = tried.groupby(["quantity", "aim", "kind"], sort=False)["regret"].agg([gmean, "max"])
    table = pd.DataFrame(means.loc[several].map(rounded).unstack("kind", sort=False))
    table.columns = [at[1] + "_worst" * (at[0] == "max") for at in table.columns]
    return table.reset_index().to_dict("records")


def view(numbers: Mapping[str, Any]) -> Iterator[Part]:
    """View the caps, how low to aim, and the paper's statements."""
    yield grouped(
        ("", "of", "best cap", "error", "rule: cap", "regret", "π_CAP: 5, 50, 95 %", "regret"),
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
            ]
            for row in numbers["choices"]
            if (row["epsilon"], row["models"]) == (_SHOWN, "passive")
        ],
        alignment="llrrrrrr",
        title=f"Caps at ε = {_SHOWN}",
    )
    heads = {"chosen": "chosen by", "chosen_active": "active, ε = 1"}
    if "held_out" in numbers["targets"][0]:
        heads |= {"held_out": "held out", "held_out_active": "active, ε = 1"}
    yield grouped(
        ["of", "clients above", *heads.values()],
        [
            [
                row["quantity"],
                f"{row['aim']}{' *' * (row['aim'] == AIMS[row['quantity']])}",
                *(f"{row[kind]:.2f} ({row[f'{kind}_worst']:.1f})" for kind in heads),
            ]
            for row in numbers["targets"]
        ],
        title=f"How low to aim: π_CAP's regret with {CAP_SHARE} of ε, and the worst",
    )
    marks = {True: Good("holds"), False: Bad("no"), None: ""}
    yield grouped(
        ["", "stated", "", "found"],
        [
            [claim["where"], claim["published"], marks[claim["holds"]], claim["found"]]
            for claim in numbers["claims"]
        ],
        alignment="llll",
        title="What the paper states",
    )
    yield (
        "Regret: the expected error over the least that any cap leaves with all of ε. π_CAP spends "
        f"{CAP_SHARE} of ε on the cap; for weights and gaps it lets {RATIOS} times as many "
        f"clients exceed it as the rule does, for curves {CURVE_RATIOS} times. The rule reads the "
        "contributions themselves: it is not private."
    )


def targets(rows: Sequence[Row]) -> Figure:
    """Draw the price of aiming at more clients."""
    return draw(
        [[_target([row for row in rows if row["quantity"] == name]) for name in _TITLES]],
        (14, 4.2),
        f"How low to aim, passive models, {CAP_SHARE} of ε for π_CAP: geometric mean and worst",
        x="clients above, over the rule's",
        y=["expected error / least, all ε for the release"],
        legend_columns=4,
        sharey=True,
    )


def _target(rows: Sequence[Row]) -> Panel:
    quantity = rows[0]["quantity"]
    kinds = {"chosen": "populations that it was chosen by", "held_out": "held out"}
    return [
        *(
            line(
                TRIED[quantity],
                [row[kind + suffix] for row in rows],
                color=colour,
                linestyle=style,
                marker=MARKERS[0],
                markersize=4,
                label=f"{label}{': worst' if suffix else ''}",
            )
            for colour, (kind, label) in zip(COLOURS, kinds.items(), strict=False)
            for suffix, style in (("", "-"), ("_worst", ":"))
            if kind in rows[0]
        ),
        place(AIMS[quantity], color=GREY, linewidth=1, zorder=0),
        LOGARITHMIC,
        shown(title=_TITLES[quantity]),
        ticks({aim: str(aim) for aim in TRIED[quantity]}),
        heights_as_numbers,
    ]
