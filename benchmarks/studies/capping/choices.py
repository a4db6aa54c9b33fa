"""Ways to choose a cap, and the errors that they leave."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from benchmarks.figures import (
    LOGARITHMIC,
    Mark,
    Panel,
    draw,
    heights_as_numbers,
    legend,
    line,
    place,
    shown,
    ticks,
)
from benchmarks.studies.capping.errors import (
    COUNTS,
    CURVE_QUANTITIES,
    CURVES,
    GAP,
    QUANTITIES,
    RATES,
    SUM,
    THRESHOLDS,
    WEIGHTS,
    CountedClients,
    draw_noise,
    tree_of_curves,
)
from benchmarks.studies.outcome import Row
from fairshares.harness.releases.base import RATIOS
from fairshares.harness.releases.cap.statistic import CAP_SHARE
from fairshares.harness.releases.thresholds.statistic import CURVE_RATIOS, counts_of_curves
from fairshares.harness.views.palette import COLOURS, GREY, MARKERS
from fairshares.protocols.accounting.calibration import (
    AboveThreshold,
    NeighboringRelation,
    Neighbors,
    plan_noise,
)
from fairshares.protocols.arrays import Floats
from fairshares.protocols.mechanisms.above_threshold import (
    allowed_above,
    clients_above,
    distribution_of_first_below,
)

ALL_QUANTITIES = (*QUANTITIES, *CURVE_QUANTITIES)
CELLS = {SUM: 1, COUNTS: 4, WEIGHTS: 4, GAP: 4}  # how many counts are released
# An aim is how many clients may exceed the cap, over the number that is best for the counts. `TRIED` has the
# aims that are compared, `AIMS` the aim of the command `cap`. Aims above 1 are for quantities that are
# ratios: records that all clients lose alike do not change them.
_RATIOS = (1, 4, 8, 16)
_CURVE_RATIOS = (1, 4, 8, 16, 32)
TRIED: dict[str, tuple[int, ...]] = {
    SUM: (1,),
    COUNTS: (1,),
    WEIGHTS: _RATIOS,
    GAP: _RATIOS,
    CURVES: _CURVE_RATIOS,
    RATES: _CURVE_RATIOS,
    THRESHOLDS: _CURVE_RATIOS,
}
AIMS = {
    SUM: 1,
    COUNTS: 1,
    WEIGHTS: RATIOS,
    GAP: RATIOS,
    CURVES: CURVE_RATIOS,
    RATES: CURVE_RATIOS,
    THRESHOLDS: CURVE_RATIOS,
}
COLUMNS = {"pi_cap": "π_CAP", "histogram": "noisy histogram"}  # names by column
PI_CAP, HISTOGRAM = COLUMNS
SHARES = (Fraction(1, 50), Fraction(1, 20), Fraction(1, 10), Fraction(1, 5), Fraction(1, 2))


@dataclass(frozen=True)
class Setting:
    """A total epsilon, and whether the security model is active.

    In active models the noise is for exchanged records, which takes twice the epsilon.
    """

    epsilon: Fraction
    active: bool = False

    def left(self, share: Fraction) -> Fraction:
        """Return the release's epsilon, after this share of the total for the cap."""
        left = self.epsilon * (1 - share)
        if self.active:
            return left / 2
        return left


