"""Scratch directories, locks, and files that only their owner can change.

Locks tell which scratch directories killed processes left.
"""

import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import stat
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from fairshares.harness.errors import OptionError, WriteError, named
from fairshares.harness.system.places import way_fault
from fairshares.harness.system.signals import uninterrupted

PREFIX = ".fairshares-partial-"
OF_OTHERS = 0o077  # rights of others than a file's owner
TURN = ".fairshares-turn"  # the file in a directory that whoever is in turn there holds
_LONGEST_NAME = 255  # bytes of one name in a path, on the file systems of Linux and macOS
_SHOWN = 100  # characters of a path that is too long
_SILENCE_S = 1.0  # until it is said that another process's turn is waited for
_POLL_S = 0.05  # between attempts


def check_path(path: Path, field: str) -> None:
    """Raise OptionError if no file can have a path, whether or not one has; `field` is what its user gave."""
    as_path(path, field)
    try:
        os.lstat(path)
        reason = None
    except OSError as error:
        reason = error.strerror if error.errno == errno.ENAMETOOLONG else None
    # A directory that is not there yet hides the length of what is to be in it.
    if reason is None and any(len(os.fsencode(name)) > _LONGEST_NAME for name in path.parts):
        reason = os.strerror(errno.ENAMETOOLONG)
    if reason is not None:
        shown = str(path) if len(str(path)) <= _SHOWN else f"{str(path)[:_SHOWN]}…"
        raise OptionError(f"Cannot use {shown}: {reason}; name another by {named(field)}.")


def as_path(given: Path | str, field: str) -> Path:
    """Return a path, or raise OptionError if it has a character that no file's name has, such as a null.

    Where a file is too long or missing, reading it tells so. `field` is what its user gave.
    """
    path = Path(given)
    try:
        os.fsencode(path)
        is_name = "\0" not in str(path)
    except ValueError:
        is_name = False
    if not is_name:
        raise OptionError(
            f"Cannot use {str(path)!r}: no file's name has such a character; name another by {named(field)}."
        )
    return path


def is_directory(path: Path) -> bool:
    """Return whether a path is a directory; False where that cannot be told, as reading it tells why."""
    try:
        return path.is_dir()
    except OSError:
        return False


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


@contextmanager
def working_directory(preferred: Path) -> Iterator[Path]:
    """Yield a scratch directory for what is secret or run: below `preferred` if that is as safe as its own.

    Where others can rename what this user makes, one of them could put another directory in its place, with
    programs for this user to run. There, the scratch directory is below the temporary directory instead.

    Args:
        preferred: An existing directory, on the file system where the content will stay.
    Raises:
        WriteError: Others can rename what is in the temporary directory, too.
        OSError: The directory cannot be made.
    [test: tests/harness/system/test_working_directories.py]
    """
    place = preferred
    reason = way_fault(preferred)
    if reason is not None:
        place = Path(tempfile.gettempdir())
        of_temporary = way_fault(place)
        if of_temporary is not None:
            raise WriteError(
                f"{reason}, so others could replace what a run keeps there, and {of_temporary[0].lower()}"
                f"{of_temporary[1:]}; take these rights away (chmod go-w), or set TMPDIR to a directory that "
                "only you can change."
            )
    with scratch_directory(place) as made:
        yield made


