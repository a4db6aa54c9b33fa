"""Invitations: a file per client, with all that it needs to send to one run."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.clients.sender import Sender, send_values
from harness.clients.session import Server
from harness.errors import OptionError, ShareError, WriteError
from harness.system.documents import Refusal, as_type, read_json
from harness.system.files import create_file, scratch_directory, writable_by_others
from harness.system.signals import uninterrupted

SCHEMA = 1


@dataclass(frozen=True)
class Invitation:
    """One client's certificate and secret key (PEM), the servers, and the run's public terms."""

    client: int
    certificate: str
    key: str
    servers: tuple[Server, ...]
    terms: dict[str, Any]

    async def send(self, values: npt.NDArray[np.int64], seconds: float, charge: Callable[[], None]) -> int:
        """Send the client's values; return the number of bytes to each party.

        Raises as `send_values` and `charge`.
        """
        with tempfile.TemporaryDirectory() as name:  # OpenSSL reads keys from files only
            certificate = Path(name) / "own.pem"
            create_file(certificate, self.certificate.encode())
            create_file(certificate.with_suffix(".key"), self.key.encode())
            sender = Sender(self.client, certificate, values, charge)
            return await send_values(sender, self.servers, self.terms, seconds)


def check_directory(directory: Path, clients: int) -> None:
    """Check a directory for so many invitations, before any party starts.

    Raises OptionError if others can change its files, or a file has an invitation's name.
    """
    reason = writable_by_others(directory)
    if reason is not None:
        raise OptionError(
            f"{reason}, so others could replace invitations; name another --invite, or chmod go-w it."
        )
    for path in _paths(directory, clients):
        if os.path.lexists(path):
            raise OptionError(
                f"{path} exists already; name another --invite, or remove it if no run waits for it."
            )


@contextmanager
def invitations(
    clients: Sequence[tuple[str, str]], terms: dict[str, Any], directory: Path, servers: Sequence[Server]
) -> Iterator[None]:
    """Write `client-<k>.json` for each certificate and key (PEM) while the parties run; remove them after.

    Guarantees: an invitation is there whole or not at all; no file of that name is overwritten, and none
    removed that is not this run's.  [test: tests/harness/clients/test_sender.py]

    Raises WriteError.
    """
    paths = _paths(directory, len(clients))
    with ExitStack() as stack:
        try:
            own = stack.enter_context(scratch_directory(directory))
            for k, ((certificate, key), path) in enumerate(zip(clients, paths, strict=True)):
                one = asdict(Invitation(k, certificate, key, tuple(servers), terms))
                create_file(own / path.name, json.dumps({"schema": SCHEMA, **one}, indent=1).encode())
                stack.callback(_remove_if_same, path, own / path.name)
                os.link(own / path.name, path)  # a rename would overwrite
        except OSError as error:
            raise WriteError(f"Cannot write invitations to {directory}: {error.strerror}.") from None
        yield


def _paths(directory: Path, clients: int) -> list[Path]:
    return [directory / f"client-{k}.json" for k in range(clients)]


def _remove_if_same(path: Path, own: Path) -> None:
    with uninterrupted(), suppress(FileNotFoundError):
        if os.path.samestat(path.lstat(), own.lstat()):
            path.unlink()


def read_invitation(path: Path) -> Invitation:
    """Read one client's invitation; ShareError if it cannot be read, or is none."""
    refusal = Refusal(ShareError, str(path), "an invitation of this version", "ask for a new one")
    invitation = as_type(Invitation, read_json(path, refusal, SCHEMA), refusal)
    if (
        invitation.client < 0
        or not invitation.servers
        or not all(0 < one.port < 1 << 16 for one in invitation.servers)
    ):
        refusal.say("it names a client or a port that cannot be")
    return invitation
