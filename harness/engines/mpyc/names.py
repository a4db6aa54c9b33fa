"""The portable subset: MP-SPDZ's names for straight-line vector code, on MPyC values.

A program either means the same to MP-SPDZ or ends with UnsupportedFeature.
[test: tests/harness/engines/test_mpyc_names.py]
"""

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NoReturn, Protocol, Self, TypeAlias

import numpy as np

from fairshares.harness.engines.mpyc.interfaces import BigIntegers, Lanes, SecureArray
from fairshares.harness.engines.mpyc.party_runtime import PartyRuntime
from fairshares.harness.errors import DomainOverflow, UnsupportedFeature
from fairshares.protocols.circuits.noise import MAX_INPUT_WIDTH

PORTABLE: dict[str, str] = {
    "program.args": "the program's name and arguments, strings",
    "print_ln": "print a line at every party; each %s stands for a revealed value or vector",
    "check_point": "check what active parties did so far before going on; nothing to do for passive ones",
    "for_range": "(n): of a function that follows, do it n times; its turn may say which shares to read",
    "sint": "secret integer vector, from an integer, a list of them, a cint, a sint or secret bits; size=",
    "sint.get_input_from": "(party, binary=True, size=n): n values from that party's input file",
    "sint.write_to_file": "(vector): keep each party's shares, in a file of its own",
    "sint.read_from_file": "(start, size=n): (end, [vector]) of shares that were kept",
    "sint.get_vector": "(base, size): some lanes of a vector",
    "sint.concat": "(list): one vector after the other",
    "sint.sum": "(): the sum of a vector's lanes, one value",
    "sint.dot_product": "(x, y): the inner product of two vectors, or lane by lane of two lists of vectors",
    "sint.reveal": "(): reveal to all parties",
    "cint": "public integer vector: a revealed value, or from an integer or a list of them; size=",
    "cint.get_vector": "(base, size): some lanes of a vector",
    "cint.reveal": "(): itself",
    "sbitvec.get_type": "(width): how a party inputs secret bits, 63 a lane at most",
    "sbitvec.get_input_from": "(party, size=n), of such a type: n integers of width bits from that party",
    "sbitvec.v": "its width secret bits, lowest first, n lanes each",
    "+": "sint and cint vectors, with each other and with integers; one lane goes with any number of lanes",
    "-": "as +",
    "*": "as +",
    "<": "a sint vector with a sint, a cint or an integer, less than 2^62 apart: 0 or 1; so <= > >= == !=",
    "&": "secret bits with as many lanes",
    "^": "as &",
    "~": "secret bits",
    "[]": "one lane of a sint or cint vector",
    "len": "the number of lanes of a sint or cint vector",
}

_LIMIT = 1 << 63

ProgramValue: TypeAlias = "Value | _Turn | int | float | str | Sequence[ProgramValue] | None"
"""A value that a program has and gives; each name checks which of them it takes."""


def unsupported(name: str) -> UnsupportedFeature:
    """Return the error for a name outside the subset."""
    return UnsupportedFeature(
        f"{name} is not in the portable subset that the embedded engine runs; use a model of MP-SPDZ."
    )


class _Closed(type):
    """Makes a missing name, like `sint.Array`, an UnsupportedFeature.

    Attributes:
        parties_that_mask: 0, as bits are integers already (`protocols.circuits.machine`).
    """

    parties_that_mask = 0

    def __getattr__(cls, name: str) -> NoReturn:
        _refuse(cls.__name__, name)


def _refuse(owner: str, name: str) -> NoReturn:
    if name.startswith("__"):  # Python and numpy try these, and accept AttributeError
        raise AttributeError(name)
    raise unsupported(f"{owner}.{name}")


class Value(metaclass=_Closed):
    """A value that Python can neither compare nor decide by; `_lanes` is an array, shape (n,)."""

    _machine: ClassVar[PartyRuntime]
    _lanes: Lanes
    __array_ufunc__ = None  # keeps numpy from iterating over a vector's lanes

    def __init_subclass__(cls, name: str) -> None:
        cls.__name__ = name  # the name in messages

    @classmethod
    def _of(cls, lanes: Lanes) -> Self:
        vector = object.__new__(cls)
        vector._lanes = lanes
        return vector

    def __getattr__(self, name: str) -> NoReturn:
        _refuse(type(self).__name__, name)

    def __bool__(self) -> bool:
        raise unsupported(f"{type(self).__name__} in if, while, and, or, not, in")

    def __eq__(self, other: object) -> bool:
        raise unsupported(f"comparing {type(self).__name__}")

    __ne__ = __eq__


