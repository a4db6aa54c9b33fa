"""One-time links: what they carry, what each party is told, and how they are revoked and counted."""

import csv
import hashlib
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from fairshares.harness.errors import OptionError, ShareError
from fairshares.harness.uploads.invitations import addresses_in, invite, read_invitations, token
from fairshares.harness.uploads.page import Site
from fairshares.harness.uploads.sending import addresses_for
from fairshares.harness.uploads.task import URLS, Task
from tests.support.envelopes import made_task

SITE = Site("https://take-part.example.org/")


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    base = made_task(tmp_path_factory.mktemp("task"))
    parties = [replace(party, address=f"https://p{i}.example/2027/") for i, party in enumerate(base.parties)]
    return replace(base, parties=parties, admission=URLS)


def links(directory: Path) -> dict[int, str]:
    with (directory / "links.csv").open(newline="") as file:
        return {int(row["number"]): row["link"] for row in csv.DictReader(file)}


def tokens(directory: Path, party: int) -> list[str]:
    return (directory / f"party-{party}.invited").read_text().split()


def test_a_token_is_a_digest_of_secret_and_party(task: Task) -> None:
    secret = bytes(range(16))
    expected = hashlib.sha256(b"fairshares:invitation:1\n" + task.digest + secret + b"\x02").hexdigest()
    assert token(task, secret, 2) == expected
    assert len({token(task, secret, party) for party in range(3)}) == 3


def test_links_are_made_added_and_revoked(task: Task, tmp_path: Path) -> None:
    made = invite(task, tmp_path, SITE, 3, [])
    first = links(tmp_path)
    assert [*first] == [1, 2, 3] and len(set(first.values())) == 3
    for party in range(3):
        expected = sorted(addresses_in(link, task)[party] for link in first.values())
        assert [f"https://p{party}.example/2027/{name}.share" for name in tokens(tmp_path, party)] == expected
    again = invite(task, tmp_path, None, 2, [2])
    assert again.made[:1] == made.made[:1] and len(again.valid) == 4
    second = links(tmp_path)
    assert [*second] == [1, 3, 4, 5] and {second[1], second[3]} == {first[1], first[3]}
    revoked = addresses_in(first[2], task)[0]
    assert revoked.rpartition("/")[2].removesuffix(".share") not in tokens(tmp_path, 0)
    assert read_invitations(tmp_path, task) == again
    assert invite(task, tmp_path, None, 0, [2]).made == again.made  # once more changes nothing


def test_only_their_owner_reads_links(task: Task, tmp_path: Path) -> None:
    invite(task, tmp_path, SITE, 1, [])
    for file in tmp_path.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_partys_list_says_nothing_of_links_nor_of_other_parties(task: Task, tmp_path: Path) -> None:
    invite(task, tmp_path, SITE, 5, [])
    lists = [set(tokens(tmp_path, party)) for party in range(3)]
    assert not lists[0] & lists[1] and not lists[1] & lists[2] and not lists[0] & lists[2]
    assert tokens(tmp_path, 0) == sorted(tokens(tmp_path, 0)), "the order would tell which link is whose"


def test_what_is_refused(task: Task, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="for no one-time links: it says anyone"):
        invite(replace(task, admission="anyone"), tmp_path, SITE, 1, [])
    with pytest.raises(OptionError, match="where the page is served"):
        invite(task, tmp_path, None, 1, [])
    no_server = [replace(task.parties[0], address="s3://bucket/"), *task.parties[1:]]
    with pytest.raises(OptionError, match="has no address of https"):
        invite(replace(task, parties=no_server), tmp_path, SITE, 1, [])
    invite(task, tmp_path, SITE, 1, [])
    with pytest.raises(OptionError, match="There is no invitation 7"):
        invite(task, tmp_path, None, 0, [7])
    with pytest.raises(ShareError, match="is of task"):
        invite(replace(task, until="9999-12-30"), tmp_path, None, 1, [])
    with pytest.raises(ShareError, match="name the directory that"):
        read_invitations(tmp_path / "elsewhere", task)


def test_the_command_sends_by_a_link(task: Task, tmp_path: Path) -> None:
    invite(task, tmp_path, SITE, 1, [])
    (link,) = links(tmp_path).values()
    addresses = addresses_for(task, link, None)
    assert addresses == addresses_in(link, task) and all(name.endswith(".share") for name in addresses)
    with pytest.raises(OptionError, match="no whole link"):
        addresses_for(task, link[:-1], None)
    with pytest.raises(OptionError, match="The link is for task"):
        addresses_for(replace(task, until="9999-12-30"), link, None)
