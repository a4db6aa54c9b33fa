"""A client's part in a round of a training over hosts: its clipped update, from its own records."""

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
from fairshares.harness.inputs.records import read_singly
from fairshares.harness.inputs.tables import TabularRecords
from fairshares.harness.system.documents import DECLARATION, Refusal, as_type, read_json
from fairshares.harness.system.progress import Say, nothing_said
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
        reveal: The number of the reveal for which a client seals its update.
    """

    task: str
    reveal: int
    _domain: RecordDomain
    _features: Features
    _parameters: Floats
    _clip: float
    _largest_weight: float
    _weights: Floats | None
    _fairgrad: FairGrad | None

    @classmethod
    def load(cls, path: Path | str) -> "TrainingRound":
        """Read `round.json`.

        Args:
            path: The file, or its directory.
        Raises:
            ResultFileError: It is no such file.
        """
        with naming(PYTHON):
            return read_round(result_path(path, ROUND_FILE))

    def update(self, records: TabularRecords) -> Floats:
        """Return the update that one client's records make, shape (coordinates,).

        Computes: the mean over records of the loss's gradient, each clipped, then weighed. Counts of what the
        model gets right and wrong follow if groups are weighed while it is trained.
        Guarantees: it is the row that a training on one machine has for this client.
        [test: tests/harness/training/test_client_round.py]

        Args:
            records: A file or frame with the columns group and label and the model's features, of one client.
        Raises:
            RecordsError: The records are none, of several clients, or a feature can't be read in any.
        """
        with naming(PYTHON):
            return self.update_from(records)

    def update_from(self, records: TabularRecords, say: Say = nothing_said) -> Floats:
        """Return the update as `update`, and say which values count as nothing."""
        found, rows = read_singly(records, [*self._features.by_name], self._domain)
        for sentence in self._features.unreadable(rows, trained=True):
            say(sentence)
        if "client_id" in found.columns and found.clients > 1:
            raise RecordsError(
                f"The records are of {found.clients} clients, each of whom seals an update of its own: give "
                "those of one, with a directory of its own."
            )
        examples = Examples(
            features=self._features.encode(rows.texts),
            label=found.label,
            client=np.zeros(len(found.label), dtype=np.int64),
            clients=1,
            labels=len(self._domain.labels),
            group=found.group,
        )
        updates = examples.updates(
            self._parameters,
            self._clip,
            self._largest_weight,
            PrivacyUnit.CLIENT,
            fairgrad=self._fairgrad,
            weights=self._weights,
        )
        update: Floats = updates[0]
        return update

    def check_task(self, task: Task) -> None:
        """Raise ShareError unless the round is one of a task of vectors."""
        if self.task != task.name:
            raise ShareError(
                f"The round is of task {self.task[:16]}, and this is task {task.name[:16]}; ask the "
                "coordinator which one it trains by."
            )


def read_round(path: Path) -> TrainingRound:
    """Return the round in a file, or raise ResultFileError."""
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
    """Return how the file's counts are made; OptionError if they can't be."""
    stated = file.fairness
    if isinstance(stated, UnsetType):
        return None
    if stated.definition not in FAIRNESS or stated.positive >= len(domain.labels) or stated.share >= 1:
        raise OptionError("It weighs groups in a way that this version does not know.")
    return FairGrad(
        stated.definition, len(domain.groups), len(domain.labels), stated.positive, stated.step, stated.share
    )
