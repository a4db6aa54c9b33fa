"""A client does not stay longer with an upload server than its limits say, whatever the server does."""

import errno
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fairshares.harness.engines.parties.supervisor import free_ports
from fairshares.harness.uploads import limited_connections, upload_servers
from fairshares.harness.uploads.sending import send
from fairshares.harness.uploads.upload_servers import Outcome
from tests.support.servers import certify, head_of, talking, told

BROKE = f"{Outcome.UNKNOWN} (the connection broke)"
LATE = f"{Outcome.UNKNOWN} (it did not answer in time)"
IS_STORED = f"{Outcome.STORED} (HTTP 201)"
STORED = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"
SHORT_S = 0.3  # the limit that a server is to exceed
LONG_S = 30.0  # how long it takes where it is not cut off, which no test has to wait for


@pytest.fixture(autouse=True)
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have clients trust loopback, and hardly pause."""
    monkeypatch.setattr(upload_servers, "PAUSES_S", (0.001, 0.001))
    monkeypatch.setenv("SSL_CERT_FILE", str(certify(tmp_path)))


def put(address: str, tmp_path: Path, body: bytes = b"sealed") -> str:
    """Send one envelope to one server; return how that ended."""
    place = tmp_path / "sent" / "party-0"
    place.mkdir(parents=True, exist_ok=True)
    for file in place.iterdir():
        file.unlink()
    (place / "ab.share").write_bytes(body)
    ((how, number),) = told(send(tmp_path / "sent", [address]))[0].items()
    assert number == 1
    return how


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
def test_heads_before_the_head_are_not_read_for_ever(before: bytes, tmp_path: Path) -> None:
    sent: list[int] = []

    def talk(connection: ssl.SSLSocket) -> None:
        head_of(connection)
        for _ in range((64 << 20) // len(before)):
            connection.sendall(before)
            sent.append(len(before))
        connection.sendall(STORED)

    with talking(tmp_path / "server.pem", talk) as address:
        assert put(address, tmp_path) == BROKE
    assert sum(sent) < 48 << 20  # what the buffers of the sockets of three attempts hold


def test_a_head_has_a_greatest_length(tmp_path: Path) -> None:
    def talk(length: int, connection: ssl.SSLSocket) -> None:
        head_of(connection)
        connection.recv(6)  # else what was not read would end the connection before the answer is there
        for line in (b"HTTP/1.1 201 Created", b"Content-Length: 0", *[b"X: " + b"y" * 60_000] * length, b""):
            connection.sendall(line + b"\r\n")

    for length, end in ((4, IS_STORED), (5, BROKE)):
        with talking(tmp_path / "server.pem", partial(talk, length)) as address:
            assert put(address, tmp_path) == end


def test_an_answer_that_drips_is_too_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client leaves long before the server is through."""
    monkeypatch.setattr(limited_connections, "ANSWER_S", SHORT_S)
    monkeypatch.setattr(upload_servers, "PATIENCE_S", 1000.0)
    ended: list[bool] = []

    def talk(connection: ssl.SSLSocket) -> None:
        drip(connection)
        ended.append(True)

    with talking(tmp_path / "server.pem", talk) as address:
        assert put(address, tmp_path) == LATE
    assert ended == []


def test_a_server_that_takes_a_body_too_slowly_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
        assert put(address, tmp_path, bytes(64 << 20)) == LATE


def test_a_longer_body_has_more_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        assert put(address, tmp_path, body) == IS_STORED


def test_tls_that_does_not_begin_is_too_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was sent by then, so nothing can be stored."""
    monkeypatch.setattr(limited_connections, "CONNECT_S", SHORT_S)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        begun = time.monotonic()
        end = put(f"https://127.0.0.1:{port}/", tmp_path)
        assert end == f"{Outcome.FAILED} (it did not answer in time)"
        assert time.monotonic() - begun < LONG_S


def test_all_addresses_of_a_server_have_one_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of a hundred has its share of it."""
    monkeypatch.setattr(limited_connections, "CONNECT_S", SHORT_S)
    tried: list[Any] = []

    def connect(_: socket.socket, address: object) -> int:
        tried.append(address)
        return errno.EINPROGRESS

    silent = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 1))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [silent] * 100)
    monkeypatch.setattr(socket.socket, "connect_ex", connect)
    begun = time.monotonic()
    end = put("https://name/", tmp_path)
    assert end == f"{Outcome.FAILED} (nobody answers)" and 3 <= len(tried) <= 300
    assert time.monotonic() - begun < LONG_S


def test_the_next_address_is_tried_where_one_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with talking(tmp_path / "server.pem", answer_all) as address, free_ports(1) as (closed,):
        port = int(address.rpartition(":")[2].strip("/"))
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", at)) for at in (closed, port)]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        assert put(address, tmp_path) == IS_STORED


def answer_all(connection: ssl.SSLSocket) -> None:
    """Answer each request that it is stored."""
    while True:
        head_of(connection)
        connection.recv(6)
        connection.sendall(STORED)


def test_what_was_cut_off_does_not_end_what_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a server's slow answer a new connection stores all, and is kept."""
    monkeypatch.setattr(limited_connections, "ANSWER_S", SHORT_S)
    monkeypatch.setattr(upload_servers, "_FIRST_CONNECTIONS", 1)
    monkeypatch.setattr(upload_servers, "_MOST_CONNECTIONS", 1)
    connections: list[ssl.SSLSocket] = []

    def talk(connection: ssl.SSLSocket) -> None:
        connections.append(connection)
        if len(connections) == 1:
            drip(connection)
        answer_all(connection)

    (tmp_path / "out" / "party-0").mkdir(parents=True)
    for number in range(5):
        (tmp_path / "out" / "party-0" / f"{number}.share").write_bytes(b"sealed")
    with talking(tmp_path / "server.pem", talk) as address:
        assert told(send(tmp_path / "out", [address])) == [Counter({IS_STORED: 5})]
    assert len(connections) == 2


def test_a_connection_that_a_server_ends_after_some_requests_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As web servers do, with and without a word; neither costs a pause, nor an envelope's end."""
    monkeypatch.setattr(upload_servers, "PAUSES_S", (1000.0,))
    monkeypatch.setattr(upload_servers, "_FIRST_CONNECTIONS", 1)
    monkeypatch.setattr(upload_servers, "_MOST_CONNECTIONS", 1)
    asked: list[int] = []

    def talk(connection: ssl.SSLSocket) -> None:
        for number in range(3):
            head_of(connection)
            connection.recv(6)
            asked.append(number)
            if number == 2:
                return
            last = number == 1 and len(asked) > 6
            connection.sendall(
                STORED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") if last else STORED
            )
            if last:
                return

    (tmp_path / "out" / "party-0").mkdir(parents=True)
    for number in range(8):
        (tmp_path / "out" / "party-0" / f"{number}.share").write_bytes(b"sealed")
    with talking(tmp_path / "server.pem", talk) as address:
        assert told(send(tmp_path / "out", [address])) == [Counter({IS_STORED: 8})]
    assert 8 < len(asked) < 14


def test_a_server_that_does_not_answer_in_time_is_not_asked_for_each_upload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limited_connections, "ANSWER_S", SHORT_S)
    monkeypatch.setattr(upload_servers, "_FIRST_CONNECTIONS", 1)
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
        ends = told(send(tmp_path / "out", [slow, quick]))
    why = "not tried, as the server did not answer an earlier one in time"
    assert ends == [
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
