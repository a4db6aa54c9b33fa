"""Rings of shares; elements of many clients are one array of 64-bit words, shape (..., words)."""

from dataclasses import dataclass

import numpy as np

from fairshares.protocols.arrays import Integers, Words

_PIECE = bytes(1 << 17)  # encrypted at a time; it fits a processor's cache
_LOW_32 = np.uint64(0xFFFFFFFF)
_ALL_ONES = np.array([2**64 - 1, 2**63 - 1], dtype=np.uint64)  # 2^127 - 1


@dataclass(frozen=True)
class Ring:
    """Integers modulo 2^64, as in MP-SPDZ's `-R 64`."""

    name: str = "ring64"
    words: int = 1
    modulus: int = 1 << 64

    @property
    def value_bytes(self) -> int:
        """The number of bytes of an element in files and messages."""
        return 8 * self.words

    def encode(self, values: Integers) -> Words:
        """Map integers, shape s, to elements, shape s + (words,)."""
        return np.asarray(values, dtype=np.int64).view(np.uint64)[..., np.newaxis]

    def subtract(self, a: Words, b: Words) -> Words:
        """Return a - b, elementwise."""
        return a - b

    def total(self, a: Words) -> Words:
        """Sum over the axis before the words."""
        return np.asarray(a.sum(axis=-2, dtype=np.uint64))

    def reduce(self, raw: Words) -> Words:
        """Map uniform words to uniform elements."""
        return raw

    def add(self, a: Words, b: Words) -> Words:
        """Return a + b, elementwise."""
        return self.subtract(a, self.subtract(np.zeros_like(b), b))

    def to_bytes(self, a: Words) -> bytes:
        """Return the elements, each as `value_bytes` little-endian bytes."""
        return self.as_bytes(a).tobytes()

    def as_bytes(self, a: Words) -> memoryview:
        """Return the bytes of `to_bytes`, as a view of the elements if they lie in that order already."""
        return np.ascontiguousarray(a, dtype="<u8").reshape(-1).view(np.uint8).data

    def signed_words(self, a: Words) -> Words:
        """Return elements, shape (..., words), as words in two's complement, lowest first, of that shape.

        Modulo the ring's modulus an element is the sum of its words, each times the power of 2^64 of its
        place.
        """
        return a

    def from_bytes(self, raw: bytes | memoryview) -> Words:
        """Return elements, shape (n, words), of bytes of a checked length, without copying them."""
        return np.frombuffer(raw, dtype="<u8").reshape(-1, self.words).astype(np.uint64, copy=False)

    def expand(self, seed: bytes | memoryview, values: int) -> Words:
        """Stretch a 32-byte seed to uniform elements, shape (values, words), by AES-256-CTR from 0."""
        from cryptography.hazmat.primitives.ciphers import (  # slow to load
            Cipher,
            algorithms,
            modes,
        )

        raw = np.empty(values * self.words + 2, dtype="<u8")  # the cipher needs 16 spare bytes
        stream = raw.view(np.uint8).data
        size = values * self.value_bytes
        encryptor = Cipher(algorithms.AES(bytes(seed)), modes.CTR(bytes(16))).encryptor()
        for start in range(0, size, len(_PIECE)):
            encryptor.update_into(_PIECE[: size - start], stream[start:])
        return self.reduce(raw[:-2].astype(np.uint64, copy=False).reshape(values, self.words))


@dataclass(frozen=True)
class Field127(Ring):
    """Integers modulo the Mersenne prime 2^127 - 1, for MPyC.

    Uniform 127-bit strings are uniform elements but for 2^-127: all ones also stand for 0.
    """

    name: str = "field127"
    words: int = 2
    modulus: int = (1 << 127) - 1

    def encode(self, values: Integers) -> Words:
        signed = np.asarray(values, dtype=np.int64)
        magnitude = np.stack([np.abs(signed).view(np.uint64), np.zeros(signed.shape, np.uint64)], axis=-1)
        return np.where(
            (signed < 0)[..., np.newaxis], self.subtract(np.zeros_like(magnitude), magnitude), magnitude
        )

    def subtract(self, a: Words, b: Words) -> Words:
        b = b ^ _ALL_ONES  # p - b is b's complement
        low = a[..., 0] + b[..., 0]
        high = a[..., 1] + b[..., 1] + (low < a[..., 0])
        top = high >> np.uint64(63)
        folded = low + top
        high = (high & np.uint64(2**63 - 1)) + (folded < top)
        return self._canonical(np.stack([folded, high], axis=-1))

    def total(self, a: Words) -> Words:
        # 64-bit sums of 32-bit limbs hold 2^32 clients; Python's integers reduce the few totals exactly.
        limbs = np.stack([a & _LOW_32, a >> np.uint64(32)], axis=-1).sum(axis=-3, dtype=np.uint64)
        rows = limbs.reshape(-1, 4).tolist()
        sums = [(a0 + (a1 << 32) + (a2 << 64) + (a3 << 96)) % self.modulus for a0, a1, a2, a3 in rows]
        words = [[value & (2**64 - 1), value >> 64] for value in sums]
        return np.array(words, dtype=np.uint64).reshape((*a.shape[:-2], 2))

    def reduce(self, raw: Words) -> Words:
        return self._canonical(raw & _ALL_ONES)

    def signed_words(self, a: Words) -> Words:
        low = a[..., 0]
        high = a[..., 1] + (low >> np.uint64(63))  # a low word from 2^63 on is read as 2^64 less
        top = high >> np.uint64(63)  # 2^127, which is 1
        return np.stack([low + top, high - (top << np.uint64(63))], axis=-1)

    def _canonical(self, a: Words) -> Words:
        return np.where((a == _ALL_ONES).all(axis=-1, keepdims=True), np.uint64(0), a)


@dataclass(frozen=True)
class Xor64(Ring):
    """Words of 64 bits, shared bit by bit."""

    name: str = "xor64"

    def subtract(self, a: Words, b: Words) -> Words:
        return a ^ b

    def total(self, a: Words) -> Words:
        return np.asarray(np.bitwise_xor.reduce(a, axis=-2))


RING = Ring()
FIELD = Field127()
XOR = Xor64()
RINGS: dict[str, Ring] = {ring.name: ring for ring in (RING, FIELD, XOR)}
