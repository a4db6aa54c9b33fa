"""π_CF of clients' slots opens the oracle's matrices in every model, whatever other clients send."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.engines.registry import engine_of
from harness.inputs.encoding import columns_of
from harness.inputs.record_schema import Cap, RecordDomain, RecordKind
from harness.inputs.records import ClientRecords
from harness.security_models import MODELS, SecurityModel
from protocols import reference
from protocols.spec import PI_CF_SLOTS, SLOTS
from tests.support.running import model_parameters
from tests.support.slots import CAP, UPLOADS, Case, opened

CLIENTS = 50


def honest(groups: int, labels: int) -> tuple[Case, list[int]]:
    """Return what clients with at most `CAP` records send, the last without any, and the oracle's counts."""
    rng = np.random.default_rng(groups)
    client = np.repeat(np.arange(CLIENTS), rng.integers(0, CAP + 1, CLIENTS))
    group, label, prediction = (rng.integers(0, n, len(client)) for n in (groups, labels, labels))
    prediction[group == 0] = label[group == 0]  # so that no two cells can be taken for each other
    names = tuple("abc"[:groups]), tuple("012"[:labels])
    domain = RecordDomain(*names, CAP, kind=RecordKind.PREDICTION, cap=Cap(CAP))
    ids = np.arange(CLIENTS + 1).astype(str)
    records = ClientRecords(domain, ids, client, group, label, prediction)
    words = columns_of(records, SLOTS).T.tolist()
    assert words[-1] == [0] * CAP
    truth = reference.confusion(group, label, prediction, groups, labels).ravel().tolist()
    return Case(words, groups, labels, spec=PI_CF_SLOTS), truth


@pytest.mark.parametrize("model", model_parameters())
def test_opens_the_oracles_integers_whatever_others_send(model: SecurityModel, tmp_path: Path) -> None:
    """Words of all kinds beside honest ones; a server moves a record, and puts one into an empty slot."""
    assert engine_of(model).supports(PI_CF_SLOTS, model, SLOTS) is None
    alone, truth = honest(2, 2)
    assert alone.counts() == truth
    flipped = {(CLIENTS + 1, 0): 0b101, (CLIENTS, 2): 0b0110}
    case = replace(alone, words=[*alone.words, *UPLOADS.values()], flipped=flipped)
    counts = opened(case, model, tmp_path)
    assert counts == case.counts()
    added = [after - before for after, before in zip(counts, truth, strict=True)]
    assert min(added) >= 0 and sum(added) <= CAP * len(UPLOADS) + 1  # and what is in the filled slot


@pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"]]))
def test_several_labels(model: SecurityModel, tmp_path: Path) -> None:
    """27 cells: 5 bits."""
    case, truth = honest(3, 3)
    assert opened(case, model, tmp_path) == truth
