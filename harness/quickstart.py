"""The quickstart's job: two releases of real applicants' records, and what they change in a model.

Applicants of a fixed split give their records to the releases, and the model is judged on all others. On
further splits the releases are simulated in the clear, as the data are public: they show how figures vary.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd

from fairshares.data.loanapp import LoanApplications, load_loanapp
from fairshares.harness.engines.execution import Progress, StepsOfRun
from fairshares.harness.errors import InfeasibleError, TooNoisyError, UndefinedRateError
from fairshares.harness.evaluation.before_after import (
    Fold,
    Mitigation,
    Reweighed,
    Thresholded,
    evaluate,
    held_out_scores,
)
from fairshares.harness.evaluation.labeled_data import FIXED_SPLIT, SPLITS
from fairshares.harness.inputs.record_schema import RecordDomain, RecordKind, even_grid
from fairshares.harness.inputs.records import ClientRecords, read_records, read_singly
from fairshares.harness.pipeline.manifest_of_run import combined_manifest
from fairshares.harness.pipeline.run import Run, RunSettings, run_release
from fairshares.harness.pipeline.sources import RecordsSource
from fairshares.harness.postprocessing.noisy_counts import NoisyCounts
from fairshares.harness.postprocessing.thresholds.rules import ThresholdRule
from fairshares.harness.privacy.manifest import MANIFEST, Manifest
from fairshares.harness.releases.files import files_to_json
from fairshares.harness.releases.thresholds.request import ThresholdsRequest
from fairshares.harness.releases.thresholds.statistic import (
    CurvesStatistic,
    NoisyCurves,
    ThresholdChoice,
    Thresholds,
    ThresholdsStatistic,
    noisy_curves,
)
from fairshares.harness.releases.weights.request import WeightsRequest
from fairshares.harness.releases.weights.statistic import Weights, WeightsStatistic
from fairshares.harness.reweighing.formulas import REWEIGHINGS
from fairshares.harness.reweighing.sample_weight import WeightsTable
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.system.documents import as_json
from fairshares.harness.system.progress import ProgressListener
from fairshares.harness.system.result_files import new_directory, write_all
from fairshares.harness.views import quickstart as view
from fairshares.harness.views.rendering.html import write_page
from fairshares.protocols import reference
from fairshares.protocols.arrays import Floats, Integers
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.mechanisms.count_tree import CountTree
from fairshares.protocols.noise.added import Noise, simulated_noise

TASK = "quickstart"
SCHEMES = ("balanced", "kamiran-calders")
_WEIGHTS = "weights"  # the directories of the releases, and their names in the manifest
_THRESHOLDS = "thresholds"
_WEIGHTS_SHARE = Fraction(1, 4)  # a share of the budget: four counts take less than a curve
_GRID = even_grid(21)  # 1,393 people are too few for a finer one
_NAMES = {"0": "denied", "1": "approved"}  # names of labels
_CHOICE = ThresholdChoice("equalized_odds", "balanced_accuracy_score", tolerance=0.0, deterministic=False)
_UNMITIGATED = 0.5  # the threshold of a model's own predictions


def run(
    model: SecurityModel, spends: Guarantee, out: Path, progress: Progress, count: ProgressListener
) -> view.Quickstart:
    """Run π_RW and π_ROC on the training applicants' shares, mitigate, and assess on the others.

    Args:
        model: The security model of both runs.
        spends: The guarantee that both runs spend together.
        out: The directory of the results; if a run fails, it does not exist.
        progress: A function that is told of each step as the step begins.
        count: A function that is told how many splits are done, and how many there are.
    """
    progress("records")
    applicants = Applicants(load_loanapp())
    with new_directory(out) as directory:
        released = _release(applicants, model, spends, directory, progress)
        progress("evaluate")
        mitigations = _Mitigations(_ReleasesBySplit(applicants, released))
        evaluation = evaluate(applicants.data, mitigations.by_name(), SPLITS, count)
        manifest = released.manifest
        shown = view.Quickstart(
            released.weights.found,
            released.thresholds.found,
            manifest,
            evaluation,
            len(applicants.train),
            len(applicants.test),
            len(SPLITS),
            mitigations.thresholds.fallbacks,
        )
        progress("report")
        _write(directory, released, manifest, shown)
    return shown


class Applicants:
    """The applicants of the data set, and the scores that a model gives to those who train it.

    Attributes:
        data: The data set.
        train: The rows of the applicants whose records are released.
        test: The rows of all others.
    """

    def __init__(self, data: LoanApplications) -> None:
        self.data = data
        self.train, self.test = data.split(FIXED_SPLIT)
        self._scores: dict[int, Floats] = {}

    def scores(self, seed: int) -> Floats:
        """Return the scores of a split's training rows, each by a model that was fitted without the row."""
        if seed not in self._scores:
            training_rows, _ = self.data.split(seed)
            self._scores[seed] = held_out_scores(self.data, training_rows)
        return self._scores[seed]

    def records(self, rows: Integers) -> ClientRecords:
        """Return applicants' records, each a client's."""
        return read_singly(self._table(rows), [], self._domain)[0]

    def scored_records(self, rows: Integers, scores: Floats) -> ClientRecords:
        """Return applicants' records with scores, each a client's."""
        domain = replace(self._domain, kind=RecordKind.SCORE, thresholds=_GRID)
        return read_records(self._table(rows).assign(score=scores), domain, kind=RecordKind.SCORE)

    @property
    def _domain(self) -> RecordDomain:
        return RecordDomain(self.data.groups, tuple(_NAMES.values()), max_count=1)

    def _table(self, rows: Integers) -> pd.DataFrame:
        return self.data.clients(rows).replace({"label": _NAMES})


