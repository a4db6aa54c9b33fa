"""The cache is used only where nobody else can change it, and only as it was made."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fairshares.harness.engines.mpspdz.cache import check_entry, is_intact, keep, trusted_place
from fairshares.harness.errors import CompileError
from fairshares.harness.system.files import scratch_directory


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory above the cache's own, which is not there yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "above" / "cache"))
    return tmp_path / "above"


def put(content: bytes) -> Path:
    """Keep an entry, unless it is there; return its path."""
    place = trusted_place("things")
    entry = place / "entry"
    with scratch_directory(place) as made:
        (made / "Programs").mkdir()
        (made / "Programs" / "tape").write_bytes(content)
        (made / "Programs" / "Source").symlink_to("/somewhere")
        keep(made, entry)
    assert [path.name for path in place.iterdir()] == ["entry"]
    return entry


def test_directories_are_made_for_their_owner_alone_whatever_the_umask_is(base: Path) -> None:
    before = os.umask(0o002)
    try:
        place = trusted_place("things")
    finally:
        os.umask(before)
    for directory in (place, place.parent, base / "cache", base):
        assert directory.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
@pytest.mark.parametrize("where", ["above", "above/cache", "above/cache/fairshares"])
def test_a_cache_below_a_directory_that_others_write_is_refused(where: str, mode: int, base: Path) -> None:
    """Whoever writes there can put another `cache` in the place of this one."""
    trusted_place("things")
    writable = base.parent / where
    writable.chmod(mode)
    with pytest.raises(CompileError, match=f"can write to {writable}, so others could.*XDG_CACHE_HOME"):
        trusted_place("things")
    writable.chmod(0o755)
    trusted_place("things")


def test_a_sticky_directory_above_is_as_good_as_one_of_its_owner(base: Path) -> None:
    trusted_place("things")
    base.chmod(0o1777)
    trusted_place("things")
    trusted_place("things").chmod(0o1777)
    with pytest.raises(CompileError, match="can write to"):
        trusted_place("things")


def test_another_users_directories_and_links_are_refused(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trusted_place("things")
    real = Path.lstat

    def of_another(name: str) -> Callable[[Path], os.stat_result]:
        def lstat(path: Path) -> os.stat_result:
            status = real(path)
            return os.stat_result((*status[:4], 4711, *status[5:])) if path.name == name else status

        return lstat

    for name in ("above", "cache", "things"):
        monkeypatch.setattr(Path, "lstat", of_another(name))
        with pytest.raises(CompileError, match=f"/{name} belongs to another user"):
            trusted_place("things")
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(base / "link"))
    (base / "link").symlink_to("cache")
    monkeypatch.setattr(Path, "lstat", of_another("link"))
    with pytest.raises(CompileError, match="link is a link of another user"):
        trusted_place("things")


def test_a_link_on_the_way_is_followed_once(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path that is returned has no link, which somebody could change later."""
    place = trusted_place("things")
    (base / "link").symlink_to(Path("..", "above", "cache"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(base / "link"))
    assert trusted_place("things") == place
    (base / "open").mkdir(0o700)
    (base / "open").chmod(0o777)
    (base / "open" / "link").symlink_to(base / "cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(base / "open" / "link"))
    with pytest.raises(CompileError, match=f"can write to {base / 'open'},"):
        trusted_place("things")


def damage_content(entry: Path) -> None:
    (entry / "Programs" / "tape").write_bytes(b"tapf")


def damage_name(entry: Path) -> None:
    (entry / "Programs" / "tape").rename(entry / "Programs" / "tapes")


def add_file(entry: Path) -> None:
    (entry / "Programs" / "more").touch()


def change_link(entry: Path) -> None:
    (entry / "Programs" / "Source").unlink()
    (entry / "Programs" / "Source").symlink_to("/elsewhere")


def put_pipe(entry: Path) -> None:
    (entry / "Programs" / "tape").unlink()
    os.mkfifo(entry / "Programs" / "tape")


def put_link(entry: Path) -> None:
    (entry / "Programs" / "tape").unlink()
    (entry / "other").write_bytes(b"tape")
    (entry / "Programs" / "tape").symlink_to(entry / "other")


def lose_digest(entry: Path) -> None:
    (entry / "sha256").unlink()


def put_file(entry: Path) -> None:
    entry.rename(entry.with_name("moved"))
    entry.touch()
    (entry.with_name("moved") / "sha256").unlink()
    for path in sorted(entry.with_name("moved").rglob("*"), reverse=True):
        path.unlink() if path.is_symlink() or path.is_file() else path.rmdir()
    entry.with_name("moved").rmdir()


DAMAGES = (damage_content, damage_name, add_file, change_link, put_pipe, put_link, lose_digest, put_file)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_made_again_and_a_whole_one_stays(
    damage: Callable[[Path], None], base: Path
) -> None:
    entry = put(b"tape")
    assert is_intact(entry) and base in entry.parents
    put(b"another process was slower")
    assert (entry / "Programs" / "tape").read_bytes() == b"tape"
    damage(entry)
    assert not is_intact(entry)
    put(b"made again")
    assert is_intact(entry) and (entry / "Programs" / "tape").read_bytes() == b"made again"


def test_an_entry_that_others_write_is_refused(base: Path) -> None:
    entry = put(b"tape")
    assert base in entry.parents
    check_entry(entry)
    entry.chmod(0o720)
    with pytest.raises(CompileError, match=f"can write to {entry}, so others could"):
        check_entry(entry)