class _Vector(Value, name="vector"):
    def __len__(self) -> int:
        return int(self._lanes.shape[0])

    def __getitem__(self, index: int) -> Self:
        if not isinstance(index, int):
            raise unsupported("an index that is not an integer")
        if not -len(self) <= index < len(self):
            raise IndexError("no such lane")
        return self.get_vector(index % len(self), 1)

    def get_vector(self, base: int, size: int) -> Self:
        if base < 0 or not 0 < size <= len(self) - base:
            raise UnsupportedFeature(f"A vector of {len(self)} has no lanes {base} to {base + size}.")
        return self._of(self._lanes[base : base + size])

    def __add__(self, other: ProgramValue) -> Self:
        return self if _is(other, 0) else self._apply(operator.add, other)

    def __sub__(self, other: ProgramValue) -> Self:
        return self._apply(operator.sub, other)

    def __rsub__(self, other: ProgramValue) -> Self:
        return self._apply(lambda a, b: -(a - b), other)

    def __neg__(self) -> Self:
        return 0 - self

    def __mul__(self, other: ProgramValue) -> Self | int:
        if _is(other, 0):
            return 0  # an integer, as in MP-SPDZ
        return self if _is(other, 1) else self._apply(operator.mul, other)

    __radd__ = __add__
    __rmul__ = __mul__

    def _apply(self, operation: Callable[[Lanes, Lanes | int], Lanes], other: ProgramValue) -> Self:
        operand = self._operand(other)
        return NotImplemented if operand is None else self._of(operation(self._lanes, operand))

    def _operand(self, other: ProgramValue) -> Lanes | int | None:
        """Return the lanes of another operand, or an integer; None for what goes with no vector."""
        if isinstance(other, int):
            return _integer(other)
        if not isinstance(other, _Vector):
            return None
        if 1 not in (len(self), len(other)) and len(self) != len(other):
            raise UnsupportedFeature(f"Vectors of {len(self)} and {len(other)} lanes do not go together.")
        return other._lanes


class OpenedVector(_Vector, name="cint"):
    """MP-SPDZ's cint: known to all while the program runs, not while it is laid out."""

    _lanes: BigIntegers

    def __init__(self, value: ProgramValue, size: int | None = None) -> None:
        self._lanes = value._lanes if isinstance(value, OpenedVector) else _constants(value, size)
        _check_size(self, size)

    def reveal(self) -> "OpenedVector":
        """Return itself."""
        return self

    def __eq__(self, other: object) -> bool:
        return NotImplemented if isinstance(other, Secret) else super().__eq__(other)

    __ne__ = __eq__

    def _operand(self, other: ProgramValue) -> Lanes | int | None:
        return None if isinstance(other, Secret) else super()._operand(other)

    @classmethod
    def _of(cls, lanes: Lanes) -> Self:
        assert isinstance(lanes, np.ndarray), "what is opened is no secret"
        if any(not -_LIMIT <= lane < _LIMIT for lane in lanes):
            raise DomainOverflow(
                "A revealed value is outside [-2^63, 2^63), where MP-SPDZ would wrap around."
            )
        return super()._of(lanes)


