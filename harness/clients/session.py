"""The public facts on which parties and clients of a run agree before it."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import gcd
from typing import Any

MAX_CONNECTIONS = 200  # of a run's clients, one each; to four parties, below most limits on files
_TO_COME, _TO_SEND = 0.8, 0.1  # of the run's time limit; then parties go on without absent clients


@dataclass(frozen=True)
class Upload:
    """One connection's number of values, and its certificate (PEM)."""

    values: int
    certificate: str


@dataclass(frozen=True)
class Server:
    """The address of a party's gateway, and its certificate (PEM)."""

    host: str
    port: int
    certificate: str


Begin = Callable[[Sequence[Server]], AbstractContextManager[Any]]


@dataclass(frozen=True)
class ClientInputs:
    """How clients take part in one run, on `terms` with which every client agrees.

    `begin` is called with the parties' servers; its context is entered while the parties run.
    """

    uploads: tuple[Upload, ...]
    terms: dict[str, Any]
    begin: Begin = nullcontext  # clients are started by another process

    @property
    def parts(self) -> int:
        """Number of equally long parts that are checked: the fewest with each within one upload."""
        values = [upload.values for upload in self.uploads]
        return sum(values) // gcd(*values)

    def front(self, host: str, port: int, machine_port: int, timeout_s: float) -> dict[str, Any]:
        """Return a party's gateway's configuration; its virtual machine listens at `machine_port`."""
        return {
            "host": host,
            "port": port,
            "machine_port": machine_port,
            "uploads": [upload.values for upload in self.uploads],
            "certificates": [upload.certificate for upload in self.uploads],
            "terms": self.terms,
            "seconds": timeout_s * _TO_COME,
            "seconds_to_send": timeout_s * _TO_SEND,
            # A tenth of the clients may break off after they could detect a cheating party.
            "most_failures": max(1, len(self.uploads) // 10),
        }
