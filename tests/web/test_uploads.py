"""What the client in TypeScript says of an upload is what a real server by TLS answered."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from fairshares.harness.uploads.task import Task
from tests.support.envelopes import counts, made_task, revealed
from tests.support.servers import certify, serving
from tests.support.web_client import Refused, WebClient, web_client


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certify(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def trusting(certificate: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebClient]:
    """A client that trusts the certificate of this file's servers."""
    directory = tmp_path_factory.mktemp("trusting")
    with web_client(directory, NODE_EXTRA_CA_CERTS=str(certificate)) as client:
        yield client


@pytest.fixture(scope="module")
def base(place: Path) -> Task:
    return made_task(place)


@pytest.fixture(scope="module")
def sealed(base: Task, web: WebClient) -> dict[str, Any]:
    """An upload, as the bridge takes it."""
    ((identity, envelopes),) = web.seal(base, row=[1, 2, 3, 4])
    return {"identity": identity, "envelopes": [envelope.hex() for envelope in envelopes]}


@pytest.mark.parametrize(
    ("answers", "outcome", "answer"),
    [
        ([201], "stored", "HTTP 201"),
        ([503, 429, 204], "stored", "HTTP 204"),
        ([412], "not stored", "HTTP 412"),
        ([307], "not stored", "HTTP 307"),
        ([None, 409], "unknown", "HTTP 409"),
        ([500, 412], "unknown", "HTTP 412"),
        ([None] * 6, "unknown", "the connection broke"),
        ([429] * 6, "not stored", "HTTP 429"),
    ],
)
def test_what_a_client_is_told(
    *,
    answers: list[int | None],
    outcome: str,
    answer: str,
    base: Task,
    certificate: Path,
    trusting: WebClient,
    sealed: dict[str, Any],
) -> None:
    answering = Mock(side_effect=answers)
    with serving(certificate, answering) as address:
        told = trusting.ask(
            "upload",
            base,
            **sealed,
            addresses=[f"{address}p0/"] * 3,
            earlier=["not sent", "stored", "stored"],
        )
    first = told["results"][0]
    assert (first["outcome"], first["answer"]) == (outcome, answer)
    sent = [tuple(call.args) for call in answering.call_args_list]
    file = f"/p0/{sealed['identity']}.share"
    assert sent == [(file, bytes.fromhex(sealed["envelopes"][0]))] * len(answers)
    assert told["kept"] == [[0, "sending"], [0, outcome]]


def test_nothing_goes_to_a_stranger(
    base: Task, certificate: Path, web: WebClient, trusting: WebClient, sealed: dict[str, Any]
) -> None:
    answering = Mock(return_value=201)
    request = {**sealed, "earlier": ["not sent", "stored", "stored"]}
    with serving(certificate, answering) as address:
        told = web.ask("upload", base, addresses=[address] * 3, **request)
    first = told["results"][0]
    assert first["outcome"] == "not stored" and first["answer"].startswith("its certificate is not trusted")
    assert not answering.called
    told = trusting.ask("upload", base, addresses=[address] * 3, **request)
    assert (told["results"][0]["outcome"], told["results"][0]["answer"]) == ("not stored", "nobody answers")


def test_uploads_are_counted_once(
    base: Task, place: Path, certificate: Path, trusting: WebClient, tmp_path: Path
) -> None:
    """A server stores an envelope, and drops the connection before it says so: the same is sent again."""
    calls: list[str] = []

    def store(path: str, body: bytes) -> int | None:
        calls.append(path)
        file = tmp_path / path.removeprefix("/")
        if file.exists():
            return 412
        file.write_bytes(body)
        return None if len(calls) <= 3 else 201

    for party in range(3):
        (tmp_path / f"party-{party}").mkdir()
    with serving(certificate, store) as address:
        for number in range(2):
            ((identity, envelopes),) = trusting.seal(base, row=[1, 0, number, 2**40])
            own = {"identity": identity, "envelopes": [envelope.hex() for envelope in envelopes]}
            places = [f"{address}party-{party}/" for party in range(3)]
            told = trusting.ask("upload", base, addresses=places, **own)
            expected = "stored" if number else "unknown"
            assert [result["outcome"] for result in told["results"]] == [expected] * 3
            again = trusting.ask("upload", base, addresses=places, earlier=[expected] * 3, **own)
            assert [result["outcome"] for result in again["results"]] == [expected] * 3
    made = counts(base, place, shares=tmp_path)
    assert all(len(count.identities) == 2 and not count.unsound for count in made)
    assert revealed(base, [count.values for count in made]) == [2, 0, 1, 2**41]


def test_nothing_is_sent_where_an_address_is_none(base: Task, web: WebClient, sealed: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="A party without an address") as refused:
        web.ask("upload", base, **sealed)
    assert refused.value.kind == "OptionError"
    of_urls = replace(base, admission="urls")
    with pytest.raises(Refused, match="not one upload for this task"):
        web.ask("upload", of_urls, addresses=["https://127.0.0.1/"] * 3, **sealed)
