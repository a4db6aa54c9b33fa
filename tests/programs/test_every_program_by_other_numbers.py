"""Every program opens its oracle's integers by other numbers of parties than the usual ones.

The usual ones: test_every_program.py.
"""

from pathlib import Path

import pytest

from fairshares.harness.security_models import get_model
from tests.support.every_program import Case, every_case, opened_and_expected, parameters
from tests.support.oracles import ORACLES
from tests.support.running import (
    OF_OTHER_NUMBERS,
)

# One other number of each model: semi2k of three parties is between two, which are usual, and five.
BY_OTHER_NUMBERS = list(every_case([model for model in OF_OTHER_NUMBERS if model != get_model("semi2k", 3)]))


@pytest.mark.parametrize("case", parameters(BY_OTHER_NUMBERS))
def test_what_is_opened_by_other_numbers_of_parties_is_the_oracles(case: Case, tmp_path: Path) -> None:
    opened, expected = opened_and_expected(case, ORACLES[case.spec.name], tmp_path)
    assert opened == expected
