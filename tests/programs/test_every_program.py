"""Every program opens its oracle's integers, in every noise, by every input path, in every model that has it.

Programs' own text, with jobs that the harness lays out, and noise that the test gives: the bits of joint
noise, each party's own, or the piece that was made ahead. The programs come from the registry of specs, so a
new one is tried in all its noises, and fails without an oracle (tests/support/oracles.py).

What edge cases each has: test_oracles.py and the tests beside it. Programs without clients' values: π_LAP
there; π_SUM and π_PREPROCESS here, as they stand in others' places; π_ROUNDS in
tests/harness/training/test_session.py.
"""

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
from fairshares.harness.inputs.record_schema import RecordDomain, RecordKind
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.pipeline.jobs import make_job
from fairshares.harness.pipeline.preprocessing import joint_noise_of, noise_job
from fairshares.harness.pipeline.sources import RecordsSource
from fairshares.harness.privacy.stock import shares_of
from fairshares.harness.releases.base import (
    Answer,
    ExpectedError,
    OpenedLines,
    PreparedRelease,
    Statistic,
    plan_release,
)
from fairshares.harness.releases.count.spec import PI_COUNT
from fairshares.harness.releases.count.statistic import CountStatistic
from fairshares.harness.releases.files import ResultFile
from fairshares.harness.releases.programs import PROTOCOLS
from fairshares.harness.request.request import Randomness, Request
from fairshares.harness.security_models import MODELS, SecurityModel, get_model
from fairshares.harness.stated_privacy import StatedPrivacy
from fairshares.protocols import reference
from fairshares.protocols.accounting.calibration import LinearQueries, PrivacyUnit
from fairshares.protocols.arrays import Floats
from fairshares.protocols.circuits.coins import SymmetricCoins
from fairshares.protocols.circuits.noise import fair_bits_per_sample
from fairshares.protocols.mechanisms.shifted_log import ErrorTarget
from fairshares.protocols.noise.added import NoiseDistribution
from fairshares.protocols.spec import (
    NO_INPUT,
    REPLICATED,
    SHARES,
    SLOTS,
    SPLIT,
    ColumnSums,
    InputForm,
    ProtocolSpec,
    Sums,
)
from tests.support.oracles import CAP, GROUPS, LABELS, ORACLES, Oracle, made_up
from tests.support.requests import request_of
from tests.support.running import (
    OF_OTHER_NUMBERS,
    TEST_PROGRAMS,
    as_integers,
    copy_of_program,
    model_parameters,
    noise_of,
    run_job,
    xor_shares,
)
from tests.support.sharing import context

RUN_ELSEWHERE = {"pi_lap", "pi_rounds"}  # of no clients' values; see the module


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


def every_case(models: Collection[SecurityModel]) -> Iterator[Case]:
    """Yield all combinations of the registry's protocols with models that a run would accept."""
    for spec in PROTOCOLS.values():
        forms = [form.by(path) for form in spec.input_forms.values() for path in spec.input_paths]
        for form, noise, model in product(forms, NoiseKind, models):
            case = Case(spec, form, noise, model)
            if form.name != NO_INPUT.name and case.program() is not None:
                yield case


CASES = list(every_case(MODELS.values()))
# One other number of each model: semi2k of three parties is between two, which are usual, and five.
BY_OTHER_NUMBERS = list(every_case([model for model in OF_OTHER_NUMBERS if model != get_model("semi2k", 3)]))
# What made the noise of a piece is no matter to the program that takes it, so a model of each engine tells.
WITH_SYMMETRIC_NOISE = [
    replace(case, epsilon=Fraction(20))
    for case in CASES
    if case.noise is NoiseKind.JOINT
    or (
        case.noise is NoiseKind.OFFLINE
        and case.model in (MODELS["ring"], MODELS["ps-rep-ring"], MODELS["mpyc"])
    )
]
# A record moves a logarithm by 4 units at least, and a unit's epsilon is above 1.15 for so few records alone.
FEW_RECORDS = CountStatistic(ErrorTarget(0.9, 1, 2))
ORACLES_OF_SYMMETRIC_NOISE = ORACLES | {PI_COUNT.name: replace(ORACLES[PI_COUNT.name], statistic=FEW_RECORDS)}


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


def test_no_program_is_left_out() -> None:
    """Each of the registry, and each that runs in another's place, is run below or named above."""
    ran = {case.spec.name for case in CASES}
    stand_ins = {program.name for case in CASES if (program := case.program()) is not None}
    made_ahead = {"pi_preprocess"}  # by which each case of the kind `offline` has its noise
    assert set(ORACLES) == ran, "each program of clients' values needs an oracle"
    assert ran | stand_ins | made_ahead | RUN_ELSEWHERE == set(PROTOCOLS)
    assert not (ran | stand_ins) & RUN_ELSEWHERE
    assert {case.spec.name for case in WITH_SYMMETRIC_NOISE} == ran


