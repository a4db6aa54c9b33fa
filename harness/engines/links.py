"""Links between the parties of a run on one machine: its loopback, or a network that the caller brings."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from fairshares.harness.computation import EmulatedNetwork


@dataclass(frozen=True)
class Links:
    """The ports at which each party finds each party.

    Attributes:
        ports: The ports of all parties, for each party.
        measured: The delays and bandwidths that were measured in the caller's network; None for the loopback.
    """

    ports: tuple[tuple[int, ...], ...]
    measured: EmulatedNetwork | None = None


class Network(ABC):
    """A network that stands between the parties of a run on one machine, in place of its loopback.

    A benchmark brings one (`benchmarks/emulation`). Runs of users have none.
    """

    @abstractmethod
    def links_between(self, ports: Sequence[int]) -> AbstractContextManager[Links]:
        """Return links for a `with` statement, which lasts as long as the run.

        Args:
            ports: The ports at which the parties listen.

        Raises:
            FairSharesError: The network did not start, or ended before the run did.
        """


@contextmanager
def links_between(ports: Sequence[int], network: Network | None) -> Iterator[Links]:
    """Yield links between parties that listen on these ports: by the loopback if there is no network."""
    if network is None:
        yield Links(tuple(tuple(ports) for _ in ports))
        return
    with network.links_between(ports) as links:
        yield links
