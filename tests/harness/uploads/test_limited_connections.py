"""A client does not stay longer with an upload server than its limits say, whatever the server does."""

import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import urllib3

from fairshares.harness.uploads import limited_connections, sending as uploading
from fairshares.harness.uploads.sending import Outcome, SendingEnd, put, send
from tests.support.servers import certify, head_of, talking, told

BROKE = SendingEnd(Outcome.UNKNOWN, "the connection broke")
LATE = SendingEnd(Outcome.UNKNOWN, "it did not answer in time", is_late=True)
STORED = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"
SHORT_S = 0.3  # the limit that a server is to exceed
LONG_S = 30.0  # how long it takes where it is not cut off, which no test has to wait for


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> urllib3.PoolManager:
    """Return connections that trust loopback, and that wait long where a server is silent."""
    monkeypatch.setattr(uploading, "_PAUSES_S", (0.001, 0.001))
    certificate = certify(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    return urllib3.PoolManager(timeout=LONG_S, ssl_context=ssl.create_default_context(cafile=certificate))


def slowly(say: Callable[[], object]) -> None:
    """Do something a hundred times a second until its client is gone, or for long."""
    for _ in range(int(LONG_S * 100)):
        say()
        time.sleep(0.01)


def drip(connection: ssl.SSLSocket) -> None:
    head_of(connection)
    connection.sendall(b"HTTP/1.1 201 Created\r\nX: ")
    slowly(lambda: connection.sendall(b"x"))
    connection.sendall(b"\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.parametrize(
    "before",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n" + b"X: y\r\n" * 90 + b"\r\n",
        b"HTTP/1.1 100 Continue\r\nX: " + b"y" * 60_000 + b"\r\n\r\n",
    ],
)
def test_heads_before_the_head_are_not_read_for_ever(
    before: bytes, pool: urllib3.PoolManager, tmp_path: Path
) -> None:
    sent: list[int] = []

    def talk(connection: ssl.SSLSocket) -> None:
        head_of(connection)
        for _ in range((64 << 20) // len(before)):
            connection.sendall(before)
            sent.append(len(before))
        connection.sendall(STORED)

    with talking(tmp_path / "server.pem", talk) as address:
        assert put(pool, address, b"sealed", unanswered=False) == BROKE
    assert sum(sent) < 48 << 20  # what the buffers of the sockets of three attempts hold


def test_a_head_has_a_greatest_length(pool: urllib3.PoolManager, tmp_path: Path) -> None:
    def talk(length: int, connection: ssl.SSLSocket) -> None:
        head_of(connection)
        connection.recv(6)  # else what was not read would end the connection before the answer is there
        for line in (b"HTTP/1.1 201 Created", b"Content-Length: 0", *[b"X: " + b"y" * 60_000] * length, b""):
            connection.sendall(line + b"\r\n")

    for length, end in ((4, SendingEnd(Outcome.STORED, "HTTP 201")), (5, BROKE)):
        with talking(tmp_path / "server.pem", partial(talk, length)) as address:
            assert put(pool, address, b"sealed", unanswered=False) == end


def test_an_answer_that_drips_is_too_late(
    pool: urllib3.PoolManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client leaves long before the server is through."""
    monkeypatch.setattr(limited_connections, "ANSWER_S", SHORT_S)
    ended: list[bool] = []

    def talk(connection: ssl.SSLSocket) -> None:
        drip(connection)
        ended.append(True)

    with talking(tmp_path / "server.pem", talk) as address:
        assert put(pool, address, b"sealed", unanswered=False) == LATE
    assert ended == []


def test_a_server_that_takes_a_body_too_slowly_is_left(
    pool: urllib3.PoolManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each piece that it takes would begin a limit of silence anew."""
    monkeypatch.setattr(limited_connections, "SEND_S", SHORT_S)
    monkeypatch.setattr(limited_connections, "LEAST_RATE", 1 << 30)

    def take(connection: ssl.SSLSocket) -> None:
        if not connection.recv(4096):
            raise ConnectionError("the client left")

    def talk(connection: ssl.SSLSocket) -> None:
        head_of(connection)
        slowly(partial(take, connection))
        connection.sendall(STORED)

    with talking(tmp_path / "server.pem", talk) as address:
        assert put(pool, address, bytes(64 << 20), unanswered=False) == LATE


def test_a_longer_body_has_more_time(
    pool: urllib3.PoolManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limited_connections, "SEND_S", 0.0)
    monkeypatch.setattr(limited_connections, "LEAST_RATE", 1)
    body = bytes(100_000)

    def talk(connection: ssl.SSLSocket) -> None:
        head_of(connection)
        left = len(body)
        while left:
            left -= len(connection.recv(left))
        connection.sendall(STORED)

    with talking(tmp_path / "server.pem", talk) as address:
        assert put(pool, address, body, unanswered=False) == SendingEnd(Outcome.STORED, "HTTP 201")


def test_tls_that_does_not_begin_is_too_late(
    pool: urllib3.PoolManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limited_connections, "CONNECT_S", SHORT_S)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        begun = time.monotonic()
        assert put(pool, f"https://127.0.0.1:{port}/", b"sealed", unanswered=False).answer == LATE.answer
        assert time.monotonic() - begun < LONG_S


def test_all_addresses_of_a_server_have_one_limit(
    pool: urllib3.PoolManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limited_connections, "CONNECT_S", SHORT_S)
    tried: list[Any] = []

    def connect(_: socket.socket, address: object) -> None:
        tried.append(address)
        time.sleep(SHORT_S / 3)
        raise TimeoutError

    one = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 1))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [one] * 50)
    monkeypatch.setattr(socket.socket, "connect", connect)
    end = put(pool, "https://name/", b"sealed", unanswered=False)
    assert end == SendingEnd(Outcome.FAILED, "nobody answers") and 0 < len(tried) <= 3 * 4


