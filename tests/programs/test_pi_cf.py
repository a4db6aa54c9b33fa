"""π_CF opens the same known integers in every model: its own text, run with bits that the test gives."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from harness.engines.registry import engine_of
from harness.inputs.encoding import columns_of
from harness.inputs.record_schema import RecordDomain, RecordKind
from harness.inputs.records import ClientRecords
from harness.security_models import Model
from protocols import reference
from protocols.circuits.coins import design_coins
from protocols.spec import PI_CF, PRODUCT_PER_RECORD, SPLIT, InputForm
from tests.support.running import Inputs, copy_of_program, model_parameters, run, xor_shares

EPSILON, DELTA_BITS = "1", 40


@pytest.mark.parametrize(("groups", "labels"), [(2, 2), (3, 4)])
@pytest.mark.parametrize(("form", "model"), model_parameters(SPLIT, PRODUCT_PER_RECORD))
def test_opens_the_oracles_integers(
    form: InputForm, model: Model, groups: int, labels: int, tmp_path: Path
) -> None:
    assert engine_of(model).supports(PI_CF, model, form) is None
    rng = np.random.default_rng(groups)
    client, group, label, prediction = (rng.integers(0, n, 60) for n in (5, groups, labels, labels))
    label[label == 1] = 0  # nobody has it
    domain = RecordDomain(tuple("abc"[:groups]), tuple("0123"[:labels]), kind=RecordKind.PREDICTION)
    records = ClientRecords(domain, np.arange(5).astype(str), client, group, label, prediction)
    columns = columns_of(records, form)
    values = columns.sum(axis=1) if form is SPLIT else columns.ravel()

    truth = reference.confusion(group, label, prediction, groups, labels).ravel()
    coins = design_coins(Fraction(EPSILON), DELTA_BITS)
    bits = rng.integers(0, 2, (1 + sum(coin.bits for coin in coins), len(truth))).astype(bool)
    design = [(coin.numerator, coin.bits) for coin in coins]
    noise = [reference.noise_of_bits(design, lane.tolist()) for lane in bits.T]

    rows = 0 if form is SPLIT else 60
    arguments = (form.name, model.parties, rows, groups, labels, EPSILON, DELTA_BITS)
    inputs = Inputs(given_bits=xor_shares(bits, model.parties, rng), values=values.tolist())
    program = copy_of_program(PI_CF.name, tmp_path)
    result = run(PI_CF, program, arguments, inputs, model, tmp_path / "run")
    assert list(result.outputs["counts"]) == [int(c) + x for c, x in zip(truth, noise, strict=True)]
