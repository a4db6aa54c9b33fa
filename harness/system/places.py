"""Places of a user's own, which no other user can change or replace.

A place is a directory and the way to it. The directory's fault is whose it is, or who may write into it. The
way's fault is whoever could rename a directory or a link on the way, or the directory's entries, and so put
something else there. Root is trusted. Faults are sentences without their ends.
"""

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_MOST_LINKS = 40  # links that a path leads through, as in Linux
_WRITABLE = stat.S_IWGRP | stat.S_IWOTH  # writable for others than the owner


def directory_fault(directory: Path) -> str | None:
    """Return how others than this user could change a directory itself, wherever it is, if they can.

    It has to be this user's, no link, and writable by its owner alone. Raises OSError if it is missing.
    """
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return f"{directory} is not a directory of its own"
    if status.st_uid != os.geteuid():
        return f"{directory} belongs to another user"
    if status.st_mode & _WRITABLE:
        return f"Other users can write to {directory}"
    return None


@dataclass(frozen=True)
class Way:
    """A path that was followed from `/` on, link by link.

    Attributes:
        end: The place where the path leads, without links. Whoever uses it follows no link that was not
            checked.
        fault: How others than this user could put something else there, which ends the way; None if nobody
            can.
    """

    end: Path
    fault: str | None = None


def followed(directory: Path) -> Way:
    """Follow a path to a directory.

    Every directory on the way, the last one too, has to belong to this user or to root, and be writable by
    its owner alone, as sshd has it for keys. A sticky directory, such as `/tmp`, may be writable by all, as
    only their owners can rename the links and directories in it. So each link on the way is this user's or
    root's, too.

    Args:
        directory: An existing directory.
    Raises:
        OSError: The path cannot be followed.
    [test: tests/harness/system/test_files.py]
    """
    owners = (os.geteuid(), 0)
    links = 0
    place = Path("/")
    left = list(directory.absolute().parts[1:])
    while True:
        status = place.lstat()
        if not stat.S_ISDIR(status.st_mode):
            return Way(place, f"{place} is not a directory of its own")
        if status.st_uid not in owners:
            return Way(place, f"{place} belongs to another user")
        if status.st_mode & _WRITABLE and not status.st_mode & stat.S_ISVTX:
            return Way(place, f"Other users can write to {place}")
        if not left:
            return Way(place)
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
            return Way(place, f"{place / name} is a link of another user, or leads through too many")
        target = (place / name).readlink()
        if target.is_absolute():
            place = Path("/")
            left = [*target.parts[1:], *left]
        else:
            left = [*target.parts, *left]


def way_fault(directory: Path) -> str | None:
    """Return how others than this user could rename what this user makes in a directory, if they can.

    The directory may be root's, or a sticky one such as `/tmp`.

    Args:
        directory: An existing directory.
    Raises:
        OSError: The path cannot be followed.
    [test: tests/harness/system/test_working_directories.py]
    """
    return followed(directory).fault


def place_fault(directory: Path) -> str | None:
    """Return how others than this user could change a directory, or put another one there, if they can.

    Args:
        directory: An existing directory.
    Raises:
        OSError: The path cannot be followed.
    [test: tests/harness/uploads/test_places_of_others.py]
    """
    reason = directory_fault(directory)
    return way_fault(directory) if reason is None else reason


def is_exposed(file: Path) -> bool:
    """Return whether others than this user can change or replace a file, or a directory above it."""
    status = file.stat()
    if status.st_uid != os.geteuid() or status.st_mode & _WRITABLE:
        return True
    return place_fault(file.parent) is not None


def make_own_directory(directory: Path) -> str | None:
    """Make a directory, if need be, in which nobody else can replace what this user makes.

    Args:
        directory: The directory. Those above it are made, too.
    Returns:
        Its `way_fault`, if it has one. Nothing new is left then.
    Raises:
        OSError: The directory cannot be made or followed.
    [test: tests/harness/uploads/test_places_of_others.py]
    """
    new = [place for place in (directory, *directory.parents) if not place.exists()]
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    reason = way_fault(directory)
    if reason is not None:
        for place in new:
            with suppress(OSError):  # another process has put something there
                place.rmdir()
    return reason
