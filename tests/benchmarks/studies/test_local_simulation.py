"""Simulated clients: the library's estimates, in bounded memory."""

from fractions import Fraction

import numpy as np
import pytest

from benchmarks.studies.local_simulation import ClientValues, simulate
from fairshares.protocols.local_dp.estimators import ReportTally, estimate_gaps, estimate_means
from fairshares.protocols.local_dp.randomizers import MechanismL, MechanismR, ValueRange

RATES = ValueRange(0, 1)
R, L = MechanismR.private(3, Fraction(4), RATES), MechanismL.private(3, Fraction(4), RATES)


def test_estimates_are_those_of_the_library() -> None:
    population = ClientValues(
        (np.array([0.5, 0.9]), np.array([0.1]), np.array([0.6])),
        (np.array([7, 8]) * 1000, np.array([9000]), np.array([8000])),
    )
    for simulated in simulate([R, L], population, 2, np.random.default_rng(1)):
        truth = [values.tolist() for values in (simulated.sizes, simulated.means)]
        assert truth == [[15_000, 9000, 8000], pytest.approx([(3.5 + 7.2) / 15, 0.1, 0.6])]
        for run in (0, 1):
            tally, sizes = ReportTally(simulated.counts[run], simulated.sums[run]), simulated.sizes.tolist()
            assert tally.clients == 32_000
            means = [mean.value for mean in estimate_means(tally, simulated.mechanism, sizes)]
            assert simulated.estimated_means()[run] == pytest.approx(means)
            for gap in estimate_gaps(tally, simulated.mechanism, sizes):
                assert simulated.estimated_gaps(*gap.groups)[run] == pytest.approx(gap.value)
