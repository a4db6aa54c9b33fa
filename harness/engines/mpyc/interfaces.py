"""The parts of MPyC 0.11 that the embedded engine uses, as types; MPyC has none of its own.

`installed` checks that the installed MPyC is the one whose code was read for this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol, Self, TypeAlias, TypeVar, overload

import numpy as np
import numpy.typing as npt

T = TypeVar("T")

BigIntegers: TypeAlias = npt.NDArray[np.object_]
"""Python's integers, of any size."""

Shape: TypeAlias = tuple[int, ...]


class FieldArray(Protocol):
    """An array of elements of a prime field."""

    field: Field
    shape: Shape
    value: BigIntegers

    def reshape(self, shape: Shape | int) -> Self:
        """Return the same elements in another shape."""


class Field(Protocol):
    """A prime field."""

    modulus: int

    def array(self, values: BigIntegers, *, check: bool = True) -> FieldArray:
        """Return field elements."""


class SecureType(Protocol):
    """A type of secret-shared numbers."""

    field: Field
    array: Callable[[BigIntegers | FieldArray | None, Shape], SecureArray]


class SecureArray(Protocol):
    """A secret-shared array, maybe of shares that are still computed."""

    sectype: SecureType
    shape: Shape
    size: int

    def reshape(self, *shape: int) -> Self:
        """Return the same values in another shape."""

    def __getitem__(self, lanes: slice[int, int, None] | int) -> Self: ...
    def __add__(self, other: Lanes | int) -> Self: ...
    def __radd__(self, other: Lanes | int) -> Self: ...
    def __sub__(self, other: Lanes | int) -> Self: ...
    def __rsub__(self, other: Lanes | int) -> Self: ...
    def __mul__(self, other: Lanes | int) -> Self: ...
    def __matmul__(self, other: SecureArray) -> Self: ...
    def __neg__(self) -> Self: ...


Lanes: TypeAlias = SecureArray | BigIntegers
"""A vector's lanes: secret-shared, or opened."""


class MakeArray(Protocol):
    """MPyC's class of secret-shared arrays of one type."""

    sectype: SecureType

    def __call__(self, values: BigIntegers | FieldArray | None, shape: Shape | None = None) -> SecureArray:
        """Share values of this party, or stand for another's of a shape."""


class Exchanging(Protocol):
    """A connection with a peer."""

    nbytes_sent: int
    transport: asyncio.Transport

    def send(self, step: int, message: bytes) -> None:
        """Send the message of a step."""

    def receive(self, step: int, length: int) -> asyncio.Future[bytes] | bytes:
        """Return the message of a step."""


class Peer(Protocol):
    """A party, with the connection to it."""

    pid: int
    protocol: Exchanging


class Runtime(Protocol):
    """MPyC's runtime of one party."""

    pid: int
    threshold: int
    parties: Sequence[Peer]
    SecureObject: type[SecureArray]
    _loop: asyncio.AbstractEventLoop
    _program_counter: Sequence[int]

    def run(self, awaited: Awaitable[T]) -> T:
        """Run the event loop until something is computed."""

    def start(self) -> Awaitable[None]:
        """Connect with all peers."""

    def shutdown(self) -> Awaitable[None]:
        """Wait for all peers, and close the connections."""

    def set_protocol(self, peer_pid: int, protocol: Exchanging) -> None:
        """Note a connection with a peer."""

    def unset_protocol(self, peer_pid: int) -> None:
        """Note the end of a connection."""

    def _prss_keys_to_peer(self, peer_pid: int) -> Iterable[bytes]: ...
    def _prss_keys_from_peer(self, peer_pid: int, data: bytes | None = None) -> int: ...

    def SecInt(self, bits: int, *, p: int) -> IntegerType:  # noqa: N802
        """Return the type of secret-shared integers of so many bits."""

    def input(self, own: SecureArray, *, senders: int) -> SecureArray:
        """Share an array that one party has."""

    def output(self, secret: SecureArray) -> Awaitable[BigIntegers]:
        """Open an array to all parties."""

    @overload
    def gather(self, awaited: SecureArray) -> Awaitable[FieldArray]:
        """Return an array's shares, once they are computed."""

    @overload
    def gather(self, awaited: Sequence[asyncio.Future[bytes] | bytes]) -> Awaitable[list[bytes]]:
        """Return messages, once they are here."""

    @overload
    def gather(
        self, awaited: Sequence[asyncio.Future[bytes] | bytes | BigIntegers]
    ) -> Awaitable[list[bytes | BigIntegers]]:
        """Return messages and own shares, once they are here."""

    def returnType(  # noqa: N802
        self, kind: type | tuple[type, Shape], *counts: int
    ) -> Awaitable[None]:
        """State what a coroutine returns, before it is computed."""

    def np_concatenate(self, parts: Sequence[SecureArray]) -> SecureArray:
        """Return arrays one after the other."""

    def np_sum(self, secret: SecureArray, *, keepdims: bool) -> SecureArray:
        """Return the sum of an array."""

    def np_sgn(self, secret: SecureArray, **which: bool) -> SecureArray:
        """Return the sign of each value, or only whether it is negative (LT) or zero (EQ)."""


class IntegerType(Protocol):
    """A type of secret-shared integers."""

    array: MakeArray


class Runs(Protocol):
    """Runs the event loop until something is computed, and returns it."""

    def __call__(self, awaited: Awaitable[T], /) -> T: ...


class Splitting(Protocol):
    """MPyC's module of threshold secret sharing."""

    def np_random_split(
        self, field: Field, secrets: FieldArray | BigIntegers, threshold: int, parties: int, /
    ) -> Sequence[BigIntegers]:
        """Return each party's shares of secrets."""

    def np_recombine(self, field: Field, points: Sequence[tuple[int, BigIntegers]], /) -> FieldArray:
        """Return the secrets of some parties' shares, by their coordinates."""
