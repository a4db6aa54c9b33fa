"""π_RW opens the same known integers in every model: its own text, run with bits that the test gives."""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from harness.engines.registry import engine_of
from harness.security_models import SecurityModel
from protocols import reference
from protocols.circuits.coins import Coin, design_coins
from protocols.spec import CLIENTS, PI_RW, PRODUCT, SPLIT, InputForm
from tests.support.running import model_parameters, noise_of, opened_with

DELTA_BITS = 40


@dataclass(frozen=True)
class Case:
    """Records of some clients; `each` is how often every one of them occurs.

    Attributes: records: (client, group, label). In the product form a client has one group only.
    """

    groups: int
    labels: int
    clients: int
    records: tuple[tuple[int, int, int], ...]
    epsilon: str
    each: int = 1

    def per_client(self) -> npt.NDArray[np.int64]:
        """Return every client's counts, shape (groups, labels, clients)."""
        table = np.zeros((self.groups, self.labels, self.clients), dtype=np.int64)
        for client, group, label in self.records:
            table[group, label, client] += self.each
        return table

    def expected(self, coins: tuple[Coin, ...], bits: npt.NDArray[np.bool_]) -> list[int]:
        """Return what has to be opened, from the oracle."""
        _, group, label = np.array(self.records).T
        truth = reference.counts(group, label, self.groups, self.labels) * self.each
        return [int(count) + x for count, x in zip(truth.ravel(), noise_of(coins, bits), strict=True)]

    def columns(self, form: InputForm) -> npt.NDArray[np.int64]:
        """Return every client's values, shape (columns, clients): counts, or indicators and label counts."""
        table = self.per_client()
        if form.name == SPLIT.name:
            return table.reshape(-1, self.clients)
        indicators = (table.sum(axis=1) > 0).astype(np.int64)[:-1]
        return np.concatenate([indicators, table.sum(axis=0)])

    def fed(self, form: InputForm) -> dict[str, Any]:
        """Return what reaches the parties: shares, of sums in split form, or what each client sends."""
        columns = self.columns(form)
        if form.path is CLIENTS:
            return {"sent": [columns[:, 0], columns[:, 1:].T.ravel()]}
        return {"values": (columns.sum(axis=1) if form.summed_by_party else columns.ravel()).tolist()}


CASES = {
    "two-groups-two-labels": Case(
        2, 2, 3, ((0, 0, 0), (0, 0, 1), (0, 0, 1), (1, 1, 0), (2, 1, 1), (2, 1, 1), (2, 1, 1)), "1"
    ),
    # Nobody has group 1; each client has 2^31 records of one cell.
    "three-groups-largest-counts": Case(
        3, 2, 4, ((0, 0, 0), (1, 2, 1), (2, 2, 1), (3, 2, 1)), "1/3", each=2**31
    ),
}


def rigged_bits(coins: tuple[Coin, ...], lanes: int) -> npt.NDArray[np.bool_]:
    """Return fair bits, shape (bits, lanes), whose first lanes make the four extreme samples."""
    n_bits = 1 + sum(coin.bits for coin in coins)
    bits = np.random.default_rng(20).integers(0, 2, (n_bits, lanes)).astype(bool)
    bits[:, 0] = False  # every coin shows 1 and the sign is plus: the largest sample
    bits[:, 1] = True  # every coin shows 0 and the sign is minus: -1
    bits[:, 2] = [True] + [False] * (n_bits - 1)  # the smallest sample
    bits[:, 3] = [False] + [True] * (n_bits - 1)  # 0
    return bits


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
@pytest.mark.parametrize(("form", "model"), model_parameters(SPLIT, PRODUCT, PRODUCT.by(CLIENTS)))
def test_opens_the_oracles_integers(
    model: SecurityModel, form: InputForm, case: Case, tmp_path: Path
) -> None:
    assert engine_of(model).supports(PI_RW, model, form) is None
    coins = design_coins(Fraction(case.epsilon), DELTA_BITS)
    bits = rigged_bits(coins, case.groups * case.labels)
    expected = case.expected(coins, bits)
    assert min(expected) < 0

    clients = 0 if form.summed_by_party else case.clients
    parts = case.clients if form.path is CLIENTS else 0
    size = (case.groups, case.labels, case.epsilon, DELTA_BITS)
    arguments = (form.name, form.path.name, model.parties, clients, parts, *size)
    assert opened_with(bits, PI_RW, arguments, model, tmp_path, **case.fed(form)) == expected
    assert not (tmp_path / "run" / "parties").exists()


@pytest.mark.parametrize(("form", "model"), model_parameters(SPLIT.by(CLIENTS)))
def test_counts_that_clients_send(model: SecurityModel, form: InputForm, tmp_path: Path) -> None:
    test_opens_the_oracles_integers(model, form, CASES["two-groups-two-labels"], tmp_path)


def test_the_extreme_lanes_are_extreme() -> None:
    coins = design_coins(Fraction(1), DELTA_BITS)
    bits = rigged_bits(coins, 4)
    largest = (1 << len(coins)) - 1
    assert noise_of(coins, bits) == [largest, -1, -1 - largest, 0]
