"""Every program opens its oracle's integers, in every noise, by every input path, in every model that has it.

Programs' own text, with jobs that the harness lays out, and noise that the test gives: the bits of joint
noise, each party's own, or the piece that was made ahead. The programs come from the registry of specs, so a
new one is tried in all its noises, and fails without an oracle (tests/support/oracles.py).

What edge cases each has: test_oracles.py and the tests beside it. Programs without clients' values: π_LAP
there; π_SUM and π_PREPROCESS here, as they stand in others' places; π_ROUNDS in
tests/harness/training/test_session.py.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from fairshares.harness.inputs.record_schema import RecordDomain, RecordKind
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.releases.base import (
    Answer,
    ExpectedError,
    OpenedLines,
    PreparedRelease,
    Statistic,
    plan_release,
)
from fairshares.harness.releases.files import ResultFile
from fairshares.harness.releases.programs import PROTOCOLS
from fairshares.harness.request.request import Request
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.harness.stated_privacy import StatedPrivacy
from fairshares.protocols import reference
from fairshares.protocols.accounting.calibration import LinearQueries
from fairshares.protocols.arrays import Floats
from fairshares.protocols.spec import (
    REPLICATED,
    SPLIT,
    ColumnSums,
    ProtocolSpec,
    Sums,
)
from tests.support.every_program import CASES, Case, NoiseKind, opened_and_expected, parameters
from tests.support.oracles import GRID, GROUPS, LABELS, ORACLES, Oracle, made_up
from tests.support.running import (
    model_parameters,
)

RUN_ELSEWHERE = {"pi_lap", "pi_rounds"}  # of no clients' values; see the module


def test_no_program_is_left_out() -> None:
    """Each of the registry, and each that runs in another's place, is run below or named above."""
    ran = {case.spec.name for case in CASES}
    stand_ins = {program.name for case in CASES if (program := case.program()) is not None}
    made_ahead = {"pi_preprocess"}  # by which each case of the kind `offline` has its noise
    assert set(ORACLES) == ran, "each program of clients' values needs an oracle"
    assert ran | stand_ins | made_ahead | RUN_ELSEWHERE == set(PROTOCOLS)
    assert not (ran | stand_ins) & RUN_ELSEWHERE


def test_each_noise_that_a_program_offers_is_tried() -> None:
    """By plain shares in three parties' first model: what a spec says is what is run."""
    for spec in PROTOCOLS.values():
        tried = {case.noise for case in CASES if case.spec is spec and case.form.path is not REPLICATED}
        if spec.name in ORACLES:
            assert (NoiseKind.DISTRIBUTED in tried) == spec.distributed_noise
            assert (NoiseKind.OFFLINE in tried) == spec.can_take_noise_made_ahead


def test_each_column_of_few_and_each_bin_has_a_record() -> None:
    """A circuit that leaves out one of them opens another integer."""
    predicted = made_up(RecordKind.PREDICTION, None)
    assert predicted.detail is not None
    assert reference.confusion(predicted.group, predicted.label, predicted.detail, GROUPS, LABELS).min() > 0
    scored = made_up(RecordKind.SCORE, None)
    assert scored.detail is not None
    assert set(scored.detail.tolist()) == set(range(len(GRID)))


@pytest.mark.parametrize("case", parameters(CASES))
def test_what_is_opened_is_the_oracles(case: Case, tmp_path: Path) -> None:
    opened, expected = opened_and_expected(case, ORACLES[case.spec.name], tmp_path)
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
