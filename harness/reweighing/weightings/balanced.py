"""`balanced`: all pairs of group and label have the same total weight."""

from fairshares.harness.reweighing.count_errors import CountTable
from fairshares.harness.reweighing.weighting import OverOneSum


class Balanced(OverOneSum):
    """N / (k m C(s, y)), for k groups, m labels, counts C and their total N.

    Source: PrivFairFL, Protocol 2, lines 14-20, for 2 groups and 2 labels.
    """

    def divisors(self, counts: CountTable) -> CountTable:
        return counts


WEIGHTING = Balanced()
