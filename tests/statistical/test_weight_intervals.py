"""Intervals of weights hold the weights of the true counts as often as they say, and not much oftener.

Noisy counts are drawn from the noise's probability mass function, N tables a case. If an interval covers
with probability 95 %, the share that does is below x with probability at most exp(-N KL(x, 0.95))
(Chernoff), 10^-9 for the x used here; all weights of all cases together: below 10^-7.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from fairshares.harness.postprocessing.confidence import CONFIDENCE
from fairshares.harness.reweighing.count_errors import FLOOR
from fairshares.harness.reweighing.formulas import REWEIGHINGS, count_intervals
from fairshares.protocols.circuits.coins import Coin, design_coins
from fairshares.protocols.noise.truncated import probability_mass
from tests.support import exact_weights
from tests.support.distribution import accepted

N = 300
ONE, TWO, TWENTIETH = (design_coins(epsilon, 40) for epsilon in (Fraction(1), Fraction(2), Fraction(1, 20)))
MORTGAGES = [[90, 218], [154, 1527]]
LARGE = [[2000, 4000], [3000, 30000]]
THREE = [[200, 300, 400], [900, 250, 300]]
FIVE_GROUPS = [[5000, 900], [200, 250], [150, 300], [250, 700], [200, 350]]  # one far above the others
RARE = [[10**6, 100], [100, 100]]
EMPTY = [[0, 3], [0, 40]]
NOBODY = [[0, 0], [0, 0]]


def shares(
    reweighing: str,
    table: Sequence[Sequence[int]],
    noise: tuple[Coin, ...],
    claimed: tuple[Coin, ...],
    seed: int,
) -> npt.NDArray[np.float64]:
    """Return, per weight, the share of N intervals that hold it."""
    mass = probability_mass(noise)
    truth = np.array(table, dtype=np.float64)
    distribution = [float(p) for p in mass.values()]
    drawn = np.random.default_rng(seed).choice(np.array(list(mass)), size=(N, *truth.shape), p=distribution)
    raised = np.maximum(truth, FLOOR).astype(int).tolist()
    weights = np.array(exact_weights.WEIGHTS[reweighing](raised), dtype=np.float64)
    intervals = np.array(
        [count_intervals(np.maximum(truth + x + 0.5, FLOOR), reweighing, claimed) for x in drawn]
    )
    covered = (intervals[..., 0] <= weights * (1 + 1e-12)) & (weights <= intervals[..., 1] * (1 + 1e-12))
    result: npt.NDArray[np.float64] = covered.mean(axis=0)
    return result


@pytest.mark.parametrize("reweighing", REWEIGHINGS)
@pytest.mark.parametrize(
    ("table", "coins"),
    [(MORTGAGES, ONE), (THREE, ONE), (FIVE_GROUPS, ONE), (LARGE, TWENTIETH)],
    ids=["mortgages", "3", "5-groups", "1/20"],
)
def test_intervals_cover_but_not_everything(
    table: list[list[int]], coins: tuple[Coin, ...], reweighing: str
) -> None:
    covered = shares(reweighing, table, coins, coins, seed=31)
    assert covered.min() >= accepted(N, float(CONFIDENCE))
    assert covered.mean() < 0.995


@pytest.mark.parametrize("reweighing", REWEIGHINGS)
@pytest.mark.parametrize("table", [RARE, EMPTY, NOBODY], ids=["rare", "empty", "nobody"])
def test_small_raised_and_empty_counts_are_covered(table: list[list[int]], reweighing: str) -> None:
    assert shares(reweighing, table, ONE, ONE, seed=32).min() >= accepted(N, float(CONFIDENCE))


@pytest.mark.parametrize("reweighing", REWEIGHINGS)
@pytest.mark.parametrize("count", [0, 3, 15, 30])
def test_doubtful_counts_beside_a_large_one_are_covered(count: int, reweighing: str) -> None:
    """Counts from 0 to above 2 T + 1, where runs differ in which counts are doubtful."""
    table = [[count, 400], [3000, 50]]
    assert shares(reweighing, table, ONE, ONE, seed=35 + count).min() >= accepted(N, float(CONFIDENCE))


@pytest.mark.parametrize("reweighing", REWEIGHINGS)
def test_intervals_for_half_the_noise_are_noticed(reweighing: str) -> None:
    assert shares(reweighing, MORTGAGES, ONE, TWO, seed=33).mean() < accepted(N, float(CONFIDENCE))
