"""Results of calls: frozen objects that print as on a terminal and render in notebooks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairshares._shown import Shown
from fairshares.harness.errors import PYTHON, FairSharesError, naming
from fairshares.harness.inputs.columns import ColumnValues, as_index
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.pipeline.earlier_curves import as_curves, choose_again
from fairshares.harness.pipeline.earlier_results import EarlierFiles, found_in, read_files
from fairshares.harness.postprocessing.thresholds.choose import GroupThresholds
from fairshares.harness.postprocessing.thresholds.rules import ThresholdRule
from fairshares.harness.privacy.manifest import (
    MANIFEST,
    Manifest,
    ReleaseManifest,
    given,
    opened_by,
    read_manifest,
)
from fairshares.harness.releases.base import Answer
from fairshares.harness.releases.cap.statistic import ChosenCap
from fairshares.harness.releases.confusion.statistic import Confusion
from fairshares.harness.releases.count.statistic import GroupCounts
from fairshares.harness.releases.files import files_to_json, read_file
from fairshares.harness.releases.gap.statistic import Gaps, Interval
from fairshares.harness.releases.thresholds import view as thresholds_view
from fairshares.harness.releases.thresholds.request import ThresholdsRequest
from fairshares.harness.releases.thresholds.statistic import Thresholds, choice_of
from fairshares.harness.releases.weights.statistic import Weights
from fairshares.harness.reweighing.sample_weight import sample_weight
from fairshares.harness.system.documents import as_json
from fairshares.harness.system.files import as_path, is_directory
from fairshares.harness.system.result_files import not_result, result_path, write_files
from fairshares.harness.views import run_summary as run_view
from fairshares.harness.views.parts import Part

if TYPE_CHECKING:
    from fairshares._types import ConstraintName, Objective
    from fairshares.harness.postprocessing.thresholds.predictor import Estimator, GroupThresholdPredictor
    from fairshares.harness.training.logistic import LogisticModel

    NameIndex = pd.Index[str | bool | int | float]

T = TypeVar("T", covariant=True)


@dataclass(frozen=True)
class Privacy:
    """The (ε, δ)-differential privacy of a release, with exact bounds.

    Attributes:
        epsilon: ε, rounded up to a float.
        delta: δ, rounded up to a float.
        epsilon_exact: ε as an exact fraction, above 0.
        delta_exact: δ as an exact fraction, above 0 and below 1.
        unit: What is protected: "record" or "client".
        relation: The relation of neighboring data sets: "add_or_remove_one", "replace_one" or "zero_out_one".
    """

    epsilon: float
    delta: float
    epsilon_exact: Fraction
    delta_exact: Fraction
    unit: str
    relation: str


@dataclass(frozen=True, repr=False, eq=False)
class Result(Shown, Generic[T]):
    """The result of a release, all of it differentially private.

    A result is pickled, copied and saved without loss.
    """

    _earlier: EarlierFiles
    _found: T
    _notes: Sequence[Part] = ()
    _task: ClassVar[str] = ""  # the release whose results are of this class, in each subclass

    @property
    def manifest(self) -> dict[str, Any]:
        """The fields of the run's `manifest.json`: privacy, cost, public values and versions."""
        return as_json(self._earlier.manifest)

    @property
    def privacy(self) -> Privacy:
        """The exact ε and δ of all values that the run revealed."""
        stated = self._earlier.manifest.privacy
        return Privacy(
            stated.epsilon,
            stated.delta,
            stated.exact.epsilon,
            stated.exact.delta,
            str(stated.privacy_unit),
            str(stated.neighboring_relation),
        )

    def save(self, directory: Path | str) -> None:
        """Write a new directory of the files that a command writes, which `fairshares.load` reads.

        Args:
            directory: The new directory. Directories on its way are made.
        Raises:
            OptionError: The directory exists, or something on its way is no directory.
            WriteError: The directory cannot be written.
        """
        files = {**files_to_json(self._earlier.files), MANIFEST: self.manifest}
        with naming(PYTHON):
            write_files(as_path(directory, "directory"), files, "directory")

    def _view(self) -> Iterable[Part]:
        yield from self._shown()
        yield ""
        yield run_view.in_short(self._opened_by)
        yield run_view.guaranteed(self._opened_by)
        yield from run_view.left_out(self._opened_by)
        yield from self._notes

    @property
    def _opened_by(self) -> ReleaseManifest:
        return opened_by(self._earlier.manifest)

    def _shown(self) -> Iterable[Part]:
        return run_view.view_of(self._opened_by.task).show(self._found, self._opened_by)

    def _as_given(self, names: Iterable[str], column: str = "group") -> NameIndex:
        """Return names of groups or labels in the dtype of the records' column, as its index."""
        revealed = self._opened_by
        dtype = None
        columns = given(revealed.columns) if isinstance(revealed, Manifest) else None
        if columns is not None:
            dtype = given(columns.group if column == "group" else columns.label)
        return as_index(list(names), dtype).rename(column)

    def _index(self, domain: RecordDomain, *names: str) -> pd.MultiIndex:
        """Return an index of all groups, and of all labels for each further name."""
        labels = self._as_given(domain.labels, "label")
        levels = [self._as_given(domain.groups)]
        levels += [labels] * (len(names) - 1)
        return pd.MultiIndex.from_product(levels, names=names)

    def _table(self, domain: RecordDomain, intervals: npt.NDArray[np.float64]) -> pd.DataFrame:
        """Return intervals, whose last axis is low and high, by (group, label)."""
        return pd.DataFrame(intervals.reshape(-1, 2), self._index(domain, "group", "label"), ["low", "high"])

    def _series(
        self, domain: RecordDomain, values: npt.NDArray[np.float64], name: str, *more: str
    ) -> pd.Series[float]:
        return pd.Series(values.ravel(), self._index(domain, "group", "label", *more), name=name)


