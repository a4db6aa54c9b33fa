"""Uploads at their limits: too large for one file, and of a client that has no record."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.errors import ShareError
from harness.inputs import shares as sharing
from harness.inputs.encoding import columns_of
from harness.inputs.record_schema import RecordDomain
from harness.inputs.records import ClientRecords, read_records
from harness.inputs.rings import RING
from harness.inputs.shares import share
from protocols.spec import PRODUCT, SPLIT

DOMAIN = RecordDomain(("a", "b", "c"), ("0", "1"))


def test_an_upload_is_not_larger_than_a_party_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    each = np.arange(2)
    two = ClientRecords(DOMAIN, np.array(["k", "l"]), each, each, each)
    monkeypatch.setattr(sharing, "MAX_VALUES", 11)
    with pytest.raises(
        ShareError, match=r"2 clients would share 12 values, too many .* at most 11 values at a time"
    ):
        share(two, SPLIT, RING, 2, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_client_without_records_shares_zeros(tmp_path: Path) -> None:
    """Else leaving the client out would tell that it has none."""
    path = tmp_path / "nobody.csv"
    path.write_text("client_id,group,label\n")
    nobody = read_records(path, RecordDomain(("a", "b"), ("0", "1")), may_be_empty=True)
    assert nobody.clients == 1
    for form, columns in ((SPLIT, [0, 0, 0, 0]), (PRODUCT, [1, 0, 0])):
        assert columns_of(nobody, form)[:, 0].tolist() == columns
