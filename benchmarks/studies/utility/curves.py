"""Populations with known score curves, simulated releases of them, and their worth."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from benchmarks.papers.published_baselines import each_threshold
from benchmarks.studies.local_simulation import summed_geometric
from fairshares.data.loanapp import load_loanapp
from fairshares.harness.errors import UndefinedRateError
from fairshares.harness.evaluation.before_after import fit, held_out_scores
from fairshares.harness.evaluation.labeled_data import FIXED_SPLIT
from fairshares.harness.inputs.record_schema import Grid, bins_of, even_grid
from fairshares.harness.postprocessing.curves import CurveNoise, GroupCurves, OperatingPoints, exact_curves
from fairshares.harness.postprocessing.thresholds.choose import choose_thresholds
from fairshares.harness.postprocessing.thresholds.rules import ThresholdRule
from fairshares.harness.releases.thresholds.statistic import curve_map
from fairshares.protocols.accounting.calibration import (
    NeighboringRelation,
    Neighbors,
    NoisePlan,
    plan_distributed_noise,
    plan_noise,
)
from fairshares.protocols.arrays import Floats, Integers
from fairshares.protocols.circuits.coins import MAX_EPSILON, exp_bounds
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.local_dp.randomizers import MAX_LOCAL_EPSILON as MOST_LOCAL, Grr
from fairshares.protocols.mechanisms.count_tree import CountTree, best_tree
from fairshares.protocols.noise.added import NoiseDistribution, simulated_noise
from fairshares.protocols.noise.truncated import log_upper_bound

CONSTRAINT = "equalized_odds"
OBJECTIVE = "balanced_accuracy_score"
UNMITIGATED = ThresholdRule((0.5,))

MEASURES = {
    "count_rmse": "RMS error of the cumulative counts, in records, before the monotone fit",
    "tpr_rmse": "RMS error of the true positive rate over groups and thresholds",
    "fpr_rmse": "RMS error of the false positive rate over groups and thresholds",
    "auc_error": "RMS error of the groups' areas under the ROC curve",
    "gap_counted": "equalized odds difference that remains among the records that were counted",
    "gap_whole": "the same in the population, or among people who were not counted",
    "balanced_accuracy": "of the population under the chosen thresholds",
    "chosen": "1 if thresholds could be chosen, 0 if a rate was 0/0 and all groups keep 0.5",
}


@dataclass(frozen=True, eq=False)
class Sample:
    """Records that are counted, several times over, and the population behind them."""

    histograms: Integers  # shape (repetitions, k, 2, T): records per group, label and score bin
    whole: GroupCurves  # curves of the population, or of people who were not counted

    def counted(self, repetition: int) -> GroupCurves:
        """Return one repetition's exact curves."""
        return curves_of(self.whole.groups, self.whole.thresholds, cumulative(self.histograms[repetition]))


def cumulative(histograms: Integers | Floats) -> Floats:
    """Return how many records are in each bin and above, and last the total."""
    above = np.flip(np.cumsum(np.flip(histograms, -1), -1, dtype=np.float64), -1)
    return np.concatenate([above, above[..., :1]], axis=-1)


def curves_of(groups: tuple[str, ...], thresholds: Floats, counts: Floats) -> GroupCurves:
    """Return score curves from counts of shape (k, 2, T + 1)."""
    negatives = counts[:, 0]
    positives = counts[:, 1]
    return GroupCurves(
        groups, thresholds, positives[:, :-1], negatives[:, :-1], positives[:, -1], negatives[:, -1]
    )


