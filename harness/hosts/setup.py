"""The acts of a host's owner: to make its keys, accept other parties' certificates, and write its policy.

`./inv hosts.setup` starts this by a login that may run any command.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import CertificateError
from harness.hosts import keys, policy, wire
from harness.hosts.agent import serve
from harness.system.documents import SMALL, Refusal, as_type, read_json
from harness.system.files import write_whole

SCHEMA = 1


class Setup(wire.Answers):
    """One host's set-up; whoever can start it may ask anything."""

    REQUESTS = ("setup", "pin")

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def setup(
        self,
        party: int,
        renew: bool,
        policy_text: str | None,
        port: int = policy.DEFAULT_PORT,
        client_port: int = 0,
    ) -> dict[str, str]:
        """Make this host's directory, keys and policy, if need be; return its certificates by engine.

        Only a `policy_text` changes an existing policy; ports are for a new one. Raises HostUnfitError or
        PolicyError.
        """
        certificates = keys.make_keys(self._directory, party, renew=renew)
        if policy_text is not None or not (self._directory / policy.FILE).exists():
            policy.write_policy(self._directory, policy_text or policy.DEFAULT, port, client_port)
        return certificates

    def pin(self, party: int, certificates: dict[str, dict[str, str]]) -> None:
        """Accept other parties' certificates, by engine. Raises as `keys.pin`."""
        keys.pin(self._directory, party, {name: keys.by_party(texts) for name, texts in certificates.items()})


@dataclass(frozen=True)
class Exported:
    """A host's certificates by engine, as its owner sends them to other hosts' owners."""

    party: int
    certificates: dict[str, str]


def exported(directory: Path, party: int) -> Path:
    """Return the file of certificates for other hosts' owners."""
    return directory / f"party-{party}.certificates"


def read_exported(path: Path) -> Exported:
    """Return the certificates in another host's file, or raise CertificateError."""
    refusal = Refusal(CertificateError, str(path), "a host's certificates", "ask its owner for them again")
    return as_type(Exported, read_json(path, refusal, SCHEMA, SMALL), refusal)


def set_up_here(
    directory: Path, party: int, renew: bool, policy_text: str | None, others: Sequence[Path]
) -> dict[str, dict[int, str]]:
    """Set up this machine as a host; return all certificates, by engine and party.

    `others` are files of other hosts' certificates. Raises CertificateError, HostUnfitError or PolicyError.
    """
    host = Setup(directory)
    own = host.setup(party, renew, policy_text)
    write_whole(
        exported(directory, party),
        json.dumps({"schema": SCHEMA, "party": party, "certificates": own}).encode(),
    )
    for path in others:
        others_certificates = read_exported(path)
        host.pin(
            party,
            {
                name: {str(others_certificates.party): text}
                for name, text in others_certificates.certificates.items()
            },
        )
    accepted = keys.pinned(directory)
    return {name: {party: text, **accepted[name]} for name, text in own.items()}


def main(arguments: list[str]) -> int:
    """Serve a host's owner; return the exit code."""
    return serve("setup", lambda _stack: Setup(Path(arguments[0])))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