def target(epsilon: Fraction, quantity: str, aim: int) -> int:
    """Return how many clients should exceed the cap."""
    if quantity in CURVE_QUANTITIES:
        tree = tree_of_curves()
        return allowed_above(epsilon / aim, 4 * counts_of_curves(tree), (tree.bins + 1) // 2)
    return allowed_above(epsilon / aim, CELLS[quantity])


class Chooser:
    """Chooses caps for a population.

    Args:
        population: The clients.
        caps: The caps to choose from, ascending.
        rng: Randomness for noisy histograms. π_CAP's distribution is computed without any.
    """

    def __init__(self, population: CountedClients, caps: tuple[int, ...], rng: np.random.Generator) -> None:
        self.caps = caps
        self._above = clients_above(population.sizes, self.caps[:-1])
        self._uniform = rng.random((2, 4096, len(self._above)))  # 4,096 histograms

    def choices(
        self, setting: Setting, share: Fraction, left: dict[str, pd.DataFrame], least: dict[str, pd.DataFrame]
    ) -> Iterator[dict[str, Any]]:
        """Yield percentiles of the cap, and its regret, by mechanism, quantity and aim.

        Args:
            setting: The total epsilon and the security model.
            share: The share of epsilon that the choice of the cap takes.
            left: The errors by cap with the epsilon that is left, by quantity.
            least: The errors by cap with all of epsilon, by quantity.
        """
        spent = setting.epsilon * share
        distributions: dict[int, dict[str, Floats]] = {}  # by number of clients above, then mechanism
        for quantity, errors in left.items():
            least_error = least[quantity]["total"].min()
            for aim in TRIED[quantity]:
                above = target(setting.left(share), quantity, aim)
                if above not in distributions:
                    distributions[above] = {
                        PI_CAP: self.distribution_of_pi_cap(spent, above),
                        HISTOGRAM: self.distribution_of_histogram(float(spent), above),
                    }
                for mechanism, distribution in distributions[above].items():
                    yield {
                        "mechanism": mechanism,
                        "quantity": quantity,
                        "setting": setting,
                        "share": share,
                        "aim": aim,
                        "5": self.quantile(distribution, 0.05),
                        "50": self.quantile(distribution, 0.5),
                        "95": self.quantile(distribution, 0.95),
                        "regret": float(distribution @ errors["total"] / least_error),
                    }

    def distribution_of_pi_cap(self, epsilon: Fraction, above: int) -> Floats:
        """Return the probability of each cap by π_CAP: the exact one, but for the rounding of floats."""
        plan = plan_noise(
            AboveThreshold(len(self._above)),
            Neighbors(NeighboringRelation.ZERO_OUT_ONE),
            epsilon,
            Fraction(1, 1 << 40),
        )
        return distribution_of_first_below(plan.coins, self._above, above)

    def distribution_of_histogram(self, epsilon: float, above: int) -> Floats:
        """Simulate how often a noisy histogram of sizes chooses each cap."""
        noisy = draw_noise(epsilon, 1, self._uniform) - np.diff(np.append(self._above, 0))
        exceed = np.cumsum(noisy[:, ::-1], axis=1)[:, ::-1]
        fits = np.append(exceed <= above, np.ones((len(noisy), 1), dtype=bool), axis=1)
        return np.bincount(fits.argmax(axis=1), minlength=len(self.caps)) / len(noisy)

    def quantile(self, distribution: Floats, level: float) -> int:
        """Return the quantile of this level, from 0 to 1, of the chosen cap."""
        place = int(np.searchsorted(np.cumsum(distribution), level))
        last = len(self.caps) - 1  # rounding can leave the probabilities' sum below the level
        return self.caps[min(place, last)]


LABELS = {
    SUM: "number of records:\nerror, records",
    COUNTS: "4 counts together:\nerror, records",
    WEIGHTS: "sample weights:\nmean |ln(weight / true)|",
    GAP: "gap between groups:\nerror of the rates' difference",
    CURVES: "curves' counts:\nmean error, records",
    RATES: "true and false positive rates:\nmean error",
    THRESHOLDS: "thresholds for equal opportunity:\ngap left",
}
_SHORT = {
    SUM: "number of records",
    COUNTS: "four counts",
    WEIGHTS: "sample weights",
    GAP: "gap between groups",
    CURVES: "curves' counts",
    RATES: "true and false positive rates",
    THRESHOLDS: "gap left by thresholds",
}
_REGRET = "expected error / least, all ε for the release"


def targets(rows: Sequence[Row]) -> Figure:
    """Draw the regret by the aim: by how many clients may exceed the cap."""
    panels = [_target(rows, quantity) for quantity in (WEIGHTS, GAP, RATES, THRESHOLDS)]
    return draw(
        [panels],
        (14, 4.2),
        f"How low to aim, passive models, {CAP_SHARE} of ε for π_CAP: geometric mean and worst",
        x="clients above, over the rule's",
        y=[_REGRET],
        legend_columns=4,
        sharey=True,
    )


def _target(rows: Sequence[Row], quantity: str) -> Panel:
    rows = [row for row in rows if row["quantity"] == quantity]
    kinds = {"chosen": "populations that it was chosen by", "held_out": "held out"}
    marks: list[Mark] = []
    for colour, (kind, label) in zip(COLOURS, kinds.items(), strict=False):
        if kind not in rows[0]:
            continue
        for column, name, style in ((kind, label, "-"), (f"{kind}_worst", f"{label}: worst", ":")):
            marks.append(
                line(
                    TRIED[quantity],
                    [row[column] for row in rows],
                    color=colour,
                    linestyle=style,
                    marker=MARKERS[0],
                    markersize=4,
                    label=name,
                )
            )
    marks += [
        place(AIMS[quantity], color=GREY, linewidth=1, zorder=0),
        LOGARITHMIC,
        shown(title=_SHORT[quantity]),
        ticks({aim: str(aim) for aim in TRIED[quantity]}),
        heights_as_numbers,
    ]
    return marks


def shares(rows: Sequence[Row], populations: int, epsilons: str) -> Figure:
    """Draw the price of choosing the cap, by its share of epsilon."""
    counted = [_price(rows, SUM), _price(rows, COUNTS)]
    ratios = [_price(rows, WEIGHTS), _price(rows, GAP)]
    return draw(
        [counted, ratios],
        (11, 7.6),
        f"What choosing the cap costs: geometric mean, {populations} populations and ε = {epsilons}",
        x="share of ε spent on choosing the cap",
        y=[_REGRET, _REGRET],
        sharex=True,
    )


def _price(rows: Sequence[Row], quantity: str) -> Panel:
    rows = [row for row in rows if row["quantity"] == quantity]
    # The words for each aim. The legend needs room above all lines.
    if AIMS[quantity] == 1:
        aims = {1: ""}
        room = 1.25
        corner = "upper right"
    else:
        aims = {1: ", B/ε clients above", AIMS[quantity]: f", {AIMS[quantity]} B/ε clients above"}
        room = 2
        corner = "upper left"
    names = {float(share): str(share) for share in SHARES}
    highest = max(row[column] for row, column in product(rows, COLUMNS))
    marks: list[Mark] = []
    for colour, (aim, words) in zip(COLOURS, aims.items(), strict=False):
        of_aim = [row for row in rows if row["aim"] == aim]
        for (column, mechanism), style, marker in zip(COLUMNS.items(), ("-", "--"), MARKERS, strict=False):
            marks.append(
                line(
                    list(names),
                    [row[column] for row in of_aim],
                    color=colour,
                    linestyle=style,
                    marker=marker,
                    markersize=5,
                    label=mechanism + words,
                )
            )
    marks += [
        LOGARITHMIC,
        ticks(names),
        heights_as_numbers,
        shown(ylim=(1, room * highest), title=_SHORT[quantity]),
        legend(loc=corner),
    ]
    return marks