class Secret(_Vector, name="sint"):
    """MP-SPDZ's sint: field elements, signed integers when compared or opened."""

    _lanes: SecureArray

    def __init__(self, value: ProgramValue, size: int | None = None) -> None:
        if isinstance(value, Secret | Bits):
            self._lanes = value._lanes
        else:
            self._lanes = self._machine.array(OpenedVector(value, size)._lanes)
        _check_size(self, size)

    @classmethod
    def get_input_from(cls, party: int, binary: bool = False, *, size: int = 1) -> Self:
        """Return that party's next input values, or raise ShareError."""
        if binary is not True:
            raise unsupported("sint.get_input_from without binary=True")
        count = _count(size)
        read = partial(cls._machine.own_elements, count)
        return cls._of(cls._machine.share(_party(cls, party), read, count))

    @classmethod
    def write_to_file(cls, shares: ProgramValue) -> None:
        """Keep each party's shares of a vector."""
        cls._machine.keep(_secret(shares)._lanes)

    @classmethod
    def read_from_file(cls, start: "int | _Turn", *, size: int = 1) -> tuple["int | _Turn", list[Self]]:
        """Return the place at which the read shares end, and a list of one vector of them."""
        place = start.place if isinstance(start, _Turn) else start
        return start + size, [cls._of(cls._machine.kept(place, _count(size)))]

    @classmethod
    def concat(cls, parts: Iterable[ProgramValue]) -> Self:
        """Return one vector of the lanes of all parts."""
        return cls._of(cls._machine.mpc.np_concatenate([_secret(part)._lanes for part in parts]))

    @classmethod
    def dot_product(
        cls, x: Sequence[ProgramValue] | Self, y: Sequence[ProgramValue] | Self
    ) -> "Secret | int":
        """Return the inner product of two vectors, or lane by lane of two lists of vectors."""
        n = len(x)
        both_vectors = isinstance(x, Secret) and isinstance(y, Secret)
        lanes = {n}
        if not both_vectors:
            lanes = {len(_secret(vector)) for vector in [*x, *y]}
        if n != len(y) or len(lanes) != 1:
            raise UnsupportedFeature("dot_product takes two vectors, or two lists of them, of equal lengths.")
        if isinstance(x, Secret) and isinstance(y, Secret):
            return cls._of((x._lanes.reshape(1, n) @ y._lanes.reshape(n, 1)).reshape(1))
        return sum(_secret(a) * _secret(b) for a, b in zip(x, y, strict=True))

    def sum(self) -> Self:
        """Return the sum of all lanes in one lane."""
        return self._of(self._machine.mpc.np_sum(self._lanes, keepdims=True))

    def reveal(self) -> OpenedVector:
        """Reveal all lanes to all parties.

        A garbage share makes a sum any field element. Values outside [-2^63, 2^63), where MP-SPDZ would wrap
        around, become the nearest integer inside.
        """
        machine = self._machine
        opened = machine.run(machine.mpc.output(self._lanes))
        lanes = [min(max(int(lane), -_LIMIT), _LIMIT - 1) for lane in opened]
        return OpenedVector._of(np.array(lanes, dtype=object))

    def __lt__(self, other: ProgramValue) -> "Secret":
        return self._sign(self - other, "LT")

    def __gt__(self, other: ProgramValue) -> "Secret":
        return self._sign(other - self, "LT")

    def __le__(self, other: ProgramValue) -> "Secret":
        return 1 - (self > other)

    def __ge__(self, other: ProgramValue) -> "Secret":
        return 1 - (self < other)

    def __eq__(self, other: ProgramValue) -> "Secret":  # type: ignore[override]  # a secret bit, as MP-SPDZ's
        return self._sign(self - other, "EQ")

    def __ne__(self, other: ProgramValue) -> "Secret":  # type: ignore[override]  # likewise
        return 1 - (self == other)

    def _sign(self, difference: "Secret", which: str) -> "Secret":
        return self._of(self._machine.mpc.np_sgn(difference._lanes, **{which: True}))


class Bits(Value, name="sbits"):
    """Secret bits, field elements 0 and 1, so that `sint(bits)` is free."""

    _lanes: SecureArray

    def __and__(self, other: ProgramValue) -> Self:
        return self._of(self._lanes * self._same(other))

    def __xor__(self, other: ProgramValue) -> Self:
        a = self._lanes
        b = self._same(other)
        both = a * b
        return self._of((a - both) + (b - both))

    def __invert__(self) -> Self:
        return self._of(1 - self._lanes)

    def _same(self, other: ProgramValue) -> SecureArray:
        if not isinstance(other, Bits):
            raise unsupported(f"an operation on secret bits and {type(other).__name__}")
        if other._lanes.shape != self._lanes.shape:
            raise UnsupportedFeature("Secret bits with different numbers of lanes do not go together.")
        return other._lanes


class BitVector(Value, name="sbitvec"):
    """MP-SPDZ's sbitvec, for input of bits.

    Attributes:
        v: The bits of each lane, lowest first.
    """

    v: list[Bits]

    def __init__(self, *_: ProgramValue) -> None:
        raise _not_made_so()

    @classmethod
    def get_type(cls, width: int) -> "BitVectorType":
        """Return the type for input of 1 to MAX_INPUT_WIDTH bits a lane."""
        if not 1 <= width <= MAX_INPUT_WIDTH:
            raise UnsupportedFeature(f"An input takes 1 to {MAX_INPUT_WIDTH} bits a lane, not {width}.")
        return BitVectorType(width)

    @classmethod
    def get_input_from(cls, party: int, size: int = 1) -> NoReturn:  # noqa: ARG003
        """Refuse a vector of no width."""
        raise unsupported("sbitvec.get_input_from without get_type")