def test_what_was_cut_off_does_not_end_what_follows(
    pool: urllib3.PoolManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a server's slow answer the same pool stores by a new connection, and then keeps that one."""
    monkeypatch.setattr(limited_connections, "ANSWER_S", SHORT_S)
    connections: list[ssl.SSLSocket] = []

    def talk(connection: ssl.SSLSocket) -> None:
        connections.append(connection)
        if len(connections) == 1:
            drip(connection)
        while True:
            head_of(connection)
            connection.recv(6)
            connection.sendall(STORED)

    with talking(tmp_path / "server.pem", talk) as address:
        ends = [put(pool, address, b"sealed", unanswered=False) for _ in range(4)]
        time.sleep(2 * SHORT_S)  # a limit that went on would end the connection now
        ends.append(put(pool, address, b"sealed", unanswered=False))
        pool.connection_from_url(address).close()  # else the conversation would go on
    assert ends == [SendingEnd(Outcome.STORED, "HTTP 201")] * 5 and len(connections) == 2


def test_a_server_that_does_not_answer_in_time_is_not_asked_for_each_upload(
    pool: urllib3.PoolManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limited_connections, "ANSWER_S", SHORT_S)
    names = ("a.sending", "b.share", "c.sending", "d.share")
    for party in range(2):
        (tmp_path / "out" / f"party-{party}").mkdir(parents=True)
        for name in names:
            (tmp_path / "out" / f"party-{party}" / name).write_bytes(b"sealed")

    def talk(connection: ssl.SSLSocket) -> None:
        head_of(connection)
        connection.recv(6)
        connection.sendall(STORED)

    with talking(tmp_path / "server.pem", drip) as slow, talking(tmp_path / "server.pem", talk) as quick:
        ends = send(tmp_path / "out", [slow, quick])
    why = "not tried, as the server did not answer an earlier one in time"
    assert told(ends) == [
        Counter(
            {
                f"{Outcome.UNKNOWN} (it did not answer in time)": 1,
                f"{Outcome.FAILED} ({why})": 2,
                f"{Outcome.UNKNOWN} ({why})": 1,
            }
        ),
        Counter({f"{Outcome.STORED} (HTTP 201)": 4}),
    ]
    assert {path.name for path in (tmp_path / "out" / "party-0").iterdir()} == {*names}
