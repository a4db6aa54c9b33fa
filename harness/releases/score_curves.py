"""π_ROC as a statistic: score curves, and thresholds."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from harness.errors import (
    FairSharesError,
    InfeasibleError,
    RecordDomainError,
    TooNoisyError,
    UndefinedRateError,
)
from harness.inputs.encoding import count_columns
from harness.inputs.record_schema import (
    DEFAULT_THRESHOLDS,
    MAX_THRESHOLDS,
    Cap,
    RecordDomain,
    RecordKind,
    scale_of,
    shown,
)
from harness.postprocessing.curves import CurveNoise, GroupCurves
from harness.postprocessing.noisy_counts import read_unbiased
from harness.postprocessing.thresholds.choose import RATES, GroupThresholds, cautions, choose_thresholds
from harness.postprocessing.thresholds.rules import rule_from_json
from harness.releases.base import (
    AuditTarget,
    Declared,
    ExpectedError,
    Files,
    Opened,
    PreparedRelease,
    Statistic,
    by_cell,
    curve_errors,
    expected_gap,
    fitting,
    plan_release,
    rates_from_json,
    stated_cap,
    table_of,
)
from harness.request.base import Request
from harness.request.releases import ThresholdsRequest
from protocols.accounting.calibration import Neighbors
from protocols.arrays import Floats
from protocols.mechanisms.count_tree import MAX_LEVELS, CountTree, best_tree
from protocols.noise.added import DistributedNoise, Noise, NoiseDistribution, coins_in
from protocols.spec import PI_ROC, PI_ROC_RECORDS, ProtocolSpec

CURVES = "curves.json"


@dataclass(frozen=True, eq=False)
class NoisyCurves:
    """Public score curves of each group's positives and negatives, from nodes with this noise.

    `blocks` are bins per opened block of each level. With more than two labels there is no negative label,
    and `others` has each other label's curves by its own scores.
    """

    positive: str
    negative: str
    blocks: tuple[int, ...]
    noise: Noise
    curves: GroupCurves
    others: Mapping[str, GroupCurves] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the own fields of `curves.json`."""
        curves, others = self.curves, {name: _counts_to_json(of) for name, of in self.others.items()}
        assert curves.noise is not None
        return {
            "groups": list(curves.groups),
            "positive_label": self.positive,
            "negative_label": self.negative,
            "thresholds": curves.thresholds.tolist(),
            **_counts_to_json(curves),
            **({"others": others} if others else {}),
            "standard_error": curves.noise.standard_errors()[:-1].tolist(),
            "blocks": list(self.blocks),
            **noise_to_json(self.noise),
        }

    def for_positive(self, label: str) -> "NoisyCurves":
        """Return the curves with another positive label, or raise RecordDomainError."""
        if label in ("", self.positive):
            return self
        if label in self.others:
            every = {**self.others, self.positive: self.curves}
            others = {name: every[name] for name in sorted(every) if name != label}
            return replace(self, positive=label, curves=every[label], others=others)
        if label != self.negative:
            labels = ", ".join(map(shown, sorted((self.positive, *(self.others or (self.negative,))))))
            raise RecordDomainError(f"The positive label {label!r} is not declared (declared: {labels}).")
        was = self.curves
        swapped = replace(was, tp=was.fp, fp=was.tp, positives=was.negatives, negatives=was.positives)
        return replace(self, positive=label, negative=self.positive, curves=swapped)


def _counts_to_json(curves: GroupCurves) -> dict[str, Any]:
    return {
        "true_positives": curves.tp.tolist(),
        "false_positives": curves.fp.tolist(),
        "positives": curves.positives.tolist(),
        "negatives": curves.negatives.tolist(),
    }


def _histograms(groups: int, labels: int) -> dict[str, int]:
    """Return the histograms' sizes; with more than two labels each (score, group) is a group."""
    if labels == 2:
        return {"groups": groups, "labels": labels}
    return {"groups": groups * labels, "labels": 2, "score_columns": labels}