class BitVectorType(Value, name="sbitvec"):
    """A type of MP-SPDZ's sbitvec, with as many bits a lane as a program asked for."""

    def __init__(self, width: int) -> None:
        self._width = width

    def __call__(self, *_: ProgramValue) -> NoReturn:
        raise _not_made_so()

    def get_input_from(self, party: int, size: int = 1) -> BitVector:
        """Return `size` lanes of that party's input; or raise ShareError."""
        machine = self._machine
        lanes = _count(size)
        read = partial(machine.own_bits, self._width, lanes)
        rows = machine.share(_party(BitVector, party), read, self._width, lanes)
        columns = object.__new__(BitVector)
        columns.v = [Bits._of(rows[j]) for j in range(self._width)]
        return columns


def _not_made_so() -> UnsupportedFeature:
    """Return the error of a program that makes secret bits other than by input."""
    return unsupported("making an sbitvec but by get_type and get_input_from")


class Program(Value, name="program"):
    """MP-SPDZ's `program`, reduced to its arguments."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.args = list(arguments)


class _PrintsLine(Protocol):
    """Prints a line; each `%s` in it stands for a value."""

    def __call__(self, text: str = "", *values: ProgramValue) -> None: ...


Repeat: TypeAlias = "Callable[[Callable[[_Turn], None]], None]"
"""Does a function for each turn."""

ProgramName: TypeAlias = (
    "Program | type[Value] | _PrintsLine | Callable[[], None] | Callable[[ProgramValue], Repeat]"
)
"""What a name stands for in a program from the start."""


def namespace(machine: PartyRuntime, arguments: Sequence[str]) -> dict[str, ProgramName]:
    """Return a program's first names; all its values act on this machine."""
    Value._machine = machine
    return {
        "program": Program(arguments),
        "sint": Secret,
        "cint": OpenedVector,
        "sbitvec": BitVector,
        "print_ln": _print_ln,
        "check_point": _check_point,
        "for_range": _for_range,
    }


def _check_point() -> None:
    """Do nothing, as parties are passive."""


@dataclass(frozen=True)
class _Turn:
    """A turn's number, or a place among kept shares."""

    place: int

    def __mul__(self, factor: int) -> "_Turn":
        return _Turn(self.place * factor)

    def __add__(self, more: int) -> "_Turn":
        return _Turn(self.place + more)


def _for_range(times: ProgramValue) -> Repeat:
    turns = _count(times)

    def repeat(body: Callable[[_Turn], None]) -> None:
        for turn in range(turns):
            body(_Turn(turn))

    return repeat


def _print_ln(text: str = "", *values: ProgramValue) -> None:
    pieces = text.split("%s")
    if len(pieces) != len(values) + 1:
        raise UnsupportedFeature(f"print_ln has {len(values)} values for {len(pieces) - 1} times %s.")
    words = [_printed(value) for value in values] + [""]
    print("".join(piece + word for piece, word in zip(pieces, words, strict=True)), flush=True)


def _printed(value: ProgramValue) -> str:
    if isinstance(value, OpenedVector):
        lanes = ", ".join(map(str, value._lanes))
        return lanes if len(value) == 1 else f"[{lanes}]"
    if isinstance(value, int | str):
        return str(value)
    raise unsupported(f"printing {type(value).__name__}")


def _constants(value: ProgramValue, size: int | None) -> BigIntegers:
    if isinstance(value, int):
        return np.full(_count(1 if size is None else size), _integer(value), dtype=object)
    if isinstance(value, list | tuple) and value:
        constants = [constant for constant in value if isinstance(constant, int)]
        if len(constants) == len(value):
            return np.array([_integer(constant) for constant in constants], dtype=object)
    raise unsupported(f"making an integer vector from {type(value).__name__}")


def _integer(value: int) -> int:
    if not -_LIMIT <= value < _LIMIT:
        raise DomainOverflow("A constant is outside [-2^63, 2^63), where MP-SPDZ would wrap around.")
    return int(value)


def _is(value: ProgramValue, constant: int) -> bool:
    return isinstance(value, int) and value == constant


def _check_size(vector: _Vector, size: int | None) -> None:
    if size not in (None, len(vector)):
        raise UnsupportedFeature(f"A vector of {len(vector)} lanes was asked to have {size}.")


def _count(size: ProgramValue) -> int:
    if not isinstance(size, int) or size < 1:
        raise UnsupportedFeature("The size of a vector, or a number of turns, is a positive integer.")
    return size


def _party(cls: type[Value], party: ProgramValue) -> int:
    if not isinstance(party, int) or not 0 <= party < cls._machine.parties:
        raise UnsupportedFeature(f"Input comes from party 0 to {cls._machine.parties - 1}.")
    return party


def _secret(value: ProgramValue) -> Secret:
    if not isinstance(value, Secret):
        raise unsupported(f"{type(value).__name__} where a sint is wanted")
    return value
