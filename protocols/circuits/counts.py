"""Counts of records over all clients, from either input form."""

from __future__ import annotations

from fairshares.protocols.circuits.machine import is_for_a_prime

REPLICATED = "replicated"
_WORD = 1 << 64


def with_path(arguments):
    """Return a program's arguments with an input path.

    Args:
        arguments: The program's name and its arguments; the first of these may be an input path.
    Returns:
        The name, the path, and the other arguments; the path is `shares` where the arguments name none.
    """
    name, first, *others = arguments
    return [name, *([] if first == REPLICATED else ["shares"]), first, *others]


def input_columns(secret_integer, parties: int, size: int, path: str = "shares"):
    """Add up the parties' additive shares, or take replicated shares.

    Guarantees: a party that takes other replicated shares deviates as it could by any message.
    [test: tests/programs/test_replicated.py]
    Reveals: nothing.

    Args:
        secret_integer: MP-SPDZ's sint, or a stand-in.
        parties: The number of parties.
        size: The number of values.
        path: "shares" for additive shares, which parties input, or "replicated" for shares in their files.
    Returns:
        The secret values, shape (size,).
    """
    if path == REPLICATED:
        _, (column,) = secret_integer.read_from_file(0, size=size)
        return column
    return sum(values_of(secret_integer, party, size) for party in range(parties))


def values_of(secret_integer, party: int, size: int):
    """Return the values that a party inputs.

    MP-SPDZ reads signed integers of 64 bits. Where it computes modulo a prime, a value has more bits: it is a
    low and a high word, as `Ring.signed_words` makes them.
    [test: tests/programs/test_field_inputs.py]

    Args:
        secret_integer: MP-SPDZ's sint, or a stand-in.
        party: The party's number.
        size: The number of values.
    Returns:
        The secret values, shape (size,).
    """
    if not is_for_a_prime():
        return secret_integer.get_input_from(party, binary=True, size=size)
    words = secret_integer.get_input_from(party, binary=True, size=2 * size)
    return words.get_vector(0, size, 2) + words.get_vector(1, size, 2) * _WORD


def column_totals(secret_integer, columns, clients: int, cells: int):
    """Add up each column.

    Args:
        secret_integer: MP-SPDZ's sint, or a stand-in.
        columns: Secret values, shape (cells * clients,), the client fastest.
        clients: The number of values in a column.
        cells: The number of columns.
    Returns:
        Secret sums, shape (cells,).
    """
    return secret_integer.concat([columns.get_vector(j * clients, clients).sum() for j in range(cells)])


def counts_by_product(secret_integer, columns, clients: int, groups: int, labels: int):
    """Count records per (group, label) from group indicators and label counts.

    Source: PrivFairFL, Protocol 2, lines 2-8, for any number of groups: the last one has no column.
    Computes: C(s, y) = <T_s, LC_y>, opened once per inner product.
    Reveals: nothing.

    Args:
        secret_integer: MP-SPDZ's sint, or a stand-in.
        columns: Secret columns, a value of each client in each: the indicators of all groups but the last,
            then the counts of all labels.
        clients: The number of clients.
        groups: The number of groups.
        labels: The number of labels.
    Returns:
        Secret counts, shape (groups * labels,), the label fastest.
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


def confusion_by_product(secret_integer, columns, records: int, groups: int, labels: int):
    """Count records per (group, label, predicted label) from indicators.

    Source: PrivFairFL, Protocol 3 and Table 5, which have 2 groups and 2 labels: tp, ys, ps and tps of every
    record, by four multiplications. The last group and the last label have no column.
    Computes: (labels - 1)^2 multiplications per record, each opened by itself; all others are in inner
    products.
    Reveals: nothing.

    Args:
        secret_integer: MP-SPDZ's sint, or a stand-in.
        columns: Secret columns, a value of each record in each: the indicators of all groups but the last, of
            all labels but the last, then of all predicted labels but the last.
        records: The number of records.
        groups: The number of groups.
        labels: The number of labels.
    Returns:
        Secret counts, shape (groups * labels * labels,), the predicted label fastest.
    """

    def column(j):
        return columns.get_vector(j * records, records)

    others = range(labels - 1)
    y = [column(groups - 1 + a) for a in others]
    p = [column(groups - 1 + labels - 1 + b) for b in others]
    yp = [[y[a] * p[b] for b in others] for a in others]

    def table(count, everybody):
        inner = [[count(yp[a][b]) for b in others] for a in others]
        label, prediction = [count(y[a]) for a in others], [count(p[b]) for b in others]
        rows = [[*inner[a], label[a] - sum(inner[a])] for a in others]
        last = [prediction[b] - sum(row[b] for row in inner) for b in others]
        rows.append([*last, everybody - sum(label) - sum(last)])
        return [value for row in rows for value in row]

    def within(group):
        return lambda values: secret_integer.dot_product(column(group), values)

    tables = [table(within(group), column(group).sum()) for group in range(groups - 1)]
    everybody = table(lambda values: values.sum(), secret_integer(records))
    tables.append([total - sum(found) for total, *found in zip(everybody, *tables)])
    return secret_integer.concat([count for one in tables for count in one])
