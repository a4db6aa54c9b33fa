"""Sources of a round's noisy sum: hosts, or a session on this machine. Nothing here needs Flower."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fairshares.harness.errors import FairSharesError
from fairshares.harness.training.session import SumSession
from fairshares.protocols.arrays import Floats

if TYPE_CHECKING:  # hosts need an extra, which simulations do not
    from fairshares.harness.hosts.sums import SumsAtHosts

_LOG = logging.getLogger("flwr")


@dataclass(frozen=True)
class SessionRounds:
    """Rounds of a session on this machine, which is given the clients' changes.

    Attributes:
        session: An open session.
    """

    session: SumSession

    @property
    def coordinates(self) -> int:
        """The length of a vector."""
        return self.session.rule.coordinates

    @property
    def next_reveal(self) -> int:
        """The number of the next reveal, from 1 on."""
        return len(self.session.seconds) + 1

    @property
    def reveals(self) -> int:
        """The number of all reveals."""
        return self.session.rounds

    def under_way(self) -> AbstractContextManager[None]:
        """Return the time of a training, for which the session is open already."""
        return nullcontext()

    def total(self, reveal: int, changes: Sequence[Floats]) -> Floats | None:  # noqa: ARG002  # of the next
        """Return the noisy sum of changes.

        Args:
            reveal: Not used: the session takes the next round.
            changes: The clients' changes, secret, each of shape (coordinates,).
        Returns:
            The sum with noise, shape (coordinates,).
        Raises:
            FairSharesError: The session is not open, or a party failed, which ends the session.
        """
        return self.session.add(np.array(changes).reshape(len(changes), self.coordinates))


@dataclass(frozen=True)
class HostsRounds:
    """Reveals of a task at its hosts, which have what clients have sealed; no change is here.

    Attributes:
        sums: The reveals.
    """

    sums: SumsAtHosts

    @property
    def coordinates(self) -> int:
        """The length of a vector."""
        return self.sums.task.vectors.coordinates

    @property
    def next_reveal(self) -> int:
        """The number of the next reveal, from 1 on."""
        return self.sums.next_reveal

    @property
    def reveals(self) -> int:
        """The number of reveals that the task declares."""
        return self.sums.reveals

    def under_way(self) -> AbstractContextManager[SumsAtHosts]:
        """Return the time of a training, in which connections to hosts stay between reveals."""
        return self.sums

    def total(self, reveal: int, changes: Sequence[Floats]) -> Floats | None:
        """Return the noisy sum of a reveal.

        Args:
            reveal: The number of the reveal, from 1 on.
            changes: Nothing, as clients send to the hosts.
        Returns:
            The sum with noise, shape (coordinates,); None if the reveal broke off and is used.
        Raises:
            FairSharesError: The reveal was refused before it began, so that nothing is used.
        """
        assert not changes, "clients send to the hosts"
        try:
            return self.sums.reveal(reveal)
        except FairSharesError as error:
            if self.sums.next_reveal <= reveal:
                raise
            _LOG.warning("Reveal %d is used, and its round is lost: %s", reveal, error)
            return None