class WeightsResult(Result[Weights]):
    """Sample weights per group and label."""

    _task = "weights"

    @property
    def weights(self) -> pd.Series[float]:
        """The weights by (group, label), positive, shape (k·m,) for k groups and m labels."""
        found = self._found.weights
        return self._series(found.domain, found.weights, "sample_weight")

    @property
    def intervals(self) -> pd.DataFrame:
        """Columns low and high by (group, label). Each interval holds the true counts' weight with 95 %."""
        found = self._found.weights
        return self._table(found.domain, found.interval)

    @property
    def noisy_counts(self) -> pd.Series[float]:
        """The noisy counts of records by (group, label), shape (k·m,), unbiased; some may be negative."""
        found = self._found.weights
        return self._series(found.domain, found.noisy_counts / found.unit, "noisy_count")

    def sample_weight(self, group: ColumnValues, label: npt.ArrayLike) -> pd.Series[float]:
        """Return each row's weight, for `fit(X, y, sample_weight=...)`.

        Args:
            group: Each row's group, shape (n,), as a pandas Series, numpy array or list. Or shape (n, k), the
                columns that the call crossed into groups.
            label: Each row's label, shape (n,), with the same index.
        Returns:
            The weights, shape (n,), with the index of group and label, else 0, 1, 2 ...
        Raises:
            RecordsError: Group and label are not of the same rows, or a row's pair has no weight.
        """
        return sample_weight(self.weights, group, label)


