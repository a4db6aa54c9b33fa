"""A client's vectors: sealed once for a reveal and for no other one, and as the task declares them."""

from collections.abc import Callable
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from fairshares.harness.errors import FairSharesError, OptionError, RecordDomainError, ShareError
from fairshares.harness.uploads import upload_servers
from fairshares.harness.uploads.opening import OpenedEnvelope, open_envelope
from fairshares.harness.uploads.reasons import OTHER_TASK
from fairshares.harness.uploads.task import Task, task_from_bytes
from fairshares.harness.uploads.vectors import SealedUpdate, UpdateClient
from tests.support.envelopes import made_task, opener, revealed
from tests.support.servers import certify, serving
from tests.support.vectors import GRID, task_of_vectors


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("task")


@pytest.fixture(scope="module")
def task(keys: Path) -> Task:
    return task_of_vectors(keys)


@pytest.fixture
def client(task: Task, tmp_path: Path) -> UpdateClient:
    return UpdateClient(task, tmp_path / "sent")


def opened(task: Task, sealed: SealedUpdate, keys: Path) -> list[OpenedEnvelope | str]:
    """Return what each party finds in its envelope."""
    return [
        open_envelope(task, party, opener(task, party, keys).keys, envelope)
        for party, envelope in enumerate(sealed.envelopes)
    ]


def test_parties_add_up_what_the_client_clipped_and_rounded(
    client: UpdateClient, task: Task, keys: Path
) -> None:
    """(3, 4, 0) has the norm 5, and (0.6, 0.8, 0) is left of it: 38.4, 51.2 and 0 of 64 units."""
    sealed = client.seal(2, np.array([3.0, 4.0, 0.0]))
    parts = [found.shares for found in opened(task.of_reveal(2), sealed, keys) if not isinstance(found, str)]
    first, second, third = revealed(task, parts)
    assert first in (38, 39) and second in (51, 52) and third == 0


def test_envelopes_are_bound_to_their_reveal(client: UpdateClient, task: Task, keys: Path) -> None:
    sealed = client.seal(2, np.ones(3))
    assert set(opened(task.of_reveal(1), sealed, keys)) == {OTHER_TASK}
    assert set(opened(task, sealed, keys)) == {OTHER_TASK}
    names = {task.of_reveal(number).name for number in range(1, GRID.reveals + 1)}
    assert len(names | {task.name}) == GRID.reveals + 1
    for number in range(1, GRID.reveals + 1):
        of_reveal = task.of_reveal(number)
        assert of_reveal.declared == task
        assert task_from_bytes(of_reveal.text, "the task") == of_reveal


def test_a_client_seals_one_vector_in_a_reveal_and_the_same_bytes(task: Task, tmp_path: Path) -> None:
    client = UpdateClient(task, tmp_path / "sent")
    assert client.sealed(1) is None
    sealed = client.seal(1, np.ones(3))
    for vector in (np.ones(3), np.zeros(3)):
        with pytest.raises(ShareError, match="a client has one in a reveal: send that one"):
            client.seal(1, vector)
    again = UpdateClient(task, tmp_path / "sent")  # another process, later
    assert again.sealed(1) == sealed
    with pytest.raises(ShareError, match="sealed before"):
        again.seal(1, np.ones(3))
    assert again.seal(2, np.ones(3)).identity != sealed.identity


def test_what_is_not_known_to_be_stored_is_sent_again_by_the_same_bytes(
    client: UpdateClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload_servers, "PAUSES_S", ())
    monkeypatch.setenv("SSL_CERT_FILE", str(certify(tmp_path)))
    sealed = client.seal(1, np.ones(3))
    heard: list[tuple[str, bytes]] = []
    refused = [409]  # by one party, once; servers are asked at once, in any order

    def answer(path: str, body: bytes) -> int:
        heard.append((path, body))
        return refused.pop() if refused and path.startswith("/1/") else 201

    with serving(tmp_path / "server.pem", answer) as address:
        to = " ".join(f"{address}{party}/" for party in range(3))
        with pytest.raises(ShareError, match=r"1 .* known to be stored.*HTTP 409.* send them again"):
            client.send(1, to)
        assert client.sealed(1) == sealed
        assert client.send(1, to) == {"stored (HTTP 201)": 1}
        assert client.send(1, to) == {}
    expected = [(f"/{i}/{sealed.identity}.share", sealed.envelopes[i]) for i in (0, 1, 2, 1)]
    assert sorted(heard) == sorted(expected)


def sealing_for(task: Task, place: Path, reveal: int) -> bool:
    """Return whether another process sealed for a reveal."""
    try:
        UpdateClient(task, place).seal(reveal, np.ones(3))
    except ShareError:
        return False
    return True


