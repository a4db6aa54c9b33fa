"""Names of uploads' files, and how a file is written whole."""

from collections.abc import Iterable
from pathlib import Path

from fairshares.harness.errors import ShareError, cannot
from fairshares.harness.system.files import write_whole
from fairshares.harness.system.places import make_own_directory

TASK_FILE = "task.json"  # beside uploads, and on a page that makes them
SUFFIX = ".share"  # the suffix of a file of envelopes
AGGREGATE_SUFFIX = ".aggregate"


def check_place(out: Path) -> None:
    """Raise ShareError if others could replace a file there, which a later command is to trust.

    [test: tests/harness/uploads/test_places_of_others.py]

    Args:
        out: The file. Its directory is made if need be.
    """
    with cannot(f"write {out}", ShareError):
        reason = make_own_directory(out.parent)
    if reason is not None:
        raise ShareError(
            f"{reason}, so others could replace {out}; nothing was written. Name a file elsewhere, or take "
            "that right away (chmod go-w)."
        )


def place_of_party(place: Path | str, party: int) -> Path | str:
    """Return the place of a party's uploads: a store as it is named, a directory, or the party's in it."""
    if isinstance(place, str):
        return place
    within = place / f"party-{party}"
    return within if within.is_dir() else place


def write_file(out: Path, *parts: bytes | memoryview | Iterable[bytes]) -> None:
    """Write a file whole or not at all, or raise ShareError."""
    with cannot(f"write {out}", ShareError):
        out.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(out, *parts)
