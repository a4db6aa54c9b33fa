"""What clients of one file send, over how many connections, and how much a run takes."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from harness.clients.session import MAX_CONNECTIONS, ClientInputs, Upload
from harness.errors import ShareError
from harness.inputs.record_schema import RecordDomain
from harness.inputs.records import ClientRecords
from harness.pipeline.party_inputs import PartyInputs
from harness.pipeline.sources import MAX_SENT, InvitedSource, RecordsSource, Source, check_sent
from harness.request.base import Request
from harness.security_models import MODELS
from protocols.spec import CLIENTS, PRODUCT, SPLIT
from tests.support.requests import request_of
from tests.support.sharing import context

DOMAIN = RecordDomain(("a", "b"), ("0", "1"), 10)


EPSILON, DELTA = Fraction(1), Fraction(1, 2**40)


def delivered(source: Source, release: Request, scratch: Path) -> PartyInputs:
    run = context(release, scratch)
    return source.deliver(run, source.describe(run))


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
    fed = delivered(
        RecordsSource(records(clients)), request_of(MODELS["spdz2k"], form, EPSILON, DELTA), tmp_path
    )
    assert fed.sending is not None and list(fed.values) == [None, None]
    assert [upload.values for upload in fed.sending.uploads] == [3 * clients // uploads] * uploads
    assert fed.sending.parts == uploads
    assert fed.public(form) == {"clients": clients, "uploads": uploads, "max_count": 10}


def test_invited_clients_send_as_many_values_as_the_domain_has(tmp_path: Path) -> None:
    release = request_of(MODELS["ring"], SPLIT.by(CLIENTS), EPSILON, DELTA)
    fed = delivered(InvitedSource(DOMAIN, tmp_path / "invitations", 3), release, tmp_path)
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
