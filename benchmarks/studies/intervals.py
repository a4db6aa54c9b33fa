"""The widths of intervals, beside the errors that they bound."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np

from benchmarks.studies.outcome import SUMMARY, Row, StudyResult, grouped, rounded
from benchmarks.studies.utility.study import SEED, generator
from fairshares.harness.inputs.record_schema import (
    DEFAULT_STEPS,
    RecordDomain,
    RecordKind,
    Rounding,
    ValueGrid,
)
from fairshares.harness.postprocessing.confidence import CONFIDENCE
from fairshares.harness.postprocessing.noisy_counts import NoisyCounts
from fairshares.harness.postprocessing.thresholds.constraints import RATES
from fairshares.harness.releases.confusion.request import ConfusionRequest
from fairshares.harness.releases.confusion.statistic import ConfusionStatistic, confusion
from fairshares.harness.releases.gap.request import GapRequest
from fairshares.harness.releases.gap.statistic import GapStatistic, gaps
from fairshares.harness.releases.weights.request import WeightsRequest
from fairshares.harness.releases.weights.statistic import WeightsStatistic
from fairshares.harness.reweighing.formulas import REWEIGHINGS, weights_of_counts
from fairshares.harness.views.parts import Part
from fairshares.protocols.accounting.calibration import NoisePlan
from fairshares.protocols.arrays import Floats
from fairshares.protocols.noise.added import simulated_noise

Extent = tuple[tuple[Fraction, ...], tuple[int, ...]]  # ε, and the clients or records of each group
WHOLE: Extent = ((Fraction(1, 10), Fraction(1), Fraction(3)), (100, 1_000, 10_000, 100_000))
QUICK: Extent = ((Fraction(1),), (1_000,))
ERRORS = 20_000  # simulated for the error that 95 % keep to

_GROUPS = ("a", "b")
_LABELS = ("0", "1")
_VALUED = RecordDomain(
    _GROUPS, (), 1, kind=RecordKind.VALUE, values=ValueGrid(-1.0, 1.0, DEFAULT_STEPS, Rounding.RANDOM)
)
_PREDICTED = RecordDomain(_GROUPS, _LABELS, kind=RecordKind.PREDICTION)
_LABELLED = RecordDomain(_GROUPS, _LABELS)


@dataclass(frozen=True)
class Released:
    """A release's values, and how estimates and intervals are computed from them.

    Args:
        shares: The values without noise, if each group had a single client or record.
        plan: The noise at an epsilon.
        estimates: Estimates by name from the values of many runs, along the first axis.
        intervals: Intervals by name from the values of a run.
    """

    shares: Floats
    plan: Callable[[Fraction], NoisePlan]
    estimates: Callable[[Floats], Mapping[str, Floats]]
    intervals: Callable[[Floats, NoisePlan], Mapping[str, Sequence[float]]]


def _means(sums: Floats) -> Mapping[str, Floats]:
    above = sums[:, ::2]
    below = sums[:, 1::2]
    means = np.clip((above - below) / np.maximum(above + below, 1), -1, 1)  # as a result's, in the range
    return {"mean of a group": means[:, 0], "gap": means[:, 0] - means[:, 1]}


def _mean_intervals(sums: Floats, plan: NoisePlan) -> Mapping[str, Sequence[float]]:
    result = gaps(sums, _VALUED, plan)
    mean = result.means[0]
    gap = result.gaps[0, 1]
    return {"mean of a group": (mean.low, mean.high), "gap": (gap.low, gap.high)}


def _rates(counts: Floats) -> Mapping[str, Floats]:
    matrix = counts[:, 0]
    return {
        "true_positive_rate": matrix[:, 1, 1] / matrix[:, 1].sum(axis=-1),
        "false_positive_rate": matrix[:, 0, 1] / matrix[:, 0].sum(axis=-1),
        "selection_rate": matrix[..., 1].sum(axis=-1) / matrix.sum(axis=(-2, -1)),
    }


def _rate_intervals(counts: Floats, plan: NoisePlan) -> Mapping[str, Sequence[float]]:
    rates = confusion(NoisyCounts(_PREDICTED, counts, plan.noise))
    return {name: rates.intervals[name][0, 1] for name in RATES}


def _weights(counts: Floats) -> Mapping[str, Floats]:
    return {f"{name} weight": weights_of_counts(counts, name)[:, 0, 0] for name in REWEIGHINGS}


def _weight_intervals(counts: Floats, plan: NoisePlan) -> Mapping[str, Sequence[float]]:
    noisy = NoisyCounts(_LABELLED, counts, plan.noise)
    return {f"{name} weight": weigh(noisy).interval[0, 0] for name, weigh in REWEIGHINGS.items()}


RELEASES = (
    Released(  # the groups' means are 0.6 and -0.2 on the scale from -1 to 1
        DEFAULT_STEPS * np.array([1.6, 0.4, 0.8, 1.2]),
        lambda epsilon: GapStatistic().prepare(GapRequest(epsilon=epsilon), _VALUED).plan,
        _means,
        _mean_intervals,
    ),
    Released(
        np.array([[[0.4, 0.1], [0.15, 0.35]]] * 2),
        lambda epsilon: ConfusionStatistic().prepare(ConfusionRequest(epsilon=epsilon), _PREDICTED).plan,
        _rates,
        _rate_intervals,
    ),
    Released(
        np.array([[0.3, 0.7], [0.5, 0.5]]),
        lambda epsilon: WeightsStatistic().prepare(WeightsRequest(epsilon=epsilon), _LABELLED).plan,
        _weights,
        _weight_intervals,
    ),
)


def study(
    epsilons: Sequence[Fraction], sizes: Sequence[int], runs: int, progress: Callable[[int, int], None]
) -> StudyResult:
    """Simulate releases of two groups, and compare intervals with errors.

    Args:
        epsilons: The epsilons of the releases.
        sizes: The numbers of clients or records of each group.
        runs: How many intervals of each release are computed.
        progress: A function that is told how many settings are done, and how many there are.
    """
    rows: list[Row] = []
    settings = list(product(RELEASES, epsilons, sizes))
    for number, (released, epsilon, size) in enumerate(settings):
        progress(number, len(settings))
        plan = released.plan(epsilon)
        exact = size * released.shares
        rng = generator(released.estimates.__name__, epsilon, size)
        noisy = exact + simulated_noise(plan.noise, rng, (ERRORS, *exact.shape))
        intervals = [released.intervals(values, plan) for values in noisy[:runs]]
        true = released.estimates(exact[np.newaxis])
        for name, estimates in released.estimates(noisy).items():
            low, high = np.array([run[name] for run in intervals]).T
            half_width = float(np.median(high - low)) / 2
            error = float(np.quantile(abs(estimates - true[name]), float(CONFIDENCE)))
            rows.append(
                {
                    "of": name.replace("_", " "),
                    "epsilon": float(epsilon),
                    "size": size,
                    "held": float(np.mean((low <= true[name]) & (true[name] <= high))),
                    "half_width": rounded(half_width),
                    "error_95": rounded(error),
                    "ratio": rounded(half_width / error, 3),
                }
            )
    return StudyResult(
        {"seed": SEED, "runs": runs, "errors": ERRORS, "confidence": float(CONFIDENCE)},
        rows,
        view(rows, sizes),
        tables={SUMMARY: rows},
    )


def view(rows: Sequence[Row], sizes: Sequence[int]) -> Iterator[Part]:
    """View the ratio of interval and error for each size, and how often intervals held."""
    ratios: dict[tuple[str, float], dict[int, float]] = {}  # ratios by quantity and ε, then by size
    for row in rows:
        ratios.setdefault((row["of"], row["epsilon"]), {})[row["size"]] = row["ratio"]
    columns = ["half-width / error of", "ε"]
    columns += [f"{size:,}" for size in sizes]
    lines = []
    for (quantity, epsilon), by_size in ratios.items():
        of_sizes = [f"{by_size[size]:.2f}" for size in sizes]
        lines.append([quantity, f"{epsilon:g}", *of_sizes])
    alignment = "l" + "r" * (len(columns) - 1)
    yield grouped(columns, lines, alignment=alignment)
    yield (
        "Half an interval's median width over the error that 95 % of estimates keep to, by clients or "
        f"records of each of two groups. The share of intervals that held is at least "
        f"{min(row['held'] for row in rows):.1%}, of one quantity at one ε and size."
    )
