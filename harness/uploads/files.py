"""Names of uploads' files, and how a file is written whole."""

from collections.abc import Iterable
from pathlib import Path

from harness.errors import ShareError, cannot
from harness.system.files import write_whole

SUFFIX = ".share"  # of a file of envelopes
AGGREGATE_SUFFIX = ".aggregate"


def write_file(out: Path, *parts: bytes | Iterable[bytes]) -> None:
    """Write a file whole or not at all, or raise ShareError."""
    with cannot(f"write {out}", ShareError):
        out.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(out, *parts)
