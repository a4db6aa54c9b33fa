"""π_ROC as a statistic: score curves, and thresholds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType, structs

from fairshares.harness.bounds import Count, Deviation, Name, Names, Share
from fairshares.harness.errors import (
    FairSharesError,
    InfeasibleError,
    RecordDomainError,
    TooNoisyError,
    UndefinedRateError,
)
from fairshares.harness.inputs.encoding import count_columns
from fairshares.harness.inputs.record_schema import (
    DEFAULT_THRESHOLDS,
    MAX_THRESHOLDS,
    Cap,
    RecordDomain,
    RecordKind,
    cap_from_json,
    scale_of,
    shown,
)
from fairshares.harness.postprocessing.curves import CurveNoise, GroupCurves
from fairshares.harness.postprocessing.noisy_counts import read_unbiased
from fairshares.harness.postprocessing.thresholds.choose import GroupThresholds, cautions, choose_thresholds
from fairshares.harness.postprocessing.thresholds.rules import StatedRule
from fairshares.harness.releases.base import (
    TABLE_SIZES,
    Answer,
    AuditTarget,
    BoundedRelease,
    Declared,
    ExpectedError,
    OpenedLines,
    PreparedRelease,
    Statistic,
    TableTarget,
    by_cell,
    curve_errors,
    expected_gap,
    fitting,
    plan_release,
)
from fairshares.harness.releases.files import (
    EstimatedRates,
    ResultFile,
    file_in,
    needed_file,
    rates_in,
    state_rates,
)
from fairshares.harness.releases.thresholds.request import ThresholdsRequest
from fairshares.harness.releases.thresholds.spec import PI_ROC, PI_ROC_RECORDS
from fairshares.harness.request.request import Request
from fairshares.harness.stated_privacy import StatedPrivacy
from fairshares.protocols.accounting.calibration import Neighbors
from fairshares.protocols.arrays import Floats
from fairshares.protocols.circuits.coins import MAX_COINS, Coin, SymmetricCoins, coins_of_magnitude
from fairshares.protocols.mechanisms.above_threshold import allowed_above
from fairshares.protocols.mechanisms.count_tree import MAX_LEVELS, CountTree, best_tree, square_root_error
from fairshares.protocols.noise.added import (
    MAX_COIN_BITS,
    MAX_EDGE,
    MAX_PARTIES,
    DistributedNoise,
    Noise,
    NoiseDistribution,
)
from fairshares.protocols.spec import ProtocolSpec

CURVES = "curves.json"
SQUARE_ROOT = "square-root factorization"  # a factorization of the matrix of cumulative sums; not built here
CURVE_RATIOS = 16  # ratios of curves, as `RATIOS`


class StatedCurves(Struct, frozen=True, kw_only=True):
    """One label's curves: counts by group and threshold, and the groups' totals."""

    true_positives: list[list[Count]]
    false_positives: list[list[Count]]
    positives: list[Count]
    negatives: list[Count]


class StatedNoise(Struct, frozen=True, kw_only=True):
    """The noise that each party adds; see `DistributedNoise`."""

    distribution: NoiseDistribution
    rate: Fraction
    edge: Annotated[int, Meta(ge=1, le=MAX_EDGE)]
    parties: Annotated[int, Meta(ge=1, le=MAX_PARTIES)]
    honest: Annotated[int, Meta(ge=1, le=MAX_PARTIES)]


class CurvesFile(StatedCurves, frozen=True, kw_only=True):
    """`curves.json`. `others` has the curves of each other label, if there are more than two."""

    file_name: ClassVar[str] = CURVES
    schema: Literal[1] = 1
    groups: Names
    positive_label: Name
    negative_label: Name
    thresholds: Annotated[list[float], Meta(max_length=MAX_THRESHOLDS)]
    others: dict[Name, StatedCurves] | UnsetType = UNSET
    standard_error: Annotated[list[Deviation], Meta(max_length=MAX_THRESHOLDS)]
    blocks: Annotated[
        list[Annotated[int, Meta(ge=1, le=MAX_THRESHOLDS)]], Meta(min_length=1, max_length=MAX_LEVELS)
    ]
    coins: Annotated[
        list[tuple[int, Annotated[int, Meta(ge=1, le=MAX_COIN_BITS)]]], Meta(max_length=MAX_COINS)
    ]
    nonzero_coin: tuple[int, Annotated[int, Meta(ge=1, le=MAX_COIN_BITS)]] | UnsetType = UNSET
    distributed_noise: StatedNoise | UnsetType = UNSET
    privacy: StatedPrivacy


class StatedThresholds(Struct, frozen=True, kw_only=True):
    """One label's rules by group, and their estimated effect."""

    constraint: Name
    objective: Name
    tolerance: Share
    tolerance_is_the_least: bool
    deterministic: bool
    thresholds: dict[Name, StatedRule]
    rates: dict[Name, EstimatedRates]
    objective_value: Share
    gap: Share
    gap_interval: tuple[Share, Share]
    confidence: Share


