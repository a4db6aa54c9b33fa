"""`quickstart`: weights and thresholds from shares of real data, and their effect on a model."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from pathlib import Path

import numpy as np

from fairshares.data.loanapp import LoanApplications, load_loanapp
from fairshares.harness.cli import terminal as cli
from fairshares.harness.cli.options import QuickstartOptions
from fairshares.harness.engines.registry import chosen_model
from fairshares.harness.errors import InfeasibleError, TooNoisyError, UndefinedRateError
from fairshares.harness.evaluation.before_after import (
    Fold,
    Mitigation,
    evaluate,
    held_out_scores,
    reweighed,
    thresholded,
)
from fairshares.harness.evaluation.labeled_data import FIXED_SPLIT, SPLITS
from fairshares.harness.inputs.record_schema import RecordDomain, RecordKind, even_grid
from fairshares.harness.inputs.records import ClientRecords, read_records, read_singly
from fairshares.harness.pipeline.manifest_of_run import combined_manifest
from fairshares.harness.pipeline.run import RunSettings, run_release
from fairshares.harness.pipeline.sources import RecordsSource
from fairshares.harness.postprocessing.noisy_counts import NoisyCounts
from fairshares.harness.postprocessing.thresholds.rules import ThresholdRule
from fairshares.harness.privacy.manifest import FILE as MANIFEST
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
from fairshares.harness.releases.weights.statistic import WeightsStatistic
from fairshares.harness.reweighing.formulas import REWEIGHINGS
from fairshares.harness.reweighing.sample_weight import WeightsTable
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.system.documents import as_json
from fairshares.harness.system.result_files import default_out, new_directory, write_all
from fairshares.harness.views import quickstart as view
from fairshares.harness.views.parts import Heading
from fairshares.harness.views.rendering.html import write_page
from fairshares.harness.views.run import results
from fairshares.protocols import reference
from fairshares.protocols.arrays import Floats, Integers
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.mechanisms.count_tree import CountTree
from fairshares.protocols.noise.added import Noise, simulated_noise

SCHEMES = ("balanced", "kamiran-calders")
CONSTRAINT = "equalized_odds"
OBJECTIVE = "balanced_accuracy_score"
_WEIGHTS_SHARE = Fraction(1, 4)  # of the budget: four counts take less than a curve
_GRID = even_grid(21)  # 1,393 people are too few for a finer one
_NAMES = {"0": "denied", "1": "approved"}  # of labels
_UNMITIGATED = 0.5  # the threshold of a model's own predictions


def quickstart(options: QuickstartOptions) -> None:
    """Run the main job on mortgage applications."""
    model = chosen_model(options.security, cli.announce)
    target = options.out or default_out("quickstart")
    with cli.steps(view.STEPS) as begin:
        done = run(model, options.guarantee, target, begin)
    shown = view.quickstart(done) if cli.output.verbose else view.in_short(done)
    cli.show(Heading(view.TITLE, f": {done.subtitle}"), *shown, results(target, page=True))


def run(model: SecurityModel, spends: Guarantee, out: Path, progress: cli.Steps) -> view.Quickstart:
    """Run π_RW and π_ROC on the training applicants' shares, mitigate, and assess on the others.

    The fixed split uses the results. Other splits show how figures vary: they simulate the releases in the
    clear, as the data are public.

    Args:
        model: The security model of both runs.
        spends: What both runs spend together.
        out: The directory of the results; if a run fails, it does not exist.
        progress: Is told of each step as it begins.
    """
    progress("records")
    data = load_loanapp()
    train, test = data.split(FIXED_SPLIT)

    @cache
    def scores(seed: int) -> Floats:
        training_rows, _ = data.split(seed)
        return held_out_scores(data, training_rows)

    weights_epsilon = spends.epsilon * _WEIGHTS_SHARE
    curves_epsilon = spends.epsilon - weights_epsilon
    delta = spends.delta / 2  # of each run
    choice = ThresholdChoice(CONSTRAINT, OBJECTIVE, tolerance=0.0, deterministic=False)

    with new_directory(out) as directory:
        weights = run_release(
            WeightsStatistic(),
            RecordsSource(applicants(data, train)),
            RunSettings(
                WeightsRequest(epsilon=1, security=model).spending(Guarantee(weights_epsilon, delta))
            ),
            directory / "weights",
            progress,
        )
        progress("score")
        curves = run_release(
            ThresholdsStatistic(CurvesStatistic(), choice),
            RecordsSource(applicants(data, train, scores(FIXED_SPLIT))),
            RunSettings(
                ThresholdsRequest(epsilon=1, security=model).spending(Guarantee(curves_epsilon, delta))
            ),
            directory / "thresholds",
            partial(_second, progress),
        )
        parts = {"weights": weights.manifest, "thresholds": curves.manifest}
        manifest = combined_manifest("quickstart", parts)
        progress("evaluate")
        mitigations = _Mitigations(data, weights.found.counts, curves.found, choice, scores)
        evaluation = evaluate(data, mitigations.by_name(), SPLITS, progress.count)
        shown = view.Quickstart(
            weights.found,
            curves.found,
            manifest,
            evaluation,
            len(train),
            len(test),
            len(SPLITS),
            mitigations.fallbacks,
        )
        progress("report")
        for task in parts:
            shutil.rmtree(directory / task)
        files = files_to_json([*weights.files, *curves.files])
        write_all(directory, {**files, MANIFEST: as_json(manifest)})
        (directory / "evaluation.csv").write_text(evaluation.to_csv(index=False), encoding="utf-8")
        write_page(view.TITLE, shown.subtitle, view.quickstart(shown), directory)
    return shown


def _second(progress: cli.Steps, step: str) -> None:
    """Begin a step of the second run, whose steps have names of their own."""
    progress(f"second {step}")


class _Mitigations:
    """The mitigations that are compared, by the results on the fixed split, and simulated on the others.

    Attributes:
        fallbacks: How many splits had no thresholds, so that the model's own predictions stood in.
    """

    def __init__(
        self,
        data: LoanApplications,
        counts: NoisyCounts,
        found: Thresholds,
        choice: ThresholdChoice,
        scores: Callable[[int], Floats],
    ) -> None:
        self._data = data
        self._choice = choice
        self._scores = scores
        self._curves = found.curves
        self._counts = {FIXED_SPLIT: counts}
        self.fallbacks = 0

    def by_name(self) -> dict[str, Mitigation]:
        weighted = {scheme: reweighed(partial(self._weights, scheme)) for scheme in SCHEMES}
        return {**weighted, "thresholds": thresholded(self._rules)}

    def _weights(self, scheme: str, fold: Fold) -> WeightsTable:
        if fold.seed not in self._counts:
            self._counts[fold.seed] = simulated_counts(
                applicants(self._data, fold.train), self._counts[FIXED_SPLIT].noise
            )
        return REWEIGHINGS[scheme](self._counts[fold.seed]).weights

    def _rules(self, fold: Fold) -> Mapping[str, ThresholdRule]:
        curves = self._curves
        if fold.seed != FIXED_SPLIT:
            curves = simulated_curves(applicants(self._data, fold.train), self._scores(fold.seed), curves)
        try:
            return self._choice.thresholds_on(curves.curves).rules
        except (UndefinedRateError, TooNoisyError, InfeasibleError):
            self.fallbacks += 1
            return dict.fromkeys(self._data.groups, ThresholdRule((_UNMITIGATED,)))


def applicants(data: LoanApplications, rows: Integers, scores: Floats | None = None) -> ClientRecords:
    """Return applicants' records, each a client's, maybe with scores."""
    frame = data.clients(rows).replace({"label": _NAMES})
    domain = RecordDomain(data.groups, tuple(_NAMES.values()), max_count=1)
    if scores is None:
        return read_singly(frame, [], domain)[0]
    domain = replace(domain, kind=RecordKind.SCORE, thresholds=_GRID)
    return read_records(frame.assign(score=scores), domain, kind=RecordKind.SCORE)


def simulated_counts(records: ClientRecords, noise: Noise) -> NoisyCounts:
    """Return counts as π_RW would open them."""
    counts = reference.counts(records.group, records.label, *records.domain.shape)
    noisy = counts + simulated_noise(noise, np.random.default_rng(), counts.shape)
    return NoisyCounts(records.domain, noisy, noise)


def simulated_curves(records: ClientRecords, scores: Floats, curves: NoisyCurves) -> NoisyCurves:
    """Return curves as π_ROC would open them."""
    pair = records.group * len(records.domain.labels) + records.label  # of each record
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