class ConfusionResult(Result[Confusion]):
    """A confusion matrix per group, and the rates that follow."""

    _task = "confusion"

    @property
    def counts(self) -> pd.Series[float]:
        """The noisy counts of records by (group, label, prediction), unbiased; some may be negative."""
        return self._series(self._found.counts.domain, self._found.table, "noisy_count", "prediction")

    @property
    def rates(self) -> pd.DataFrame:
        """Columns true_positive_rate, false_positive_rate, selection_rate by (group, label), from 0 to 1.

        Each rate is of that label against all others. NaN stands for 0/0.
        """
        domain = self._found.counts.domain
        columns = {name: self._series(domain, values, name) for name, values in self._found.rates.items()}
        return pd.DataFrame(columns)

    @property
    def intervals(self) -> pd.DataFrame:
        """Columns (rate, low) and (rate, high) by (group, label); each holds the records' rate with 95 %."""
        domain = self._found.counts.domain
        tables = {name: self._table(domain, values) for name, values in self._found.intervals.items()}
        return pd.concat(tables, axis=1)


class GapResult(Result[Gaps]):
    """Groups' mean performance, and the gaps between them."""

    _task = "gap"

    @property
    def gaps(self) -> pd.DataFrame:
        """Columns gap, low and high by pair of groups, in the values' unit.

        A gap is the mean of the first group less the mean of the second. Each interval holds with 95 %. NaN
        stands for a gap that has no estimate.
        """
        groups = self._as_given(self._found.domain.groups)
        firsts, others = np.array(list(self._found.gaps)).T
        index = pd.MultiIndex.from_arrays(
            [groups.take(firsts), groups.take(others)], names=["group", "other"]
        )
        return self._means(self._found.gaps.values(), index, "gap")

    @property
    def means(self) -> pd.DataFrame:
        """Columns mean, low and high by group, in the values' unit. Each interval holds with 95 %."""
        return self._means(self._found.means, self._as_given(self._found.domain.groups), "mean")

    @property
    def sizes(self) -> pd.Series[float]:
        """The noisy numbers of clients by group; some may be negative."""
        return pd.Series(self._found.sizes, self._as_given(self._found.domain.groups), name="noisy_size")

    @staticmethod
    def _means(intervals: Iterable[Interval], index: NameIndex, name: str) -> pd.DataFrame:
        rows = [[interval.estimate, interval.low, interval.high] for interval in intervals]
        return pd.DataFrame(rows, index, [name, "low", "high"])


class CountResult(Result[GroupCounts]):
    """Counts of records whose error is a share of the count."""

    _task = "count"

    @property
    def counts(self) -> pd.Series[float]:
        """The estimated counts of records by (group, label)."""
        return self._series(self._found.domain, self._found.estimates, "count")

    @property
    def intervals(self) -> pd.DataFrame:
        """Columns low and high by (group, label). All intervals hold the true counts at once with 95 %."""
        return self._table(self._found.domain, self._found.intervals)


class CapResult(Result[ChosenCap]):
    """How many records of a client are to count."""

    _task = "cap"

    @property
    def cap(self) -> int:
        """The cap, at least 1, for `cap=` of calls with `privacy_unit="client"`."""
        return self._found.cap


