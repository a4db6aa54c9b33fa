"""A search of what is in a process's memory, for values that should not be there."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

_REGION = re.compile(r"([0-9a-f]+)-([0-9a-f]+) r\S* \S+ \S+ \S+ *(.*)")
_PIECE = 1 << 24
_PAGE = 4096
_OVERLAP = 2 * _PAGE
_DIGITS = 5  # of a number below 1, by which its text is known, rounded or not
_APART = 40  # bytes between two numbers of a text


Form = tuple[bytes, ...]
"""Pieces that follow each other, each within a few bytes of the one before."""


def forms_of(name: str, vector: npt.NDArray[np.float64], units: int) -> dict[str, Form]:
    """Return the forms in which a process could hold a vector: what each is, and what to look for.

    Args: name: of the vector; vector: of several coordinates below 1; units: of the grid of integers.
    """
    whole = np.rint(vector * units).astype(np.int64)
    return {
        f"{name} as float64": (vector.tobytes(),),
        f"{name} as float32": (vector.astype(np.float32).tobytes(),),
        f"{name} as integers": (whole.tobytes(),),
        f"{name} as text": tuple(f"{value:.17f}"[: 2 + _DIGITS].encode() for value in vector),
        f"{name} as integers in text": tuple(str(value).encode() for value in whole),
    }


def found_in(contents: Iterable[bytes], wanted: Mapping[str, Form]) -> set[str]:
    """Return the names of the forms that are in any of some contents."""
    missing = dict(wanted)
    for content in contents:
        for name in [name for name, form in missing.items() if _has(content, form)]:
            del missing[name]
    return {*wanted} - {*missing}


def _has(content: bytes, form: Form) -> bool:
    first, *others = form
    at = content.find(first)
    while at >= 0:
        end, found = at + len(first), True
        for piece in others:
            after = content.find(piece, end, end + _APART + len(piece))
            found = found and after >= 0
            end = after + len(piece)
        if found:
            return True
        at = content.find(first, at + 1)
    return False


def memory_of(process: int) -> Iterator[bytes]:
    """Yield all that a process can read of its own memory, in pieces that overlap."""
    place = Path("/proc") / str(process)
    with (place / "mem").open("rb", buffering=0) as memory:
        for line in (place / "maps").read_text(encoding="utf-8").splitlines():
            region = _REGION.match(line)
            if region is not None and region[3] not in ("[vvar]", "[vsyscall]"):
                yield from _pieces(memory.fileno(), int(region[1], 16), int(region[2], 16))


def _pieces(memory: int, begin: int, end: int) -> Iterator[bytes]:
    """Yield a region's content; of a page that cannot be read, as one of a file that was cut, nothing."""
    while begin < end:
        try:
            piece = os.pread(memory, min(_PIECE, end - begin), begin)
        except OSError:
            piece = b""
        if piece:
            yield piece
        last = begin + len(piece) >= end
        begin += len(piece) - _OVERLAP if len(piece) > _OVERLAP and not last else max(len(piece), _PAGE)
