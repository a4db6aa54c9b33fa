"""The servers of a page and of its parties' uploads, as Debian's nginx runs the project's configurations."""

import ssl
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fairshares.harness.uploads.invitations import addresses_in
from fairshares.harness.uploads.task import ANYONE, CERTIFICATE
from tests.support.command import refused, succeed
from tests.support.envelopes import upload
from tests.support.page_sites import PageSite, serving_page
from tests.support.servers import HOST, certify

OTHER = "https://other.example"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("built")
    for name in ("page.js", "page.css", "LICENSES.txt"):
        (place / name).write_text(f"{name}\n" * 1000)
    return place


@pytest.fixture(scope="module")
def page(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageSite]:
    with serving_page(tmp_path_factory.mktemp("page"), built, links=9) as site:
        yield site


def ask(
    page: PageSite,
    method: str,
    url: str,
    body: bytes | None = None,
    *,
    certificate: Path | None = None,
    **headers: str,
) -> tuple[int, dict[str, str], bytes]:
    """Return an answer's status, headers and body. Args: certificate: the client's, beside its key."""
    parts = urlsplit(url)
    context = ssl.create_default_context(cafile=str(page.place / "server.pem"))
    if certificate is not None:
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    connection = HTTPSConnection(HOST, parts.port, timeout=600, context=context)
    try:
        connection.request(
            method, parts.path, body, {name.replace("_", "-"): v for name, v in headers.items()}
        )
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def url_of(page: PageSite, number: int, party: int = 0) -> str:
    return addresses_in(page.link(number), page.task)[party]


def test_a_link_stores_one_upload(page: PageSite) -> None:
    body = bytes(page.task.envelope_bytes(0))
    url = url_of(page, 1)
    assert ask(page, "PUT", url, body)[0] == 201
    assert ask(page, "PUT", url, body[:-1] + b"x")[0] == 409
    (stored,) = [file for file in page.stored(0) if file.name in url]
    assert stored.read_bytes() == body
    assert ask(page, "PUT", url_of(page, 2, party=1), body)[0] == 201
    elsewhere = url_of(page, 3, party=1).rpartition("/")[2]  # another party's token
    assert ask(page, "PUT", f"{page.task.parties[0].address}{elsewhere}", body)[0] == 403
    assert ask(page, "PUT", f"{page.task.parties[0].address}{'0a' * 32}.share", body)[0] == 403


def test_a_revoked_link_stores_nothing(page: PageSite) -> None:
    page.revoke(4)
    assert ask(page, "PUT", url_of(page, 4), bytes(page.task.envelope_bytes(0)))[0] == 403
    said = succeed(
        "invite", "--task", _task(page), "--directory", str(page.place / "invited"), cwd=page.place
    )
    assert "8 links to" in said and "1 revoked" in said


def _task(page: PageSite) -> str:
    file = page.place / "task.json"
    file.write_bytes(page.task.text)
    return str(file)


def test_this_page_alone_may_send(page: PageSite) -> None:
    url = url_of(page, 5)
    status, headers, _ = ask(
        page, "OPTIONS", url, Origin=page.site.origin, Access_Control_Request_Method="PUT"
    )
    assert status == 204 and headers["access-control-allow-origin"] == page.site.origin
    assert headers["access-control-allow-methods"] == "PUT"
    assert headers["access-control-allow-headers"] == "Content-Type, If-None-Match"
    body = bytes(page.task.envelope_bytes(0))
    for origin in (OTHER, "null", f"{page.site.origin}.example"):
        assert ask(page, "OPTIONS", url, Origin=origin, Access_Control_Request_Method="PUT")[0] == 403
        assert ask(page, "PUT", url, body, Origin=origin)[0] == 403
    status, headers, _ = ask(page, "PUT", url, body[1:], Origin=page.site.origin)
    assert status == 411 and headers["access-control-allow-origin"] == page.site.origin
    assert ask(page, "PUT", url, body, Origin=page.site.origin)[0] == 201


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "MKCOL", "MOVE", "POST"])
def test_nothing_is_read_listed_or_removed(page: PageSite, method: str) -> None:
    url = url_of(page, 6)
    ask(page, "PUT", url, bytes(page.task.envelope_bytes(0)))
    address = page.task.parties[0].address
    token = url.rpartition("/")[2].removesuffix(".share")
    assert ask(page, method, url)[0] == 405
    for path in (address, f"{address}../invited/{token}", f"{address}../partial/"):
        assert ask(page, method, path)[0] in (400, 404)
    assert any(file.name in url for file in page.stored(0))


