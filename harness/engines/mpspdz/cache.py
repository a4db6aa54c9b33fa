"""Files that are kept between runs: compiled programs, and the library that asks for certificates.

Each entry is a directory with a digest of its files. Whoever changed a program could leave out the noise, and
a damaged program makes every run fail after its charge. So only this user may be able to change the cache,
and an entry is used only if its files are as they were made.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from fairshares.harness.errors import CompileError
from fairshares.harness.system.files import in_turn, open_regular, scratch_directory
from fairshares.harness.system.places import directory_fault, followed

_DIGEST = "sha256"  # the file with the digest of all else in the entry
_CHUNK = 1 << 20


def kept_directory() -> Path:
    """Return the place of all that is kept, in `$XDG_CACHE_HOME` if absolute, else in `~/.cache`."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "fairshares"


def trusted_place(name: str) -> Path:
    """Make a directory in the cache, if need be; return its path without links.

    Guarantees: nobody but this user and root can change or replace it, nor any directory above it, nor a link
    on the way.
    [test: tests/harness/engines/test_cache.py]

    Raises:
        CompileError: Others can.
        OSError: The entry cannot be made.
    """
    directory = kept_directory() / name
    for missing in reversed([directory, *directory.parents]):
        if not missing.exists():
            missing.mkdir(mode=0o700, exist_ok=True)  # whatever the umask is
    way = followed(directory)
    reason = way.fault
    if reason is None:
        reason = directory_fault(way.end)
    if reason is not None:
        _refuse(reason)
    return way.end


def check_entry(entry: Path) -> None:
    """Raise CompileError where others could change a program of an entry."""
    if (reason := directory_fault(entry)) is not None:
        _refuse(reason)


def is_intact(entry: Path) -> bool:
    """Return whether an entry is there, with all its files as `keep` took them in."""
    try:
        with open_regular(entry / _DIGEST) as file:
            return file.read(_CHUNK).decode(errors="replace") == _digest_of(entry)
    except OSError:
        return False


def keep(made: Path, entry: Path) -> None:
    """Move a new directory into the cache, unless another process has kept the same meanwhile.

    A damaged entry that is in its place is removed. Raises OSError.
    """
    (made / _DIGEST).write_text(_digest_of(made))
    with in_turn(entry.parent):
        if is_intact(entry):
            return
        with scratch_directory(entry.parent) as old:
            if os.path.lexists(entry):
                entry.rename(old / entry.name)
            made.rename(entry)


def _refuse(reason: str) -> None:
    raise CompileError(
        f"{reason}, so others could replace compiled programs; take that right away (chmod go-w), or set "
        "XDG_CACHE_HOME to a directory that only you can change."
    )


def _digest_of(entry: Path) -> str:
    """Return a digest of the names, links and contents below a directory; OSError for what is no file."""
    digest = hashlib.sha256()
    for path in sorted(_below(entry)):
        if path == entry / _DIGEST:
            continue
        content = os.fsencode(path.readlink()) if path.is_symlink() else _sha256(path)
        name = os.fsencode(path.relative_to(entry))
        digest.update(f"{name.hex()}\0{content.hex()}\n".encode())
    return digest.hexdigest()


def _below(entry: Path) -> Iterator[Path]:
    """Yield all files and links below a directory; links are not followed."""
    for directory, directories, files in os.walk(entry):
        for name in files:
            yield Path(directory, name)
        for name in directories:
            if Path(directory, name).is_symlink():
                yield Path(directory, name)


def _sha256(path: Path) -> bytes:
    with open_regular(path) as file:
        digest = hashlib.sha256()
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.digest()
