"""Which linear combinations of counts are noised, and what one record does to them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LinearQueries:
    """Noisy nodes that are integer combinations of disjoint cells; a record is in one cell.

    Attributes: columns: per cell, the nodes that one more record in it changes, each by 1 (a node never
    counts a record twice), or by `amounts`, as many per cell; then the cells listed may be the corners
    alone of what a record can be: no other moves tell more (theorems 11 and 15).
    """

    nodes: int
    columns: tuple[tuple[int, ...], ...]
    amounts: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        if self.amounts and [*map(len, self.amounts)] != [*map(len, self.columns)]:
            raise ValueError("there must be an amount for each node of each cell")
        for column in self.columns:
            if len(set(column)) != len(column) or not all(0 <= node < self.nodes for node in column):
                raise ValueError(f"column {column} does not name distinct nodes below {self.nodes}")

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return len(self.columns)

    @property
    def most_nodes_of_a_record(self) -> int:
        """How many nodes one record added or removed changes at most; each changes by 1."""
        return max(len(column) for column in self.columns)

    def record(self, cell: int) -> dict[int, int]:
        """Return by how much one more record in this cell changes each node."""
        amounts = self.amounts[cell] if self.amounts else (1,) * len(self.columns[cell])
        return dict(zip(self.columns[cell], amounts, strict=True))


@dataclass(frozen=True)
class AboveThreshold:
    """The index of the first of `queries` counts that is, with noise, at or below a bound with noise.

    Nothing else is opened. A client that comes or goes moves the counts that it moves all the same way, each
    by 1, so that it does not matter how many (`calibration.guarantee_of_first_below`).
    """

    queries: int

    @property
    def nodes(self) -> int:
        """How many values get noise: the counts, and the bound."""
        return self.queries + 1


def each_cell_once(cells: int) -> LinearQueries:
    """Return the release of every cell with noise of its own (π_RW, π_CF)."""
    return LinearQueries(cells, tuple((cell,) for cell in range(cells)))


def sums_and_sizes(groups: int, steps: int) -> LinearQueries:
    """Return the release of a sum of values and a scaled size per group (π_GAP).

    Computes: a client of group g with value v, a whole number from -steps to steps, adds v to node 2 g and
    `steps` to node 2 g + 1. The corners are v = -steps and v = steps.
    """
    corners = [(g, end) for g in range(groups) for end in (-steps, steps)]
    return LinearQueries(
        2 * groups,
        tuple((2 * g, 2 * g + 1) for g, _ in corners),
        tuple((end, steps) for _, end in corners),
    )


def logarithms(cells: int, step: int) -> LinearQueries:
    """Return the release of a logarithm per cell that one more record moves by `step` at most (π_COUNT)."""
    return LinearQueries(cells, tuple((cell,) for cell in range(cells)), ((step,),) * cells)
