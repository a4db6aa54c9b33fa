"""Weights of exact counts as their sources define them: what formulas and circuits are held against."""

from collections.abc import Sequence
from fractions import Fraction


def balanced_weights(table: Sequence[Sequence[int]]) -> list[list[Fraction]]:
    """Return W(s, y) = N / (k m C(s, y)), exactly.

    Source: PrivFairFL, Protocol 2, lines 14-20, with k groups and m labels for its 2 and 2.
    """
    total = sum(map(sum, table))
    cells = len(table) * len(table[0])
    return [[Fraction(total, cells * count) for count in row] for row in table]


def label_weights(table: Sequence[Sequence[int]]) -> list[list[Fraction]]:
    """Return W(s, y) = N / (m C(y)), exactly. Source: PrivFairFL, section 4.1."""
    total = sum(map(sum, table))
    columns = [sum(column) for column in zip(*table, strict=True)]
    return [[Fraction(total, len(columns) * column) for column in columns] for _ in table]


def kamiran_calders_weights(table: Sequence[Sequence[int]]) -> list[list[Fraction]]:
    """Return W(s, y) = C(s) C(y) / (N C(s, y)), exactly. Source: Kamiran and Calders 2012."""
    total = sum(map(sum, table))
    columns = [sum(column) for column in zip(*table, strict=True)]
    return [
        [Fraction(sum(row) * column, total * count) for count, column in zip(row, columns, strict=True)]
        for row in table
    ]


WEIGHTS = {"balanced": balanced_weights, "label": label_weights, "kamiran-calders": kamiran_calders_weights}