def _scored(spec: ProtocolSpec) -> AuditTarget:
    def declared(
        sizes: Mapping[str, int],
        neighbors: Neighbors,
        epsilon: Fraction,
        delta: Fraction,
        distribution: NoiseDistribution | None,
    ) -> Declared:
        bins, table = sizes["thresholds"], _histograms(sizes["groups"], sizes["labels"])
        share = table.get("score_columns", 1)
        blocks = best_tree(bins, neighbors, epsilon / share, delta / share, distribution).blocks
        return spec, {**table, "bins": bins, "blocks": ".".join(map(str, blocks))}

    table = table_of(spec)
    return replace(table, sizes={**table.sizes, "thresholds": DEFAULT_THRESHOLDS}, declared=declared)


@dataclass(frozen=True)
class CurvesStatistic(Statistic[NoisyCurves]):
    """Score curves of each group's positives and negatives; an empty `positive` means the last label.

    `flat` opens single bins instead of the blocks with the least error.
    """

    flat: bool = False
    positive: str = ""
    spec: ProtocolSpec = PI_ROC
    name = "curves"
    kind = RecordKind.SCORE
    audited: ClassVar = {
        "thresholds": _scored(PI_ROC),
        "thresholds-of-records": _scored(PI_ROC_RECORDS),
        "thresholds-of-clients-active": _scored(PI_ROC_RECORDS).in_active_models,
    }

    def prepare(self, release: Request, domain: RecordDomain) -> PreparedRelease[NoisyCurves]:
        count_columns(domain, next(iter(self.spec.input_forms)))  # raises if the encoding cannot hold it
        positive = domain.labels[domain.positive(self.positive)]
        tree = self._tree(release, domain)
        arguments = {
            **_histograms(len(domain.groups), len(domain.labels)),
            "bins": domain.shape[-1],
            "blocks": ".".join(map(str, tree.blocks)),
        }
        plan = plan_release(self.spec, arguments, release, domain)

        def read(opened: Opened, clients: int) -> NoisyCurves:
            (values,) = opened.values()
            nodes = read_unbiased(values, "nodes", plan.nodes, clients * domain.max_contribution, plan.noise)
            return noisy_curves(nodes, domain, positive, tree, plan.noise)

        return PreparedRelease(self.spec, release, domain, arguments, plan, read)

    def _tree(self, release: Request, domain: RecordDomain) -> CountTree:
        bins = len(domain.thresholds)
        if self.flat:
            return CountTree(bins, (1,))
        neighbors, share = release.neighbors_in(domain), domain.score_columns
        with fitting(release.protect.epsilon, release.protect.delta):
            return best_tree(
                bins,
                neighbors,
                release.protect.epsilon / share,
                release.protect.delta / share,
                release.randomness.distribution,
            )

    def expected_error(self, prepared: PreparedRelease[Any], sizes: Floats) -> ExpectedError:
        domain = prepared.domain
        tree = self._tree(prepared.release, domain)
        noise = curve_noise(tree.bins, tree.blocks, domain.cap, prepared.plan.noise)
        rates = curve_errors(noise, sizes)
        count = math.sqrt(float((noise.standard_errors()[:-1] ** 2).mean()))
        return ExpectedError(count, "rate", by_cell(domain, rates), expected_gap(rates))


def noisy_curves(
    opened: Floats, domain: RecordDomain, positive: str, tree: CountTree, noise: Noise
) -> NoisyCurves:
    """Estimate score curves by least squares from a tree's unbiased block counts.

    Opened are, level by level, each (group, label) pair's blocks from the lowest; with several scores, of one
    after another, its own label last.
    """
    pairs = domain.shape[0] * domain.shape[1]
    ends = np.cumsum([pairs * count for count in tree.counts])[:-1]
    nodes = np.concatenate([level.reshape(pairs, -1) for level in np.split(opened, ends)], axis=1)
    curve = curve_noise(len(domain.thresholds), tree.blocks, domain.cap, noise)
    counts = (nodes @ curve.linear.T).reshape(domain.score_columns, len(domain.groups), 2, -1)

    def of(number: int, at: int) -> GroupCurves:
        above, below = counts[number, :, at], counts[number, :, 1 - at]
        return GroupCurves(
            domain.groups,
            thresholds=np.array(domain.thresholds),
            tp=above[:, :-1],
            fp=below[:, :-1],
            positives=above[:, -1],
            negatives=below[:, -1],
            noise=curve,
        )

    at = domain.labels.index(positive)
    if domain.score_columns == 1:
        return NoisyCurves(positive, domain.labels[1 - at], tree.blocks, noise, of(0, at))
    by_label = {label: of(number, 1) for number, label in enumerate(domain.labels)}
    return NoisyCurves(positive, "", tree.blocks, noise, by_label.pop(positive), by_label)


