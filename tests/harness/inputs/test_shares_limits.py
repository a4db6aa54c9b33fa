"""Uploads at their limits: too large for one file, and of a client that has no record."""

from pathlib import Path

import numpy as np
import pytest

from harness.errors import ShareError
from harness.inputs.encoding import columns_of
from harness.inputs.record_schema import RecordDomain
from harness.inputs.records import ClientRecords, read_records
from harness.inputs.rings import RING
from harness.inputs.shares import client as sharing
from protocols.spec import KEYS, PRODUCT, SPLIT
from tests.support.sharing import share

DOMAIN = RecordDomain(("a", "b", "c"), ("0", "1"))


def test_an_upload_is_not_larger_than_a_party_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = np.array([0, 0, 0, 1])  # unlike one another, so that a part of both is too large for the first
    records = ClientRecords(DOMAIN, np.array(["k", "l"]), client, client, client)
    monkeypatch.setattr(sharing, "MAX_VALUES", 2)
    with pytest.raises(
        ShareError, match=r"1 clients would share 3 values, too many .* at most 2 values at a time"
    ):
        share(records, KEYS, RING, 2, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_client_without_records_shares_zeros(tmp_path: Path) -> None:
    """Else leaving the client out would tell that it has none."""
    path = tmp_path / "nobody.csv"
    path.write_text("client_id,group,label\n")
    nobody = read_records(path, RecordDomain(("a", "b"), ("0", "1")), say=print)
    assert nobody.clients == 1
    for form, columns in ((SPLIT, [0, 0, 0, 0]), (PRODUCT, [1, 0, 0])):
        assert columns_of(nobody, form)[:, 0].tolist() == columns
