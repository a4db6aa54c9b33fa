"""Scratch directories, locks, and files that only their owner can change.

Locks tell which scratch directories killed processes left.
"""

import errno
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from harness.system.signals import uninterrupted

PREFIX = ".fairshares-partial-"
_MOST_LINKS = 40  # that a path leads through, as in Linux


@contextmanager
def scratch_directory(parent: Path) -> Iterator[Path]:
    """Yield a new directory below `parent` that only its owner reads; remove it, unless it was renamed.

    Guarantees: it is gone afterwards, also after an interrupt. The next call removes a killed process's.
    [test: tests/harness/system/test_files.py]
    """
    for leftover in parent.glob(f"{PREFIX}*"):
        remove_unless_held(leftover)
    lock = None
    while lock is None:
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        with suppress(FileNotFoundError):  # somebody took it for a leftover in between
            lock = hold(path)
    try:
        yield path
    finally:
        with uninterrupted():
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)


def hold(directory: Path) -> int:
    """Keep `remove_unless_held` off a directory until the returned descriptor is closed.

    Several may hold it. Raises FileNotFoundError if it was removed first.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    _lock(descriptor, fcntl.LOCK_SH)
    if not _is_still(directory, descriptor):
        os.close(descriptor)
        raise FileNotFoundError(directory)
    return descriptor


def remove_unless_held(directory: Path) -> None:
    """Remove this user's scratch directory if certainly no process holds it."""
    with suppress(OSError), _opened(directory, os.O_NOFOLLOW) as descriptor:  # it may be gone meanwhile
        ours = os.fstat(descriptor).st_uid == os.geteuid()
        if ours and _lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB) and _is_still(directory, descriptor):
            shutil.rmtree(directory, ignore_errors=True)


def held_alone(directory: Path) -> int | None:
    """Return a descriptor that one process at a time gets for a directory, else None."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    if _lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):
        return descriptor
    os.close(descriptor)
    return None


@contextmanager
def in_turn(directory: Path) -> Iterator[None]:
    """Run the block while no other process is in one for this directory."""
    with _opened(directory) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


@contextmanager
def _opened(directory: Path, flags: int = 0) -> Iterator[int]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_still(directory: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(directory.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _lock(descriptor: int, operation: int) -> bool:
    try:
        fcntl.flock(descriptor, operation)
    except OSError:
        return False
    return True


def create_file(path: Path, *parts: bytes | Iterable[bytes]) -> None:
    """Write a new file that only its owner reads, through to the disk, or raise OSError."""
    append(path, 0, *parts, flags=os.O_EXCL)


def append(path: Path, at: int, *parts: bytes | Iterable[bytes], flags: int = 0) -> None:
    """Replace all but the first `at` bytes of a file, new or not, through to the disk."""
    with os.fdopen(os.open(path, os.O_CREAT | os.O_NOFOLLOW | os.O_WRONLY | flags, 0o600), "wb") as file:
        file.truncate(at)
        file.seek(at)
        for part in parts:
            file.writelines([part] if isinstance(part, bytes) else part)
        file.flush()
        os.fsync(file.fileno())


def sync(directory: Path) -> None:
    """Write a directory's entries to the disk."""
    with _opened(directory) as descriptor:
        os.fsync(descriptor)


def open_regular(path: Path, *, links: bool = False) -> BinaryIO:
    """Open a file that others may have put there for reading, without waiting.

    A pipe could keep its reader waiting forever, a device never ends or changes when it is opened, and a link
    in a directory into which others write may name any file of its reader's.

    Args:
        path: The file.
        links: Whether the last part of the path may be a link. A user who names a file may name a link.
    Raises:
        OSError: It is missing, or no regular file.
    [test: tests/harness/system/test_files.py]
    """
    status = path.stat() if links else path.lstat()
    if stat.S_ISREG(status.st_mode):  # asked first, as opening a device may change it
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | (0 if links else os.O_NOFOLLOW)
        descriptor = os.open(path, flags)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return os.fdopen(descriptor, "rb")
        os.close(descriptor)
    reason = (
        "it is no regular file" if links else "it is no file, or a link to one; put the file itself there"
    )
    raise OSError(errno.EINVAL, reason, os.fspath(path))


def read_bounded(path: Path, most: int, *, links: bool = True) -> bytes:
    """Return the content of a regular file of at most `most` bytes.

    Args:
        path: The file, opened as by `open_regular`.
        most: The greatest number of bytes.
        links: As in `open_regular`.
    Raises:
        OSError: As `open_regular`, or EFBIG if the file is larger.
    [test: tests/harness/system/test_files.py]
    """
    with open_regular(path, links=links) as file:
        content = file.read(most + 1)
    if len(content) > most:
        size = f"{most >> 20} MiB" if most >= 1 << 20 else f"{most >> 10} KiB"
        raise OSError(errno.EFBIG, f"it is larger than {size}", os.fspath(path))
    return content


def write_whole(path: Path, *parts: bytes | Iterable[bytes]) -> None:
    """Write or replace a file that only its owner reads, as a whole."""
    with scratch_directory(path.parent) as partial:
        create_file(partial / path.name, *parts)
        (partial / path.name).rename(path)


def writable_by_others(directory: Path) -> str | None:
    """Return how others than this user could change a directory, if they can."""
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return f"{directory} is not a directory of its own"
    if status.st_uid != os.geteuid():
        return f"{directory} belongs to another user"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"Other users can write to {directory}"
    return None


def replaceable_by_others(directory: Path) -> Path | str:
    """Follow a path to this user's directory; return it without links, or how others could change it.

    Every directory on the way, from `/` on, has to belong to this user or to root, and be writable by its
    owner alone, as sshd has it for keys. A sticky directory, such as `/tmp`, may be writable by all, as only
    their owners can rename the links and directories in it. So each link on the way is this user's or
    root's, too. Whoever uses the returned path follows no link that was not checked.

    Args:
        directory: An absolute path of an existing directory.
    Returns:
        The path, or a sentence without its end.
    Raises:
        OSError: It cannot be followed.
    [test: tests/harness/system/test_files.py]
    """
    owners, links = (os.geteuid(), 0), 0
    place, left = Path("/"), list(directory.absolute().parts[1:])
    while True:
        status = place.lstat()
        if not stat.S_ISDIR(status.st_mode):
            return f"{place} is not a directory of its own"
        if status.st_uid not in owners:
            return f"{place} belongs to another user"
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not (left and status.st_mode & stat.S_ISVTX):
            return f"Other users can write to {place}"
        if not left:
            return f"{place} belongs to another user" if status.st_uid != os.geteuid() else place
        name = left.pop(0)
        if name == "..":
            place = place.parent
            continue
        link = (place / name).lstat()
        if not stat.S_ISLNK(link.st_mode):
            place = place / name
            continue
        links += 1
        if link.st_uid not in owners or links > _MOST_LINKS:
            return f"{place / name} is a link of another user, or leads through too many"
        target = (place / name).readlink()
        left = [*(target.parts[1:] if target.is_absolute() else target.parts), *left]
        place = Path("/") if target.is_absolute() else place


def changed_by_others(file: Path) -> bool:
    """Return whether others than this user can change or replace a file."""
    status = file.stat()
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return True
    return writable_by_others(file.parent) is not None
