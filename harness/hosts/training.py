"""A training over hosts, as its coordinator runs it: round by round, each of which is a reveal of a task."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from msgspec import UNSET, structs

from fairshares.harness.engines.execution import Progress
from fairshares.harness.errors import FairSharesError, OptionError, ResultFileError, WriteError, cannot, named
from fairshares.harness.hosts.signed_results import verify
from fairshares.harness.inputs.record_schema import VectorGrid
from fairshares.harness.pipeline.earlier_results import read_files
from fairshares.harness.pipeline.manifest_of_run import combined_manifest, with_costs_of
from fairshares.harness.pipeline.run import Run
from fairshares.harness.privacy.ledger.charge import Entry
from fairshares.harness.privacy.manifest import (
    MANIFEST,
    SIGNATURES,
    Manifest,
    StatedInputs,
    given,
    read_manifest,
)
from fairshares.harness.releases.files import files_to_json, needed_file, read_file
from fairshares.harness.releases.sums.statistic import NoisySum, SumsFile, SumsStatistic
from fairshares.harness.releases.weights.statistic import WeightsFile, WeightsStatistic
from fairshares.harness.reweighing.formulas import GroupWeights
from fairshares.harness.stated_privacy import StatedPrivacy
from fairshares.harness.system.documents import as_json
from fairshares.harness.system.files import in_turn, write_whole
from fairshares.harness.system.places import make_own_directory
from fairshares.harness.system.progress import Say, nothing_said
from fairshares.harness.system.result_files import write_json
from fairshares.harness.training.client_round import read_round
from fairshares.harness.training.declared_training import (
    DeclaredTraining,
    revealed_of_rounds,
    settings_of_training,
)
from fairshares.harness.training.logistic import MODEL_FILE, Descending, LogisticModel, ModelFile
from fairshares.harness.training.round_file import ROUND_FILE
from fairshares.harness.training.training_run import TRAIN
from fairshares.harness.uploads.task import Task
from fairshares.protocols.accounting.rounds import RoundsPlan
from fairshares.protocols.arrays import Floats

TRAINING_PART = "training"
"""The name of the rounds among the parts of a training's manifest."""


def directory_of(out: Path, number: int) -> Path:
    """Return the directory of a reveal, below the directory of its training."""
    return out / f"reveal-{number}"


def privacy_of_rounds(of_reveal: StatedPrivacy, grid: VectorGrid, *, has_counts: bool) -> StatedPrivacy:
    """Return the privacy of all rounds, which a single reveal's states already, in the words of a training.

    Args:
        of_reveal: The privacy of one of the reveals.
        grid: The bounds and the grid that the task of vectors declares.
        has_counts: Whether counts by group and label follow each update.
    """
    public = [*of_reveal.public, "features and their ranges", "learning rate", "momentum"]
    if has_counts:
        public.append("fairness")
    return structs.replace(
        of_reveal,
        revealed=[revealed_of_rounds(grid.reveals, grid.coordinates, has_counts=has_counts)],
        public=public,
    )


class Reveals(Protocol):
    """The reveals of a task of vectors, as `RevealsAtHosts` has them."""

    @property
    def task(self) -> Task:
        """The task."""

    @property
    def out(self) -> Path:
        """The directory that gets one for each reveal, `reveal-1` and so on."""

    @property
    def next_reveal(self) -> int:
        """The number of the next reveal, one above the last that was begun."""

    @property
    def plan(self) -> RoundsPlan:
        """The guarantee that all reveals spend together."""

    def run(self, number: int, progress: Progress) -> Run[NoisySum]:
        """Have the hosts reveal a noisy sum, and write its files; FairSharesError if they do not."""


@dataclass(frozen=True)
class ReleasedWeights:
    """Weights that hosts released to the same people beforehand, by which records are weighed.

    Attributes:
        weights: The weight of each group and label.
        manifest: The release's manifest, whose loss adds to the loss of the rounds.
    """

    weights: GroupWeights
    manifest: Manifest

    @classmethod
    def read(cls, directory: Path, declared: DeclaredTraining, population: str) -> "ReleasedWeights":
        """Return the weights of a run on hosts, which signed them.

        Args:
            directory: The run's directory.
            declared: The training, whose groups and labels they have to be of.
            population: The population that the training is charged to.

        Raises:
            SignatureError: The hosts did not sign what is there.
            ResultFileError: The directory is no release of weights.
            OptionError: The weights are of others, or protect something else than the rounds.
        """
        verify(directory)
        earlier = read_files(directory)
        found = WeightsStatistic.read_files([needed_file(earlier.files, WeightsFile)])
        manifest = earlier.manifest
        assert isinstance(manifest, Manifest)  # as hosts signed it
        domain = found.counts.domain
        if (domain.groups, domain.labels) != (declared.domain.groups, declared.domain.labels):
            raise OptionError(f"{directory} has weights of other groups or labels than this training.")
        if manifest.privacy.privacy_unit != "client":
            raise OptionError(
                f"{directory} protects records, and a training over hosts protects clients: release weights "
                f"with {named('privacy_unit', 'client')}, so that both have one (ε, δ)."
            )
        hosts = given(manifest.hosts)
        if hosts is None or hosts.population != population:
            raise OptionError(
                f"{directory} was charged to another population than {population!r}, so its loss can't be "
                f"added to this training's; name the same {named('population')}."
            )
        return cls(found.weights, manifest)


