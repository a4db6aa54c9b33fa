"""Sets of up to a hundred million identities of uploads, at 32 bytes each."""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Set as AbstractSet
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

Digests = NDArray[np.bytes_]
"""Digests of 32 bytes; numpy compares them byte by byte."""

IDENTITY_BYTES = 32
IDENTITY_TEXT_BYTES = 2 * IDENTITY_BYTES + 1  # hexadecimal digits, with the space or line end after them
MOST_UPLOADS = 10**8  # uploads of a run
_AT_ONCE = 4096  # identities


def digests_in(raw: bytes | bytearray) -> Digests:
    """Return the digests that stand end to end in bytes."""
    return np.frombuffer(raw, f"S{IDENTITY_BYTES}")


class Identities(Collection[str]):
    """A set of identities (64 hexadecimal digits), as sorted digests.

    Sets of identities have the operators of other sets, and equal any set of the same identities. The class
    is no `Set`, whose unions may have elements of any type.
    """

    def __init__(self, digests: Digests) -> None:
        self.digests = digests

    @classmethod
    def from_names(cls, names: Iterable[str]) -> "Identities":
        """Return the set of these identities."""
        if isinstance(names, Identities):
            return names
        return cls(np.unique(digests_in(b"".join(map(bytes.fromhex, names)))))

    @classmethod
    def read(cls, file: BinaryIO, number: int) -> "Identities":
        """Read identities as `texts` writes them, with the line end after the last one.

        Args:
            file: The file, which is read as far as so many identities go.
            number: The number of the identities.

        Raises:
            ValueError: There are no identities there, or fewer or more, or they are not in order.
        """
        raw = bytearray()
        end = b""
        left = max(IDENTITY_TEXT_BYTES * number, 1)
        while True:
            text = file.read(min(left, IDENTITY_TEXT_BYTES * _AT_ONCE))
            if not text:
                break
            raw += bytes.fromhex(text.decode())
            left -= len(text)
            end = text[-1:]
        digests = digests_in(raw)
        if end != b"\n" or len(digests) != number or (digests[1:] <= digests[:-1]).any():
            raise ValueError("not in order, or not as many")
        return cls(digests)

    def __len__(self) -> int:
        return len(self.digests)

    def __iter__(self) -> Iterator[str]:
        for text in self.texts():
            yield from text.split()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self.has(digests_in(bytes.fromhex(name)))[0])

    def has(self, digests: Digests) -> NDArray[np.bool_]:
        """Return whether each of n digests is in the set, as booleans of shape (n,)."""
        if not len(self):
            return np.zeros(len(digests), dtype=bool)
        same = np.empty(len(digests), dtype=bool)
        for start in range(0, len(digests), _AT_ONCE):  # in parts, which saves 48 bytes for each digest
            some = slice(start, start + _AT_ONCE)
            places = np.searchsorted(self.digests, digests[some])
            same[some] = self.digests[np.minimum(places, len(self) - 1)] == digests[some]
        return same

    def __and__(self, other: Collection[str]) -> "Identities":
        return Identities(self.digests[Identities.from_names(other).has(self.digests)])

    def __or__(self, other: Collection[str]) -> "Identities":
        new = Identities.from_names(other) - self
        if not new:  # most often; a sorted copy takes 200 bytes for each identity
            return self
        return Identities(np.sort(np.concatenate([self.digests, new.digests])))

    def __sub__(self, other: Collection[str]) -> "Identities":
        return Identities(self.digests[~Identities.from_names(other).has(self.digests)])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Identities | AbstractSet):
            return NotImplemented
        return len(self) == len(other) and self <= other

    def __le__(self, other: Collection[str]) -> bool:
        return bool(Identities.from_names(other).has(self.digests).all())

    def fingerprint(self) -> str:
        """Return the SHA-256 of the sorted identities as text, each a line, without the last line's end."""
        digest = hashlib.sha256()
        for text in self.texts():
            digest.update(text.replace(" ", "\n").encode())
        return digest.hexdigest()

    def texts(self) -> Iterator[str]:
        """Yield a text of the sorted identities, separated by spaces, in pieces of thousands of them."""
        separator = ""
        for start in range(0, len(self), _AT_ONCE):
            some = self.digests[start : start + _AT_ONCE]
            yield separator + some.tobytes().hex(" ", IDENTITY_BYTES)
            separator = " "