def test_of_processes_that_race_one_seals_for_a_reveal_and_no_more_than_may(
    keys: Path, tmp_path: Path
) -> None:
    """For one reveal, and for two of eight."""
    task = task_of_vectors(keys / "race", replace(GRID, reveals=8, participations=2))
    one_reveal = [(task, tmp_path / "one", 1)] * 8
    of_eight = [(task, tmp_path / "some", number) for number in range(1, 9)]
    with get_context("forkserver").Pool(4) as pool:
        assert sum(pool.starmap(sealing_for, one_reveal)) == 1
        assert sum(pool.starmap(sealing_for, of_eight)) == 2


def test_a_client_seals_for_as_many_reveals_as_the_task_allows_it(keys: Path, tmp_path: Path) -> None:
    """For two of three, whichever; by another process, too. What it has sealed is sent again as ever."""
    task = task_of_vectors(keys / "some", replace(GRID, participations=2))
    client = UpdateClient(task, tmp_path / "sent")
    assert client.left == 2
    sealed = client.seal(1, np.ones(3))
    client.seal(3, np.ones(3))
    for again in (client, UpdateClient(task, tmp_path / "sent")):
        assert again.left == 0 and again.sealed(1) == sealed and again.sealed(2) is None
        with pytest.raises(ShareError, match=r"at most 2 of this task's 3 reveals, .* no vector in reveal 2"):
            again.seal(2, np.ones(3))
    assert UpdateClient(replace(task, until="2998-01-01"), tmp_path / "sent").left == 2  # another task


@pytest.mark.parametrize(
    ("seal", "error", "sentence"),
    [
        (lambda client: client.seal(4, np.ones(3)), RecordDomainError, "declares 3 reveals, and 4 is none"),
        (lambda client: client.seal(-1, np.ones(3)), RecordDomainError, "numbered from 1"),
        (lambda client: client.seal(0, np.ones(3)), RecordDomainError, "numbered from 1"),
        (
            lambda client: client.seal(1, np.ones(4)),
            OptionError,
            r"3 coordinates, and this one has the shape \(4,\)",
        ),
        (lambda client: client.seal(1, np.ones((1, 3))), OptionError, r"has the shape \(1, 3\)"),
        (lambda client: client.send(1), ShareError, "No vector was sealed for reveal 1"),
    ],
)
def test_what_cannot_be_sealed_is_refused_and_leaves_nothing(
    seal: Callable[[UpdateClient], object], error: type[FairSharesError], sentence: str, client: UpdateClient
) -> None:
    with pytest.raises(error, match=sentence):
        seal(client)
    assert client.sealed(1) is None
    client.seal(1, np.ones(3))


@pytest.mark.parametrize(
    ("vector", "weight"),
    [([1, np.nan, 0], 1.0), ([np.inf, 0, 0], 1.0), ([1, 1, 1], np.nan), ([1, 1, 1], -np.inf)],
)
def test_what_is_not_finite_is_sealed_as_zeros(
    vector: list[float], weight: float, client: UpdateClient, task: Task, keys: Path
) -> None:
    """A published model may overflow for some records, and everybody sees who sends nothing."""
    with pytest.warns(UserWarning, match="not finite, and counts as zeros"):
        sealed = client.seal(1, np.array(vector), weight)
    parts = [found.shares for found in opened(task.of_reveal(1), sealed, keys) if not isinstance(found, str)]
    assert [*revealed(task, parts)] == [0, 0, 0]


def test_the_task_of_a_reveal_has_no_record_of_its_own(task: Task, tmp_path: Path) -> None:
    """Its reveals are those of the task that declares them, so a second vector would be for the same one."""
    sealed = UpdateClient(task, tmp_path / "sent").seal(2, np.ones(3))
    for number in (1, 2):
        again = UpdateClient(task.of_reveal(number), tmp_path / "sent")
        assert again.sealed(2) == sealed
        with pytest.raises(ShareError, match="sealed before"):
            again.seal(2, np.ones(3))


def test_a_record_that_was_changed_is_not_sent(client: UpdateClient, task: Task, tmp_path: Path) -> None:
    client.seal(1, np.ones(3))
    place = tmp_path / "sent" / task.name / "reveal-1" / "party-0"
    (envelope,) = place.iterdir()
    (place / f"{'0' * 64}.share").write_bytes(envelope.read_bytes())
    with pytest.raises(ShareError, match="not as it was sealed"):
        client.sealed(1)


def test_tasks_of_records_and_tasks_that_are_over_take_no_vector(task: Task, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="The task is of records"):
        UpdateClient(made_task(tmp_path / "records"), tmp_path / "sent")
    with pytest.raises(RecordDomainError, match="Only sums of vectors have reveals"):
        made_task(tmp_path / "others").of_reveal(1)
    over = replace(task, until="2020-01-01")
    with pytest.raises(ShareError, match="The task ended on 2020-01-01"):
        UpdateClient(over, tmp_path / "sent").seal(1, np.ones(3))
