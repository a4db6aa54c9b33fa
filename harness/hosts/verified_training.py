"""A model that was trained over hosts, checked against the sums that hosts signed."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from msgspec import UNSET, UnsetType

from fairshares.harness.errors import SignatureError
from fairshares.harness.hosts.signed_results import Statement, verify
from fairshares.harness.hosts.training import TRAINING_PART, directory_of, privacy_of_rounds
from fairshares.harness.inputs.record_schema import MOST_REVEALS, RecordDomain, VectorGrid, domain_from_json
from fairshares.harness.pipeline.earlier_results import WRONG_VALUES
from fairshares.harness.pipeline.manifest_of_run import combined_manifest
from fairshares.harness.pipeline.sources import request_of_run
from fairshares.harness.privacy.manifest import MANIFEST, Manifest, TrainingSettings, given, read_manifest
from fairshares.harness.releases.files import read_file
from fairshares.harness.releases.sums.statistic import SumsFile, SumsStatistic
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.stated_privacy import StatedPrivacy
from fairshares.harness.system.documents import Refusal
from fairshares.harness.training.fairness import FairGrad
from fairshares.harness.training.logistic import (
    MODEL_FILE,
    Descending,
    Descent,
    LogisticModel,
    ModelFile,
    UpdateBounds,
)
from fairshares.harness.training.training_run import TRAIN
from fairshares.protocols.arrays import Floats

_SHOWN = 300  # characters of a reason


@dataclass(frozen=True)
class SignedReveal:
    """A reveal's sum that its hosts signed.

    Attributes:
        signers: The statement that each host signed, with the SHA-256 of its certificate, by party.
        noisy_sum: The sum.
        privacy: The guarantee that all reveals spend together, as the hosts' statement gives it.
    """

    signers: Sequence[tuple[Statement, str]]
    noisy_sum: Floats
    privacy: StatedPrivacy

    @property
    def first(self) -> Statement:
        """The statement of party 0's host; the other hosts' statements are like it."""
        return self.signers[0][0]

    @property
    def alike(self) -> "AlikeInReveals":
        """The facts that all reveals of a training have in common."""
        ran = self.first.ran
        request = request_of_run(ran.asked)
        declared = domain_from_json(ran.domain, "The signed domain").in_all_reveals
        hosts = tuple(fingerprint for _, fingerprint in self.signers)
        return AlikeInReveals(
            request.charged_with, request.population, request.model, declared, self.first.spent, hosts
        )


@dataclass(frozen=True)
class AlikeInReveals:
    """The facts that all reveals of a training have in common.

    Attributes:
        task: The name of the task of vectors; None for sums that are of none, which are refused.
        population: The population that is charged.
        model: The security model.
        declared: The part of the task that declares vectors.
        spent: The exact ε and δ of all reveals, as texts.
        hosts: The fingerprints of the hosts' certificates, by party.
    """

    task: str | None
    population: str | None
    model: SecurityModel
    declared: RecordDomain
    spent: tuple[str, str]
    hosts: tuple[str, ...]


@dataclass(frozen=True)
class VerifiedTraining:
    """A model that follows from the sums that hosts signed.

    Attributes:
        reveals: The signed sums, by number.
        rounds: The number of rounds. Those without a signed sum count as lost.
        clients: The number by which each sum was divided. Nobody signed it.
        settings: How the model was trained. Nobody signed its learning rate and momentum.
    """

    reveals: Mapping[int, SignedReveal]
    rounds: int
    clients: int
    settings: TrainingSettings

    @property
    def last(self) -> SignedReveal:
        """The last signed sum, whose loss is the loss of all."""
        return self.reveals[max(self.reveals)]

    @property
    def lost(self) -> list[int]:
        """The numbers of the rounds that count as lost."""
        return [number for number in range(1, self.rounds + 1) if number not in self.reveals]


def is_training(directory: Path) -> bool:
    """Return whether a directory has a model of `train`, and not the results of one run at hosts."""
    return os.path.lexists(directory / MODEL_FILE)


def verify_training(directory: Path, known: Sequence[str] | None = None) -> VerifiedTraining:
    """Work a model out again from the sums that hosts signed, and check that it is the one in the directory.

    Guarantees: the parameters follow from the signed sums of one task, revealed by the same hosts, each at
    most once, and the stated loss is the signed one.
    [test: tests/harness/hosts/test_training.py]
    Edge cases: nobody signed labels, features, learning rate, momentum and the number of clients. A sum that
    is not there counts as lost, as it does where its reveal broke off. The loss of weights that were
    released beforehand is added as the manifest has it: check their own directory. Hosts that renewed their
    keys between two reveals count as others.

    Args:
        directory: The directory of `train --hosts`.
        known: The fingerprints of the hosts' certificates, as `verify` takes them.

    Raises:
        SignatureError: Hosts did not sign a sum, or the model or its loss does not follow from them.
        ResultFileError: A file is none that `train` writes.
    """
    refusal = Refusal(
        SignatureError,
        str(directory / MODEL_FILE),
        "the model of the sums that hosts signed",
        "do not use it; have its coordinator train it again from these sums",
    )
    manifest = read_manifest(directory)
    stated = read_file(directory / MODEL_FILE, ModelFile)
    model = LogisticModel.from_stated(stated, refusal)
    if not isinstance(manifest, Manifest) or isinstance(manifest.training, UnsetType):
        refusal.say(f"{MANIFEST} says nothing of a training")
    settings = manifest.training
    clients = given(manifest.inputs.clients)
    if not clients:
        refusal.say(f"{MANIFEST} says no number of clients")
    reveals = _signed_reveals(directory, known, refusal)
    grid = _declared(reveals, refusal)
    verified = VerifiedTraining(reveals, grid.reveals, clients, settings)
    try:
        bounds, descent = _bounds(model, settings, grid)
        follows = _follows(verified, model.parameters.shape, descent)
        parts = {**manifest.releases}
        training = parts[TRAINING_PART]
        losses = [combined_manifest(TRAIN, parts).privacy, stated.privacy]
    except WRONG_VALUES as error:
        refusal.say(f"no model follows from its settings ({str(error)[:_SHOWN].rstrip('.')})")
    if (bounds.coordinates, bounds.norm, settings.rounds) != (grid.coordinates, grid.clip, grid.reveals):
        refusal.say("they signed sums of other updates, or another number of reveals")
    if not np.array_equal(follows, model.parameters):
        refusal.say("it has other parameters")
    of_rounds = privacy_of_rounds(verified.last.privacy, grid, has_counts=settings.fairness is not UNSET)
    if training.privacy != of_rounds or any(loss != manifest.privacy for loss in losses):
        refusal.say("it states another loss")
    return verified


def _signed_reveals(
    directory: Path, known: Sequence[str] | None, refusal: Refusal
) -> dict[int, SignedReveal]:
    """Return the sums that hosts signed, by number, each checked; refuse sums of several trainings."""
    found: dict[int, SignedReveal] = {}
    for number in range(1, MOST_REVEALS + 1):
        place = directory_of(directory, number)
        if not os.path.lexists(place):
            continue
        signers = verify(place, known)
        manifest = read_manifest(place)
        file = read_file(place / SumsFile.file_name, SumsFile)
        assert isinstance(manifest, Manifest)  # as hosts signed it
        reveal = SignedReveal(signers, SumsStatistic.read_files([file]).noisy_sum, manifest.privacy)
        series = request_of_run(reveal.first.ran.asked).series
        if series is None or series.number != number:
            refusal.say(f"in {place.name} they signed another reveal")
        found[number] = reveal
    if not found:
        refusal.say("they signed none")
    first = min(found)
    for number, reveal in found.items():
        if reveal.alike != found[first].alike:
            refusal.say(f"reveals {first} and {number} are of different tasks, populations or hosts")
    return found


def _declared(reveals: Mapping[int, SignedReveal], refusal: Refusal) -> VectorGrid:
    """Return the part of the signed sums' task that declares vectors."""
    ran = reveals[min(reveals)].first.ran
    grid = domain_from_json(ran.domain, "The signed domain").vectors
    if grid is None:
        refusal.say("they signed no sums of vectors")
    return grid


