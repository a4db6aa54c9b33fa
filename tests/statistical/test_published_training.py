"""The epsilon that the paper's Table 3 leaves out, as docs/paper.md has it."""

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant

DELTA, STEPS, USES, SHARE = 1e-5, 800 * 2 * 10, 800 * 2, 24 / 240


def epsilon(event, times, grid=1e-2):
    accountant = PLDAccountant(value_discretization_interval=grid)
    accountant.compose(dp_accounting.SelfComposedDpEvent(event, times))
    return accountant.get_epsilon(DELTA)


@pytest.mark.parametrize(("sigma", "said"), [(0.7, 449), (1.1, 151)])
def test_if_batches_were_poisson_samples(sigma, said):
    event = dp_accounting.PoissonSampledDpEvent(SHARE, dp_accounting.GaussianDpEvent(sigma))
    assert round(epsilon(event, STEPS)) == said


def test_shuffled_batches_have_no_amplification():
    assert round(epsilon(dp_accounting.GaussianDpEvent(0.7), USES)) == 1876
    assert round(epsilon(dp_accounting.GaussianDpEvent(0.7 / USES**0.5), 1)) == 1876


def test_epsilon_one_takes_a_sigma_of_48():
    def found(sigma):
        return epsilon(
            dp_accounting.PoissonSampledDpEvent(SHARE, dp_accounting.GaussianDpEvent(sigma)), STEPS, 1e-4
        )

    assert found(48) <= 1 < found(47)
