"""What a client is told of its uploads is what the server said, and what is still unknown."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest.mock import Mock, call

import pytest

from fairshares.harness.errors import ShareError
from fairshares.harness.uploads import upload_servers
from fairshares.harness.uploads.sending import send
from fairshares.harness.uploads.upload_servers import Outcome
from tests.support.servers import certify, serving, told

STORED, FAILED, UNKNOWN = Outcome.STORED, Outcome.FAILED, Outcome.UNKNOWN


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with one upload for one party, where loopback's certificate is trusted."""
    monkeypatch.setattr(upload_servers, "PAUSES_S", (0.001, 0.001))
    monkeypatch.setenv("SSL_CERT_FILE", str(certify(tmp_path)))
    (tmp_path / "out" / "party-0").mkdir(parents=True)
    (tmp_path / "out" / "party-0" / "ab.share").write_bytes(b"sealed")
    return tmp_path / "out"


def suffixes(out: Path) -> list[str]:
    return [path.suffix for path in sorted((out / "party-0").iterdir())]


class Body:
    """A body of 256 MiB, which counts the pieces that its server has begun to send."""

    def __init__(self) -> None:
        self.begun = 0

    def __iter__(self) -> Iterator[bytes]:
        for _ in range(256):
            self.begun += 1
            yield bytes(1 << 20)


def test_a_server_whose_answer_has_no_end_is_not_listened_to(out: Path, tmp_path: Path) -> None:
    body = Body()
    with serving(tmp_path / "server.pem", lambda *_: 201, body) as address:
        assert told(send(out, [f"{address}p0/"])) == [Counter({f"{STORED} (HTTP 201)": 1})]
    assert 1 <= body.begun < 64  # what the buffers of both sockets hold


@pytest.mark.parametrize(
    ("answers", "outcome", "left"),
    [
        ([201], f"{STORED} (HTTP 201)", ".sent"),
        ([503, 429, 204], f"{STORED} (HTTP 204)", ".sent"),
        ([409], f"{FAILED} (HTTP 409)", ".share"),
        ([412], f"{FAILED} (HTTP 412)", ".share"),
        ([429, 409], f"{FAILED} (HTTP 409)", ".share"),
        ([307], f"{FAILED} (HTTP 307)", ".share"),
        ([None, 409], f"{UNKNOWN} (HTTP 409)", ".sending"),
        ([500, 412], f"{UNKNOWN} (HTTP 412)", ".sending"),
        ([None, 403], f"{UNKNOWN} (HTTP 403)", ".sending"),
        ([None] * 3, f"{UNKNOWN} (the connection broke)", ".sending"),
        ([429] * 3, f"{FAILED} (HTTP 429)", ".share"),
        ([None, 201], f"{STORED} (HTTP 201)", ".sent"),
    ],
)
def test_what_a_client_is_told(
    answers: Sequence[int | None], outcome: str, left: str, out: Path, tmp_path: Path
) -> None:
    answer = Mock(side_effect=answers)
    with serving(tmp_path / "server.pem", answer) as address:
        assert told(send(out, [f"{address}p0/"])) == [Counter({outcome: 1})]
    assert answer.call_args_list == [call("/p0/ab.share", b"sealed")] * len(answers) and suffixes(out) == [
        left
    ]


def test_a_client_that_was_killed_does_not_know(out: Path, tmp_path: Path) -> None:
    (out / "party-0" / "ab.share").rename(out / "party-0" / "ab.sending")
    with serving(tmp_path / "server.pem", lambda path, body: 409) as address:
        assert told(send(out, [address])) == [Counter({f"{UNKNOWN} (HTTP 409)": 1})]
    with serving(tmp_path / "server.pem", lambda path, body: 201) as address:
        assert told(send(out, [address])) == [Counter({f"{STORED} (HTTP 201)": 1})]
        assert told(send(out, [address])) == [Counter()] and suffixes(out) == [".sent"]


def test_clients_that_are_killed_lose_nothing(out: Path, tmp_path: Path) -> None:
    """20 SIGKILLs of a client, between servers that drop answers: each upload is stored, at least once."""
    names, stored, draw = [f"{i:02}" for i in range(30)], Counter[str](), random.Random(3)
    (out / "party-0" / "ab.share").unlink()
    for name in names:
        (out / "party-0" / f"{name}.share").write_bytes(name.encode())

    def answer(path: str, body: bytes) -> int | None:
        stored[body.decode()] += 1
        return draw.choice([201, 201, 500, None])

    with serving(tmp_path / "server.pem", answer) as address:
        for _ in range(20):
            child = os.fork()
            if not child:
                send(out, [address])
                os._exit(0)
            time.sleep(draw.uniform(0, 0.05))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        while suffixes(out) != [".sent"] * 30:
            send(out, [address])
    assert stored.keys() == {*names}


def test_nothing_to_send_is_no_success(out: Path, tmp_path: Path) -> None:
    for place, says in ((tmp_path / "none", "Cannot send from"), (tmp_path, "holds no uploads")):
        with pytest.raises(ShareError, match=says):
            send(place, ["https://127.0.0.1/"])


def test_a_presigned_url_is_taken_as_it_is(out: Path, tmp_path: Path) -> None:
    answer = Mock(return_value=200)
    with serving(tmp_path / "server.pem", answer) as address:
        url = f"{address}bucket/object?X-Amz-Signature=00ff&X-Amz-Expires=60"
        assert told(send(out, [url])) == [Counter({f"{STORED} (HTTP 200)": 1})]
        answer.assert_called_once_with("/bucket/object?X-Amz-Signature=00ff&X-Amz-Expires=60", b"sealed")
        for name in ("cd", "ef"):
            (out / "party-0" / f"{name}.share").write_bytes(b"sealed")
        with pytest.raises(ShareError, match="is for one upload"):
            send(out, [url])


def test_nothing_goes_to_a_stranger(out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("SSL_CERT_FILE", str(certify(tmp_path / "other")))
    answer = Mock(return_value=201)
    with serving(tmp_path / "server.pem", answer) as address:
        (end,) = send(out, [address])
    (only,) = end
    assert only.outcome is FAILED and only.answer.startswith("its certificate is not trusted here: ")
    assert not answer.called
    assert told(send(out, [address])) == [Counter({f"{FAILED} (nobody answers)": 1})]
    for bad in ("http://127.0.0.1/", ""):
        with pytest.raises(ShareError, match="is no URL to send to"):
            send(out, [bad])
    assert suffixes(out) == [".share"]
