"""An aggregate lists the uploads in it, whole or not at all, the same at every party."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.errors import ShareError
from harness.inputs.record_schema import RecordDomain
from harness.inputs.records import ClientRecords
from harness.inputs.rings import FIELD, RING, Ring
from harness.inputs.shares.file_format import extract_values, read_uploads
from harness.inputs.shares.party import aggregate
from protocols.spec import PRODUCT, SPLIT, InputForm
from tests.support.sharing import share

ZERO = np.zeros(1, dtype=np.int64)
ONE_CLIENT = ClientRecords(RecordDomain(("a", "b"), ("0", "1"), 9), np.array(["k"]), ZERO, ZERO, ZERO)


@pytest.mark.parametrize("form", [SPLIT, PRODUCT], ids=lambda form: form.name)
@pytest.mark.parametrize("domain", [RING, FIELD], ids=lambda domain: domain.name)
def test_an_aggregate_lists_its_uploads(form: InputForm, domain: Ring, tmp_path: Path) -> None:
    batches = [share(ONE_CLIENT, form, domain, 3, tmp_path) for _ in range(3)]
    for i in range(3):
        path = tmp_path / f"{i}.aggregate"
        header = aggregate(i, tmp_path / f"party-{i}", path)
        assert read_uploads(path) == tuple(f"{batch}:1:0" for batch in sorted(batches))
        values = extract_values(path, tmp_path / f"{i}.values").read_bytes()
        assert len(values) == header.values * domain.value_bytes


DAMAGES: dict[str, Callable[[list[bytes]], bytes]] = {
    "one missing": lambda found: b" ".join(found[:-1]),
    "one twice": lambda found: b" ".join([*found[:-1], found[0]]),
    "one more": lambda found: b" ".join([*found, found[0]]),
    "another order": lambda found: b" ".join(found[::-1]),
    "none": lambda found: b"",
    "no text": lambda found: bytes(range(128, 256)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_list_that_is_not_whole_is_refused(damage: str, tmp_path: Path) -> None:
    for _ in range(2):
        share(ONE_CLIENT, SPLIT, RING, 2, tmp_path)
    path = tmp_path / "0.aggregate"
    aggregate(0, tmp_path / "party-0", path)
    header, uploads, values = path.read_bytes().split(b"\n", 2)
    path.write_bytes(b"\n".join([header, DAMAGES[damage](uploads.split()), values]))
    with pytest.raises(ShareError, match=re.escape(f"{path} is damaged: its list of uploads is not whole")):
        read_uploads(path)
