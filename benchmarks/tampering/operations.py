"""What is tampered with: a program, what two parties feed it, and what it opens; small programs.

Inputs are of honest parties alone, so that there is one right result. Programs that users run are in
`production`.
"""

from dataclasses import dataclass

from benchmarks.tampering.law import Law

Integers = tuple[int, ...]


@dataclass(frozen=True)
class Operation:
    """A program, what two parties feed it, and what it opens then.

    Attributes: name: of its file, and a form; values, bits: what each of the two inputs, of bits block by
    block; right: what is opened; arguments: of a production program its own, after the two parties; law: in
    place of these, of the noise that is opened. Then one of the two tampers and inputs zeros, and the other's
    bits are random.
    """

    name: str
    values: tuple[Integers, ...] = ()
    bits: tuple[tuple[Integers, Integers], ...] = ()
    right: Integers = ()
    arguments: tuple[object, ...] = ()
    law: Law | None = None

    @property
    def program(self) -> str:
        """The name of the program's file."""
        return self.name.partition(" ")[0]

    def is_right(self, opened: Integers) -> bool:
        """Return whether an honest party may take that."""
        return self.law.explains(opened) if self.law else opened == self.right


_X, _Y = (3, -5, 7, 11), (13, 17, -19, 23)
_A, _B = (0b1011, 0b0101, 0b1111, 0b0011), (0b1101, 0b1010, 0b1111, 0b0001)  # four bits in each of four lanes


def _lanes(words: tuple[int, ...], i: int) -> tuple[int, ...]:
    """Return bit i of each lane."""
    return tuple(word >> i & 1 for word in words)


def _opened() -> tuple[int, ...]:
    steps = [tuple(x + y for x, y in zip(_X, _Y, strict=True))]
    for _ in range(3):
        steps.append(tuple(x - y + last for x, y, last in zip(_X, _Y, steps[-1], strict=True)))
    return tuple(value for step in steps for value in step)


_PAIRS = tuple(a & b for a, b in zip(_A, _B, strict=True))


OPERATIONS = (
    Operation("input", (_X, _Y), right=(*_X, *_Y)),
    Operation("opening", (_X, _Y), right=_opened()),
    Operation(
        "multiplication",
        (_X, _Y),
        right=(
            *(x * y * x for x, y in zip(_X, _Y, strict=True)),
            sum(x * y for x, y in zip(_X, _Y, strict=True)),
        ),
    ),
    Operation(
        "and",
        bits=((_A, _B),),
        right=(
            *(bit for i in range(4) for bit in _lanes(_PAIRS, i)),
            *(int(word == 15) for word in _PAIRS),
        ),
    ),
    Operation("conversion", bits=((_A, _B),), right=tuple(a ^ b for a, b in zip(_A, _B, strict=True))),
    Operation("comparison", (_X, _Y), right=tuple(int(x < y) for x, y in zip(_X, _Y, strict=True))),
)