@dataclass(frozen=True)
class AwaitedRound:
    """A round for which clients seal now.

    Attributes:
        reveal: The number of the reveal.
        file: The file that tells clients of it.
    """

    reveal: int
    file: Path


@dataclass(frozen=True)
class TrainedAtHosts:
    """A training over hosts that has had all its rounds.

    Attributes:
        model: The model.
        manifest: The manifest of the rounds, with the manifest of weights if these were released beforehand.
        weights: The weights of groups and labels; None if each record weighs 1.
        charging: The ledger's entry of the last reveal; None if an earlier process began it.
        files: The files beside the manifest.
    """

    model: LogisticModel
    manifest: Manifest
    weights: GroupWeights | None
    charging: Entry | None
    files: tuple[ModelFile]


@dataclass(frozen=True)
class TrainingAtHosts:
    """A training over hosts, which goes on where an earlier process left it.

    Each round is a reveal: `round.json` tells clients of it, they seal their updates for it, and the hosts
    reveal the noisy sum, from which the next round follows. Nothing but these sums and what is declared is
    used, so all of it is public, and `out` has all of it.

    Guarantees: (epsilon, delta) of the task's reveals, for all rounds together. A round whose reveal broke
    off leaves the model as it was, and no reveal is begun twice.
    [test: tests/harness/hosts/test_training.py]

    Attributes:
        declared: The training.
        reveals: The reveals of its task.
        clients: The public number by which sums are divided.
        released: Weights that were released beforehand, if any.
        say: A function that is told of rounds that are lost.
    """

    declared: DeclaredTraining
    reveals: Reveals
    clients: int
    released: ReleasedWeights | None = None
    say: Say = field(default=nothing_said)

    def go_on(self, progress: Progress, wait_s: float | None = None) -> AwaitedRound | TrainedAtHosts:
        """Reveal the rounds for which clients have sealed, and write the model after the last one.

        Args:
            progress: Receives the name of each step.
            wait_s: Seconds that clients have in each round. Without it the next round is published and
                returned, and the next call reveals it.

        Raises:
            OptionError: The task or the directory belongs to another training, or no noise fits.
            FairSharesError: A reveal was refused before it began. The next call goes on with it.
        """
        declared = self.declared
        task = self.reveals.task
        declared.check_task(task)
        plan = self.reveals.plan
        out = self.reveals.out
        rounds = declared.descent.rounds
        with cannot(f"write {out}", WriteError):
            reason = make_own_directory(out)
            if reason is not None:
                raise OptionError(f"{reason}, so others could replace what is trained on; name another.")
        if (out / MODEL_FILE).exists():
            raise OptionError(f"{out} has a model already, of all its rounds; name another {named('out')}.")
        charging: Entry | None = None
        with cannot(f"write {out}", WriteError), in_turn(out):
            manifests = self._read()
            state = self._state(manifests)
            while state.done < rounds:
                number = state.done + 1
                is_new = self._publish(number, state)
                if wait_s is not None:
                    progress("wait")
                    time.sleep(wait_s)
                elif is_new:
                    return AwaitedRound(number, out / ROUND_FILE)
                run = self._reveal(number, progress)
                if run is None:
                    state = state.without_sum(declared.descent)
                    continue
                manifests[number] = run.manifest
                charging = run.charging
                state = self._after(state, run.found)
            if not manifests:
                raise OptionError(
                    f"All {rounds} reveals of the task are used, and none has a sum in {out}: train by "
                    "another task, which is charged by itself."
                )
            return self._trained(state, manifests, plan, charging)

    def _read(self) -> dict[int, Manifest]:
        """Return the manifests of the reveals that are in the directory, by number, as the hosts signed them.

        A reveal is used from its `go`, so a number below the next one without a directory broke off.
        """
        found: dict[int, Manifest] = {}
        for number in range(1, min(self.reveals.next_reveal, self.declared.descent.rounds + 1)):
            directory = self._directory(number)
            if (directory / SIGNATURES).exists():
                verify(directory)
                manifest = read_manifest(directory)
                assert isinstance(manifest, Manifest)  # as hosts signed it
                found[number] = manifest
        return found

    def _state(self, manifests: Mapping[int, Manifest]) -> Descending:
        """Return the descent after all reveals that were begun, as it follows from their sums.

        Raises OptionError if the published round does not follow, as with other options than at first.
        """
        published = self._published_number()
        state = self.declared.begun()
        for number in range(1, min(self.reveals.next_reveal, self.declared.descent.rounds + 1)):
            if number == published:
                self._check_published(number, state)
            if number in manifests:
                file = read_file(self._directory(number) / SumsFile.file_name, SumsFile)
                state = self._after(state, SumsStatistic.read_files([file]))
            else:
                state = state.without_sum(self.declared.descent)
        if state.done + 1 == published:
            self._check_published(state.done + 1, state)
        return state

    def _after(self, state: Descending, noisy: NoisySum) -> Descending:
        return state.after(noisy.noisy_sum, self.clients, self.declared.descent, self.declared.fairgrad)

    def _reveal(self, number: int, progress: Progress) -> Run[NoisySum] | None:
        """Return a reveal's run; None if it broke off and is used. Raises what was refused before."""
        try:
            return self.reveals.run(number, progress)
        except FairSharesError as error:
            if self.reveals.next_reveal <= number:
                raise
            self.say(f"Reveal {number} is used, and its round is lost: {error}")
            return None

    def _directory(self, number: int) -> Path:
        return directory_of(self.reveals.out, number)

    def _text(self, number: int, state: Descending) -> bytes:
        weights: Floats | None = None
        if self.released is not None:
            weights = np.asarray(self.released.weights.weights)
        return self.declared.round_text(self.reveals.task.name, number, state, weights)

    def _published(self) -> bytes:
        """Return the content of the published round; nothing if there is none."""
        file = self.reveals.out / ROUND_FILE
        return file.read_bytes() if file.exists() else b""

    def _published_number(self) -> int | None:
        """Return the number of the reveal of the published round; None if there is none that can be read."""
        file = self.reveals.out / ROUND_FILE
        if not file.exists():
            return None
        try:
            return read_round(file).reveal
        except ResultFileError:
            return None

    def _check_published(self, number: int, state: Descending) -> None:
        """Raise OptionError if the round that is published for this number does not follow from the state."""
        if self._published() != self._text(number, state):
            raise OptionError(
                f"{self.reveals.out} has a training that began with another task or other options, or sums "
                f"that were changed; repeat its options, or name another {named('out')}."
            )

    def _publish(self, number: int, state: Descending) -> bool:
        """Write a round's file, and return whether it was not there."""
        text = self._text(number, state)
        if self._published() == text:
            return False
        write_whole(self.reveals.out / ROUND_FILE, text, mode=0o644)
        return True

    def _trained(
        self,
        state: Descending,
        manifests: Mapping[int, Manifest],
        plan: RoundsPlan,
        charging: Entry | None,
    ) -> TrainedAtHosts:
        """Write the model and the manifest, and take the published round away."""
        declared = self.declared
        manifest = self._manifest(manifests, plan)
        model = LogisticModel(declared.features, declared.domain.labels, state.average(declared.descent))
        file = ModelFile(**structs.asdict(model.stated), privacy=manifest.privacy)
        out = self.reveals.out
        write_json(out / MANIFEST, as_json(manifest))
        for name, fields in files_to_json([file]).items():  # last, as it says that the training is over
            write_json(out / name, fields)
        (out / ROUND_FILE).unlink(missing_ok=True)
        weights = None if self.released is None else self.released.weights
        return TrainedAtHosts(model, manifest, weights, charging, (file,))

    def _manifest(self, manifests: Mapping[int, Manifest], plan: RoundsPlan) -> Manifest:
        """Return the manifest of all rounds, each of which states the loss of all."""
        declared = self.declared
        of_reveals = [manifests[number] for number in sorted(manifests)]
        last = of_reveals[-1]
        rounds = structs.replace(
            with_costs_of(of_reveals),
            task=TRAINING_PART,
            privacy=privacy_of_rounds(
                last.privacy, self.reveals.task.vectors, has_counts=declared.fairgrad is not None
            ),
            inputs=StatedInputs(clients=self.clients, in_training=self.clients),
            request=UNSET,
            hosts=UNSET,
        )
        parts = {TRAINING_PART: rounds}
        if self.released is not None:
            parts = {self.released.manifest.task: self.released.manifest, **parts}
        whole = combined_manifest(TRAIN, parts)
        return structs.replace(
            whole, training=settings_of_training(declared.descent, declared.fairgrad, plan.loss)
        )