class ThresholdsFile(StatedThresholds, frozen=True, kw_only=True):
    """`thresholds.json` of a run. `others` has the rules of each other label, if there are more than two."""

    file_name: ClassVar[str] = "thresholds.json"
    schema: Literal[1] = 1
    positive_label: Name
    others: dict[Name, StatedThresholds | None] | UnsetType = UNSET
    cautions: list[str]
    privacy: StatedPrivacy


@dataclass(frozen=True, eq=False)
class NoisyCurves:
    """Public score curves of each group's positives and negatives, from nodes with this noise.

    Attributes:
        positive: The positive label.
        negative: The other label; empty if there are more than two.
        blocks: The number of bins in an opened block of each level.
        noise: The noise of each node.
        curves: The positive label's curves.
        others: Each other label's curves by its own scores, if there are more than two labels.
    """

    positive: str
    negative: str
    blocks: tuple[int, ...]
    noise: Noise
    curves: GroupCurves
    others: Mapping[str, GroupCurves] = field(default_factory=dict)

    def file(self, privacy: StatedPrivacy) -> CurvesFile:
        """Return `curves.json`."""
        curves = self.curves
        noise = self.noise
        assert curves.noise is not None, "released curves have noise"
        coins: list[tuple[int, int]] = []
        if isinstance(noise, tuple | SymmetricCoins):
            coins = [(coin.numerator, coin.bits) for coin in coins_of_magnitude(noise)]
        nonzero_coin: tuple[int, int] | UnsetType = UNSET
        if isinstance(noise, SymmetricCoins):
            nonzero_coin = (noise.nonzero.numerator, noise.nonzero.bits)
        others: dict[Name, StatedCurves] | UnsetType = UNSET
        if self.others:
            others = {label: _state_curves(other) for label, other in self.others.items()}
        return CurvesFile(
            groups=list(curves.groups),
            positive_label=self.positive,
            negative_label=self.negative,
            thresholds=curves.thresholds.tolist(),
            true_positives=curves.tp.tolist(),
            false_positives=curves.fp.tolist(),
            positives=curves.positives.tolist(),
            negatives=curves.negatives.tolist(),
            others=others,
            standard_error=curves.noise.standard_errors()[:-1].tolist(),
            blocks=list(self.blocks),
            coins=coins,
            nonzero_coin=nonzero_coin,
            distributed_noise=_state_noise(noise) if isinstance(noise, DistributedNoise) else UNSET,
            privacy=privacy,
        )

    def files(self, privacy: StatedPrivacy) -> tuple[CurvesFile]:
        """Return `curves.json`, a run's only file if it chooses no thresholds."""
        return (self.file(privacy),)

    def for_positive(self, label: str | None) -> "NoisyCurves":
        """Return the curves with another positive label, if one is named, or raise RecordDomainError."""
        if not label or label == self.positive:
            return self
        if label in self.others:
            every = {**self.others, self.positive: self.curves}
            others = {name: every[name] for name in sorted(every) if name != label}
            return replace(self, positive=label, curves=every[label], others=others)
        if label != self.negative:
            declared = [self.positive]
            if self.others:
                declared += self.others
            else:
                declared.append(self.negative)
            labels = ", ".join(map(shown, sorted(declared)))
            raise RecordDomainError(f"The positive label {label!r} is not declared (declared: {labels}).")
        curves = self.curves
        swapped = replace(
            curves, tp=curves.fp, fp=curves.tp, positives=curves.negatives, negatives=curves.positives
        )
        return replace(self, positive=label, negative=self.positive, curves=swapped)


def _state_curves(curves: GroupCurves) -> StatedCurves:
    """Return a label's curves as files state them."""
    return StatedCurves(
        true_positives=curves.tp.tolist(),
        false_positives=curves.fp.tolist(),
        positives=curves.positives.tolist(),
        negatives=curves.negatives.tolist(),
    )