@dataclass(frozen=True)
class SyntheticPopulation:
    """Groups that differ in size, positives, and scores, whose distribution is Kumaraswamy's."""

    groups: int
    thresholds: int = 1001
    name = "synthetic"

    def shares(self) -> Floats:
        """Return the share of each group and label, shape (k, 2)."""
        sizes = np.arange(self.groups, 0, -1) / np.arange(1, self.groups + 1).sum()
        positive = np.linspace(0.4, 0.2, self.groups)  # the planted gap
        return np.stack([sizes * (1 - positive), sizes * positive], axis=1)

    def tails(self) -> Floats:
        """Return P(score >= t) for each group, label and threshold, shape (k, 2, T)."""
        t = np.array(even_grid(self.thresholds))
        along = np.linspace(0, 1, self.groups)[:, np.newaxis, np.newaxis]
        # The (a, b) of negatives and positives, of the largest and the smallest group.
        ends = np.array([[(1.2, 3.0), (1.2, 2.0)], [(3.0, 2.0), (2.0, 2.0)]])
        a, b = np.moveaxis((1 - along) * ends[:, 0] + along * ends[:, 1], -1, 0)
        return np.asarray((1 - t ** a[..., np.newaxis]) ** b[..., np.newaxis])

    def sample(self, records: int, repetitions: int, rng: np.random.Generator) -> Sample:
        """Draw records independently, anew for each repetition."""
        in_bins = -np.diff(self.tails(), axis=-1, append=0.0) * self.shares()[..., np.newaxis]
        drawn = rng.multinomial(records, in_bins.ravel() / in_bins.sum(), size=repetitions)
        names = tuple(f"group {number}" for number in range(1, self.groups + 1))
        whole = curves_of(names, np.array(even_grid(self.thresholds)), cumulative(in_bins))
        return Sample(drawn.reshape(repetitions, *in_bins.shape), whole)


@dataclass(frozen=True)
class LoanPopulation:
    """The loan applications, with the training applicants' held-out scores."""

    name = "loanapp"
    groups = 2

    def sample(self, _records: int, repetitions: int, _rng: np.random.Generator) -> Sample:
        """Return the same histogram for each repetition."""
        histogram, whole = _loan_applications()
        return Sample(np.broadcast_to(histogram, (repetitions, *histogram.shape)), whole)

    @staticmethod
    def records() -> int:
        """Return the number of training applicants."""
        histogram, _ = _loan_applications()
        return int(histogram.sum())


Population = SyntheticPopulation | LoanPopulation


@lru_cache(maxsize=1)
def _loan_applications() -> tuple[Integers, GroupCurves]:
    """Return the training applicants' histogram, and the test applicants' exact curves."""
    data = load_loanapp()
    grid = even_grid(21)  # as the quickstart; 1,393 applicants do not fill a finer grid
    train, test = data.split(FIXED_SPLIT)
    counted = histogram_of(
        np.searchsorted(data.groups, data.sensitive_feature[train]),
        data.y_true[train],
        held_out_scores(data, train),
        grid,
        len(data.groups),
    )
    scores = fit(data, train).predict_proba(data.features.iloc[test])[:, 1]
    whole = exact_curves(data.y_true[test], scores, data.sensitive_feature[test], data.groups, grid)
    return counted, whole


def histogram_of(group: Integers, y_true: Integers, y_score: Floats, grid: Grid, groups: int) -> Integers:
    """Count records per group, label and score bin, shape (k, 2, T)."""
    counts = np.zeros((groups, 2, len(grid)), dtype=np.int64)
    np.add.at(counts, (group, y_true, bins_of(y_score, grid)), 1)
    return counts


def measure(estimated: GroupCurves, counted: GroupCurves, whole: OperatingPoints) -> dict[str, float]:
    """Return each of `MEASURES` for one repetition.

    Args:
        estimated: The curves that are released.
        counted: The exact curves of the records that were counted.
        whole: The operating points of the population.
    """
    released = estimated.points()
    exact = counted.points()
    rules = rules_of(estimated, OBJECTIVE)
    tpr_whole, fpr_whole = rates_under(rules, whole)
    tpr_counted, fpr_counted = rates_under(rules, exact)
    tpr_errors, fpr_errors = rates_at_grid(released) - rates_at_grid(exact)
    return {
        "count_rmse": _rms(np.array([estimated.tp - counted.tp, estimated.fp - counted.fp])),
        "tpr_rmse": _rms(tpr_errors),
        "fpr_rmse": _rms(fpr_errors),
        "auc_error": _rms(released.area_under_curve - exact.area_under_curve),
        "gap_counted": gap(tpr_counted, fpr_counted),
        "gap_whole": gap(tpr_whole, fpr_whole),
        "balanced_accuracy": balanced_accuracy(tpr_whole, fpr_whole, whole),
        "chosen": float(any(rule is not UNMITIGATED for rule in rules.values())),
    }