def noise_to_json(noise: Noise) -> dict[str, Any]:
    """Return the fields that state each node's noise."""
    if isinstance(noise, DistributedNoise):
        return {"coins": [], "distributed_noise": noise.to_json()}
    assert isinstance(noise, tuple)  # nodes are of one release
    return {"coins": [[coin.numerator, coin.bits] for coin in noise]}


def noise_from_json(fields: Mapping[str, Any]) -> Noise:
    """Return the noise that a file states, or raise any parsing error."""
    if "distributed_noise" in fields:
        return DistributedNoise.from_json(fields["distributed_noise"])
    return coins_in(fields["coins"])


def curves_from_json(fields: Mapping[str, Any], privacy: Mapping[str, Any]) -> NoisyCurves:
    """Return the curves in a file, or raise any parsing error.

    Guarantees: before anything is computed, grid, blocks and noise are known to be of sizes that runs have.
    [test: tests/harness/pipeline/test_earlier_curves.py]
    """
    names = ("true_positives", "false_positives", "positives", "negatives")
    grid = np.array(fields["thresholds"], dtype=float)
    if len(grid) > MAX_THRESHOLDS or not 1 <= len(fields["blocks"]) <= MAX_LEVELS:
        raise ValueError(f"a curve has at most {MAX_THRESHOLDS} thresholds, and 1 to {MAX_LEVELS} levels")
    blocks = tuple(fields["blocks"])
    if not all(type(size) is int and 1 <= size <= MAX_THRESHOLDS for size in blocks):
        raise ValueError(f"a level has blocks of 1 to {MAX_THRESHOLDS} bins")
    node = noise_from_json(fields)
    noise = curve_noise(len(grid), blocks, stated_cap(privacy), node)

    def of(counts: Mapping[str, Any]) -> GroupCurves:
        tp, fp, positives, negatives = (np.array(counts[name], dtype=float) for name in names)
        return GroupCurves(tuple(fields["groups"]), grid, tp, fp, positives, negatives, noise)

    return NoisyCurves(
        positive=fields["positive_label"],
        negative=fields["negative_label"],
        blocks=blocks,
        noise=node,
        curves=of(fields),
        others={label: of(counts) for label, counts in fields.get("others", {}).items()},
    )


def _chosen_in(fields: Mapping[str, Any]) -> GroupThresholds:
    rates, ends = rates_from_json(list(fields["rates"].values()), (len(fields["rates"]),), RATES)
    return GroupThresholds(
        **{name: fields[name] for name in ("constraint", "objective", "tolerance", "deterministic")},
        rules={group: rule_from_json(rule, group) for group, rule in fields["thresholds"].items()},
        rates=rates,
        intervals=ends,
        objective_value=fields["objective_value"],
        gap=fields["gap"],
        gap_interval=tuple(fields["gap_interval"]),
        least_tolerance=fields["tolerance_is_the_least"],
    )


def curve_map(tree: CountTree) -> Floats:
    """Return the matrix from a tree's nodes to a curve's counts and, last, their total."""
    estimator = tree.estimator()
    return np.concatenate([estimator, estimator[:1]])  # at threshold 0 all are positive


def curve_noise(bins: int, blocks: tuple[int, ...], cap: Cap | None, node: Noise) -> CurveNoise:
    """Return how a curve's counts depend on its nodes, and their noise, or raise ValueError."""
    # A client that weighs 1 counts as 1, not as its number of slots.
    return CurveNoise(curve_map(CountTree(bins, blocks)) / scale_of(cap), node)


