"""Runs of every program on noise that the test gives, beside the program's oracle.

The noise is the bits of joint noise, each party's own, or the piece that was made ahead.
"""

import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from _pytest.mark import ParameterSet

from benchmarks.measure.given_numbers import Given
from fairshares.harness.engines.execution import PrivateJob
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.errors import OptionError
from fairshares.harness.pipeline.jobs import make_job
from fairshares.harness.pipeline.preprocessing import joint_noise_of, noise_job
from fairshares.harness.pipeline.sources import RecordsSource
from fairshares.harness.privacy.stock import shares_of
from fairshares.harness.releases.base import (
    Answer,
    PreparedRelease,
    Statistic,
)
from fairshares.harness.releases.programs import PROTOCOLS
from fairshares.harness.releases.thresholds.spec import PI_ROC_RECORDS
from fairshares.harness.request.request import Randomness, Request
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.circuits.coins import SymmetricCoins
from fairshares.protocols.circuits.noise import fair_bits_per_sample
from fairshares.protocols.noise.added import NoiseDistribution
from fairshares.protocols.spec import (
    NO_INPUT,
    SHARES,
    SLOTS,
    InputForm,
    ProtocolSpec,
)
from tests.support.oracles import CAP, Oracle, made_up
from tests.support.requests import request_of
from tests.support.running import (
    TEST_PROGRAMS,
    as_integers,
    copy_of_program,
    noise_of,
    run_job,
    xor_shares,
)
from tests.support.sharing import context


class NoiseKind(StrEnum):
    """Who makes a run's noise, and when."""

    JOINT = "joint"
    DISTRIBUTED = "distributed"
    OFFLINE = "offline"


@dataclass(frozen=True)
class Case:
    """A protocol, an input form with its path, who makes the noise, the model, and epsilon.

    Joint noise is signed at an epsilon of 1, and symmetric at 20.
    """

    spec: ProtocolSpec
    form: InputForm
    noise: NoiseKind
    model: SecurityModel
    epsilon: Fraction = Fraction(1)

    @property
    def name(self) -> str:
        path = "" if self.form.path is SHARES else f"-by-{self.form.path.name}"
        family = "" if self.epsilon == 1 else "-symmetric"
        model = self.model.title.replace(" ", "-")
        return f"{self.spec.name}-{self.form.name}{path}{family}-{self.noise}-{model}"

    def request(self) -> Request:
        """Return the request for this run."""
        unit = PrivacyUnit.CLIENT if self.form.name == SLOTS.name else PrivacyUnit.RECORD
        law = NoiseDistribution.LAPLACE if self.noise is NoiseKind.DISTRIBUTED else None
        asked = request_of(self.model, self.form, self.epsilon, unit=unit, distribution=law)
        return asked.but(Randomness.offline, self.noise is NoiseKind.OFFLINE)

    def program(self) -> ProtocolSpec | None:
        """Return the program that runs, or None if this is refused before anything is shared."""
        if engine_of(self.model).refusal(self.spec, self.model, self.form) is not None:
            return None
        try:
            program = self.request().program_of(self.spec)
        except OptionError:
            return None
        return None if engine_of(self.model).refusal(program, self.model, self.form) else program


def sorts_for_minutes(case: Case) -> bool:
    """Return whether a case sorts records in SPDZ2k, which takes some minutes of processor time a party.

    tests/programs/test_pi_roc_records.py has the program in that model on fewer cells. Its noise is up to
    circuits that other programs share, which have every noise there.
    """
    return case.spec is PI_ROC_RECORDS and case.model.name == "spdz2k"


def every_case(models: Collection[SecurityModel]) -> Iterator[Case]:
    """Yield the combinations of the registry's protocols with models that a run would accept.

    Not those that take minutes.
    """
    for spec in PROTOCOLS.values():
        forms = [form.by(path) for form in spec.input_forms.values() for path in spec.input_paths]
        for form, noise, model in product(forms, NoiseKind, models):
            case = Case(spec, form, noise, model)
            if form.name != NO_INPUT.name and not sorts_for_minutes(case) and case.program() is not None:
                yield case