def rules_of(curves: GroupCurves, objective: str) -> Mapping[str, ThresholdRule]:
    """Return the rules with equalized odds, or `UNMITIGATED` where a rate is 0/0."""
    try:
        return choose_thresholds(curves, CONSTRAINT, objective).rules
    except UndefinedRateError:
        return dict.fromkeys(curves.groups, UNMITIGATED)


def _rms(errors: Floats) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def rates_under(rules: Mapping[str, ThresholdRule], points: OperatingPoints) -> tuple[Floats, Floats]:
    """Return each group's rates, averaged over its rule's draws."""
    shares = np.zeros((len(points.groups), len(points.thresholds)))
    for row, group in zip(shares, points.groups, strict=True):
        rule = rules[group]
        row[np.searchsorted(points.thresholds, rule.thresholds)] = rule.probabilities
    return (
        (shares * points.true_positive_rate).sum(axis=1),
        (shares * points.false_positive_rate).sum(axis=1),
    )


def gap(tpr: Floats, fpr: Floats) -> float:
    """Return the equalized odds difference."""
    return float(max(np.ptp(tpr), np.ptp(fpr)))


def balanced_accuracy(tpr: Floats, fpr: Floats, points: OperatingPoints) -> float:
    """Return the balanced accuracy of all groups together."""
    positives = points.positives
    negatives = points.negatives
    of_all_positives = tpr @ positives / positives.sum()
    of_all_negatives = fpr @ negatives / negatives.sum()
    return float((of_all_positives + 1 - of_all_negatives) / 2)


def rates_at_grid(points: OperatingPoints) -> Floats:
    """Return true and false positive rates, shape (2, k, bins), with 1/2 for 0/0."""
    rates = np.array([points.true_positive_rate, points.false_positive_rate])
    return np.asarray(np.nan_to_num(rates[..., 1:-1], nan=0.5))


DELTA = Fraction(1, 2**40)
NOISE_FREE = "noise-free"
TREE = "tree"
FLAT = "flat"
PER_THRESHOLD = "per-threshold"
LOCAL = "local"
DISTRIBUTED_TREE = "distributed-noise"  # the tree with distributed noise
DISTRIBUTIONS = {DISTRIBUTED_TREE: NoiseDistribution.LAPLACE}
# The number of parties with distributed noise, and how many of them may be corrupt.
PARTIES = 3
CORRUPT_PARTIES = 1
METHODS = (TREE, FLAT, PER_THRESHOLD, LOCAL, DISTRIBUTED_TREE)


@dataclass(frozen=True)
class LocalMechanism:
    """The local mechanism of clients with a record each.

    A client reports its group by randomised response, and its own counts with noise.

    Source: the baseline of PrivFairFL (section 5, question 3) after Abay et al. 2020, for score curves.
    Counts are per label and block of score bins, on the levels of `tree`. Noise x has probability in
    proportion to ratio^|x|.
    Guarantees: the published values are exactly ln(response.odds / ratio^(2 levels))-LDP, as another record
    moves 2 counts a level by 1.
    [test: tests/protocols/test_queries.py]
    """

    response: Grr
    tree: CountTree
    ratio: Fraction

    @property
    def epsilon(self) -> Fraction:
        """The guarantee, rounded up to a multiple of 10^-12."""
        return log_upper_bound(self.response.odds / self.ratio ** (2 * len(self.tree.blocks)))

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of a client whose record is replaced by another."""
        return Guarantee(self.epsilon, Fraction(0))

    def reported(self) -> Floats:
        """Return the probability of each reported group (column), by true group (row)."""
        is_true_group = np.eye(self.response.groups, dtype=bool)
        return np.where(is_true_group, float(self.response.keep), float(self.response.move))

    def estimate(self, histograms: Integers, rng: np.random.Generator) -> Floats:
        """Simulate all clients, and return unbiased cumulative counts, (repetitions, k, 2, T + 1)."""
        probabilities = self.reported()
        reports = []
        for group in range(self.response.groups):
            reports.append(rng.multinomial(histograms[:, group], probabilities[group]))
        seen = np.moveaxis(np.sum(reports, axis=0), -1, 1)
        clients = seen.sum(axis=(2, 3), keepdims=True)
        odds = float(self.ratio / (1 - self.ratio))
        reporting = np.broadcast_to(clients, (*seen.shape[:3], self.tree.nodes))
        noise = summed_geometric(reporting, odds, rng) - summed_geometric(reporting, odds, rng)
        published = cumulative(seen) + noise @ curve_map(self.tree).T
        return np.asarray(np.einsum("rg,nrlt->nglt", np.linalg.inv(probabilities), published))

    def mean_square_error(self, records: int) -> float:
        """Predict a cumulative count's mean square error, if all groups and labels have as many records."""
        ratio = float(self.ratio)
        inverse = np.linalg.inv(self.reported())
        square = float((inverse**2).mean(axis=0).mean())  # a client's factor in one group's estimate, squared
        noise = records * square * 2 * ratio / (1 - ratio) ** 2 * self.tree.mean_variance()
        return noise + records / 4 * (square - 1 / self.response.groups)


