"""What estimates from local reports are held against."""

import math
from collections.abc import Sequence

from fairshares.protocols.arrays import Floats
from fairshares.protocols.local_dp.estimators import variance
from fairshares.protocols.local_dp.randomizers import Mechanism


def chebyshev(mechanism: Mechanism, sizes: Sequence[float], weights: Floats, failure: float) -> float:
    """Return the half-width that Chebyshev's inequality gives, as in the paper, values at their worst."""
    return math.sqrt(variance(mechanism, sizes, weights) / failure)
