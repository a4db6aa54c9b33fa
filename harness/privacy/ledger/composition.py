"""Tighter totals of a population's spending than basic composition gives, numerically: for information only.

By privacy-loss distributions, with Google's `dp_accounting`. It computes in floats, so nothing is decided by
it: budgets are kept by `protocols.accounting.calibration.compose`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from dp_accounting.pld import common, privacy_loss_distribution as pld

from harness.privacy.ledger.populations import Charge, NoiseEvent
from protocols.accounting.exact_privacy import curve_of_coins
from protocols.guarantee import Guarantee, compose

_FINEST, _MOST_STEPS = 1e-4, 2e5  # of the privacy loss


def numerical_epsilon(charges: Sequence[Charge], delta: float) -> float | None:
    """Return an epsilon that all charges together keep to at this delta, None if there is none.

    Computes: the composition of each charge's noise as it was, or of any noise with its epsilon and delta
    where the ledger does not have it; losses are rounded up.
    Guarantees: up to the rounding of floats, an upper bound, and at most the sum of all epsilons where delta
    is at least the sum of all deltas.  [test: tests/harness/privacy/test_ledger_composition.py]
    """
    total = compose(charge.exact for charge in charges)
    if not charges:
        return 0.0
    step = max(min(_FINEST, float(total.epsilon) / len(charges) / 100), float(total.epsilon) / _MOST_STEPS)
    together: pld.PrivacyLossDistribution = pld.identity(step)
    for (noise, exact), times in Counter((charge.noise, charge.exact) for charge in charges).items():
        one = _any(exact, step) if noise is None else _known(noise, step)
        together = together.compose(one.self_compose(times))
    found = float(together.get_epsilon_for_delta(delta))
    if total.delta <= delta:
        found = min(found, float(total.epsilon))
    return found if math.isfinite(found) else None


def _known(noise: NoiseEvent, step: float) -> pld.PrivacyLossDistribution:
    (outcomes,) = curve_of_coins(noise.coins).pairs
    upper, lower = (
        {i: math.log(masses[side]) for i, masses in enumerate(outcomes) if masses[side]} for side in (0, 1)
    )
    one = pld.from_two_probability_mass_functions(lower, upper, value_discretization_interval=step)
    return one.self_compose(noise.values)


def _any(exact: Guarantee, step: float) -> pld.PrivacyLossDistribution:
    parameters = common.DifferentialPrivacyParameters(float(exact.epsilon), float(exact.delta))
    return pld.from_privacy_parameters(parameters, value_discretization_interval=step)
