"""The web server of docs/how-to/intake.md, as Debian's nginx runs that page's own text, on loopback."""

import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from fairshares.harness.engines.parties.supervisor import free_ports
from fairshares.harness.errors import ShareError
from fairshares.harness.uploads.counting import UploadCount
from fairshares.harness.uploads.sending import send
from fairshares.harness.uploads.task import Task
from fairshares.harness.uploads.upload_servers import Outcome
from tests.conftest import PROJECT
from tests.support.envelopes import made_task, opener, upload
from tests.support.running import until
from tests.support.servers import HOST, certify, told

PAGE = (PROJECT / "docs" / "how-to" / "intake.md").read_text()
MAIN = """
daemon off; pid {0}/pid; error_log {0}/error.log; user root;
events {{}}
http {{
    fastcgi_temp_path {0}/a; proxy_temp_path {0}/b; scgi_temp_path {0}/c; uwsgi_temp_path {0}/d;
    {1}
}}
"""
NAME = "/2027/" + "0a" * 32 + ".share"


@dataclass(frozen=True)
class Intake:
    """A running server. Attributes: port; place: with `2027`, where uploads are; task: of whose party 0."""

    port: int
    place: Path
    task: Task

    @property
    def size(self) -> int:
        return self.task.envelope_bytes(0)

    @property
    def stored(self) -> list[bytes]:
        return sorted(path.read_bytes() for path in (self.place / "2027").iterdir())

    def connect(self) -> HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self.place / "server.pem"))
        return HTTPSConnection(HOST, self.port, timeout=30, context=context)

    def ask(self, method: str, path: str = NAME, body: bytes | None = None) -> tuple[int, bytes]:
        connection = self.connect()
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


@pytest.fixture
def intake(tmp_path: Path) -> Iterator[Intake]:
    with running(tmp_path, []) as started:
        yield started


@contextmanager
def running(tmp_path: Path, changes: list[tuple[str, str]]) -> Iterator[Intake]:
    """Run the page's server. Args: changes: of its text, besides places."""
    program = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin")
    if program is None:
        pytest.skip("there is no nginx (Debian's package nginx-light)")
    with free_ports(1) as (port,):  # until the end
        task = made_task(tmp_path, hybrid=True)
        place = tmp_path / "intake"
        for name in ("2027", "partial"):
            (place / name).mkdir(parents=True)
        certify(place)
        (text,) = re.findall(r"```\{code-block\} nginx\n(.*?)```", PAGE, re.DOTALL)
        for old, new in (
            *changes,
            ("443", f"{HOST}:{port}"),
            ("1548", str(task.envelope_bytes(0))),
            ("/srv/uploads", str(place)),
            ("/etc/ssl/certs/uploads.pem", str(place / "server.pem")),
            ("/etc/ssl/private/uploads.key", str(place / "server.key")),
        ):
            assert old in text
            text = text.replace(old, new)
        (place / "nginx.conf").write_text(MAIN.format(place, text))
        server = subprocess.Popen([program, "-p", place, "-c", place / "nginx.conf"], stderr=subprocess.PIPE)

        def answers() -> bool:
            assert server.poll() is None, server.stderr and server.stderr.read()
            with socket.socket() as probe:
                return probe.connect_ex((HOST, port)) == 0

        try:
            until(answers)
            yield Intake(port, place, task)
        finally:
            server.terminate()
            server.communicate()


def test_it_stores_what_is_put_and_parties_count_it(
    intake: Intake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert intake.size == 1548  # as the page says of a task with four counts and three parties
    names = [upload(intake.task, [i, 1, 0, 0], tmp_path / "out") for i in range(3)]
    sent = sorted(path.read_bytes() for path in (tmp_path / "out" / "party-0").iterdir())
    monkeypatch.setenv("SSL_CERT_FILE", str(intake.place / "server.pem"))
    ends = send(tmp_path / "out", [f"https://{HOST}:{intake.port}/2027/"])
    assert told(ends) == [{f"{Outcome.STORED} (HTTP 201)": 3}] and intake.stored == sent
    count = UploadCount(opener(intake.task, 0, tmp_path))
    count.add(intake.place / "2027")
    assert {*count.identities} == {*names} and not count.unsound


def test_sizes_are_exact(intake: Intake) -> None:
    for size, status in ((intake.size - 1, 411), (intake.size + 1, 413), (0, 411)):
        assert intake.ask("PUT", body=bytes(size))[0] == status
    connection = intake.connect()
    connection.request("PUT", NAME, iter([bytes(intake.size)]), encode_chunked=True)
    assert connection.getresponse().status == 411
    connection.close()
    assert intake.stored == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "MKCOL", "MOVE", "OPTIONS", "POST"])
