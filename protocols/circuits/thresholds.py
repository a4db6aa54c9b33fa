"""Counts of records above and below each threshold, by comparing every record with every threshold."""

from __future__ import annotations

PAPERS_THRESHOLDS = 1001


def counts_at_thresholds(
    secret_integer, for_range, columns, records: int, groups: int, labels: int, bins: int
):
    """Count per (group, label) the records that reach each threshold, then those that do not.

    Source: PrivFairFL, Protocol 4, lines 3-8, and Protocol 3; a record's indicator of group and label is
    multiplied once, not at every threshold.
    Computes: records * bins comparisons; groups * labels inner products per threshold. Comparisons are as
    wide as for the paper's 1001 thresholds at least, so that up to there each threshold costs the same.
    Args: for_range: MP-SPDZ's; columns: secret vector of (groups + labels - 1) * records values, a column
    after the other: indicators of groups, of labels, bins of scores. Returns: secret vector of
    2 * groups * labels * bins counts, threshold fastest.
    """

    def column(j):
        return columns.get_vector(j * records, records)

    score_bin = column(groups + labels - 2)
    pairs = _indicators(
        [column(j) for j in range(groups - 1)], [column(groups - 1 + j) for j in range(labels - 1)]
    )
    reached = [secret_integer.Array(bins) for _ in pairs]
    width = max(bins, PAPERS_THRESHOLDS).bit_length() + 1

    @for_range(bins)
    def _(threshold):
        positive = score_bin.greater_equal(threshold, width)
        for counts, pair in zip(reached, pairs):
            counts[threshold] = secret_integer.dot_product(pair, positive)

    found = []
    for counts, pair in zip(reached, pairs):
        found += [counts.get_vector(), pair.sum() - counts.get_vector()]
    return secret_integer.concat(found)


def _indicators(group, label):
    """Return an indicator per (group, label), label fastest; the last of each is what others leave over."""

    def completed(rows, whole):
        return [*rows, whole - sum(rows)]

    both = [[s * y for y in label] for s in group]
    both = [completed(row, s) for row, s in zip(both, group)]
    everybody = completed(label, 1)
    last = [whole - sum(row[y] for row in both) for y, whole in enumerate(everybody)]
    return [pair for row in [*both, last] for pair in row]