def _bounds(
    model: LogisticModel, settings: TrainingSettings, grid: VectorGrid
) -> tuple[UpdateBounds, Descent]:
    """Return the updates of a training with these settings, and its descent; an error if there is none."""
    descent = Descent(
        rounds=settings.rounds,
        clip=settings.clip,
        largest_weight=settings.largest_weight,
        learning_rate=settings.learning_rate,
        momentum=settings.momentum,
    )
    labels = len(model.labels)
    fairgrad: FairGrad | None = None
    if not isinstance(settings.fairness, UnsetType):
        groups = (grid.coordinates - model.parameters.size) // (2 * labels)
        share = given(settings.fairness_share)
        step = given(settings.fairness_step)
        if share is None or step is None:
            raise ValueError("it says fairness, and not how groups were weighed")
        fairgrad = FairGrad(settings.fairness, groups, labels, positive=0, step=step, share=share)
    return UpdateBounds.of(labels, model.features.columns, descent, fairgrad), descent


def _follows(verified: VerifiedTraining, shape: tuple[int, ...], descent: Descent) -> Floats:
    """Return the parameters that follow from the sums. Weights of groups are in clients' updates alone."""
    rows, columns = shape
    state = Descending.begun((rows, columns), None)
    for number in range(1, verified.rounds + 1):
        reveal = verified.reveals.get(number)
        if reveal is None:
            state = state.without_sum(descent)
        else:
            state = state.after(reveal.noisy_sum, verified.clients, descent)
    return state.average(descent)
