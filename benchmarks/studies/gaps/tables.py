"""Tables 1 and 2 on gaps under local privacy: as published, what that really gives, and repaired."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from benchmarks.papers import gaps, rounds_to
from benchmarks.studies.gaps.published import M_L, M_R, PUBLISHED, REPAIRED, coded_l, least_epsilon, private
from benchmarks.studies.gaps.rates import Rates, resampled
from benchmarks.studies.local_simulation import Floats, Population, Simulated, simulate
from protocols.local_dp.estimators import gap_weights, half_width
from protocols.local_dp.randomizers import MAX_EPSILON, ValueRange

CELLS = {M_R: "m_r", M_L: "m_l"}  # of a mechanism in gaps.json
RATE_RANGE = ValueRange(0, 1)
SCALED = ValueRange(-1, 1)

_LEAST, _MOST = 1e-4, 700.0  # of the epsilons that are tried
_REPEATS = 20_000  # of as many runs as the paper made, drawn from ours


@dataclass(frozen=True)
class Table1Cell:
    """The least epsilon for an error alpha of the gap, with probability 0.99, for two groups of one size.

    Attributes: published: as printed, None: "-"; reproduced: by the same formula, None: no epsilon will do;
    true_epsilon: of that setting, None: there is none; the repaired mechanism (M_L with k = 2) gives:
    repaired_alpha: the error at the same epsilon; repaired: the epsilon for alpha; tight: the same by
    Chernoff's bound, which holds for every n, None: none up to 20.
    """

    mechanism: str
    clients: int
    alpha: float
    published: str | None
    reproduced: float | None
    true_epsilon: Fraction | None
    repaired_alpha: float | None
    repaired: float | None
    tight: float | None

    @property
    def agrees(self) -> bool:
        """Whether the published epsilon is what the formula gives, rounded."""
        if self.published is None or self.reproduced is None:
            return self.published is None and self.reproduced is None
        return rounds_to(self.reproduced, self.published)


def table1() -> list[Table1Cell]:
    """Return the cells, mechanism by mechanism."""
    found, failure = gaps()["table1"], float(gaps()["table1"]["failure"])
    return [
        _table1_cell(mechanism, row["clients"], float(alpha), printed, failure)
        for mechanism, name in CELLS.items()
        for row in found["cells"]
        for alpha, printed in zip(found["alphas"], row[name], strict=True)
    ]


def _table1_cell(
    mechanism: str, clients: int, alpha: float, printed: str | None, failure: float
) -> Table1Cell:
    sizes = (clients / 2, clients / 2)
    published, repaired = PUBLISHED[mechanism], REPAIRED[mechanism]

    def tight(epsilon: float) -> float:
        chosen = private(mechanism, Fraction(epsilon), SCALED)
        return half_width(chosen, sizes, gap_weights(sizes, 0, 1), failure)

    reproduced = least_epsilon(lambda e: published(e).chebyshev(sizes, failure), alpha, _LEAST, _MOST)
    return Table1Cell(
        mechanism,
        clients,
        alpha,
        printed,
        reproduced,
        None if reproduced is None else published(reproduced).true_epsilon(),
        None if reproduced is None else repaired(reproduced).chebyshev(sizes, failure),
        least_epsilon(lambda e: repaired(e).chebyshev(sizes, failure), alpha, _LEAST, _MOST),
        least_epsilon(tight, alpha, _LEAST, float(MAX_EPSILON)),
    )


@dataclass(frozen=True)
class Errors:
    """Errors of the gap over simulated runs, as the paper takes them: of absolute gaps.

    Attributes: mean, deviation: of one run's error; first_mean, first_deviation: of as many runs as the paper
    made; fits_mean, fits_deviation: how often the figure of so many runs is as far out as the published
    one, rounded as it is, on its side, twice; None where none is published.
    """

    mean: float
    deviation: float
    first_mean: float
    first_deviation: float
    fits_mean: float | None = None
    fits_deviation: float | None = None


@dataclass(frozen=True)
class Table2Cell:
    """The error of the gap with 10^7 clients, and the bound alpha that it exceeds in 1 % of runs at most.

    Attributes: published: "error", "deviation", "alpha" as printed; alpha: Eqs. 19 and 20 with the worst
    values, two groups of one size, gap of rates from 0 to 1; alpha_of_the_text: with groups in the proportion
    of the recordings and on the scale from -1 to 1; errors: of the mechanism as printed; coded: M_L as the
    published code has it, a fault emulated; true_epsilon, coded_epsilon: exact, None: there is none;
    repaired_alpha, repaired: of the repaired mechanism at this epsilon.
    """

    mechanism: str
    epsilon: str
    published: dict[str, str]
    alpha: float
    alpha_of_the_text: float
    errors: Errors
    coded: Errors | None
    true_epsilon: Fraction | None
    coded_epsilon: Fraction | None
    repaired_alpha: float
    repaired: Errors

    @property
    def agrees(self) -> bool:
        """Whether the published alpha is what Eqs. 19 and 20 give, rounded."""
        return rounds_to(self.alpha, self.published["alpha"])


def table2(rates: Rates, name: str, runs: int, rng: np.random.Generator) -> Iterator[Table2Cell]:
    """Simulate all clients of Table 2 and yield its cells, mechanism by mechanism.

    Args: name: of the rate whose gap is measured; runs: at least as many as the paper made.
    """
    found = gaps()["table2"]
    half = found["clients"] // 2
    population = resampled(rates.of(name), (half, half))
    for mechanism in CELLS:
        for row in found["cells"]:
            yield _table2_cell(mechanism, row, population, runs, rng)


def _table2_cell(
    mechanism: str,
    row: dict[str, dict[str, str]],
    population: Population,
    runs: int,
    rng: np.random.Generator,
) -> Table2Cell:
    found, recordings = gaps()["table2"], gaps()["activity"]["recordings"]
    failure, printed = float(found["failure"]), row[CELLS[mechanism]]
    text = str(row["epsilon"])
    epsilon, published = float(text), PUBLISHED[mechanism](float(text))
    half, share = found["clients"] / 2, recordings["M"] / sum(recordings.values())
    of_text = (found["clients"] * share, found["clients"] * (1 - share))
    as_coded = coded_l(epsilon) if mechanism == M_L else None
    simulated = simulate(
        [
            published.simulable(RATE_RANGE),
            private(mechanism, Fraction(text), RATE_RANGE),
            *([as_coded.simulable(RATE_RANGE)] if as_coded else []),
        ],
        population,
        runs,
        rng,
    )
    return Table2Cell(
        mechanism,
        text,
        printed,
        published.chebyshev((half, half), failure) * RATE_RANGE.radius,
        published.chebyshev(of_text, failure),
        _errors(simulated[0], rng, printed),
        _errors(simulated[2], rng, printed) if as_coded else None,
        published.true_epsilon(),
        as_coded.true_epsilon() if as_coded else None,
        REPAIRED[mechanism](epsilon).chebyshev((half, half), failure) * RATE_RANGE.radius,
        _errors(simulated[1], rng, None),
    )


def errors_of(simulated: Simulated) -> Floats:
    """Return each run's error as Table 2 takes it: of the gap's absolute value."""
    return np.abs(np.abs(simulated.estimated_gaps()) - abs(simulated.gap()))


def _errors(simulated: Simulated, rng: np.random.Generator, printed: dict[str, str] | None) -> Errors:
    errors, of_paper = errors_of(simulated), gaps()["table2"]["runs"]
    first = errors[:of_paper]
    mean, deviation = float(errors.mean()), float(errors.std(ddof=1))
    plain = Errors(mean, deviation, float(first.mean()), float(first.std(ddof=1)))
    if printed is None:
        return plain
    again = rng.choice(errors, (_REPEATS, of_paper))
    return replace(
        plain,
        fits_mean=chance_of(again.mean(axis=1), printed["error"]),
        fits_deviation=chance_of(again.std(axis=1, ddof=1), printed["deviation"]),
    )


def chance_of(values: Floats, printed: str) -> float:
    """Return the two-sided chance of what is printed, among values rounded alike."""
    digits = len(printed.partition(".")[2])
    rounded, at = np.round(values, digits), round(float(printed), digits)
    near = 10.0 ** -(digits + 3)
    tail = min(float((rounded <= at + near).mean()), float((rounded >= at - near).mean()))
    return min(1.0, 2 * tail)
