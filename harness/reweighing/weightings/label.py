"""`label`: all labels have the same total weight, whatever the groups."""

from fairshares.harness.reweighing.count_errors import CountTable
from fairshares.harness.reweighing.weighting import OverOneSum, sums


class Label(OverOneSum):
    """N / (m C(y)), for m labels, counts C(y) of them and their total N.

    Source: PrivFairFL, section 4.1.
    """

    def divisors(self, counts: CountTable) -> CountTable:
        return sums(counts, -2)


WEIGHTING = Label()