def test_each_noise_that_a_program_offers_is_tried() -> None:
    """By plain shares in three parties' first model: what a spec says is what is run."""
    for spec in PROTOCOLS.values():
        tried = {case.noise for case in CASES if case.spec is spec and case.form.path is not REPLICATED}
        if spec.name in ORACLES:
            assert (NoiseKind.DISTRIBUTED in tried) == spec.distributed_noise
            assert (NoiseKind.OFFLINE in tried) == spec.can_take_noise_made_ahead


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


@pytest.mark.parametrize("case", parameters(CASES))
def test_what_is_opened_is_the_oracles(case: Case, tmp_path: Path) -> None:
    opened, expected = opened_and_expected(case, ORACLES[case.spec.name], tmp_path)
    assert opened == expected


@pytest.mark.parametrize("case", parameters(BY_OTHER_NUMBERS))
def test_what_is_opened_by_other_numbers_of_parties_is_the_oracles(case: Case, tmp_path: Path) -> None:
    opened, expected = opened_and_expected(case, ORACLES[case.spec.name], tmp_path)
    assert opened == expected


@pytest.mark.parametrize("case", parameters(WITH_SYMMETRIC_NOISE))
def test_what_is_opened_with_symmetric_noise_is_the_oracles(case: Case, tmp_path: Path) -> None:
    opened, expected = opened_and_expected(case, ORACLES_OF_SYMMETRIC_NOISE[case.spec.name], tmp_path)
    assert opened == expected


def up_to_each_label(arguments: Mapping[str, str]) -> LinearQueries:
    """Declare what one record changes, and nothing of columns."""
    groups, labels = int(arguments["groups"]), int(arguments["labels"])
    columns = [
        tuple(range(group * labels + label, (group + 1) * labels))
        for group in range(groups)
        for label in range(labels)
    ]
    return LinearQueries(groups * labels, tuple(columns))


class SumsUpToEachLabel(ColumnSums):
    """The same, declared by sums of columns."""

    def sums(self, arguments: Mapping[str, str], /) -> Sums:
        """Return for each group and label the columns of the group's labels up to it."""
        groups, labels = int(arguments["groups"]), int(arguments["labels"])
        values = [
            tuple(range(group * labels, group * labels + label + 1))
            for group in range(groups)
            for label in range(labels)
        ]
        return Sums(groups * labels, tuple(values))


CUMULATIVE = ProtocolSpec(
    name="cumulative",
    source="a newcomer's",
    arguments=("parties", "groups", "labels", "epsilon", "delta_bits"),
    input_forms={SPLIT.name: SPLIT},
    outputs=("counts",),
    revealed=("noisy counts of records up to each label, to all parties",),
    release=up_to_each_label,
    distributed_noise=True,
)


@dataclass(frozen=True)
class Cumulative(Statistic[Answer]):
    """A newcomer's statistic, which nobody reads."""

    spec: ProtocolSpec
    name = "cumulative"

    def prepare(self, release: Request, domain: RecordDomain) -> PreparedRelease[Answer]:
        arguments = {"groups": GROUPS, "labels": LABELS}
        plan = plan_release(self.spec, arguments, release, domain)
        return PreparedRelease(self, release, domain, arguments, plan)

    def read_opened(self, prepared: PreparedRelease[Answer], opened: OpenedLines, clients: int) -> Answer:
        return _Nothing()

    def expected_error(self, prepared: PreparedRelease[Answer], sizes: Floats) -> ExpectedError:
        raise NotImplementedError


class _Nothing:
    """What nobody reads."""

    def files(self, privacy: StatedPrivacy) -> Sequence[ResultFile]:
        raise NotImplementedError


def up_to(records: ClientRecords, _: object, noise: Sequence[int]) -> list[int]:
    """Return the cumulative counts, with noise."""
    counts = reference.counts(records.group, records.label, GROUPS, LABELS)
    return (counts.cumsum(axis=1).ravel() + np.array(noise)).tolist()


@pytest.mark.parametrize("noise", NoiseKind)
@pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"], MODELS["mpyc"]]))
@pytest.mark.parametrize("release", [up_to_each_label, SumsUpToEachLabel()], ids=["itself", "replaced"])
def test_a_new_program_opens_its_own_values_whatever_it_declares(
    release: Callable[[Mapping[str, str]], LinearQueries],
    model: SecurityModel,
    noise: NoiseKind,
    tmp_path: Path,
) -> None:
    """There are as many noisy values as columns, so that another map would be a wrong result unnoticed."""
    spec = replace(CUMULATIVE, release=release)
    oracle = Oracle(Cumulative(spec), RecordKind.NONE, up_to)
    opened, expected = opened_and_expected(Case(spec, SPLIT, noise, model), oracle, tmp_path)
    assert opened == expected


def test_both_declarations_say_the_same_of_a_record() -> None:
    named = {"groups": "3", "labels": "2"}
    assert SumsUpToEachLabel()(named) == up_to_each_label(named)
