"""Every program opens its oracle's integers with symmetric noise, which a large epsilon has.

Signed noise: test_every_program.py.
"""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from fairshares.harness.releases.count.spec import PI_COUNT
from fairshares.harness.releases.count.statistic import CountStatistic
from fairshares.harness.security_models import MODELS
from fairshares.protocols.mechanisms.shifted_log import ErrorTarget
from tests.support.every_program import CASES, Case, NoiseKind, opened_and_expected, parameters
from tests.support.oracles import ORACLES

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


def test_no_program_is_left_out() -> None:
    assert {case.spec.name for case in WITH_SYMMETRIC_NOISE} == {case.spec.name for case in CASES}


@pytest.mark.parametrize("case", parameters(WITH_SYMMETRIC_NOISE))
def test_what_is_opened_with_symmetric_noise_is_the_oracles(case: Case, tmp_path: Path) -> None:
    opened, expected = opened_and_expected(case, ORACLES_OF_SYMMETRIC_NOISE[case.spec.name], tmp_path)
    assert opened == expected