CASES = list(every_case(MODELS.values()))


def parameters(cases: Sequence[Case]) -> list[ParameterSet]:
    """Return cases as parameters, marked by what MP-SPDZ machine each needs."""
    return [
        pytest.param(
            case,
            id=case.name,
            marks=pytest.mark.mpspdz(case.model.name) if case.model.virtual_machine else (),
        )
        for case in cases
    ]


def joint_noise(prepared: PreparedRelease[Answer]) -> tuple[Given, list[int]]:
    """Return each party's bits of joint noise, and the noise that these make."""
    plan, rng = prepared.plan, np.random.default_rng(6)
    size = (fair_bits_per_sample(plan.coins), plan.nodes)
    # A coin shows 1 if its higher bits are 0, which is rare where epsilon is large.
    bits = rng.random(size) < np.where(np.arange(plan.nodes) % 2, 0.5, 0.01)
    bits[0] = rng.random(plan.nodes) < 0.5
    shares = xor_shares(bits, prepared.release.model.parties, rng)
    return tuple(as_integers(share) for share in shares), noise_of(plan.coins, bits)


def distributed_noise(prepared: PreparedRelease[Answer]) -> tuple[Given, list[int]]:
    """Return each party's own noise, and its sum."""
    size = (prepared.release.model.parties, prepared.plan.nodes)
    noise = np.random.default_rng(5).integers(-(2**40), 2**40, size)
    return tuple(tuple(row) for row in noise.tolist()), noise.sum(axis=0).tolist()


def with_given_noise(
    job: PrivateJob, prepared: PreparedRelease[Answer], kind: NoiseKind, directory: Path
) -> tuple[PrivateJob, Given | None, list[int]]:
    """Return the job of the program's copy, what its parties are given, and the noise that follows."""
    test_program = TEST_PROGRAMS / job.source.name
    copy = test_program if test_program.exists() else copy_of_program(job.source.stem, directory)
    job = replace(job, source=copy)
    if kind is NoiseKind.DISTRIBUTED:
        return job, *distributed_noise(prepared)
    given, noise = joint_noise(prepared)
    assert set(noise) != {0}
    if kind is NoiseKind.JOINT:
        return job, given, noise
    model = prepared.release.model
    piece = shares_of(directory / "piece", model.parties)
    making = noise_job(joint_noise_of(prepared), piece)
    making = replace(making, source=copy_of_program(making.source.stem, directory))
    run_job(making, model, directory / "making", given=given)
    return replace(job, pieces=piece), None, noise


def opened_and_expected(case: Case, oracle: Oracle, directory: Path) -> tuple[list[int], list[int]]:
    """Run a case; return what it opened, and what it should have opened."""
    request = case.request()
    records = made_up(oracle.kind, CAP if case.form.name == SLOTS.name else None)
    source, run = RecordsSource(records), context(request, directory)
    described = source.describe(run)
    statistic: Statistic[Answer] = oracle.statistic
    assert statistic.spec is case.spec
    prepared = statistic.prepare(request, described.domain)
    if case.noise is not NoiseKind.DISTRIBUTED:
        assert isinstance(prepared.plan.coins, SymmetricCoins) == (case.epsilon != 1)
    if case.epsilon == 1 and "blocks" in prepared.arguments:
        blocks = str(prepared.arguments["blocks"])
        assert "." in blocks, "blocks of one bin each would look as counts of bins do"
    job = make_job(prepared, source.deliver(run, described, None))
    assert job.spec == case.program()
    job, given, noise = with_given_noise(job, prepared, case.noise, directory)
    result = run_job(job, case.model, directory / "run", given=given)
    (opened,) = result.outputs.values()
    with warnings.catch_warnings():  # of noise that is larger than any plan's, so that a missing value shows
        warnings.simplefilter("ignore")
        prepared.read(result.outputs, len(records.client_ids))  # whichever program ran in this one's place
    return list(opened), oracle.opened(records, prepared.arguments, noise)
