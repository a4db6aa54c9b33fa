"""Mistakes that occur in a benchmark alone; each error's message says what to do."""

from fairshares.harness.errors import FairSharesError


class RelayError(FairSharesError):
    """The emulated network did not start, or ended early."""


class ExperimentError(FairSharesError):
    """An experiment's file is invalid."""


class MixedResultsError(FairSharesError):
    """Recorded results are of another program or build."""
