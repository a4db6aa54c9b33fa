"""Privacy and error of noisy logarithms by the size of the group."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from operator import methodcaller
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from benchmarks.figures import LEGEND, LOGARITHMIC, Mark, Marker, Panel, draw, level, line, shown
from benchmarks.studies.outcome import Row, StudyResult
from fairshares.harness.views.palette import COLOURS, GREY
from fairshares.harness.views.parts import Part, Table
from fairshares.protocols.accounting.calibration import NeighboringRelation, Neighbors, logarithms, plan_noise
from fairshares.protocols.accounting.rounding import digits_up, float_up
from fairshares.protocols.arrays import Floats
from fairshares.protocols.circuits.coins import Coins
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.mechanisms.shifted_log import (
    ErrorTarget,
    ShiftedLog,
    expected_errors,
    plan_logarithm,
)

RELATION = NeighboringRelation.ADD_OR_REMOVE_ONE
EPSILON = Fraction(1)
DELTA = Fraction(1, 1 << 40)
TARGET = ErrorTarget(0.1, 100, 1 << 20)  # the default of `count`

# Numerical integrals over the noise of two stages.
_FIRST_STAGE_SDS = 25.0  # how far they reach, in standard deviations of the first noise
_POINTS = 4_001
_LEAST = 1e-7  # how near they come to 0, in standard deviations of the first noise


# Algorithm 1 of Pujol and Desfontaines, as in Figure 1: X ~ N(count, SPREAD^2), Y ~ N(X, (RELATIVE X)^2).
SPREAD = 10.0
RELATIVE = 0.3
PROVEN_RHO = 1 / (2 * SPREAD**2)  # Y is computed from X, which is rho-zCDP with this rho


def density(y: Floats, count: float) -> Floats:
    """Return the density of Algorithm 1's Y, by the trapezoid rule over X."""
    x = _grid(count, _FIRST_STAGE_SDS * SPREAD)
    weight = np.exp(-(((x - count) / SPREAD) ** 2) / 2)
    scale = RELATIVE * np.abs(x)
    parts = []
    for part in np.array_split(y, len(y) // 256 + 1):  # bounded memory
        of_second_stage = np.exp(-(((part[:, np.newaxis] - x) / scale) ** 2) / 2)
        parts.append(np.trapezoid(weight / scale * of_second_stage, x, axis=1))
    return np.concatenate(parts) / (2 * np.pi * SPREAD)


def sampled(count: float, n: int, rng: np.random.Generator) -> Floats:
    """Draw Algorithm 1's Y n times, for figures."""
    x = rng.normal(count, SPREAD, n)
    return rng.normal(x, np.abs(RELATIVE * x))


def numerical_rho(count: float) -> float:
    """Estimate the largest Rényi divergence over its order, for neighboring counts. It is no bound."""
    y = _grid(count, 12 * float(np.hypot(SPREAD, RELATIVE * (abs(count) + 3 * SPREAD))))
    p = np.log(np.maximum(density(y, count), 1e-300))
    q = np.log(np.maximum(density(y, count + 1), 1e-300))
    ratios = [0.0]
    for order in (1.01, 1.1, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0):
        for power in (order * p + (1 - order) * q, order * q + (1 - order) * p):
            top = float(power.max())
            integral = top + np.log(np.trapezoid(np.exp(power - top), y))
            ratios.append(float(integral) / (order - 1) / order)
    return max(ratios)


def _grid(center: float, reach: float) -> Floats:
    """Return points around `center`, evenly spaced, and closer to each other near 0 if 0 is in reach."""
    even: Floats = np.linspace(center - reach, center + reach, _POINTS)
    if abs(center) > _FIRST_STAGE_SDS * SPREAD:
        return even  # evenly spaced, the trapezoid rule is nearly exact
    close = np.geomspace(_LEAST * SPREAD, abs(center) + reach, _POINTS // 5)
    points = np.unique(np.concatenate([even, close, -close]))
    return np.asarray(points[(np.abs(points - center) <= reach) & (np.abs(points) >= _LEAST * SPREAD)])


def gaussian_log_rho(count: int, offset: float, sigma: float) -> float:
    """Return rho (zCDP) of ln(count + offset) + sigma Z in real numbers, by Finley et al. 2024."""
    m = max(count, 1)
    return float(np.log((m + offset) / (m - 1 + offset)) ** 2 / (2 * sigma**2))


SEEMING = "rho, Algorithm 1 (numerical)"
SEED = 20_211_103  # arbitrary; for simulations alone


@dataclass(frozen=True)
class Mechanism:
    """A logarithm with its noise and charge. With a large offset it is a plain count."""

    name: str
    distribution: ShiftedLog
    coins: Coins
    charged: Guarantee

    def epsilons(self, counts: Sequence[int]) -> list[float]:
        """Return a record's epsilon, rounded up, by its group's size."""
        steps = [self.distribution.step(count) for count in counts]
        by_step: dict[int, float] = {}  # there are few steps, and the epsilon of each takes a while
        for step, count in zip(steps, counts, strict=True):
            if step not in by_step:
                by_step[step] = float_up(self.distribution.guarantee_at(count, self.coins).epsilon)
        return [by_step[step] for step in steps]

    def relative_errors(self, counts: Sequence[int]) -> Floats:
        """Return E|estimate - count| / max(count, 1) for each count."""
        return expected_errors(self.distribution, counts, self.coins) / np.maximum(counts, 1)


def mechanisms_of(target: ErrorTarget, epsilon: Fraction) -> list[Mechanism]:
    """Return `count`'s logarithm, and plain noise with the same charge and the same target."""
    distribution, charged = plan_logarithm(target, Neighbors(RELATION), epsilon, DELTA)
    plain = ShiftedLog(1 << target.most.bit_length(), target.most)
    mechanisms = [
        _mechanism("logarithm", distribution, charged),
        _mechanism("plain noise, same charge", plain, charged),
    ]
    for share in range(1, 65):
        least = _mechanism("plain noise, same target", plain, charged * Fraction(share, 64))
        if target.met_by(plain, least.coins):
            mechanisms.append(least)
            break
    return mechanisms


def _rows(target: ErrorTarget, mechanisms: Sequence[Mechanism]) -> list[Any]:
    offset = mechanisms[0].distribution.offset
    counts = [10**power for power in range(int(np.log10(target.most)) + 1)]
    epsilons = {f"epsilon, {mechanism.name}": mechanism.epsilons(counts) for mechanism in mechanisms}
    errors = {}
    for mechanism in mechanisms:
        errors[f"relative error, {mechanism.name}"] = mechanism.relative_errors(counts)
    columns = {
        "records": counts,
        **epsilons,
        **errors,
        "rho, Gaussian logarithm": [
            gaussian_log_rho(count, offset, gaussian_scale(target, offset)) for count in counts
        ],
        SEEMING: [numerical_rho(count) for count in counts],
        "rho, Algorithm 1 (proven)": PROVEN_RHO,
    }
    return pd.DataFrame(columns).to_dict("records")


def gaussian_scale(target: ErrorTarget, offset: int) -> float:
    """Return sigma of Gaussian noise on the logarithm, for the target at its least count."""
    share = target.relative * target.least / (2 * (target.least + offset))
    return 2 * NormalDist().inv_cdf((1 + share) / 2)


def _mechanism(name: str, distribution: ShiftedLog, epsilon: Fraction) -> Mechanism:
    plan = plan_noise(logarithms(2, distribution.first_step), Neighbors(RELATION), epsilon, DELTA)
    return Mechanism(name, distribution, plan.coins, plan.exact)


def figure(
    target: ErrorTarget, mechanisms: Sequence[Mechanism], rows: Sequence[Row], samples: Floats
) -> Figure:
    """Draw epsilon and relative error by the size of the group."""
    counts = sorted({round(x) for x in np.geomspace(1, target.most, 200)})
    privacy: list[Mark] = []
    error: list[Mark] = []
    for mechanism, colour in zip(mechanisms, COLOURS, strict=False):
        charged = digits_up(mechanism.charged.epsilon, 2)
        label = f"{mechanism.name} (charged {charged})"
        privacy.append(line(counts, mechanism.epsilons(counts), color=colour, label=label))
        error.append(line(counts, mechanism.relative_errors(counts), color=colour, label=mechanism.name))
    of_target: Marker = partial(methodcaller, "hlines", color=GREY, linestyle=":", label="target")
    error.append(of_target(target.relative, target.least, target.most))
    sizes = [row["records"] for row in rows]
    seeming = [row[SEEMING] for row in rows]
    numerical = [
        line(sizes, seeming, color=COLOURS[1], marker="o", label="numerical, no bound"),
        level(PROVEN_RHO, color=COLOURS[0], label="proven: its first stage"),
    ]

    def by_size(marks: Panel, height: str, title: str) -> Panel:
        return [*marks, LOGARITHMIC, shown(xlabel="records in the group", ylabel=height, title=title), LEGEND]

    return draw(
        [
            [
                by_size(privacy, "ε of a record, added or removed", "What a record gives away"),
                by_size(error, "expected error / count", "Relative error"),
            ],
            [_figure_1(samples), by_size(numerical, "ρ (zCDP)", "What Algorithm 1 seems to protect")],
        ],
        (11, 8.2),
    )


def _figure_1(samples: Floats) -> Panel:
    fitted = NormalDist.from_samples(samples.tolist())
    x = np.linspace(samples.min(), samples.max(), 300)
    return [
        methodcaller(
            "hist",
            samples,
            color=COLOURS[1],
            bins=200,
            density=True,
            alpha=0.6,
            label="Algorithm 1, simulated",
        ),
        line(
            x,
            [fitted.pdf(output) for output in x],
            color="black",
            label=f"best normal fit: mean {fitted.mean:,.1f}, sd {fitted.stdev:,.1f}",
        ),
        shown(xlabel="output for a count of 10,000", yticks=[], ylim=(0, 1.3 * fitted.pdf(fitted.mean))),
        shown(title="Figure 1 of the post: Algorithm 1, σ² = 100, r = 0.3"),
        LEGEND,
    ]


def _shown(name: str, value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if name.startswith("epsilon"):
        return digits_up(Fraction(value), 2)
    return f"{value:.2g}"


def view(rows: Sequence[Row], mechanisms: Sequence[Mechanism]) -> Iterator[Part]:
    """View the rows."""
    columns = list(rows[0])
    lines = []
    for row in rows:
        lines.append([_shown(name, row[name]) for name in columns])
    yield Table(columns, lines, alignment="r" * len(columns))
    charged = ", ".join(
        f"{mechanism.name} {digits_up(mechanism.charged.epsilon, 2)}" for mechanism in mechanisms
    )
    yield (
        f"Charged, at δ ≤ 2^-40, for a record added or removed: {charged}. Relative errors are "
        "E|estimate - n| / n, from the distributions of the noise. "
        "A logarithm protects large groups better than plain noise with the same "
        "target, and small ones less."
    )
    yield (
        "Algorithm 1 of the open problem has no proof beyond its first stage; the numerical figures have no "
        "error bound, and no release uses it."
    )


def study() -> StudyResult:
    """Return privacy and error for some sizes of the group."""
    mechanisms = mechanisms_of(TARGET, EPSILON)
    # The post states the best normal fit for this count.
    samples = sampled(10_000, 1_000_000, np.random.default_rng(SEED))
    fitted = NormalDist.from_samples(samples.tolist())
    rows = _rows(TARGET, mechanisms)
    return StudyResult(
        {"seed": SEED},
        {
            "target": asdict(TARGET),
            "neighboring_relation": str(RELATION),
            "mechanisms": [
                {
                    "name": mechanism.name,
                    "offset": mechanism.distribution.offset,
                    "epsilon_charged": float_up(mechanism.charged.epsilon),
                    "delta_charged": float_up(mechanism.charged.delta),
                }
                for mechanism in mechanisms
            ],
            "rows": rows,
            "figure1": {
                "samples": len(samples),
                "mean": fitted.mean,
                "standard_deviation": fitted.stdev,
                "published_mean": 10_002.6,
                "published_standard_deviation": 2_995.1,
            },
        },
        view(rows, mechanisms),
        result="groupwise.json",
        figures={"groupwise.png": lambda: figure(TARGET, mechanisms, rows, samples)},
    )
