"""What clients of one file send, over how many connections, and how much a run takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.clients.session import MAX_CONNECTIONS, ClientInputs, Upload
from harness.errors import ShareError
from harness.inputs.record_schema import RecordDomain
from harness.inputs.records import ClientRecords
from harness.pipeline.party_inputs import MAX_SENT, check_sent, feed_from_clients, feed_invited
from harness.security_models import MODELS
from protocols.spec import CLIENTS, PRODUCT, SPLIT

DOMAIN = RecordDomain(("a", "b"), ("0", "1"), 10)


def records(clients: int) -> ClientRecords:
    """Return a record of each client, of group a and label 1."""
    each = np.arange(clients)
    return ClientRecords(DOMAIN, each.astype(str), each, np.zeros_like(each), np.ones_like(each))


@pytest.mark.parametrize(
    ("clients", "uploads"), [(1, 1), (MAX_CONNECTIONS, MAX_CONNECTIONS), (MAX_CONNECTIONS + 1, 1)]
)
def test_clients_have_a_connection_each_unless_there_are_many(
    tmp_path: Path, clients: int, uploads: int
) -> None:
    form = PRODUCT.by(CLIENTS)
    fed = feed_from_clients(records(clients), form, MODELS["spdz2k"], {}, tmp_path, 60.0)
    assert fed.sending is not None and list(fed.values) == [None, None]
    assert [upload.values for upload in fed.sending.uploads] == [3 * clients // uploads] * uploads
    assert fed.sending.parts == uploads
    assert fed.public(form) == {"clients": clients, "uploads": uploads, "max_count": 10}


def test_invited_clients_send_as_many_values_as_the_domain_has(tmp_path: Path) -> None:
    fed = feed_invited(DOMAIN, 3, SPLIT.by(CLIENTS), MODELS["ring"], {}, tmp_path, tmp_path / "invitations")
    assert fed.sending is not None and [upload.values for upload in fed.sending.uploads] == [4, 4, 4]
    assert fed.rows == fed.clients == fed.uploads == 3


def test_a_run_takes_so_many_values() -> None:
    check_sent(MAX_SENT)
    with pytest.raises(ShareError, match=r"262145 values .* use --input-path shares"):
        check_sent(MAX_SENT + 1)


@pytest.mark.parametrize(("sizes", "parts"), [([6, 3, 9], 6), ([5], 1), ([4, 4], 2), ([3, 4], 7)])
def test_parts_are_as_few_as_uploads_allow(sizes: list[int], parts: int) -> None:
    uploads = tuple(Upload(size, "") for size in sizes)
    assert ClientInputs(uploads, {}, begin=lambda servers: None).parts == parts  # type: ignore[arg-type, return-value]
