"""What parties and clients of one run agree on before it starts; all of it is public."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import gcd
from typing import Any

MAX_CONNECTIONS = 200  # clients of one run that have one each; to four parties, below most limits on files
_TO_COME, _TO_SEND = 0.8, 0.1  # of the run's time limit; then parties go on without who is not there
_BEARABLE = 10  # a tenth of the clients may break off once they could tell that a party cheats


@dataclass(frozen=True)
class Upload:
    """One connection's part: values: how many it carries; certificate: the sender's, PEM."""

    values: int
    certificate: str


@dataclass(frozen=True)
class Server:
    """Where a party's gateway listens, and the certificate (PEM) that it has to show."""

    host: str
    port: int
    certificate: str


Begin = Callable[[Sequence[Server]], AbstractContextManager[None]]


def elsewhere(_parties: object) -> AbstractContextManager[None]:
    """Begin nothing: whoever sends, if anybody does, is begun by another process."""
    return nullcontext()


@dataclass(frozen=True)
class ClientInputs:
    """How clients take part in one run.

    Attributes: uploads: one per client, in the order of their numbers; terms: what every client has to
    agree with, the same at all parties; begin: called with the parties' servers as soon as they are
    known; what it returns is entered while the parties run.
    """

    uploads: tuple[Upload, ...]
    terms: dict[str, Any]
    begin: Begin = elsewhere

    @property
    def values(self) -> int:
        """How many values all clients send together."""
        return sum(upload.values for upload in self.uploads)

    @property
    def parts(self) -> int:
        """How many runs of equal length are checked: as few as there can be, each within one upload."""
        return self.values // gcd(*(upload.values for upload in self.uploads))

    def front(self, host: str, port: int, machine_port: int, timeout_s: float) -> dict[str, Any]:
        """Return what `harness.clients.gateway` has to know at one party; the same at all, but for addresses.

        Args: host, port: where it listens; machine_port: where its virtual machine does.
        """
        return {
            "host": host,
            "port": port,
            "machine_port": machine_port,
            "uploads": [upload.values for upload in self.uploads],
            "certificates": [upload.certificate for upload in self.uploads],
            "terms": self.terms,
            "seconds": timeout_s * _TO_COME,
            "seconds_to_send": timeout_s * _TO_SEND,
            "most_failures": max(1, len(self.uploads) // _BEARABLE),
        }
