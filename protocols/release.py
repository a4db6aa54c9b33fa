"""Which linear combinations of counts are noised, and what one record does to them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LinearRelease:
    """Noisy nodes that are integer combinations of disjoint cells; a record is in one cell.

    Attributes: cells: how many; columns: per cell, the nodes that one more record in it changes, each
    by 1 (a node never counts a record twice).
    """

    nodes: int
    columns: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        for column in self.columns:
            if len(set(column)) != len(column) or not all(0 <= node < self.nodes for node in column):
                raise ValueError(f"column {column} does not name distinct nodes below {self.nodes}")

    @property
    def cells(self) -> int:
        return len(self.columns)

    @property
    def most_nodes_of_a_record(self) -> int:
        """How many nodes one record added or removed changes at most; each changes by 1."""
        return max(len(column) for column in self.columns)


def each_cell_once(cells: int) -> LinearRelease:
    """Return the release of every cell with noise of its own (π_RW, π_CF)."""
    return LinearRelease(cells, tuple((cell,) for cell in range(cells)))
