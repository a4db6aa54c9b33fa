"""π_RW opens the same known weights in every model of MP-SPDZ, as many bits as the oracle says."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from harness.engines.registry import engine_of
from harness.security_models import MODELS, Model
from protocols import reference
from protocols.circuits.coins import design_coins
from protocols.circuits.weights import layout
from protocols.spec import PI_RW_WEIGHTS, PRODUCT, REPLICATED, SPLIT, InputForm
from tests.support.running import model_parameters, noise_of, opened_with

DELTA_BITS = 40
MP_SPDZ = [model for model in MODELS.values() if model.virtual_machine]


@dataclass(frozen=True)
class Case:
    """Counts per group and label, the declared most records of all clients, and the scheme."""

    counts: tuple[tuple[int, ...], ...]
    most_records: int
    reweighing: str
    epsilon: str = "1"


CASES = {
    "balanced": Case(((18, 437), (309, 1055)), 2000, "balanced"),
    "label-three-labels": Case(((0, 12, 700), (1, 0, 650)), 2000, "label", "1/3"),
    "kamiran-calders": Case(((1, 43), (30, 97)), 200, "kamiran-calders"),
}
LARGEST = Case(((0, 2**31), (1, 2**37)), 109 * 2**31, "balanced", "1/3")


def fed(case: Case, values: list[int], form: InputForm, clients: int, model: Model, work: Path) -> list[int]:
    """Run the program's own text on given bits; return what it opened, after comparing with the oracle."""
    groups, labels = len(case.counts), len(case.counts[0])
    coins = design_coins(Fraction(case.epsilon), DELTA_BITS)
    n_bits = 1 + sum(coin.bits for coin in coins)
    bits = np.random.default_rng(22).integers(0, 2, (n_bits, groups * labels)).astype(bool)
    bits[:, 0] = [True] + [False] * (n_bits - 1)  # the smallest sample: the first count is below 1
    flat = [count + x for count, x in zip(sum(case.counts, ()), noise_of(coins, bits), strict=True)]
    noisy = [flat[s * labels : (s + 1) * labels] for s in range(groups)]
    assert noisy[0][0] < 1
    chosen = layout(groups, labels, case.reweighing, case.most_records, len(coins))
    table = reference.opened_weights(noisy, case.reweighing, chosen.fraction_bits)
    expected = table[0] if case.reweighing == "label" else [weight for row in table for weight in row]

    arguments = (
        *([form.path.name] if form.path is REPLICATED else []),
        *(form.name, model.parties, clients, groups, labels, case.epsilon, DELTA_BITS),
        *(case.reweighing, case.most_records),
    )
    spec = PI_RW_WEIGHTS.by(form.path)
    assert opened_with(bits, spec, arguments, model, work, values=values) == expected
    return expected


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
@pytest.mark.parametrize("model", model_parameters(models=MP_SPDZ))
def test_opens_the_oracles_weights(model: Model, case: Case, tmp_path: Path) -> None:
    assert engine_of(model).supports(PI_RW_WEIGHTS, model, SPLIT) is None
    fed(case, [count for row in case.counts for count in row], SPLIT, 0, model, tmp_path)


@pytest.mark.parametrize(
    ("form", "model"),
    model_parameters(
        SPLIT.by(REPLICATED), PRODUCT.by(REPLICATED), models=[model for model in MP_SPDZ if model.replicated]
    ),
)
def test_replicated_shares_open_the_same_weights(form: InputForm, model: Model, tmp_path: Path) -> None:
    """In product form of three clients: 18, 437 and 309 records of groups 0, 0 and 1, and 1,055 more."""
    assert engine_of(model).supports(PI_RW_WEIGHTS, model, form) is None
    case, columns = CASES["balanced"], [18, 437, 309, 1055]
    clients = 0
    if form.name == PRODUCT.name:
        clients, columns = 3, [*[1, 1, 0], *[18, 0, 309], *[0, 437, 1055]]
    fed(case, columns, form, clients, model, tmp_path)


@pytest.mark.mpspdz("ring")
def test_largest_counts(tmp_path: Path) -> None:
    fed(LARGEST, [count for row in LARGEST.counts for count in row], SPLIT, 0, MODELS["ring"], tmp_path)


@pytest.mark.mpspdz("ring")
def test_product_form_opens_the_same_weights(tmp_path: Path) -> None:
    """Three clients: 5 and 7 records of group 0, 300 and 20 of group 1, none and 40 of group 0."""
    case = Case(((5, 47), (300, 20)), 3 * 400, "balanced")
    columns = [*[1, 0, 1], *[5, 300, 0], *[7, 20, 40]]
    model = MODELS["ring"]
    opened = fed(case, columns, PRODUCT, 3, model, tmp_path)
    (tmp_path / "split").mkdir()
    assert fed(case, [5, 47, 300, 20], SPLIT, 0, model, tmp_path / "split") == opened


def test_the_embedded_engine_says_that_it_cannot() -> None:
    model = MODELS["mpyc"]
    assert engine_of(model).supports(PI_RW_WEIGHTS, model, SPLIT) == (
        "pi_rw_weights uses features that only MP-SPDZ has; choose one of its models."
    )
