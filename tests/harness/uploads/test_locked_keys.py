"""A party's keys behind a passphrase: all of them come back with it, and nothing without it."""

import getpass
import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fairshares.harness.cli.passphrase import asked_passphrase
from fairshares.harness.errors import OptionError, ShareError
from fairshares.harness.system.files import create_file
from fairshares.harness.uploads import locked_keys
from fairshares.harness.uploads.keys import secrets_in, signing_key
from fairshares.harness.uploads.locked_keys import is_in_memory, lock, unlock
from tests.support.command import call, refused, succeed

SECRET = "correct horse battery staple"


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with two sealing keys; scrypt is cheap, which one test below does without."""
    monkeypatch.setattr(locked_keys, "_COST", 1 << 4)
    directory = tmp_path / "keys"
    for kind in ("hybrid", "x25519"):
        succeed(
            "keys", "--directory", str(directory), "--until", "2999-01-01", "--sealing", kind, cwd=tmp_path
        )
    return directory


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have a unit's credential be the passphrase; return its file."""
    file = tmp_path / "credentials" / "fairshares-passphrase"
    file.parent.mkdir()
    file.write_text(f"{SECRET}\n")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(file.parent))
    return file


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_keys_come_back_by_the_commands_of_the_page(keys: Path, known: Path, tmp_path: Path) -> None:
    before = contents(keys)
    succeed("keys", "--directory", "keys", "--lock", "copy/keys.locked", cwd=tmp_path)
    locked = tmp_path / "copy" / "keys.locked"
    assert contents(keys) == before and locked.stat().st_mode & 0o777 == 0o600
    text = locked.read_bytes()
    secrets = [*secrets_in(keys).values(), (keys / "signing.pem").read_bytes()]
    assert not any(secret in text or secret.hex().encode() in text for secret in secrets)
    done = call("keys", "--directory", "again", "--unlock", "copy/keys.locked", cwd=tmp_path)
    assert done.returncode == 0 and "2 sealing keys are in again, on a disk." in done.stderr
    assert "Without these keys no upload of any party can be counted" in done.stdout.replace("\n", " ")
    again = tmp_path / "again"
    assert contents(again) == before and secrets_in(again) == secrets_in(keys)
    assert signing_key(again).private_numbers() == signing_key(keys).private_numbers()
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in again.iterdir())
    known.write_text("another passphrase")
    said = refused("keys", "--directory", "third", "--unlock", "copy/keys.locked", cwd=tmp_path)
    assert (
        "The passphrase is not the one that locked copy/keys.locked" in said and "nothing was written" in said
    )
    assert "nothing replaces locked keys" in refused(
        "keys", "--directory", "keys", "--lock", "copy/keys.locked", cwd=tmp_path
    )
    both = ("--lock", "a", "--unlock", "b")
    assert "give one of them" in refused("keys", "--directory", "keys", *both, cwd=tmp_path)


def test_a_guess_costs_what_the_page_says(tmp_path: Path) -> None:
    """Known answer of scrypt at the stated cost, by Python's own."""
    import hashlib

    made = hashlib.scrypt(SECRET.encode(), salt=b"s" * 16, n=1 << 17, r=8, p=1, dklen=32, maxmem=1 << 28)
    assert locked_keys._key_of(SECRET, b"s" * 16) == made


def flip(text: str) -> str:
    fields = json.loads(text)
    fields["sealed"] = fields["sealed"][:-1] + ("0" if fields["sealed"][-1] != "0" else "1")
    return json.dumps(fields)


def of_no_digits(text: str) -> str:
    return json.dumps({**json.loads(text), "salt": "x"})


def short_salt(text: str) -> str:
    return json.dumps({**json.loads(text), "salt": "00"})


def cut(text: str) -> str:
    return text[:100]


def later_schema(text: str) -> str:
    return json.dumps({**json.loads(text), "schema": 2})


@pytest.mark.parametrize("damage", [flip, of_no_digits, short_salt, cut, later_schema])
def test_a_damaged_file_unlocks_nothing(damage: Callable[[str], str], keys: Path, tmp_path: Path) -> None:
    locked, target = tmp_path / "locked", tmp_path / "target"
    lock(keys, locked, SECRET)
    locked.write_text(damage(locked.read_text()))
    with pytest.raises(ShareError):
        unlock(locked, target, SECRET)
    assert not target.exists()


def test_keys_that_are_there_stay_and_a_full_disk_leaves_none(
    keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked, target = tmp_path / "locked", tmp_path / "target"
    lock(keys, locked, SECRET)
    before = contents(keys)
    with pytest.raises(ShareError, match="has keys already"):
        unlock(locked, keys, SECRET)
    assert contents(keys) == before
    create = create_file
    left = [2]

    def full(path: Path, content: bytes) -> None:
        create(path, content)
        left[0] -= 1
        if not left[0]:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("fairshares.harness.uploads.locked_keys.create_file", full)
    with pytest.raises(ShareError, match="No space left on device"):
        unlock(locked, target, SECRET)
    assert [*target.iterdir()] == []


def test_what_is_no_key_is_never_written(keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though somebody who knows the passphrase made the file."""
    locked, target = tmp_path / "locked", tmp_path / "target"
    as_text = json.dumps

    def with_another(value: dict[str, str]) -> str:
        return as_text({**value, "../x": "00"} if "party.json" in value else value)

    monkeypatch.setattr(json, "dumps", with_another)
    lock(keys, locked, SECRET)
    with pytest.raises(ShareError, match="which is no key"):
        unlock(locked, target, SECRET)
    assert not target.exists() and not (tmp_path / "x").exists()


def test_a_short_passphrase_locks_nothing(keys: Path, tmp_path: Path) -> None:
    with pytest.raises(ShareError, match="choose one of 12 or more"):
        lock(keys, tmp_path / "locked", "short")
    assert not (tmp_path / "locked").exists()


class Terminal(io.StringIO):
    """A terminal, on which somebody types."""

    def isatty(self) -> bool:
        return True


class Pipe:
    """A pipe, which another program fills."""

    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)

    def isatty(self) -> bool:
        return False


def test_where_a_passphrase_comes_from(monkeypatch: pytest.MonkeyPatch, known: Path) -> None:
    assert asked_passphrase(twice=True) == SECRET
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", "x" * 5000)  # of which the system tells nothing
    with pytest.raises(OptionError, match=r"Cannot read x.*: File name too long"):
        asked_passphrase(twice=True)
    monkeypatch.delenv("CREDENTIALS_DIRECTORY")
    monkeypatch.setattr("sys.stdin", Pipe(b"from a pipe\nand more"))
    assert asked_passphrase(twice=True) == "from a pipe"
    for content, said in ((b"", "There is no passphrase"), (b"\xff", "no text in UTF-8")):
        monkeypatch.setattr("sys.stdin", Pipe(content))
        with pytest.raises(OptionError, match=said):
            asked_passphrase(twice=False)
    typed = ["first one", "second one", "first one", "first one"]
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr(getpass, "getpass", lambda _prompt: typed.pop(0))
    with pytest.raises(OptionError, match="differ"):
        asked_passphrase(twice=True)
    assert asked_passphrase(twice=True) == "first one" and typed == []


def test_memory_is_told_from_a_disk(tmp_path: Path) -> None:
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        pytest.skip("there is no file system in memory")
    assert is_in_memory(memory) and not is_in_memory(Path("/proc"))
