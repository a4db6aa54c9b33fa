"""π_GAP opens the same known integers in every model: its own text, run with bits that the test gives."""

from pathlib import Path

import numpy as np
import pytest

from harness.engines.registry import engine_of
from harness.inputs.encoding import columns_of
from harness.inputs.record_schema import RecordDomain, RecordKind, ValueGrid
from harness.inputs.records import ClientRecords
from harness.security_models import SecurityModel
from protocols import reference
from protocols.spec import PI_GAP, VALUED_SPLIT
from tests.support.running import model_parameters, opened_less_noise

EPSILON, DELTA_BITS = "1/3", 40


@pytest.mark.parametrize("model", model_parameters())
def test_opens_the_oracles_integers(model: SecurityModel, tmp_path: Path) -> None:
    """Sums below 0, and a group that nobody is in."""
    assert engine_of(model).supports(PI_GAP, model, VALUED_SPLIT) is None
    rng = np.random.default_rng(7)
    steps, group = 100, rng.integers(0, 2, 40)
    value = np.where(group == 0, rng.integers(-steps, 1, 40), rng.integers(-steps, steps + 1, 40))
    domain = RecordDomain(("a", "b", "c"), (), 1, kind=RecordKind.VALUE, values=ValueGrid(0.0, 1.0, steps))
    client = np.arange(40)
    records = ClientRecords(domain, client.astype(str), client, group, np.zeros_like(group), value)
    values = columns_of(records, VALUED_SPLIT).sum(axis=1)

    truth = reference.sums_and_sizes(group.tolist(), value.tolist(), 3, steps)
    assert truth[0] < 0 and truth[4:] == [0, 0]
    arguments = (model.parties, 3, EPSILON, DELTA_BITS)
    assert opened_less_noise(PI_GAP, arguments, 6, model, tmp_path, values=values.tolist()) == truth