@dataclass(frozen=True)
class _Released:
    """The two releases of the training applicants' records."""

    weights: Run[Weights]
    thresholds: Run[Thresholds]

    @property
    def manifest(self) -> Manifest:
        """The manifest of both, whose losses add up."""
        parts = {_WEIGHTS: self.weights.manifest, _THRESHOLDS: self.thresholds.manifest}
        return combined_manifest(TASK, parts)


def _release(
    applicants: Applicants, model: SecurityModel, spends: Guarantee, directory: Path, progress: Progress
) -> _Released:
    """Release weights, then curves of scores, each into a directory of its own below `directory`."""
    of_weights = Guarantee(spends.epsilon * _WEIGHTS_SHARE, spends.delta / 2)
    of_curves = spends - of_weights
    weights = run_release(
        WeightsStatistic(),
        RecordsSource(applicants.records(applicants.train)),
        RunSettings(WeightsRequest(security=model, epsilon=of_weights.epsilon, delta=of_weights.delta)),
        directory / _WEIGHTS,
        progress,
    )
    progress("score")
    scored = applicants.scored_records(applicants.train, applicants.scores(FIXED_SPLIT))
    thresholds = run_release(
        ThresholdsStatistic(CurvesStatistic(), _CHOICE),
        RecordsSource(scored),
        RunSettings(ThresholdsRequest(security=model, epsilon=of_curves.epsilon, delta=of_curves.delta)),
        directory / _THRESHOLDS,
        StepsOfRun("second", progress).begin,
    )
    return _Released(weights, thresholds)


def _write(directory: Path, released: _Released, manifest: Manifest, shown: view.Quickstart) -> None:
    """Write the results and the page into a directory, in place of the releases' own directories."""
    for task in (_WEIGHTS, _THRESHOLDS):
        shutil.rmtree(directory / task)
    files = files_to_json([*released.weights.files, *released.thresholds.files])
    write_all(directory, {**files, MANIFEST: as_json(manifest)})
    (directory / "evaluation.csv").write_text(shown.evaluation.to_csv(index=False), encoding="utf-8")
    write_page(view.TITLE, shown.subtitle, view.quickstart(shown), directory)


class _ReleasesBySplit:
    """The releases of each split's training rows: on the fixed split, the results; else simulated."""

    def __init__(self, applicants: Applicants, released: _Released) -> None:
        self.applicants = applicants
        self._released = released
        self._counts = {FIXED_SPLIT: released.weights.found.counts}

    def counts(self, fold: Fold) -> NoisyCounts:
        """Return the counts per group and label, the same ones whenever they are asked for."""
        if fold.seed not in self._counts:
            noise = self._counts[FIXED_SPLIT].noise
            self._counts[fold.seed] = simulated_counts(self.applicants.records(fold.train), noise)
        return self._counts[fold.seed]

    def curves(self, fold: Fold) -> NoisyCurves:
        """Return the curves of scores."""
        curves = self._released.thresholds.found.curves
        if fold.seed == FIXED_SPLIT:
            return curves
        scores = self.applicants.scores(fold.seed)
        return simulated_curves(self.applicants.records(fold.train), scores, curves)


@dataclass(frozen=True)
class _Weighed(Reweighed):
    """A model that is fitted with the weights of a scheme."""

    scheme: str
    releases: _ReleasesBySplit

    def weights(self, fold: Fold) -> WeightsTable:
        return REWEIGHINGS[self.scheme](self.releases.counts(fold)).weights


class _Ruled(Thresholded):
    """Decisions by the chosen thresholds.

    Attributes:
        fallbacks: How many splits had no thresholds, so that the model's own predictions stood in.
    """

    def __init__(self, releases: _ReleasesBySplit) -> None:
        self._releases = releases
        self.fallbacks = 0

    def rules(self, fold: Fold) -> Mapping[str, ThresholdRule]:
        curves = self._releases.curves(fold)
        try:
            return _CHOICE.thresholds_on(curves.curves).rules
        except (UndefinedRateError, TooNoisyError, InfeasibleError):
            self.fallbacks += 1
            return dict.fromkeys(fold.data.groups, ThresholdRule((_UNMITIGATED,)))


class _Mitigations:
    """The mitigations that are compared."""

    def __init__(self, releases: _ReleasesBySplit) -> None:
        self.weighed = {scheme: _Weighed(scheme, releases) for scheme in SCHEMES}
        self.thresholds = _Ruled(releases)

    def by_name(self) -> dict[str, Mitigation]:
        """Return the mitigations by the names that the evaluation has."""
        return {**self.weighed, _THRESHOLDS: self.thresholds}


def simulated_counts(records: ClientRecords, noise: Noise) -> NoisyCounts:
    """Return counts as π_RW would open them."""
    counts = reference.counts(records.group, records.label, *records.domain.shape)
    noisy = counts + simulated_noise(noise, np.random.default_rng(), counts.shape)
    return NoisyCounts(records.domain, noisy, noise)


def simulated_curves(records: ClientRecords, scores: Floats, curves: NoisyCurves) -> NoisyCurves:
    """Return curves as π_ROC would open them.

    Args:
        records: The records, in the order of `scores`.
        scores: The scores of the records.
        curves: Curves of the same grid and noise.
    """
    pair = records.group * len(records.domain.labels) + records.label  # the pair of each record
    pairs = records.domain.cells
    grid = tuple(curves.curves.thresholds.tolist())
    tree = CountTree(len(grid), curves.blocks)
    counts = np.array(reference.block_counts(pair, scores.tolist(), pairs, grid, tree.blocks))
    return noisy_curves(
        counts + simulated_noise(curves.noise, np.random.default_rng(), counts.shape),
        replace(records.domain, kind=RecordKind.SCORE, thresholds=grid),
        curves.positive,
        tree,
        curves.noise,
    )
