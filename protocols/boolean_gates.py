"""What circuits take: bits that count the gates that are made of them."""

from dataclasses import dataclass


@dataclass
class Gates:
    """What a circuit takes. Attributes: gates: ANDs on vectors; ands: of single bits; depth: ANDs in turn."""

    gates: int = 0
    ands: int = 0
    depth: int = 0


class Wire:
    """A vector of bits that knows how many ANDs are before it; wires of a circuit share what they count."""

    def __init__(self, counted: Gates, lanes: int = 1, depth: int = 0) -> None:
        self.counted, self.lanes, self.depth = counted, lanes, depth
        counted.depth = max(counted.depth, depth)

    def __and__(self, other: "Wire") -> "Wire":
        self.counted.gates += 1
        self.counted.ands += self.lanes
        return Wire(self.counted, self.lanes, max(self.depth, other.depth) + 1)

    def __xor__(self, other: "Wire") -> "Wire":
        return Wire(self.counted, self.lanes, max(self.depth, other.depth))

    def __invert__(self) -> "Wire":
        return self

    def store_in_mem(self, _address: object) -> None:
        """Stand for putting it into an engine's memory."""