class ThresholdsResult(Result[Thresholds]):
    """Score curves per group, and a decision rule for each."""

    _task = "thresholds"

    @property
    def problem(self) -> FairSharesError | None:
        """The error that says why the curves allow no rules, None if they do. Their ε is spent anyway."""
        return self._found.problem

    @property
    def curves(self) -> pd.DataFrame:
        """Noisy true_positives and false_positives, and their standard_error, by (group, threshold).

        They count the records whose score is at least the threshold. They are unbiased, and so some may be
        negative, or larger at a higher threshold.
        """
        curves = self._found.curves.curves
        assert curves.noise is not None, "released curves have noise"
        errors = curves.noise.standard_errors()[:-1]
        return pd.DataFrame(
            {
                "true_positives": curves.tp.ravel(),
                "false_positives": curves.fp.ravel(),
                "standard_error": np.tile(errors, len(curves.groups)),
            },
            pd.MultiIndex.from_product(
                [self._as_given(curves.groups), curves.thresholds], names=["group", "threshold"]
            ),
        )

    @property
    def rules(self) -> dict[Hashable, ThresholdRule]:
        """Each group's rule: its thresholds, and the probability of each.

        Raises: `problem`, if there is one.
        """
        return dict(zip(self._groups, self._rules.values(), strict=True))

    @property
    def _rules(self) -> dict[str, ThresholdRule]:
        return {group: rule.stated.rule(group) for group, rule in self._chosen.rules.items()}

    @property
    def rates(self) -> pd.DataFrame:
        """Estimates of true_positive_rate, false_positive_rate, selection_rate by group, under the rules.

        Raises: `problem`, if there is one.
        """
        return pd.DataFrame(self._chosen.rates, self._groups)

    @property
    def intervals(self) -> pd.DataFrame:
        """Columns (rate, low) and (rate, high) by group; all hold with 95 %, over noise and sample.

        Raises: `problem`, if there is one.
        """
        tables = {}
        for name, values in self._chosen.intervals.items():
            tables[name] = pd.DataFrame(values, self._groups, ["low", "high"])
        return pd.concat(tables, axis=1)

    def predictor(
        self, estimator: Estimator | None = None, unseen_group: str | float = "error"
    ) -> GroupThresholdPredictor:
        """Return a scikit-learn classifier that applies the rules to a model's scores.

        The classifier predicts the records' labels. If the records have more than two, it predicts 1 for the
        positive label, else 0.

        Args:
            estimator: A fitted model of two classes with `predict_proba`. None: X will hold scores.
            unseen_group: "error", or the threshold for groups without a rule, from 0 (everybody) to 2
                (nobody).
        Returns:
            The classifier, which needs each sample's group.
        Raises: `problem`, if there is one.
        """
        from fairshares import GroupThresholdPredictor

        curves = self._found.curves
        values = None
        if curves.negative:
            pair = (curves.negative, curves.positive)
            values = list(self._as_given(pair, "label").to_numpy())
        return GroupThresholdPredictor(self._rules, estimator, unseen_group, curves.positive, values)

    def choose(
        self,
        *,
        positive_label: Hashable = None,
        constraint: ConstraintName = "equalized_odds",
        objective: Objective = "accuracy_score",
        tolerance: float | None = None,
        deterministic: bool = False,
    ) -> ThresholdsResult:
        """Choose rules on these curves again, for no ε; `fairshares.thresholds` would release new ones.

        Args: as in `fairshares.thresholds`, and
            positive_label: None: as here.
        Returns:
            These curves with other rules.
        Raises:
            FairSharesError: The curves do not allow this choice.
        """
        with naming(PYTHON):
            request = ThresholdsRequest(
                epsilon=1,
                positive_label=positive_label,
                constraint=constraint,
                objective=objective,
                tolerance=tolerance,
                deterministic=deterministic,
            )
            curves = as_curves(self._earlier, Path("an earlier call"))
            choice, manifest, files = choose_again(curves, choice_of(request), request.positive_label)
            notes = [thresholds_view.chosen_again(curves.run)]
            return ThresholdsResult(EarlierFiles(manifest, files), choice, notes)

    @property
    def _chosen(self) -> GroupThresholds:
        if self._found.thresholds is None:
            raise self.problem or FairSharesError("This run chose no thresholds; its curves are in `curves`.")
        return self._found.thresholds

    @property
    def _groups(self) -> NameIndex:
        return self._as_given(self._chosen.rules)

    def _shown(self) -> Iterable[Part]:
        yield from thresholds_view.thresholds(self._found)
        if self.problem:
            yield str(self.problem)