def _state_noise(noise: DistributedNoise) -> StatedNoise:
    return StatedNoise(
        distribution=noise.distribution,
        rate=noise.rate,
        edge=noise.edge,
        parties=noise.parties,
        honest=noise.honest,
    )


def _noise_in(file: CurvesFile) -> Noise:
    """Return the noise of a file's nodes, or raise ValueError."""
    stated = file.distributed_noise
    if isinstance(stated, UnsetType):
        coins = tuple(Coin(numerator, bits) for numerator, bits in file.coins)
        if isinstance(file.nonzero_coin, UnsetType):
            return coins
        return SymmetricCoins(coins, Coin(*file.nonzero_coin))
    return DistributedNoise(stated.distribution, stated.rate, stated.edge, stated.parties, stated.honest)


def _histograms(groups: int, labels: int) -> dict[str, int]:
    """Return the histograms' sizes; with more than two labels each (score, group) is a group."""
    if labels == 2:
        return {"groups": groups, "labels": labels}
    return {"groups": groups * labels, "labels": 2, "score_columns": labels}


class _CurvesTarget(TableTarget):
    """The target of a protocol that reveals score curves, with the tree of the least error."""

    def declared(
        self,
        sizes: Mapping[str, int],
        neighbors: Neighbors,
        epsilon: Fraction,
        delta: Fraction,
        distribution: NoiseDistribution | None,
    ) -> Declared:
        bins = sizes["thresholds"]
        histograms = _histograms(sizes["groups"], sizes["labels"])
        share = histograms.get("score_columns", 1)
        blocks = best_tree(bins, neighbors, epsilon / share, delta / share, distribution).blocks
        return self.spec, {**histograms, "bins": bins, "blocks": _as_argument(blocks)}


def _scored(spec: ProtocolSpec) -> AuditTarget:
    return _CurvesTarget(spec=spec, sizes={**TABLE_SIZES, "thresholds": DEFAULT_THRESHOLDS})


def _as_argument(blocks: Sequence[int]) -> str:
    """Return the sizes of blocks as the program's argument."""
    return ".".join(map(str, blocks))


