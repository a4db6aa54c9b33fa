"""π_CF opens the same known integers in every model: its own text, run with bits that the test gives."""

from pathlib import Path

import numpy as np
import pytest

from harness.engines.registry import engine_of
from harness.inputs.encoding import columns_of
from harness.inputs.record_schema import RecordDomain, RecordKind
from harness.inputs.records import ClientRecords
from harness.security_models import SecurityModel
from protocols import reference
from protocols.spec import PI_CF, PRODUCT_PER_RECORD, SPLIT, InputForm
from tests.support.running import model_parameters, opened_less_noise

EPSILON, DELTA_BITS = "1", 40


@pytest.mark.parametrize(("groups", "labels"), [(2, 2), (3, 4)])
@pytest.mark.parametrize(("form", "model"), model_parameters(SPLIT, PRODUCT_PER_RECORD))
def test_opens_the_oracles_integers(
    form: InputForm, model: SecurityModel, groups: int, labels: int, tmp_path: Path
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
    rows = 0 if form is SPLIT else 60
    arguments = (form.name, model.parties, rows, groups, labels, EPSILON, DELTA_BITS)
    found = opened_less_noise(PI_CF, arguments, len(truth), model, tmp_path, values=values.tolist())
    assert found == truth.tolist()
