"""Who was in training, guessed by an attacker who knows everybody else and all that is opened."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from harness.training.logistic import Examples, fit
from harness.training.updates import UpdateRule, units_for
from protocols.accounting.calibration import PrivacyUnit
from protocols.accounting.empirical import Tally, estimate_delta
from protocols.accounting.rounds import plan_rounds
from protocols.noise.added import offset, simulated_noise

ROUNDS, TRIALS, RECORD = 3, 1000, PrivacyUnit.RECORD
EPSILON, DELTA, FALSE_ALARM = 1, 1e-5, 1e-9
TARGET = np.array([100.0, -100.0])  # so long that its gradient is clipped
DIRECTION = -np.append(TARGET, 1.0) / np.linalg.norm(np.append(TARGET, 1.0))
RULE = UpdateRule(3, 1.0, 1.0, units_for(3, 1.0), RECORD, RECORD)
NOISE = plan_rounds(RULE.squares, 3, ROUNDS, Fraction(EPSILON), Fraction(DELTA), None).noise


def evidence(rng: np.random.Generator, there: bool, scale: float) -> float:
    """Train once; return how far sums lie in the target's direction. Args: scale: of the noise, 1 as made."""
    features = np.vstack([TARGET, rng.uniform(-1, 1, (20, 2))])
    label, weight = np.array([1, *rng.integers(0, 2, 20)]), np.array([float(there), *[1.0] * 20])
    found = 0.0

    def sum_of(rows):
        nonlocal found
        noise = scale * (simulated_noise(NOISE, rng, (3,)) + offset(NOISE))
        noisy = RULE.decode(RULE.encode(rows).sum(axis=0) + noise)
        found += float((noisy - rows[1:].sum(axis=0)) @ DIRECTION)
        return noisy

    of = Examples(features, label, np.arange(21), 21, 2, weight)
    fit(of, sum_of, rounds=ROUNDS, unit=RECORD, learning_rate=1e-6)  # so that nothing is learned by heart
    return found


@pytest.mark.parametrize("scale", [1.0, 0.1, 0.0])
def test_an_attack_stays_below_what_is_guaranteed_and_no_noise_is_noticed(scale: float) -> None:
    """It finds nothing beyond (epsilon, delta), but for a probability of 10^-9."""
    rng = np.random.default_rng(7)
    hits, moved = (
        sum(evidence(rng, there, scale) >= 0.9 * ROUNDS for _ in range(TRIALS)) for there in (True, False)
    )
    found = estimate_delta(Tally(TRIALS, hits, moved), EPSILON, 1 - FALSE_ALARM)
    if scale == 1.0:
        assert found.low <= DELTA
    else:
        assert found.low > 0.05
