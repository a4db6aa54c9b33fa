"""What caps leave, however chosen: against the distribution of noise, and clients that choose records."""

from fractions import Fraction

import numpy as np
import pytest

from benchmarks.studies.capping.choices import (
    AIMS,
    Setting,
    target,
)
from benchmarks.studies.capping.errors import (
    BINS,
    CURVE_QUANTITIES,
    WEIGHTS,
    noise_error,
    total_error,
)
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.releases.cap.statistic import CapTarget
from fairshares.protocols.guarantee import Guarantee


@pytest.mark.parametrize("missing", [0, 1, 3, 50])
@pytest.mark.parametrize(("epsilon", "cap"), [(1.0, 1), (0.5, 7), (4.0, 1), (4.0, 2)])
def test_total_error_is_the_definition(epsilon: float, cap: int, missing: int) -> None:
    q = np.exp(-epsilon / cap)
    g = np.arange(2000)
    expected = ((1 - q) / 2 * q**g * (np.abs(g + 0.5 - missing) + np.abs(-g - 0.5 - missing))).sum()
    assert total_error(epsilon, cap, missing) == pytest.approx(expected, rel=1e-9)
    assert noise_error(epsilon, cap) == pytest.approx(float(total_error(epsilon, cap, 0)))


@pytest.mark.parametrize("active", [False, True])
def test_targets_are_those_of_the_command(active: bool) -> None:
    epsilon = Fraction(1)
    domain, setting = RecordDomain(("a", "b"), ("0", "1"), 1000), Setting(epsilon, active)
    for task, quantities in (("weights", (WEIGHTS,)), ("thresholds", CURVE_QUANTITIES)):
        release = CapTarget(task, Guarantee(epsilon * Fraction(4, 5), Fraction(1, 2**40)), BINS, active)
        for quantity in quantities:
            wanted = target(setting.left(Fraction(1, 5)), quantity, AIMS[quantity])
            assert wanted == pytest.approx(
                release.allowed_above(domain), rel=0.01
            )  # rounded noise, small cap
