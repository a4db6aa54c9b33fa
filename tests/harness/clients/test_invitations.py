"""Invitations on disk: whose directory, which names, and what is there when the run is over."""

import stat
from pathlib import Path

import pytest

from harness.clients.invitations import check_directory, invitations, read_invitation
from harness.clients.session import Server
from harness.errors import OptionError, WriteError
from harness.system import files as scratch

PAIRS = [("certificate 0", "key 0"), ("certificate 1", "key 1")]
TERMS = {"epsilon": "1"}
SERVERS = [Server("127.0.0.1", 12000, "certificate")]


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_invitations_are_there_while_parties_run_and_private(tmp_path: Path) -> None:
    with invitations(PAIRS, TERMS, tmp_path, SERVERS):
        for k, (certificate, key) in enumerate(PAIRS):
            path = tmp_path / f"client-{k}.json"
            found = read_invitation(path)
            assert (found.client, found.certificate, found.key) == (k, certificate, key)
            assert (found.servers, found.terms) == (tuple(SERVERS), TERMS)
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names(tmp_path) == set()


@pytest.mark.parametrize("other", ["file", "link"])
@pytest.mark.parametrize("name", ["client-0.json", "client-1.json"])
def test_a_file_of_an_invitations_name_is_left_alone(tmp_path: Path, name: str, other: str) -> None:
    """Seen before the parties start, and by whoever writes: a link would lead the keys elsewhere."""
    directory, elsewhere = tmp_path / "for-clients", tmp_path / "elsewhere"
    directory.mkdir(mode=0o700)
    if other == "file":
        (directory / name).write_text("mine")
    else:
        (directory / name).symlink_to(elsewhere)
    with pytest.raises(OptionError, match=f"{name} exists already; name another --invite, or remove it"):
        check_directory(directory, 2)
    with (
        pytest.raises(WriteError, match=r"Cannot write invitations to .*: File exists"),
        invitations(PAIRS, TERMS, directory, SERVERS),
    ):
        pass
    assert names(directory) == {name} and not elsewhere.exists()
    assert other == "link" or (directory / name).read_text() == "mine"


def test_names_of_more_clients_than_are_invited_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "client-2.json").write_text("mine")
    tmp_path.chmod(0o700)
    check_directory(tmp_path, 2)


def test_what_replaced_an_invitation_is_left_alone(tmp_path: Path) -> None:
    """A client took the first away, and somebody put another file in place of the second."""
    first, second = (tmp_path / f"client-{k}.json" for k in (0, 1))
    with invitations(PAIRS, TERMS, tmp_path, SERVERS):
        first.rename(tmp_path / "taken.json")
        second.unlink()
        second.write_text("mine")
    assert names(tmp_path) == {"taken.json", "client-1.json"} and second.read_text() == "mine"


def test_a_failed_run_leaves_none(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), invitations(PAIRS, TERMS, tmp_path, SERVERS):
        raise KeyboardInterrupt
    assert names(tmp_path) == set()


def test_one_that_cannot_be_written_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def create(path: Path, *parts: bytes) -> None:
        if path.name == "client-1.json":
            raise OSError(28, "No space left on device")
        real(path, *parts)

    real = scratch.create_file
    monkeypatch.setattr("harness.clients.invitations.create_file", create)
    with (
        pytest.raises(WriteError, match="No space left on device"),
        invitations(PAIRS, TERMS, tmp_path, SERVERS),
    ):
        pass
    assert names(tmp_path) == set()


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_a_directory_that_others_can_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(OptionError, match=r"^Other users can write to .* name another --invite, or chmod"):
        check_directory(tmp_path, 1)


def test_so_is_a_link_to_one(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "own")
    with pytest.raises(OptionError, match="is not a directory of its own"):
        check_directory(tmp_path / "link", 1)
