"""Counts of records per (group, label) over all clients, from either input form."""

from __future__ import annotations


def input_columns(secret_integer, parties: int, size: int):
    """Add up the parties' additive shares of `size` values.

    Args: secret_integer: MP-SPDZ's sint or what stands for it. Returns: one secret vector.
    """
    return sum(secret_integer.get_input_from(i, binary=True, size=size) for i in range(parties))


def counts_by_product(secret_integer, columns, clients: int, groups: int, labels: int):
    """Count records per (group, label) from group indicators and label counts.

    Source: PrivFairFL, Protocol 2, lines 2-8, for any number of groups; notation as there except that
    T has one column per group but the last, whose counts are what the others leave over.
    Computes: C(s, y) = <T_s, LC_y>; (groups - 1) * labels * clients multiplications, opened once per
    inner product.
    Args: columns: secret vector of (groups - 1 + labels) * clients values, a column after the other,
    indicators first. Returns: secret vector of groups * labels counts, label fastest.
    """

    def column(j):
        return columns.get_vector(j * clients, clients)

    local_counts = [column(groups - 1 + y) for y in range(labels)]
    rows = [
        [secret_integer.dot_product(column(s), local_counts[y]) for y in range(labels)]
        for s in range(groups - 1)
    ]
    rows.append([local_counts[y].sum() - sum(row[y] for row in rows) for y in range(labels)])
    return secret_integer.concat([count for row in rows for count in row])
