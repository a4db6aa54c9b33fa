"""Invitations: a file for each client, with all that it needs to send to one run."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.clients.sending import Sender, send_values
from harness.clients.uploads import Check, Server
from harness.errors import ShareError, WriteError

SCHEMA = 1


@dataclass(frozen=True)
class Invitation:
    """One client's. certificate, key: its own, PEM; terms: what the run is about, public."""

    client: int
    certificate: str
    key: str
    servers: tuple[Server, ...]
    terms: dict[str, Any]

    async def send(self, values: npt.NDArray[np.int64], seconds: float) -> int:
        """Send the client's values; return how many bytes to each party. Raises: as `send_values`."""
        with tempfile.TemporaryDirectory() as name:  # OpenSSL reads keys from files only
            certificate, key = Path(name) / "own.pem", Path(name) / "own.key"
            _write_private(certificate, self.certificate)
            _write_private(key, self.key)
            sender = Sender(self.client, certificate, key, values)
            return await send_values(sender, self.servers, self.terms, seconds)


@contextmanager
def invitations(
    clients: Sequence[tuple[str, str]], terms: dict[str, Any], directory: Path, servers: Sequence[Server]
) -> Iterator[Check]:
    """Write `client-<k>.json` for every client while the parties run; remove them after.

    Args: clients: certificate and key of each, PEM. Raises: WriteError.
    """
    with ExitStack() as stack:
        try:
            for k, (certificate, key) in enumerate(clients):
                path = directory / f"client-{k}.json"
                partial = path.with_suffix(".partial")
                stack.callback(path.unlink, missing_ok=True)
                stack.callback(partial.unlink, missing_ok=True)
                one = asdict(Invitation(k, certificate, key, tuple(servers), terms))
                _write_private(partial, json.dumps({"schema": SCHEMA, **one}, indent=1))
                partial.rename(path)
        except OSError as error:
            raise WriteError(f"Cannot write invitations to {directory}: {error.strerror}.") from None
        yield lambda: None


def read_invitation(path: Path) -> Invitation:
    """Read one client's invitation. Raises: ShareError: it cannot be read, or is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found.pop("schema") == SCHEMA:
            return Invitation(
                int(found["client"]),
                str(found["certificate"]),
                str(found["key"]),
                tuple(Server(**server) for server in found["servers"]),
                dict(found["terms"]),
            )
    except OSError as error:
        raise ShareError(f"Cannot read {path}: {error.strerror}.") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        pass
    raise ShareError(f"{path} is not an invitation of this version; ask for a new one.")


def _write_private(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as file:
        file.write(text)