@dataclass(frozen=True)
class CurvesStatistic(Statistic[NoisyCurves]):
    """Score curves of each group's positives and negatives.

    Attributes:
        flat: Whether single bins are opened, in place of the blocks with the least error.
        positive: The positive label; None for the last label.
        spec: The protocol.
    """

    flat: bool = False
    positive: str | None = None
    spec: ProtocolSpec = PI_ROC
    name = "curves"
    file_types = (CurvesFile,)
    kind = RecordKind.SCORE
    audited: ClassVar = {
        "thresholds": _scored(PI_ROC),
        "thresholds-of-records": _scored(PI_ROC_RECORDS),
        "thresholds-of-clients-active": _scored(PI_ROC_RECORDS).in_active_models,
    }

    def prepare(self, release: Request, domain: RecordDomain) -> PreparedRelease[NoisyCurves]:
        count_columns(domain, next(iter(self.spec.input_forms)))  # raises if the encoding cannot hold it
        domain.positive(self.positive)  # raises if it is no label
        tree = self._tree(release, domain)
        arguments = {
            **_histograms(len(domain.groups), len(domain.labels)),
            "bins": domain.shape[-1],
            "blocks": _as_argument(tree.blocks),
        }
        plan = plan_release(self.spec, arguments, release, domain)
        return PreparedRelease(self, release, domain, arguments, plan)

    def read_opened(
        self, prepared: PreparedRelease[NoisyCurves], opened: OpenedLines, clients: int
    ) -> NoisyCurves:
        domain = prepared.domain
        plan = prepared.plan
        positive = domain.labels[domain.positive(self.positive)]
        most = clients * domain.max_contribution
        (values,) = opened.values()
        nodes = read_unbiased(values, "nodes", plan.nodes, most, plan.noise)
        return noisy_curves(nodes, domain, positive, self._tree(prepared.release, domain), plan.noise)

    def _tree(self, release: Request, domain: RecordDomain) -> CountTree:
        bins = len(domain.thresholds)
        if self.flat:
            return CountTree(bins, (1,))
        neighbors = release.neighbors_in(domain)
        share = domain.score_columns
        with fitting(release.protect.epsilon, release.protect.delta):
            return best_tree(
                bins,
                neighbors,
                release.protect.epsilon / share,
                release.protect.delta / share,
                release.randomness.distribution,
                family=release.randomness.family,
            )

    def expected_error(self, prepared: PreparedRelease[Answer], sizes: Floats) -> ExpectedError:
        domain = prepared.domain
        tree = self._tree(prepared.release, domain)
        noise = curve_noise(tree.bins, tree.blocks, domain.cap, prepared.plan.noise)
        rates = curve_errors(noise, sizes)
        errors_at_thresholds = noise.standard_errors()[:-1]
        return ExpectedError(
            count=math.sqrt(float((errors_at_thresholds**2).mean())),
            what="rate",
            each=by_cell(domain, rates),
            gap=expected_gap(rates),
            counted="of records at or above a threshold",
        )

    @classmethod
    def clients_above_cap(cls, release: BoundedRelease) -> int:
        """Return `Statistic.clients_above_cap`, for curves by the best tree for a bound of 1."""
        thresholds = release.thresholds
        spends = release.spends
        tree = best_tree(thresholds, release.neighbors, spends.epsilon, spends.delta)
        counts = release.cells * counts_of_curves(tree)
        return allowed_above(release.epsilon_of_a_record / CURVE_RATIOS, counts, (thresholds + 1) // 2)

    def layout(self, prepared: PreparedRelease[Answer]) -> str:
        return f"blocks of {prepared.arguments['blocks']} bins"

    def errors_elsewhere(self, prepared: PreparedRelease[Answer]) -> Mapping[str, float]:
        domain = prepared.domain
        request = prepared.release
        share = domain.score_columns
        error = square_root_error(
            len(domain.thresholds),
            request.neighbors_in(domain),
            request.protect.epsilon / share,
            request.protect.delta / share,
        )
        return {SQUARE_ROOT: error}


def counts_of_curves(tree: CountTree) -> int:
    """Return the error of all of a tree's cumulative counts, in units of one count's without a tree."""
    return math.ceil(tree.bins * len(tree.blocks) * math.sqrt(tree.mean_variance()))


def noisy_curves(
    opened: Floats, domain: RecordDomain, positive: str, tree: CountTree, noise: Noise
) -> NoisyCurves:
    """Estimate score curves by least squares from a tree's unbiased block counts.

    Args:
        opened: The counts. For each level, and for each (group, label) pair, they are the counts of its
            blocks from the lowest scores up. With several scores, the pairs of each score come one after
            another, and a score's own label is last.
        domain: The groups, labels and thresholds.
        positive: The positive label.
        tree: The tree.
        noise: The noise of each count.
    """
    pairs = domain.shape[0] * domain.shape[1]
    ends = np.cumsum([pairs * count for count in tree.counts])[:-1]
    nodes = np.concatenate([level.reshape(pairs, -1) for level in np.split(opened, ends)], axis=1)
    curve = curve_noise(len(domain.thresholds), tree.blocks, domain.cap, noise)
    counts = (nodes @ curve.linear.T).reshape(domain.score_columns, len(domain.groups), 2, -1)
    if domain.score_columns == 1:
        place = domain.labels.index(positive)
        of_positive = counts[0, :, place]
        of_negative = counts[0, :, 1 - place]
        return NoisyCurves(
            positive=positive,
            negative=domain.labels[1 - place],
            blocks=tree.blocks,
            noise=noise,
            curves=_curves_of_label(domain, of_positive, of_negative, curve),
        )
    by_label = {}
    for number, label in enumerate(domain.labels):
        of_label = counts[number, :, 1]
        of_rest = counts[number, :, 0]
        by_label[label] = _curves_of_label(domain, of_label, of_rest, curve)
    curves = by_label.pop(positive)
    return NoisyCurves(
        positive=positive, negative="", blocks=tree.blocks, noise=noise, curves=curves, others=by_label
    )


def _curves_of_label(
    domain: RecordDomain, of_label: Floats, of_rest: Floats, noise: CurveNoise
) -> GroupCurves:
    """Return a label's curves against the rest.

    Args:
        domain: The groups, labels and thresholds.
        of_label: The counts of records with the label, shape (groups, thresholds + 1), the totals last.
        of_rest: The counts of the other records, of the same shape.
        noise: How the counts depend on the nodes' noise.
    """
    return GroupCurves(
        domain.groups,
        thresholds=np.array(domain.thresholds),
        tp=of_label[:, :-1],
        fp=of_rest[:, :-1],
        positives=of_label[:, -1],
        negatives=of_rest[:, -1],
        noise=noise,
    )


def curves_in(file: CurvesFile) -> NoisyCurves:
    """Return the curves in a file.

    Guarantees: grid, blocks and noise are of sizes that runs have, as the file's type has these bounds.
    [test: tests/harness/pipeline/test_earlier_curves.py]

    Raises:
        ValueError: They are no curves, or their noise is none.
        RecordDomainError: The groups or the cap cannot be used.
    """
    blocks = tuple(file.blocks)
    node = _noise_in(file)
    cap = None
    if not isinstance(file.privacy.cap, UnsetType):
        cap = cap_from_json(file.privacy.cap, CURVES)
    noise = curve_noise(len(file.thresholds), blocks, cap, node)
    others = {}
    if not isinstance(file.others, UnsetType):
        for label, counts in file.others.items():
            others[label] = _stated_curves_in(file, counts, noise)
    return NoisyCurves(
        positive=file.positive_label,
        negative=file.negative_label,
        blocks=blocks,
        noise=node,
        curves=_stated_curves_in(file, file, noise),
        others=others,
    )


_CLOSE = 1e-9  # relative, for sums that another processor may round differently


def _is_as_written(read_curves: NoisyCurves, file: CurvesFile) -> bool:
    """Return whether a file is as curves that were read from it would be written.

    Standard errors, and each curve's first counts against its totals, are sums: they may differ in the last
    bits.
    """
    if read_curves.positive == read_curves.negative:
        return False
    written = read_curves.file(file.privacy)
    errors = written.standard_error
    if structs.replace(file, standard_error=errors) != written:
        return False
    if not np.allclose(file.standard_error, errors, rtol=_CLOSE, atol=0):
        return False
    counts = []
    totals = []
    for curves in (read_curves.curves, *read_curves.others.values()):
        counts += [curves.tp, curves.fp]
        totals += [curves.positives, curves.negatives]
    first_counts = np.concatenate(counts)[:, 0]
    return np.allclose(first_counts, np.concatenate(totals), rtol=_CLOSE, atol=_CLOSE)


def _stated_curves_in(file: CurvesFile, counts: StatedCurves, noise: CurveNoise) -> GroupCurves:
    """Return a label's curves, of counts that a file states, or raise ValueError."""
    return GroupCurves(
        tuple(file.groups),
        np.array(file.thresholds, dtype=float),
        tp=np.array(counts.true_positives, dtype=float),
        fp=np.array(counts.false_positives, dtype=float),
        positives=np.array(counts.positives, dtype=float),
        negatives=np.array(counts.negatives, dtype=float),
        noise=noise,
    )


def state_thresholds(chosen: GroupThresholds) -> StatedThresholds:
    """Return one label's thresholds as files state them."""
    rates = {}
    for i, group in enumerate(chosen.rules):
        rates[group] = state_rates(
            {name: values[i] for name, values in chosen.rates.items()},
            {name: ends[i] for name, ends in chosen.intervals.items()},
        )
    return StatedThresholds(
        constraint=chosen.constraint,
        objective=chosen.objective,
        tolerance=chosen.tolerance,
        tolerance_is_the_least=chosen.least_tolerance,
        deterministic=chosen.deterministic,
        thresholds={group: rule.stated for group, rule in chosen.rules.items()},
        rates=rates,
        objective_value=chosen.objective_value,
        gap=chosen.gap,
        gap_interval=chosen.gap_interval,
        confidence=float(chosen.confidence),
    )


def _thresholds_in(stated: StatedThresholds) -> GroupThresholds:
    """Return the thresholds that a file states; KeyError or ThresholdRuleError if there are none."""
    groups = list(stated.thresholds)
    rates, intervals = rates_in([stated.rates[group] for group in groups], (len(groups),))
    return GroupThresholds(
        constraint=stated.constraint,
        objective=stated.objective,
        tolerance=stated.tolerance,
        deterministic=stated.deterministic,
        rules={group: rule.rule(group) for group, rule in stated.thresholds.items()},
        rates=rates,
        intervals=intervals,
        objective_value=stated.objective_value,
        gap=stated.gap,
        gap_interval=stated.gap_interval,
        least_tolerance=stated.tolerance_is_the_least,
    )


def curve_map(tree: CountTree) -> Floats:
    """Return the matrix from a tree's nodes to a curve's counts and, last, their total."""
    estimator = tree.estimator()
    return np.concatenate([estimator, estimator[:1]])  # at threshold 0, all records are positive


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

    def thresholds_on(self, curves: GroupCurves) -> GroupThresholds:
        """Return each group's thresholds on these curves, or raise as `choose_thresholds` does."""
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

    def files(self, privacy: StatedPrivacy) -> tuple[ResultFile, ...]:
        """Return `curves.json`, and `thresholds.json` if the curves allow any."""
        curves = self.curves.file(privacy)
        if self.thresholds is None:
            return (curves,)
        others: dict[Name, StatedThresholds | None] = {}
        for label, chosen in self.others.items():
            others[label] = None if chosen is None else state_thresholds(chosen)
        thresholds = ThresholdsFile(
            positive_label=self.curves.positive,
            **structs.asdict(state_thresholds(self.thresholds)),
            others=others or UNSET,
            cautions=self.cautions,
            privacy=privacy,
        )
        return curves, thresholds

    @cached_property
    def cautions(self) -> list[str]:
        """Warnings about these thresholds."""
        if self.thresholds is None:
            return []
        return cautions(self.thresholds, self.curves.curves, self.curves.positive)


def thresholds_on(curves: NoisyCurves, choice: ThresholdChoice) -> Thresholds:
    """Choose thresholds on released curves for each label."""
    thresholds, problem = _chosen(curves.curves, choice)
    others = {}
    for label, curves_of_label in curves.others.items():
        others[label], _ = _chosen(curves_of_label, choice)
    return Thresholds(curves, thresholds, problem, others)


def _chosen(
    curves: GroupCurves, choice: ThresholdChoice
) -> tuple[GroupThresholds | None, FairSharesError | None]:
    """Return the thresholds on these curves and None, or None and the reason why there are none."""
    try:
        return choice.thresholds_on(curves), None
    except (UndefinedRateError, TooNoisyError, InfeasibleError) as error:
        return None, error


@dataclass(frozen=True)
class ThresholdsStatistic(Statistic[Thresholds]):
    """Thresholds for each group; the curves alone if they allow no thresholds, because their ε is spent."""

    curves: CurvesStatistic
    choice: ThresholdChoice
    name = "thresholds"
    file_types = (CurvesFile, ThresholdsFile)
    gone_on_with = CurvesFile
    kind = RecordKind.SCORE
    audited: ClassVar = CurvesStatistic.audited

    @classmethod
    def for_request(cls, request: Request) -> "ThresholdsStatistic":
        assert isinstance(request, ThresholdsRequest)
        curves = CurvesStatistic(request.blocks == "flat", request.positive_label, request.spec)
        return ThresholdsStatistic(curves, choice_of(request))

    @property
    def spec(self) -> ProtocolSpec:  # type: ignore[override]
        """The protocol that reveals the curves."""
        return self.curves.spec

    @classmethod
    def is_as_written(cls, files: Sequence[ResultFile], privacy: StatedPrivacy) -> bool:
        file = file_in(files, CurvesFile)
        if file is None:
            return True
        return file.privacy == privacy and _is_as_written(curves_in(file), file)

    @classmethod
    def read_files(cls, files: Sequence[ResultFile]) -> Thresholds:
        curves = curves_in(needed_file(files, CurvesFile))
        file = file_in(files, ThresholdsFile)
        if file is None:
            return Thresholds(curves, None)
        others: dict[str, GroupThresholds | None] = {}
        if not isinstance(file.others, UnsetType):
            for label, stated in file.others.items():
                others[label] = None if stated is None else _thresholds_in(stated)
        return Thresholds(curves.for_positive(file.positive_label), _thresholds_in(file), others=others)

    def prepare(self, release: Request, domain: RecordDomain) -> PreparedRelease[Thresholds]:
        curves = self.curves.prepare(release, domain)
        return PreparedRelease(self, release, domain, curves.arguments, curves.plan)

    def read_opened(
        self, prepared: PreparedRelease[Thresholds], opened: OpenedLines, clients: int
    ) -> Thresholds:
        curves = PreparedRelease(
            self.curves, prepared.release, prepared.domain, prepared.arguments, prepared.plan
        )
        return thresholds_on(curves.read(opened, clients), self.choice)

    def expected_error(self, prepared: PreparedRelease[Answer], sizes: Floats) -> ExpectedError:
        return self.curves.expected_error(prepared, sizes)

    @classmethod
    def clients_above_cap(cls, release: BoundedRelease) -> int:
        return CurvesStatistic.clients_above_cap(release)

    def layout(self, prepared: PreparedRelease[Answer]) -> str:
        return self.curves.layout(prepared)

    def errors_elsewhere(self, prepared: PreparedRelease[Answer]) -> Mapping[str, float]:
        return self.curves.errors_elsewhere(prepared)


STATISTIC = ThresholdsStatistic
