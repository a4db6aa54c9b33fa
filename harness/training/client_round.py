"""A client's part in a round of a training over hosts: its clipped update, from its own records."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from msgspec import UnsetType

from fairshares.harness.errors import (
    PYTHON,
    FairSharesError,
    OptionError,
    RecordsError,
    ResultFileError,
    ShareError,
    naming,
)
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.inputs.records import read_own
from fairshares.harness.inputs.tables import TabularRecords
from fairshares.harness.system.documents import DECLARATION, Refusal, as_type, read_json
from fairshares.harness.system.files import as_path
from fairshares.harness.system.progress import Say
from fairshares.harness.system.result_files import SCHEMA, result_path
from fairshares.harness.training.fairness import FAIRNESS, FairGrad
from fairshares.harness.training.features import Features, features_from_json
from fairshares.harness.training.logistic import Examples
from fairshares.harness.training.round_file import ROUND_FILE, RoundFile
from fairshares.harness.uploads.task import Task
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.arrays import Floats


@dataclass(frozen=True)
class TrainingRound:
    """One round of a training over hosts, as its coordinator has published it.

    What a client gives away does not depend on this file: the task alone says to which norm an update is
    clipped, and how many are revealed.

    Attributes:
        task: The name of the task of vectors.
        reveal: The number of the reveal for which a client seals its update, from 1 on.
        domain: The groups and labels that records may have.
        features: The model's p features.
        parameters: The model's parameters in this round, shape (k - 1, p + 1) for k labels.
        clip: The L2 norm to which a record's gradient is shortened.
        largest_weight: The bound on a record's weight.
        weights: A record's weight by group and label; None if each weighs 1.
        fairgrad: How the counts are made that follow an update; None if none do.
    """

    task: str
    reveal: int
    domain: RecordDomain
    features: Features
    parameters: Floats
    clip: float
    largest_weight: float
    weights: Floats | None
    fairgrad: FairGrad | None

    @property
    def coordinates(self) -> int:
        """The length of an update."""
        return self.parameters.size + (self.fairgrad.cells if self.fairgrad else 0)

    @classmethod
    def load(cls, path: Path | str) -> TrainingRound:
        """Read `round.json`.

        Args:
            path: The file, or its directory.
        Returns:
            The round.
        Raises:
            ResultFileError: The file is no such file.
        """
        with naming(PYTHON):
            return read_round(result_path(path, ROUND_FILE))

    def update(self, records: TabularRecords | Path | str) -> Floats:
        """Make the update of one client's records.

        A warning says how many values of a column count as nothing.

        Computes: the mean over records of the loss's gradient, each clipped, then weighed. Counts of what the
        model gets right and wrong follow if groups are weighed while it is trained.
        Guarantees: the update is the row that a training on one machine has for this client. As everybody
        sees who sends, no value of a group, label or feature decides whether there is an update, whatever the
        round says.
        [test: tests/harness/training/test_client_round.py]
        Edge cases: records whose group or label is not the round's are left out, and values that are none of
        its features count as nothing, with a warning. Without any record the update is of zeros.

        Args:
            records: A file or frame with the columns group and label and the model's features, of one client.
        Returns:
            The update, secret, shape (coordinates,).
        Raises:
            RecordsError: The records can't be read, lack a column, or are of several clients.
        """
        with naming(PYTHON):
            source = as_path(records, "records") if isinstance(records, str | Path) else records
            sentences: list[str] = []
            update = update_of(self, source, sentences.append)
        for sentence in sentences:
            warnings.warn_explicit(sentence, UserWarning, __file__, 0)  # each time, unlike `warn`
        return update


def update_of(asked: TrainingRound, records: TabularRecords, say: Say) -> Floats:
    """Make the update of one client's records for a round, and say which values count as nothing.

    Everybody sees whether a client sends. So what the round says, and what the records hold, decide about the
    update's numbers alone: what can't be counted is left out, down to an update of zeros.

    Args:
        asked: The round.
        records: The records, of one client.
        say: A function that takes a sentence for each column with values that count as nothing.
    Returns:
        The update, secret, shape (coordinates,).
    Raises:
        RecordsError: As `TrainingRound.update`.
    """
    own = read_own(records, [*asked.features.by_name], asked.domain, say)
    if own.clients > 1:
        raise RecordsError(
            f"The records are of {own.clients} clients, each of whom seals an update of its own: give "
            "those of one, with a directory of its own."
        )
    zeros = np.zeros(asked.coordinates)
    if not len(own.label):
        say("None of the records counts in this round, so the update is of zeros.")
        return zeros
    for sentence in asked.features.uncounted(own.texts):
        say(sentence)
    examples = Examples(
        features=asked.features.encode(own.texts),
        label=own.label,
        client=np.zeros(len(own.label), dtype=np.int64),
        clients=1,
        labels=len(asked.domain.labels),
        group=own.group,
    )
    with np.errstate(all="ignore"):  # the published numbers may be beyond all floats
        updates = examples.updates(
            asked.parameters,
            asked.clip,
            asked.largest_weight,
            PrivacyUnit.CLIENT,
            fairgrad=asked.fairgrad,
            weights=asked.weights,
        )
    update: Floats = updates[0]
    if not np.isfinite(update).all():
        say("The round's numbers are too large to compute with, so the update is of zeros.")
        return zeros
    return update


def check_task(asked: TrainingRound, task: Task) -> None:
    """Check that a round is one of a task of vectors.

    Args:
        asked: The round.
        task: The task.
    Raises:
        ShareError: The round is of another task.
    """
    if asked.task != task.name:
        raise ShareError(
            f"The round is of task {asked.task[:16]}, and this is task {task.name[:16]}; ask the coordinator "
            "which one it trains by."
        )


def read_round(path: Path) -> TrainingRound:
    """Read the round in a file.

    Args:
        path: The file.
    Returns:
        The round.
    Raises:
        ResultFileError: The file is no `round.json`, or damaged.
    """
    refusal = Refusal(
        ResultFileError, str(path), "a round of a training", "fetch it again from the training's coordinator"
    )
    file = as_type(RoundFile, read_json(path, refusal, SCHEMA, DECLARATION), refusal)
    try:
        domain = RecordDomain(tuple(file.groups), tuple(file.labels))
        features = features_from_json(file.features, str(path))
        fairgrad = _fairgrad(file, domain)
    except FairSharesError as error:
        refusal.say(str(error).rstrip("."))
    labels = len(domain.labels)
    if [len(row) for row in file.parameters] != [features.columns + 1] * (labels - 1):
        refusal.say("its parameters are not those of its features and labels")
    weights: Floats | None = None
    if not isinstance(file.weights, UnsetType):
        if [len(row) for row in file.weights] != [labels] * len(domain.groups):
            refusal.say("its weights are not those of its groups and labels")
        weights = np.array(file.weights)
    return TrainingRound(
        file.task,
        file.reveal,
        domain,
        features,
        np.array(file.parameters),
        file.clip,
        file.largest_weight,
        weights,
        fairgrad,
    )


def _fairgrad(file: RoundFile, domain: RecordDomain) -> FairGrad | None:
    """Return how the file's counts are made; raise OptionError if they cannot be made."""
    stated = file.fairness
    if isinstance(stated, UnsetType):
        return None
    if stated.definition not in FAIRNESS or stated.positive >= len(domain.labels) or stated.share >= 1:
        raise OptionError("It weighs groups in a way that this version does not know.")
    return FairGrad(
        stated.definition, len(domain.groups), len(domain.labels), stated.positive, stated.step, stated.share
    )