def copy_into(made: Path, descriptor: int) -> None:
    """Copy files and directories into an open directory, each file as a whole, through to the disk.

    Guarantees: no link is followed that somebody put there, and no directory that another one took the place
    of.  [test: tests/harness/system/test_working_directories.py]

    Args:
        made: A directory that only this user changes.
        descriptor: The descriptor of the directory to copy to. If `made` has directories, only this user may
            change it.
    """
    for path in made.iterdir():
        if path.is_dir():
            os.mkdir(path.name, 0o700, dir_fd=descriptor)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
            inner = os.open(path.name, flags, dir_fd=descriptor)
            try:
                copy_into(path, inner)
            finally:
                os.close(inner)
            continue
        name = PREFIX + secrets.token_hex(8)
        mode = stat.S_IMODE(path.stat().st_mode)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW
        try:
            with (
                path.open("rb") as content,
                os.fdopen(os.open(name, flags, mode, dir_fd=descriptor), "wb") as file,
            ):
                shutil.copyfileobj(content, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path.name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
        except BaseException:
            with suppress(OSError):
                os.unlink(name, dir_fd=descriptor)
            raise


def remove_within(descriptor: int) -> None:
    """Remove all that is in an open directory, whatever its path leads to now."""
    for name in os.listdir(descriptor):
        if stat.S_ISDIR(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
            shutil.rmtree(name, ignore_errors=True, dir_fd=descriptor)
        else:
            os.unlink(name, dir_fd=descriptor)


def hold(directory: Path) -> int:
    """Keep `remove_unless_held` off a directory until the returned descriptor is closed.

    Several may hold it. Raises FileNotFoundError if it was removed first.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    _lock(descriptor, fcntl.LOCK_SH)
    if not is_still(directory, descriptor):
        os.close(descriptor)
        raise FileNotFoundError(directory)
    return descriptor


def remove_unless_held(directory: Path) -> None:
    """Remove this user's scratch directory if certainly no process holds it."""
    with suppress(OSError), _opened(directory, os.O_NOFOLLOW) as descriptor:  # it may be gone meanwhile
        ours = os.fstat(descriptor).st_uid == os.geteuid()
        if ours and _lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB) and is_still(directory, descriptor):
            shutil.rmtree(directory, ignore_errors=True)


def is_own_alone(status: os.stat_result) -> bool:
    """Return whether that is of a regular file of this user's, to which others have no right."""
    is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
    return is_own and not status.st_mode & OF_OTHERS


def held_alone(file: Path) -> int | None:
    """Return a descriptor that one process at a time gets for a file, made if need be, else None.

    Whoever can open a file for reading can hold its lock, for ever. So it has to be a file of this user's
    that no other can open.
    [test: tests/harness/hosts/test_work.py]

    Raises:
        PermissionError: Others can open it.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(file, flags, 0o600)
    if not is_own_alone(os.fstat(descriptor)):
        os.close(descriptor)
        raise PermissionError(errno.EPERM, "others can open it", os.fspath(file))
    if _lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):
        return descriptor
    os.close(descriptor)
    return None


@contextmanager
def in_turn(directory: Path) -> Iterator[int]:
    """Run the block while no other process of this user is in one for this directory.

    Whoever may read a directory can lock it, for ever. So a file in it is locked that no other user can open,
    and that is gone afterwards. While another process has it, a sentence says what is waited for.
    [test: tests/harness/system/test_turns.py]

    Args:
        directory: An existing directory, in which this user can make files.
    Yields:
        The descriptor of the file. The turn lasts until each process that inherited it has ended.
    Raises:
        PermissionError: Others can open the file, or it is another user's.
        OSError: The file cannot be made.
    """
    file = directory / TURN
    descriptor = _turn(file)
    said_at = time.monotonic() + _SILENCE_S
    said = False
    while descriptor is None:
        if not said and time.monotonic() >= said_at:
            said = True
            waiting = (
                f"Waiting for another process of yours to end, which holds {file}; if there is none, remove "
                "that file."
            )
            warnings.warn_explicit(waiting, UserWarning, __file__, 0)  # each time, unlike `warn`
        time.sleep(_POLL_S)
        descriptor = _turn(file)
    try:
        yield descriptor
    finally:
        with suppress(OSError):  # whoever has removed it meanwhile may
            file.unlink()
        os.close(descriptor)


def _turn(file: Path) -> int | None:
    """Return a descriptor of a held file that is still there, or None while another process holds it.

    The command of `web/` cannot lock a file. It holds one by its content, which is there from the first
    moment on.
    """
    try:
        descriptor = held_alone(file)
    except PermissionError:
        reason = f"{file} is another user's, or others can open it and hold it for ever, so it has to go"
        raise PermissionError(errno.EPERM, reason, os.fspath(file)) from None
    if descriptor is None:
        return None
    was_removed = not is_still(file, descriptor)  # by its last holder
    if was_removed or os.fstat(descriptor).st_size > 0:
        os.close(descriptor)
        return None
    return descriptor


@contextmanager
def _opened(directory: Path, flags: int = 0) -> Iterator[int]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def is_still(path: Path, descriptor: int) -> bool:
    """Return whether a path still leads to what was opened there."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _lock(descriptor: int, operation: int) -> bool:
    try:
        fcntl.flock(descriptor, operation)
    except OSError:
        return False
    return True


def create_file(path: Path, *parts: bytes | memoryview | Iterable[bytes]) -> None:
    """Write a new file that only its owner reads, through to the disk, or raise OSError."""
    append(path, 0, *parts, flags=os.O_EXCL)


def append(path: Path, at: int, *parts: bytes | memoryview | Iterable[bytes], flags: int = 0) -> None:
    """Replace all but the first `at` bytes of a file, new or not, through to the disk."""
    with os.fdopen(os.open(path, os.O_CREAT | os.O_NOFOLLOW | os.O_WRONLY | flags, 0o600), "wb") as file:
        file.truncate(at)
        file.seek(at)
        for part in parts:
            file.writelines([part] if isinstance(part, bytes | memoryview) else part)
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
        OSError: The file is missing, or no regular file.
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


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal digits. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def larger_than(most: int) -> str:
    """Return the reason to refuse what has more than `most` bytes, whole KiB or MiB."""
    return f"it is larger than {f'{most >> 20} MiB' if most >= 1 << 20 else f'{most >> 10} KiB'}"


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
        raise OSError(errno.EFBIG, larger_than(most), os.fspath(path))
    return content


def write_whole(path: Path, *parts: bytes | memoryview | Iterable[bytes], mode: int = 0o600) -> None:
    """Write or replace a file as a whole; only its owner reads it unless `mode` says otherwise."""
    with scratch_directory(path.parent) as partial:
        made = partial / path.name
        create_file(made, *parts)
        made.chmod(mode)
        made.rename(path)
