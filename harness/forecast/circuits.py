"""What circuits use: counted on stand-ins for secret bits as they are made, or by a formula for sorting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache

from protocols.accounting.queries import LinearQueries
from protocols.circuits.coins import Coin
from protocols.circuits.noise import fair_bits_per_sample, two_sided_geometric
from protocols.circuits.slots import counts_of_slots, sums_of_slots
from protocols.circuits.sorting import WORD, MarkerRanks
from protocols.spec import PI_GAP_SLOTS, ProtocolSpec

_ANDS_PER_CUT_BIT = 3  # of an adder by which integers are cut into bits: 2 to 3 ANDs a bit, by its width
_ROUNDS_TO_CUT = 8
# Of a comparison of 64-bit integers: its ANDs, by how many parties' shares are split into bits; 2: none are,
# as a mask whose bits are known is added. Programs compare so many at once, and then others.
_ANDS_OF_A_COMPARISON = {2: 118, 3: 242, 4: 305}
_ROUNDS_TO_COMPARE = 10
_COMPARED_AT_ONCE = 1000
_ROUNDS_TO_COMPARE_MORE = 8


@dataclass
class Tally:
    """What a circuit uses.

    Attributes: gates: ANDs on vectors; ands, input_bits, dabits: of single bits: ANDs, inputs of one party,
    bits that become integers; depth: gates one after the other.
    """

    gates: int = 0
    ands: int = 0
    input_bits: int = 0
    dabits: int = 0
    depth: int = 0

    def then(self, other: Tally) -> Tally:
        """Return what both use, one after the other."""
        return Tally(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


class Wire:
    """A vector of bits that knows how many ANDs are before it; all wires of a circuit share a tally."""

    def __init__(self, tally: Tally, lanes: int = 1, depth: int = 0) -> None:
        self.tally, self.lanes, self.depth = tally, lanes, depth
        tally.depth = max(tally.depth, depth)

    def __and__(self, other: Wire) -> Wire:
        self.tally.gates += 1
        self.tally.ands += self.lanes
        return Wire(self.tally, self.lanes, max(self.depth, other.depth) + 1)

    def __xor__(self, other: Wire) -> Wire:
        return Wire(self.tally, self.lanes, max(self.depth, other.depth))

    def __invert__(self) -> Wire:
        return self

    def store_in_mem(self, _address: object) -> None:
        """Stand for putting it where `_Memory` takes it from."""


class _Inputs:
    """Stands for MP-SPDZ's sbitvec: bits that parties input."""

    def __init__(self, tally: Tally, width: int = 0) -> None:
        self._tally, self._width = tally, width
        self.v: Sequence[Wire] = ()

    def get_type(self, width: int) -> _Inputs:
        return _Inputs(self._tally, width)

    def get_input_from(self, _party: int, size: int) -> _Inputs:
        self._tally.input_bits += self._width * size
        self.v = [Wire(self._tally, size) for _ in range(self._width)]
        return self


class _Memory:
    """Stands for MP-SPDZ's sbits, as far as memory goes."""

    def __init__(self, tally: Tally, lanes: int = 0) -> None:
        self._tally, self._lanes = tally, lanes

    def get_type(self, lanes: int) -> _Memory:
        return _Memory(self._tally, lanes)

    def malloc(self, _words: int) -> int:
        return 0

    def load_mem(self, _address: object) -> Wire:
        return Wire(self._tally, self._lanes)


def _in_turn(times: int) -> Callable[[Callable[[int], None]], None]:
    """Stand for MP-SPDZ's for_range."""

    def of(body: Callable[[int], None]) -> None:
        for turn in range(times):
            body(turn)

    return of


