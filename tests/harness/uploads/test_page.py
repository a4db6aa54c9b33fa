"""A task's page loads from its own place, connects to the task's parties, and holds the task's own bytes."""

import hashlib
import json
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from fairshares.harness.errors import OptionError, ShareError
from fairshares.harness.uploads.page import (
    Site,
    Wording,
    content_policy,
    page_files,
    parse_site,
    read_wording,
)
from fairshares.harness.uploads.page_directory import write_page
from fairshares.harness.uploads.page_servers import page_server, upload_server
from fairshares.harness.uploads.task import URLS, Task
from tests.support.envelopes import made_task
from tests.support.page_sites import stand_in_build

SITE = Site("https://take-part.example.org/study/")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stand_in_build(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    base = made_task(tmp_path_factory.mktemp("task"))
    addresses = ("https://a.example/2027/", "https://b.example:8443/x;y/", "s3://bucket/")
    parties = [
        replace(party, name=f"</script>{i}\"'&", address=address)
        for i, (party, address) in enumerate(zip(base.parties, addresses, strict=True))
    ]
    return replace(base, parties=parties, admission=URLS)


class Page(HTMLParser):
    """A page's metadata, and the elements that load or hold code."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.meta: dict[str, str] = {}
        self.code: list[tuple[str, dict[str, str | None]]] = []
        self.inside = ""
        self.within: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.inside = tag
        assert not any(name.startswith("on") or name == "style" for name in given), "code in an attribute"
        if tag == "meta" and given.get("content") is not None:
            self.meta[str(given.get("name") or given.get("http-equiv"))] = str(given["content"])
        if tag in ("script", "style", "link", "iframe", "img", "object", "embed"):
            self.code.append((tag, given))

    def handle_data(self, data: str) -> None:
        if self.inside in ("script", "style") and data.strip():
            self.within.append(data)


def test_a_page_holds_its_task_and_loads_from_its_own_place(task: Task, built: Path) -> None:
    words = {"en": Wording(title='<b>&"', groups={"a": "</title>"})}
    files = page_files(task, words, built)
    page = Page(files["index.html"].decode())
    assert page.meta["fairshares-task"].encode() == task.text
    assert json.loads(page.meta["fairshares-wording"]) == {
        "en": {"title": '<b>&"', "groups": {"a": "</title>"}}
    }
    policy = page.meta["Content-Security-Policy"]
    assert policy == content_policy(task)
    assert "connect-src https://a.example/2027/ https://b.example:8443/x%3By/;" in policy
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy and "*" not in policy
    assert [(tag, given.get("src") or given.get("href")) for tag, given in page.code] == [
        ("link", "page.css"),
        ("script", "page.js"),
    ]
    assert all(str(given["integrity"]).startswith("sha384-") for _, given in page.code)
    assert page.within == []
    assert all("integrity" not in given for _, given in Page(files["from-file.html"].decode()).code)
    assert page_files(task, words, built) == files


def test_a_task_without_web_servers_connects_nowhere(task: Task) -> None:
    nowhere = replace(task, parties=[replace(party, address="") for party in task.parties])
    assert "connect-src 'none';" in content_policy(nowhere)


def test_sums_are_those_of_the_files(task: Task, built: Path, tmp_path: Path) -> None:
    files = page_files(task, {}, built)
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    command = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert hashlib.sha256(files["task.json"]).hexdigest() == task.name
    assert len(files["SHA256SUMS"].splitlines()) == len(files) - 1


def test_a_script_that_is_not_built_is_asked_for_in_one_sentence(task: Task, tmp_path: Path) -> None:
    with pytest.raises(ShareError, match="npm ci && npm run build") as raised:
        page_files(task, {}, tmp_path)
    assert str(raised.value).count(". ") == 0


def test_an_open_page_has_to_be_meant(task: Task, built: Path, tmp_path: Path) -> None:
    of_anyone = replace(task, admission="anyone")
    place = tmp_path / "page"
    with pytest.raises(OptionError, match="anybody who reaches the page could take part"):
        write_page(of_anyone, place, SITE, wording=None, is_open=False, built=built)
    assert not place.exists()
    parties = [replace(party, address="https://a.example/2027/") for party in task.parties]
    of_anyone = replace(of_anyone, parties=parties)
    write_page(of_anyone, place, SITE, wording=None, is_open=True, built=built)
    assert {path.name for path in (place / "nginx").iterdir()} == {
        "page.conf",
        *(f"party-{i}.conf" for i in range(3)),
    }
    with pytest.raises(ShareError, match="is there; name a new directory"):
        write_page(of_anyone, place, SITE, wording=None, is_open=True, built=built)


@pytest.mark.parametrize(
    "text",
    ["http://a.example/", "https://a.example", "https://A.example/", "https://a.example/?x/", "https://a b/"],
)
def test_sites_that_are_none(text: str) -> None:
    with pytest.raises(OptionError, match="where the page is served"):
        parse_site(text, "site")


def test_a_sites_parts() -> None:
    site = parse_site("https://a.example:8443/x/", "site")
    assert (site.origin, site.host, site.port, site.path) == (
        "https://a.example:8443",
        "a.example",
        8443,
        "/x/",
    )


@pytest.mark.parametrize(
    ("wording", "fault"),
    [
        ({"fr": {}}, "languages de and en"),
        ({"en": {"groups": {"c": "x"}}}, "no group 'c'"),
        ({"en": {"labels": {"yes": "x"}}}, "no label 'yes'"),
        ({"en": {"titel": "x"}}, "titel"),
        ({"en": {"title": 1}}, "title"),
    ],
)
def test_wordings_that_are_none(task: Task, tmp_path: Path, wording: object, fault: str) -> None:
    file = tmp_path / "wording.json"
    file.write_text(json.dumps(wording))
    with pytest.raises(ShareError, match=fault):
        read_wording(file, task.domain)


def test_addresses_that_nginx_would_take_otherwise(task: Task) -> None:
    assert upload_server(task, 2, SITE) is None  # an object store's
    with pytest.raises(ShareError, match="has signs that nginx would take otherwise"):
        upload_server(task, 1, SITE)
    assert "frame-ancestors 'none'" in page_server(task, SITE)