def test_the_page_is_served_as_its_policy_says(page: PageSite) -> None:
    for name, kind in (("", "text/html"), ("index.html", "text/html"), ("page.js", "text/javascript")):
        status, headers, body = ask(page, "GET", f"{page.site.address}{name}", Accept_Encoding="gzip")
        assert status == 200 and headers["content-type"] == kind
        policy = headers["content-security-policy"]
        assert policy.endswith("; frame-ancestors 'none'") and "connect-src https://127.0.0.1" in policy
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
        assert "set-cookie" not in headers
    assert headers["content-encoding"] == "gzip" and len(body) < 1000
    for name in ("../", "nginx/page.conf", "from-file.html", "x"):
        assert ask(page, "GET", f"{page.site.address}{name}")[0] in (403, 404)
    assert ask(page, "PUT", f"{page.site.address}page.js", b"x")[0] in (403, 405)


def test_an_open_page_stores_each_request_under_a_new_name(built: Path, tmp_path: Path) -> None:
    with serving_page(tmp_path, built, admission=ANYONE) as page:
        body = bytes(page.task.envelope_bytes(0))
        for _ in range(2):
            assert ask(page, "PUT", f"{page.task.parties[0].address}{'0a' * 32}.share", body)[0] == 201
        assert len(page.stored(0)) == 2


def test_browsers_that_show_a_certificate(built: Path, tmp_path: Path) -> None:
    """Only these upload; the question that a browser asks beforehand comes without."""
    (tmp_path / "mine").mkdir()
    mine = certify(tmp_path / "mine")
    with serving_page(tmp_path / "page", built, admission=CERTIFICATE, trusted=mine) as page:
        url = f"{page.task.parties[0].address}{'0a' * 32}.share"
        body = bytes(page.task.envelope_bytes(0))
        status, headers, _ = ask(page, "OPTIONS", url, Origin=page.site.origin)
        assert status == 204 and headers["access-control-allow-credentials"] == "true"
        assert ask(page, "PUT", url, body, Origin=page.site.origin)[0] == 403
        assert ask(page, "PUT", url, body, certificate=mine, Origin=page.site.origin)[0] == 201


def test_the_command_sends_by_a_link_and_the_status_counts_it(
    page: PageSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(page.place / "server.pem"))
    tasks = ("--task", _task(page))
    (tmp_path / "my.csv").write_text("client_id,group,label\nm,a,0\n")
    sent = ("--records", "my.csv", "--out", "sent", "--to", page.link(7))
    assert succeed("share", *tasks, *sent, cwd=tmp_path).count("1 stored (HTTP 201)") == 3
    name = upload(page.task, [1, 0, 0, 0], tmp_path / "others")
    body = (tmp_path / "others" / "party-0" / f"{name}.share").read_bytes()
    assert ask(page, "PUT", url_of(page, 8), body)[0] == 201
    for party in range(3):
        own = ("--party", str(party), "--keys", str(page.place / f"keys-{party}"))
        shares = str(page.place / f"party-{party}" / "uploads" / "2027")
        out = f"lists/party-{party}.uploads"
        succeed("uploads", *tasks, *own, "--shares", shares, "--out", out, cwd=tmp_path)
    invited = ("--invitations", str(page.place / "invited"))
    said = succeed("task", tasks[1], "--status", "--uploads", "lists", *invited, cwd=tmp_path)
    assert f"Invited: {len(page.invited.valid) if page.invited else 0} links, beside" in said
    assert "Stored at all parties: 1 upload. At some parties alone: 1 upload." in said
    assert name not in said
    assert "give both, or neither" in refused("task", tasks[1], "--uploads", "lists", cwd=tmp_path)
    assert "parties' lists" in refused("task", tasks[1], "--status", cwd=tmp_path)
    assert "give both, or neither" in refused("task", tasks[1], "--open-link", cwd=tmp_path)
    assert "Say where the page" in refused("task", tasks[1], "--page", "new", cwd=tmp_path)
