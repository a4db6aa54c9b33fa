"""All parties' servers get envelopes at the same time, and one that fails costs the others nothing."""

import ssl
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from fairshares.harness.engines.parties.supervisor import free_ports
from fairshares.harness.errors import ShareError
from fairshares.harness.uploads import upload_servers
from fairshares.harness.uploads.limited_connections import Destination
from fairshares.harness.uploads.sending import send
from fairshares.harness.uploads.upload_servers import Outcome
from tests.support.servers import certify, head_of, serving, talking, told

STORED = f"{Outcome.STORED} (HTTP 201)"
LONG_S = 30.0  # which no test has to wait for
NUMBER = 40  # of envelopes for each party


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with envelopes for two parties, where loopback's certificate is trusted."""
    monkeypatch.setattr(upload_servers, "PAUSES_S", (0.001, 0.001))
    monkeypatch.setenv("SSL_CERT_FILE", str(certify(tmp_path)))
    for party in range(2):
        (tmp_path / "out" / f"party-{party}").mkdir(parents=True)
        for number in range(NUMBER):
            (tmp_path / "out" / f"party-{party}" / f"{number:02}.share").write_bytes(b"sealed")
    return tmp_path / "out"


def suffixes(out: Path, party: int) -> Counter[str]:
    return Counter(path.suffix for path in (out / f"party-{party}").iterdir())


def tried(end: Counter[str], how: str, not_tried: str) -> int:
    """Return how many envelopes were tried, of those that all ended in one way or were not tried."""
    assert end.keys() <= {how, not_tried} and end.total() == NUMBER
    return end[how]


def test_servers_are_asked_at_the_same_time(out: Path, tmp_path: Path) -> None:
    """Each server answers once both have been asked, by more than one connection."""
    asked = threading.Barrier(4, timeout=LONG_S)
    numbers = Counter[str]()

    def answer(path: str, _: bytes) -> int:
        numbers[path[:3]] += 1
        if numbers[path[:3]] <= 2:
            asked.wait()
        return 201

    with serving(tmp_path / "server.pem", answer) as address:
        assert told(send(out, [f"{address}p0/", f"{address}p1/"])) == [Counter({STORED: NUMBER})] * 2
    assert not asked.broken


def test_a_server_that_nobody_runs_is_named_while_the_others_get_theirs(out: Path, tmp_path: Path) -> None:
    """And is asked for a few envelopes alone."""
    said: list[str] = []
    named = threading.Event()

    def say(sentence: str) -> None:
        said.append(sentence)
        named.set()

    def answer(*_: object) -> int:
        return 201 if named.wait(LONG_S) else 500

    with serving(tmp_path / "server.pem", answer) as address, free_ports(1) as (port,):
        dead = f"https://127.0.0.1:{port}/"
        ends = told(send(out, [dead, address], None, say))
    failed = f"{Outcome.FAILED} (nobody answers)"
    assert ends[1] == Counter({STORED: NUMBER})
    assert (
        1
        <= tried(ends[0], failed, f"{Outcome.FAILED} (not tried, as for an earlier one: nobody answers)")
        <= 4
    )
    assert suffixes(out, 0) == {".share": NUMBER} and suffixes(out, 1) == {".sent": NUMBER}
    assert said[0] == f"127.0.0.1:{port}: nobody answers. It is tried for 30 s, and the others get theirs."
    assert said[1].startswith(f"127.0.0.1:{port} is given up (nobody answers): ") and len(said) == 2


def test_a_server_that_takes_all_and_says_nothing_is_given_up(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have stored what it took, and was not asked for the rest."""
    monkeypatch.setattr(upload_servers, "PATIENCE_S", 0.5)
    monkeypatch.setattr(upload_servers, "_NAMED_AFTER_S", 0.1)
    said: list[str] = []

    def talk(connection: ssl.SSLSocket) -> None:
        head_of(connection)
        while connection.recv(4096):
            pass

    begun = time.monotonic()
    with talking(tmp_path / "server.pem", talk) as silent:
        ends = told(send(out, [silent], None, said.append))
    assert time.monotonic() - begun < LONG_S
    why = "not tried, as the server did not answer an earlier one in time"
    assert ends[0].keys() == {f"{Outcome.UNKNOWN} (it did not answer in time)", f"{Outcome.FAILED} ({why})"}
    assert 1 <= ends[0][f"{Outcome.UNKNOWN} (it did not answer in time)"] <= 4
    silent_site = silent.removeprefix("https://").strip("/")
    assert f"{silent_site}: no answer for 0.1 s. It is tried for 0.5 s, and the others get theirs." in said
    assert any(text.startswith(f"{silent_site} is given up (it did not answer in time): ") for text in said)


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_takes_so_many_at_a_time_gets_all(status: int, out: Path, tmp_path: Path) -> None:
    """It refuses two of three requests."""
    lock, number = threading.Lock(), [0]

    def answer(*_: object) -> int:
        with lock:
            number[0] += 1
            return 201 if number[0] % 3 == 0 else status

    for path in sorted((out / "party-0").iterdir())[10:]:
        path.unlink()
    with serving(tmp_path / "server.pem", answer) as address:
        left = 10
        while left:
            (end,) = told(send(out, [address]))
            left -= end[STORED]
            assert end[STORED]
    assert suffixes(out, 0) == {".sent": 10}


def test_no_more_bytes_are_on_their_way_than_memory_has_room_for(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload_servers, "_MOST_BYTES", 17)  # two envelopes
    lock, now, most = threading.Lock(), [0], [0]

    def answer(*_: object) -> int:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.002)
        with lock:
            now[0] -= 1
        return 201

    with serving(tmp_path / "server.pem", answer) as address:
        assert told(send(out, [address]))[0] == Counter({STORED: NUMBER})
    assert most[0] <= 2


def test_an_answer_before_the_end_of_a_body_counts(out: Path, tmp_path: Path) -> None:
    """A server that refuses long bodies says so before it has read one."""
    for path in (out / "party-0").iterdir():
        path.unlink()
    (out / "party-0" / "ab.share").write_bytes(bytes(64 << 20))

    def talk(connection: ssl.SSLSocket) -> None:
        head_of(connection)
        connection.sendall(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
        while connection.recv(1 << 20):
            time.sleep(0.001)

    with talking(tmp_path / "server.pem", talk) as address:
        assert told(send(out, [address])) == [Counter({f"{Outcome.FAILED} (HTTP 413)": 1})]


@pytest.mark.parametrize(
    "url", ["https://", "https:///p0/", "https://a:b/", "https://a b/", "https://a/b c/", "https://.a/"]
)
def test_what_is_no_url_is_refused_before_anything_is_sent(url: str, out: Path) -> None:
    with pytest.raises(ShareError, match="is no URL to send to: "):
        send(out, [url])
    assert suffixes(out, 0) == {".share": NUMBER}


def test_a_request_says_what_the_page_says() -> None:
    """`docs/reference/share-files.md` has it, and a query stays as it is."""
    request = Destination.from_url("https://[::1]:8443/2027/ab.share?x=%20y&z").request_to_put(b"", b"sealed")
    assert request == (
        b"PUT /2027/ab.share?x=%20y&z HTTP/1.1\r\nHost: [::1]:8443\r\n"
        b"Content-Type: application/octet-stream\r\nIf-None-Match: *\r\nContent-Length: 6\r\n\r\nsealed"
    )
    named = Destination.from_url("https://bücher.example").request_to_put(b"ab.share", b"")
    assert named.startswith(b"PUT /ab.share HTTP/1.1\r\nHost: xn--bcher-kva.example\r\n")