@dataclass(frozen=True, repr=False, eq=False)
class TrainResult(Result["LogisticModel"]):
    """A model, the weights that records had in training, and thresholds of its scores, if any.

    Attributes:
        weights: The sample weights; None if the training had none.
        thresholds: The curves and rules for the model's scores; None if the training chose none.
    """

    _task = "train"

    weights: WeightsResult | None = None
    thresholds: ThresholdsResult | None = None

    @property
    def model(self) -> LogisticModel:
        """The model, a fitted scikit-learn classifier of tables."""
        return self._found

    def predictor(self) -> LogisticModel | GroupThresholdPredictor:
        """Return the model, or a classifier that applies the thresholds to its scores if there are any.

        Returns:
            The model, without thresholds; else a classifier that needs each sample's group.
        Raises: `problem` of the thresholds, if there is one.
        """
        return self.model if self.thresholds is None else self.thresholds.predictor(self.model)

    def save(self, directory: Path | str) -> None:
        """Write a new directory of the files of the training, with one below it for weights and thresholds.

        Args:
            directory: The new directory, as for the results of releases.
        Raises:
            OptionError: The directory exists, or something on its way is no directory.
            WriteError: The directory cannot be written.
        """
        super().save(directory)
        if self.weights is not None:
            self.weights.save(Path(directory) / self.weights._opened_by.task)
        if self.thresholds is not None:
            self.thresholds.save(Path(directory) / self.thresholds._opened_by.task)

    def _shown(self) -> Iterable[Part]:
        from fairshares.harness.views.training import training  # scikit-learn takes a second to load

        manifest = self._earlier.manifest
        assert isinstance(manifest, Manifest), "a training adds nothing up, and chooses nothing again"
        return training(
            self.model,
            manifest,
            weights=None if self.weights is None else self.weights._found.weights,
            thresholds=None if self.thresholds is None else self.thresholds._found,
        )


Released = (
    WeightsResult | ConfusionResult | ThresholdsResult | GapResult | CountResult | CapResult | Result[Answer]
)
"""The result of one release; the last of one that only a command makes."""


def result_of(earlier: EarlierFiles, found: Answer, notes: Sequence[Part] = ()) -> Released:
    """Return the result of a run, as an object of the class for its release.

    Args:
        earlier: The run's files.
        found: The release's own result.
        notes: Sentences that are shown below the result.
    Returns:
        The result, in the class of its release; a plain `Result` for a release that only a command makes.
    """
    general: type[Result[Answer]] = Result
    kinds = {kind._task: kind for kind in general.__subclasses__()}
    kind = kinds.get(opened_by(earlier.manifest).task, general)
    return kind(earlier, found, notes)


def load(directory: Path) -> Released | TrainResult:
    """Return an earlier run's result.

    Args:
        directory: The run's directory.
    Returns:
        The result of a release, or of a training.
    Raises:
        ResultFileError: The files belong to something else, or are damaged.
    """
    read = _READERS.get(read_manifest(directory).task, _read)
    return read(directory)


def _read_training(directory: Path) -> TrainResult:
    """Return the result of an earlier training, or raise ResultFileError."""
    from fairshares.harness.training.logistic import LogisticModel, ModelFile

    manifest = read_manifest(directory)
    file = read_file(directory, ModelFile)
    path = result_path(directory, ModelFile.file_name)
    weights = _part(directory / "weights")
    thresholds = _part(directory / "thresholds")
    assert weights is None or isinstance(weights, WeightsResult)
    assert thresholds is None or isinstance(thresholds, ThresholdsResult)
    return TrainResult(
        EarlierFiles(manifest, [file]),
        LogisticModel.from_stated(file, not_result(path, ModelFile.file_name)),
        weights=weights,
        thresholds=thresholds,
    )


def _part(directory: Path) -> Released | None:
    """Return the result of a training's part, None if it has none."""
    return _read(directory) if is_directory(directory) else None


def _read(directory: Path) -> Released:
    """Return the result of an earlier release, or raise ResultFileError."""
    earlier = read_files(directory)
    return result_of(earlier, found_in(earlier, directory))


_READERS: Mapping[str, Callable[[Path], Released | TrainResult]] = {"train": _read_training}
"""What reads a result, by its task; all others are those of releases."""
