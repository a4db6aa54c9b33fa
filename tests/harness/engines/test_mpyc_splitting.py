"""The fast split: any two shares give the secret back, one is uniform whatever the secret."""

import sys
from math import log, sqrt
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fairshares.harness.engines.mpyc.party_runtime import install_fast_splitting, split
from fairshares.harness.inputs.rings import FIELD

P = FIELD.modulus
N, FALSE_ALARM = 20_000, 1e-9


def field_elements(*values: int) -> npt.NDArray[Any]:
    return np.array(values, dtype=object)


def test_shares_lie_on_a_line_through_the_secret() -> None:
    secrets = field_elements(0, 1, 2, P - 1, P - 2, P // 2, 1 << 126, 12345)
    first, second, third = split(secrets)
    assert ((2 * first - second - secrets) % P == 0).all()
    assert ((3 * second - 2 * third - secrets) % P == 0).all()
    assert all(0 <= share < P for shares in (first, second, third) for share in shares)


def distance_from_uniform(shares: npt.NDArray[Any]) -> float:
    """Return the largest distance between the shares' distribution function and that of [0, p)."""
    ordered = np.sort((shares / P).astype(float))
    steps = np.arange(len(ordered) + 1) / len(ordered)
    return float(max(np.max(steps[1:] - ordered), np.max(ordered - steps[:-1])))


# DKW: uniform shares are further than this with probability 1e-9 at most, each time.
FARTHEST = sqrt(log(2 / FALSE_ALARM) / (2 * N))


@pytest.mark.parametrize("secret", [0, 1, P - 1, P // 3])
def test_each_share_is_uniform(secret: int) -> None:
    for shares in split(field_elements(*[secret] * N)):
        assert distance_from_uniform(shares) < FARTHEST


def test_shares_that_are_not_uniform_are_seen() -> None:
    first, second, _ = split(field_elements(*[P // 3] * N))
    assert distance_from_uniform(first >> 1) > FARTHEST
    assert distance_from_uniform((first + second) // 2) > FARTHEST


def test_only_the_setting_that_it_is_for_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    def general(*arguments: Any) -> str:
        return f"general {arguments[2:]}"

    class Elements(SimpleNamespace):
        """Stands for MPyC's array of field elements."""

    thresha = SimpleNamespace(np_random_split=general)
    monkeypatch.setitem(sys.modules, "mpyc", SimpleNamespace(thresha=thresha))
    monkeypatch.setitem(sys.modules, "mpyc.thresha", thresha)
    install_fast_splitting()

    ours, other = (SimpleNamespace(modulus=modulus, array=Elements) for modulus in (P, 257))
    secrets = field_elements(5, 6)
    for given in (secrets, Elements(value=secrets)):
        first, second, _ = thresha.np_random_split(ours, given, 1, 3)
        assert ((2 * first - second - secrets) % P == 0).all()
    assert thresha.np_random_split(other, secrets, 1, 3) == "general (1, 3)"
    assert thresha.np_random_split(ours, secrets, 1, 4) == "general (1, 4)"
    assert thresha.np_random_split(ours, secrets, 2, 5) == "general (2, 5)"