class _Integers:
    """Stands for MP-SPDZ's sint: integers that bits become, which are then only added up."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def __call__(self, plane: Wire) -> _Integers:
        self._tally.dabits += plane.lanes
        return self

    def concat(self, _parts: Sequence[_Integers]) -> _Integers:
        return self

    def sum(self) -> _Integers:
        return self

    def __add__(self, _other: object) -> _Integers:
        return self

    __radd__ = __sub__ = __mul__ = __add__


@lru_cache(maxsize=64)
def noise_tally(coins: tuple[Coin, ...]) -> Tally:
    """Count what one sample of the default noise takes."""
    tally = Tally()
    two_sided_geometric(coins, [Wire(tally) for _ in range(fair_bits_per_sample(coins))])
    tally.dabits = len(coins) + 1
    return tally


def slots_tally(spec: ProtocolSpec, arguments: Mapping[str, str]) -> Tally:
    """Count what turning clients' slots into counts, one for each value that is opened, or sums, takes."""
    tally = Tally()
    slots, per_lane = int(arguments["slots"]), int(arguments["per_lane"])
    types = _Integers(tally), _Inputs(tally)
    memory = _Memory(tally), _in_turn, lambda: None
    if spec is PI_GAP_SLOTS:
        groups, steps = int(arguments["groups"]), int(arguments["steps"])
        sums_of_slots(*types, 1, slots, per_lane, groups, steps, memory)
    else:
        assert spec.release is not None
        release = spec.release(arguments)
        cells = release.cells if isinstance(release, LinearQueries) else release.queries
        counts_of_slots(*types, 1, slots, per_lane, cells, memory)
    return tally


def keys_tally(arguments: Mapping[str, str], parties_that_split: int) -> tuple[Tally, int]:
    """Count what it takes to sort records' keys among markers, and how many bits of keys that takes apart.

    Computes: the comparisons and routed pairs of `MarkerRanks`; cutting keys into bits to some ANDs a bit.
    Guarantees: but for the cutting, what the circuit does.  [test: tests/protocols/test_sorting.py]
    Args: parties_that_split: shares that are added up as bits, 2 where the engine has other material for it.
    """
    cells = int(arguments["groups"]) * int(arguments["labels"]) * int(arguments["bins"])
    ranks = MarkerRanks((_AnyWidth, None, None, None, None), int(arguments["records"]), cells)
    pairs, planes, bits = 1 << (ranks.place_bits - 1), 1 + ranks.key_bits, range(ranks.place_bits)
    compared = ranks.place_bits * (ranks.place_bits + 1) // 2
    routed = [max(planes, 1 + bit) + (2 if bit < ranks.key_bits else 0) for bit in bits]
    cut = (int(arguments["records"]) + ranks.missing) * ranks.key_bits
    ands = (compared * 2 * planes + sum(routed)) * pairs
    ands += cut * (_ANDS_PER_CUT_BIT + parties_that_split - 2)
    depth = compared * (planes + 1) + sum(3 if bit < ranks.key_bits else 1 for bit in bits) + _ROUNDS_TO_CUT
    dabits = ranks.place_bits * WORD * (cells // WORD + 1)
    return Tally(gates=ands, ands=ands, dabits=dabits, depth=depth), cut


def comparisons_tally(number: int, parties_that_split: int) -> tuple[Tally, int]:
    """Count what it takes to compare integers with 0, and how many of them that takes apart.

    Guarantees: what MP-SPDZ's compiler says of it.  [test: tests/programs/test_tally.py]
    Args: parties_that_split: as for `keys_tally`; 0 for MPyC, whose integers are masked by bits, one by one.
    """
    if not number:
        return Tally(), 0
    if not parties_that_split:
        return Tally(gates=_ROUNDS_TO_COMPARE, depth=_ROUNDS_TO_COMPARE), number
    split = parties_that_split > 2
    ands = number * _ANDS_OF_A_COMPARISON[parties_that_split]
    more = _ROUNDS_TO_COMPARE_MORE * ((number - 1) // _COMPARED_AT_ONCE)
    depth = _ROUNDS_TO_COMPARE + more + (parties_that_split > 3)
    return Tally(ands=ands, dabits=number * (1 if split else 65), depth=depth), number * split


class _AnyWidth:
    @staticmethod
    def get_type(_lanes: int) -> None:
        """Stand for MP-SPDZ's type of secret bits, none of which are made."""