@dataclass(frozen=True)
class ThresholdChoice:
    """A choice of thresholds, as for `choose_thresholds`."""

    constraint: str
    objective: str
    tolerance: float | None
    deterministic: bool

    def of(self, curves: GroupCurves) -> GroupThresholds:
        """Return each group's thresholds on these curves; errors as `choose_thresholds`."""
        return choose_thresholds(
            curves, self.constraint, self.objective, self.tolerance, deterministic=self.deterministic
        )


def choice_of(request: ThresholdsRequest) -> ThresholdChoice:
    """Return the choice that a request asks for."""
    return ThresholdChoice(request.constraint, request.objective, request.tolerance, request.deterministic)


@dataclass(frozen=True)
class Thresholds:
    """Curves with the thresholds chosen on them, also for other labels, or the reason for none."""

    curves: NoisyCurves
    thresholds: GroupThresholds | None
    problem: FairSharesError | None = None
    others: Mapping[str, GroupThresholds | None] = field(default_factory=dict)

    def files(self) -> dict[str, dict[str, Any]]:
        """Return the own fields of the result files."""
        files = {CURVES: self.curves.to_json()}
        if self.thresholds is None:
            return files
        others = {name: thresholds and thresholds.to_json() for name, thresholds in self.others.items()}
        files["thresholds.json"] = {
            "positive_label": self.curves.positive,
            **self.thresholds.to_json(),
            **({"others": others} if others else {}),
            "cautions": self.cautions,
        }
        return files

    @cached_property
    def cautions(self) -> list[str]:
        """Warnings about these thresholds."""
        if self.thresholds is None:
            return []
        return cautions(self.thresholds, self.curves.curves, self.curves.positive)


def thresholds_on(curves: NoisyCurves, choice: ThresholdChoice) -> Thresholds:
    """Choose thresholds on released curves for each label."""
    return Thresholds(
        curves,
        *_chosen(curves.curves, choice),
        others={label: _chosen(of, choice)[0] for label, of in curves.others.items()},
    )


def _chosen(
    curves: GroupCurves, choice: ThresholdChoice
) -> tuple[GroupThresholds | None, FairSharesError | None]:
    try:
        return choice.of(curves), None
    except (UndefinedRateError, TooNoisyError, InfeasibleError) as error:
        return None, error


@dataclass(frozen=True)
class ThresholdsStatistic(Statistic[Thresholds]):
    """Thresholds for each group, and the curves alone if they allow none, as their ε is spent."""

    curves: CurvesStatistic
    choice: ThresholdChoice
    name = "thresholds"
    kind = RecordKind.SCORE
    audited: ClassVar = CurvesStatistic.audited

    @classmethod
    def of(cls, request: Request) -> "ThresholdsStatistic":
        assert isinstance(request, ThresholdsRequest)
        curves = CurvesStatistic(request.blocks == "flat", request.positive_label or "", request.spec)
        return ThresholdsStatistic(curves, choice_of(request))

    @property
    def spec(self) -> ProtocolSpec:  # type: ignore[override]
        """The protocol that reveals the curves."""
        return self.curves.spec

    @classmethod
    def read_files(cls, files: Files) -> Thresholds:
        curves = curves_from_json(files[CURVES], files[CURVES]["privacy"])
        if "thresholds.json" not in files:
            return Thresholds(curves, None)
        fields = files["thresholds.json"]
        return Thresholds(
            curves.for_positive(fields["positive_label"]),
            _chosen_in(fields),
            others={label: of and _chosen_in(of) for label, of in fields.get("others", {}).items()},
        )

    def prepare(self, release: Request, domain: RecordDomain) -> PreparedRelease[Thresholds]:
        curves = self.curves.prepare(release, domain)

        def read(opened: Opened, clients: int) -> Thresholds:
            return thresholds_on(curves.read(opened, clients), self.choice)

        return PreparedRelease(self.spec, release, domain, curves.arguments, curves.plan, read)

    def expected_error(self, prepared: PreparedRelease[Any], sizes: Floats) -> ExpectedError:
        return self.curves.expected_error(prepared, sizes)

    def files(self, found: Thresholds) -> Mapping[str, Mapping[str, Any]]:
        return found.files()