def test_nothing_is_read_listed_or_removed(method: str, intake: Intake) -> None:
    assert intake.ask("PUT", body=bytes(intake.size))[0] == 201
    stored = next((intake.place / "2027").iterdir()).name
    for path, status in (
        (NAME, 405),
        ("/2027/", 404),
        ("/", 404),
        (f"/2027/{stored}", 404),
        ("/partial/", 404),
    ):
        answered, body = intake.ask(method, path)
        assert answered == status and bytes(intake.size) not in body
    assert intake.stored == [bytes(intake.size)]


@pytest.mark.parametrize("path", ["/2027/x.share", NAME.replace("share", "txt"), "/2027/../x", NAME.upper()])
def test_other_names_are_refused(path: str, intake: Intake) -> None:
    assert intake.ask("PUT", path, bytes(intake.size))[0] in (400, 404) and intake.stored == []


def test_nothing_is_overwritten_even_at_once(intake: Intake) -> None:
    """Requests of one name: the second begins and ends while the first is under way, the third follows."""
    first, others = b"a" * intake.size, [b"b" * intake.size, b"c" * intake.size]
    slow = intake.connect()
    slow.putrequest("PUT", NAME)
    slow.putheader("Content-Length", str(intake.size))
    slow.endheaders(first[:100])
    assert intake.ask("PUT", body=others[0])[0] == 201
    slow.send(first[100:])
    assert slow.getresponse().status == 201
    slow.close()
    assert intake.ask("PUT", body=others[1])[0] == 201
    assert intake.stored == [first, *others]


def test_a_body_that_does_not_come_to_its_end_is_not_stored(intake: Intake) -> None:
    slow = intake.connect()
    slow.putrequest("PUT", NAME)
    slow.putheader("Content-Length", str(intake.size))
    slow.endheaders(bytes(100))
    slow.close()
    assert intake.ask("PUT", body=bytes(intake.size))[0] == 201
    assert intake.stored == [bytes(intake.size)]


def test_rates_are_limited(intake: Intake) -> None:
    connection, statuses = intake.connect(), []
    for _ in range(200):  # of which those that take 60 s are let through
        connection.request("PUT", NAME, bytes(intake.size))
        answer = connection.getresponse()
        answer.read()
        statuses.append(answer.status)
        if answer.status == 429:
            break
    connection.close()
    assert statuses[:21] == [201] * 21 and statuses[-1] == 429
    assert len(intake.stored) == len(statuses) - 1


def test_tls_is_new_and_needed(intake: Intake) -> None:
    context = ssl.create_default_context(cafile=str(intake.place / "server.pem"))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection((HOST, intake.port)) as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain, server_hostname=HOST)
    with socket.create_connection((HOST, intake.port)) as plain:
        plain.sendall(b"PUT " + NAME.encode() + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        assert plain.recv(99).startswith(b"HTTP/1.1 400")


def test_clients_with_certificates_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    mine = certify(tmp_path / "mine")
    both = tmp_path / "both.pem"
    both.write_bytes(mine.read_bytes() + mine.with_suffix(".key").read_bytes())
    changes = [("# ssl_", "ssl_"), ("/etc/ssl/certs/clients.pem", str(mine))]
    with running(tmp_path, changes) as intake:
        upload(intake.task, [1, 0, 0, 0], tmp_path / "out")
        address = f"https://{HOST}:{intake.port}/2027/"
        monkeypatch.setenv("SSL_CERT_FILE", str(intake.place / "server.pem"))
        assert told(send(tmp_path / "out", [address])) == [{f"{Outcome.FAILED} (HTTP 400)": 1}]
        assert told(send(tmp_path / "out", [address], both)) == [{f"{Outcome.STORED} (HTTP 201)": 1}]
        with pytest.raises(ShareError, match="does not hold"):
            send(tmp_path / "out", [address], mine)
    assert len(intake.stored) == 1
