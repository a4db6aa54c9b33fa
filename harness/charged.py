"""Charges that an engine, or a client, asks for before values leave: somebody has to have written one."""

from abc import ABC, abstractmethod

UNCHARGED = "none"  # the population of records whose privacy nobody has to count


class Chargeable:
    """Parties that have their inputs, or a client whose masks are checked, and that wait for a charge.

    The ledger charges nothing else. Such a value is made once all that can fail beforehand has gone well, so
    a charge that is written too early does not type-check.  [test: tests/project/test_stages.py]
    """


class Permission:
    """The permission of waiting parties to compute: a charge that has begun, or a job on nobody's data.

    Nothing else is one: `BegunCharge` is made by what writes the ledger alone, and a `MadeUpJob` has no place
    for anybody's values.  [test: tests/project/test_stages.py]
    """


class BegunCharge(Permission):
    """That the charge of a run has begun."""


class Charged(ABC):
    """A run, or a series of runs, whose privacy loss is written where it is counted.

    Only the ledger's module `charge` has a class of it, and making one is what writes the ledger. So
    whatever can be handed to an engine's parties was charged. A run of people whom nobody counts is charged
    to nobody there, which marks its uploads and its noise as used.

    Guarantees: parties that have inputs of clients compute only once a value of this type was made for them.
    [test: tests/project/test_stages.py]
    """

    @abstractmethod
    def begin(self, waiting: Chargeable) -> BegunCharge:
        """Begin what waited for this charge, as is done right before values leave; return its permission.

        Raises LedgerError if the charge was made for something else that waits, or has begun.
        """
