"""What an engine asks for before its parties compute: that somebody's charge of the run is written."""

from abc import ABC, abstractmethod


class Charged(ABC):
    """A run, or a series of runs, whose privacy loss is written where it is counted.

    Only the ledger's module `charge` has a class of it, and making one is what writes the ledger. So
    whatever can be handed to an engine's parties was charged. A run of people whom nobody counts is charged
    to nobody there, which marks its uploads and its noise as used.

    Guarantees: parties that have inputs of clients compute only once a value of this type was made.
    [test: tests/project/test_stages.py]
    """

    @abstractmethod
    def begin(self) -> None:
        """Begin a run on this charge, as an engine does right before its parties compute.

        Raises LedgerError if the charge is for one run, and that run has begun.
        """