def design_local(
    groups: int, trees: tuple[CountTree, ...], records: int, epsilon: Fraction
) -> LocalMechanism:
    """Return the mechanism for an epsilon, at most 64, with the least predicted error.

    Guarantees: at most epsilon, by exact bounds of the exponentials.
    [test: tests/protocols/test_queries.py]
    """
    designs = []
    for tree in trees:
        for twentieths in range(1, 20):  # the share of epsilon for the group
            of_group = min(epsilon * twentieths / 20, MOST_LOCAL)
            inverse, _ = exp_bounds((epsilon - of_group) / (2 * len(tree.blocks)))
            designs.append(LocalMechanism(Grr.private(groups, of_group), tree, 1 / inverse))
    return min(designs, key=lambda mechanism: mechanism.mean_square_error(records))


@dataclass(frozen=True, eq=False)
class Computed:
    """A release whose noise the parties make in the computation, or draw themselves.

    Computes: exact counts + linear @ noise of mean 0, which equals estimates from opened noisy nodes.
    [test: tests/protocols/test_queries.py]
    """

    noise: CurveNoise
    plan: NoisePlan

    @property
    def guarantee(self) -> Guarantee:
        """The noise's own."""
        return self.plan.exact

    def estimate(self, histograms: Integers, rng: np.random.Generator) -> Floats:
        """Return the exact counts and totals plus noise."""
        nodes = simulated_noise(self.noise.node, rng, (*histograms.shape[:3], self.plan.nodes))
        return np.asarray(cumulative(histograms) + nodes @ self.noise.linear.T)


def release_for(
    method: str, bins: int, groups: int, *, records: int, epsilon: Fraction, relation: NeighboringRelation
) -> LocalMechanism | Computed:
    """Return a method's release with this total epsilon, at most 20 except for local DP."""
    if method == LOCAL:
        tree = best_tree(bins, Neighbors(NeighboringRelation.REPLACE_ONE), Fraction(1), DELTA)
        return design_local(groups, (CountTree(bins, (1,)), tree), records, epsilon)
    return computed(method, bins, min(epsilon, MAX_EPSILON), relation)


@lru_cache(maxsize=64)
def computed(method: str, bins: int, epsilon: Fraction, relation: NeighboringRelation) -> Computed:
    """Return a release by a method other than local DP, for any number of groups."""
    neighbors = Neighbors(relation)
    distribution = DISTRIBUTIONS.get(method)
    if method == PER_THRESHOLD:
        release = each_threshold(1, bins)
        linear = _least_squares_per_threshold(bins)
    else:
        if method == FLAT:
            tree = CountTree(bins, (1,))
        else:
            tree = best_tree(bins, neighbors, epsilon, DELTA, distribution)
        release = tree.release(1)
        linear = curve_map(tree)
    if distribution is None:
        plan = plan_noise(release, neighbors, epsilon, DELTA)
    else:
        plan = plan_distributed_noise(
            release, neighbors, epsilon, DELTA, distribution, PARTIES, CORRUPT_PARTIES
        )
    return Computed(CurveNoise(linear, plan.noise), plan)


def _least_squares_per_threshold(bins: int) -> Floats:
    """Return the matrix from both counts at every threshold to the nearest counts with the same total."""
    total = np.full((1, 2 * bins), 1 / bins)
    above = (np.concatenate([np.eye(bins), -np.eye(bins)], axis=1) + total) / 2
    return np.concatenate([above, total])
